"""Read the state of this machine: power, network, load, disks. For conditions of schedules.

Linux shows all of it in files, which anybody can read. On other systems, and if a file is
missing, an answer is None: this machine can't tell.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from edgecron.base.clock import Clock

_ROUTE_UP = _INTERFACE_UP = 0x1
_NO_ROUTE = "lo"  # a default route of the kernel's own that leads nowhere (RTN_UNREACHABLE)


class KernelMachine:
    """The machine as its kernel shows it. `root` is the folder that has /proc, /sys and /dev."""

    def __init__(self, clock: Clock, *, root: Path = Path("/")) -> None:
        self._clock = clock
        self._root = root

    def is_online(self) -> bool | None:
        """Whether there is a default route, by IPv4 or IPv6."""
        tables = [self._read("proc/net/route"), self._read("proc/net/ipv6_route")]
        if tables == [None, None]:
            return None
        four, six = (table or "" for table in tables)
        return any(_is_default_4(line) for line in four.splitlines()[1:]) or any(
            _is_default_6(line) for line in six.splitlines()
        )

    def networks(self) -> frozenset[str] | None:
        """The names of network interfaces that are up."""
        found = self._entries("sys/class/net")
        if found is None:
            return None
        return frozenset(one for one in found if self._is_up(one))

    def is_on_mains(self) -> bool | None:
        """Whether a mains or USB supply is connected; True if there is no battery."""
        supplies = self._supplies()
        if supplies is None:
            return None
        if not any(one.get("type") == "Battery" for one in supplies):
            return True
        return any(
            one.get("type") in ("Mains", "USB") and one.get("online") == "1" for one in supplies
        )

    def battery_percent(self) -> float | None:
        """The charge of all batteries of the machine together; 100 if it has none."""
        supplies = self._supplies()
        if supplies is None:
            return None
        batteries = [one for one in supplies if one.get("type") == "Battery"]
        if not batteries:
            return 100.0
        for unit in ("energy", "charge"):
            with suppress(KeyError, ValueError, ZeroDivisionError):
                now = sum(int(one[f"{unit}_now"]) for one in batteries)
                return 100.0 * now / sum(int(one[f"{unit}_full"]) for one in batteries)
        with suppress(KeyError, ValueError):
            return sum(int(one["capacity"]) for one in batteries) / len(batteries)
        return None

    def idle_ms(self) -> int | None:
        """Return the time since a terminal was last read from; None if there is no terminal."""
        typed_ns = [
            self._root.joinpath(folder, name).stat().st_atime_ns
            for folder in ("dev/pts", "dev")
            for name in self._entries(folder) or []
            if name.isdigit() or (folder == "dev" and name.startswith("tty") and name[3:].isdigit())
        ]
        if not typed_ns:
            return None
        return max(0, self._clock.now_ms() - max(typed_ns) // 1_000_000)

    def load(self) -> float | None:
        """The load average of the last minute."""
        text = self._read("proc/loadavg")
        if text is None:
            with suppress(OSError):
                return os.getloadavg()[0]
            return None
        return float(text.split()[0])

    def pressure_percent(self, resource: str) -> float | None:
        """For which share of the last 10 s some task waited for `cpu`, `io` or `memory`."""
        text = self._read(f"proc/pressure/{resource}")  # missing: the kernel was built without
        for line in (text or "").splitlines():
            if line.startswith("some "):
                return float(line.split("avg10=")[1].split()[0])
        return None

    def free_bytes(self, path: str) -> int | None:
        """The space that is left for users at a path; None also if there is no such path."""
        with suppress(OSError):
            found = os.statvfs(self._root / path.lstrip("/"))
            return found.f_bavail * found.f_frsize
        return None

    def is_mounted(self, path: str) -> bool | None:
        """Whether a file system is mounted at a path."""
        text = self._read("proc/self/mountinfo")
        if text is None:
            return os.path.ismount(self._root / path.lstrip("/"))
        return any(_mount_point(line) == path for line in text.splitlines())

    def exists(self, path: str) -> bool | None:
        """Whether a path exists; None if its folder can't be read."""
        try:
            os.stat(self._root / path.lstrip("/"))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return False
            return None
        return True

    def _is_up(self, interface: str) -> bool:
        """Whether an interface is up, with a link. A tunnel's link is `unknown`."""
        flags = self._read(f"sys/class/net/{interface}/flags") or "0"
        link = (self._read(f"sys/class/net/{interface}/operstate") or "").strip()
        return bool(int(flags, 16) & _INTERFACE_UP) and link in ("up", "unknown")

    def _supplies(self) -> list[dict[str, str]] | None:
        """The power supplies of the machine itself, not those of a mouse."""
        names = self._entries("sys/class/power_supply")
        if names is None:
            return None if self._entries("sys/class") is None else []
        found = []
        for name in names:
            supply = {}
            for key in (
                "type", "scope", "online", "capacity",
                "energy_now", "energy_full", "charge_now", "charge_full",
            ):  # fmt: skip
                text = self._read(f"sys/class/power_supply/{name}/{key}")
                if text is not None:
                    supply[key] = text.strip()
            if supply.get("scope") != "Device":
                found.append(supply)
        return found

    def _entries(self, folder: str) -> list[str] | None:
        with suppress(OSError):
            return sorted(os.listdir(self._root / folder))
        return None

    def _read(self, path: str) -> str | None:
        # A supply that was just unplugged answers with ENODEV.
        with suppress(OSError):
            return (self._root / path).read_text(encoding="utf-8", errors="replace")
        return None


def _is_default_4(line: str) -> bool:
    """Whether a line of /proc/net/route is a default route that is up."""
    fields = line.split()
    return (
        len(fields) > 7
        and fields[1] == fields[7] == "00000000"
        and bool(int(fields[3], 16) & _ROUTE_UP)
        and fields[0] != _NO_ROUTE
    )


def _is_default_6(line: str) -> bool:
    """Whether a line of /proc/net/ipv6_route is a default route that is up."""
    fields = line.split()
    return (
        len(fields) > 9
        and fields[0] == "0" * 32
        and fields[1] == "00"
        and bool(int(fields[8], 16) & _ROUTE_UP)
        and fields[9] != _NO_ROUTE
    )


def _mount_point(line: str) -> str:
    """The mount point of a line of mountinfo, which writes space as \\040."""
    fields = line.split(" ")
    point = fields[4] if len(fields) > 4 else ""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, letter)
    return point
