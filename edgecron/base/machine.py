"""Read the state of this machine, and hear of its changes: power, network, load, disks.

Linux shows all of it in files, which anybody can read. On other systems, and if a file is
missing, an answer is None: this machine can't tell.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock

if TYPE_CHECKING:
    from edgecron.base.slow_paths import PathFacts, SlowPaths

_ROUTE_UP = _INTERFACE_UP = 0x1
_NO_ROUTE = "lo"  # a default route of the kernel's own that leads nowhere (RTN_UNREACHABLE)


def read_written_bytes(io: Path = Path("/proc/self/io")) -> int | None:
    """Read how many bytes this process has had written to disks; None if that is unknown."""
    with suppress(OSError, ValueError):
        for line in io.read_text("ascii").splitlines():
            name, _, count = line.partition(": ")
            if name == "write_bytes":
                return int(count)
    return None


class KernelMachine:
    """The machine as its kernel shows it. `root` is the folder that has /proc, /sys and /dev.

    A path of a network file system might not answer. `look_at_paths` waits `path_wait_s` for it, in
    seconds. `look_path` is what looks at one path, None for the usual way.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        root: Path = Path("/"),
        path_wait_s: float = 1.0,
        look_path: Callable[[str], PathFacts] | None = None,
    ) -> None:
        self._clock = clock
        self._root = root
        self._path_wait_s = path_wait_s
        self._look_path = look_path
        self._slow: SlowPaths | None = None
        self._paths: dict[str, PathFacts] = {}  # as of the last look

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

    def look_at_paths(self, paths: Iterable[str]) -> None:
        """Look at these paths now. `free_bytes` and `exists` answer by what was seen here."""
        wanted = {str(self._root / path.lstrip("/")): path for path in paths}
        if not wanted:
            return
        if self._slow is None:
            # Not at the top: a program that waits for no path does not load it.
            from edgecron.base.slow_paths import SlowPaths, look

            self._slow = SlowPaths(self._look_path or look)
        seen = self._slow.look(wanted, wait_s=self._path_wait_s)
        for real, path in wanted.items():
            self._paths.pop(path, None)
            if real in seen:
                self._paths[path] = seen[real]

    def is_silent(self, path: str) -> bool:
        """Whether a path did not answer when it was looked at last."""
        return self._slow is not None and str(self._root / path.lstrip("/")) in self._slow.silent

    def filenos(self) -> list[int]:
        """A descriptor that is readable after a silent path has answered; empty without one."""
        return [] if self._slow is None else self._slow.filenos()

    def clear(self) -> None:
        """Forget that paths have answered."""
        if self._slow is not None:
            self._slow.clear()

    def forget_paths(self) -> None:
        """Let go of the paths that do not answer."""
        if self._slow is not None:
            self._slow.forget()

    def free_bytes(self, path: str) -> int | None:
        """The space that is left for users at a path; None also if there is no such path."""
        facts = self._paths.get(path)
        return None if facts is None else facts.free_bytes

    def is_mounted(self, path: str) -> bool | None:
        """Whether a file system is mounted at a path."""
        text = self._read("proc/self/mountinfo")
        if text is None:  # Not Linux.
            self.look_at_paths([path])
            facts = self._paths.get(path)
            return None if facts is None else facts.is_mount
        return any(_mount_point(line) == path for line in text.splitlines())

    def exists(self, path: str) -> bool | None:
        """Whether a path exists; None if its folder can't be read."""
        facts = self._paths.get(path)
        return None if facts is None else facts.exists

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


_NETLINK_ROUTE, _NETLINK_UEVENT = 0, 15
# Of linux/rtnetlink.h: links, and the addresses and routes of IPv4 and IPv6.
_ROUTE_GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
_UEVENT_GROUP = 1
_MOUNTS = "/proc/self/mountinfo"
_MOST_AT_ONCE = 1_000  # messages that one call takes


class KernelReports:
    """A descriptor that is readable after a change; it does not show which."""

    def __init__(self) -> None:
        self._poll: select.epoll | None = None
        self._sockets: list[socket.socket] = []
        self._mounts = -1

    def open(self) -> int | None:
        """Begin to listen; the descriptor, or None if this system reports nothing."""
        if sys.platform != "linux":
            return None
        try:
            self._poll = select.epoll()
            for protocol, groups in (
                (_NETLINK_ROUTE, _ROUTE_GROUPS),
                (_NETLINK_UEVENT, _UEVENT_GROUP),
            ):
                self._listen(protocol, groups)
            with suppress(OSError):
                self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
                # Not EPOLLIN: the table can always be read.
                self._poll.register(self._mounts, select.EPOLLPRI)
        except OSError:  # No descriptor is left. Conditions are still checked after pauses.
            self.close()
            return None
        return self._poll.fileno()

    def _listen(self, protocol: int, groups: int) -> None:
        assert self._poll is not None
        with suppress(OSError):  # A sandbox can forbid these sockets.
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
            listener = socket.socket(socket.AF_NETLINK, kind, protocol)
            self._sockets.append(listener)
            listener.bind((0, groups))
            self._poll.register(listener, select.EPOLLIN)

    def clear(self) -> None:
        """Forget the changes that were reported."""
        if self._poll is not None:
            self._poll.poll(0)  # The change of a mount is forgotten as soon as it was told.
        for listener in self._sockets:
            for _ in range(_MOST_AT_ONCE):
                try:
                    listener.recv(65_536)
                except BlockingIOError:
                    break
                except OSError:  # ENOBUFS: messages were lost. One change is enough to know.
                    continue

    def close(self) -> None:
        """Stop listening."""
        for listener in self._sockets:
            listener.close()
        self._sockets.clear()
        if self._mounts >= 0:
            os.close(self._mounts)
            self._mounts = -1
        if self._poll is not None:
            self._poll.close()
            self._poll = None
