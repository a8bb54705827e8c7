"""Read the state of this machine: power, network, load, disks. For conditions of schedules.

Linux shows most facts in files, which all users can read. On other systems, and if a file is
missing, an answer is None: this machine can't tell. Services of the system bus know more.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock, SystemClock
from edgecron.base.values import NamedTuple

if TYPE_CHECKING:
    from edgecron.base.bus_facts import Bus, BusFacts

WAKE_ALARM = Path("/sys/class/rtc/rtc0/wakealarm")  # wakes it at a time (Linux)
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


class PathFacts(NamedTuple):
    """Facts about a path. None: unknown, for example because a permission is missing."""

    exists: bool | None
    free_bytes: int | None  # that are left for users
    is_mount: bool


class _Look:
    """One look at a path, and the descriptors to write to when it has ended."""

    def __init__(self, path: str, look: Callable[[str], PathFacts]) -> None:
        self._path, self._look = path, look
        self.has_ended = threading.Event()
        self.facts: PathFacts | None = None
        self.bells: set[int] = set()

    def run(self) -> None:
        self.facts = self._look(self._path)
        with _lock:
            self.has_ended.set()
            for bell in self.bells:
                with suppress(OSError):  # A full pipe has news already.
                    os.write(bell, b".")


_clock = SystemClock()  # Threads wait by the true time.
_lock = threading.Lock()
_looks: dict[str, _Look] = {}  # of this process: whoever asks, one thread at most is at a path


class SlowPaths:
    """Look at paths that might not answer, for one caller, which is one thread.

    A network file system can hang. A thread of its own looks at each path, so that the caller waits
    only for a bounded time. A thread that hangs in the kernel can't be ended. It is left there, and
    no second thread of this process looks at its path until it has returned. The threads are
    daemons and are never joined.
    """

    def __init__(self, look: Callable[[str], PathFacts]) -> None:
        self._look = look
        self._pipe: tuple[int, int] | None = None
        self.silent: frozenset[str] = frozenset()  # paths that did not answer the last question

    def look(self, paths: Iterable[str], *, wait_s: float) -> Mapping[str, PathFacts]:
        """The facts of the paths that answer within a time, for all of them together.

        A path that did not answer before is not waited for again: what it answered since is
        returned, once.
        """
        # One more, because the clock cuts fractions of a millisecond.
        until_ms = _clock.monotonic_ms() + round(wait_s * 1000) + 1
        begun = {path: self._begin(path) for path in set(paths)}
        found = {}
        for path, one in begun.items():
            left_s = 0 if path in self.silent else max(0, until_ms - _clock.monotonic_ms()) / 1000
            if one is not None and one.has_ended.wait(left_s) and one.facts is not None:
                found[path] = one.facts
                with _lock:
                    if _looks.get(path) is one:
                        del _looks[path]
        self.silent = (self.silent - found.keys()) | (begun.keys() - found.keys())
        return found

    def filenos(self) -> list[int]:
        """A descriptor that is readable after a path has answered; empty if all have."""
        if not self.silent:
            self.forget()
            return []
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with _lock:
            for path in self.silent:
                one = _looks.get(path)
                if one is not None and not one.has_ended.is_set():
                    one.bells.add(self._pipe[1])
                elif one is not None:
                    with suppress(BlockingIOError):
                        os.write(self._pipe[1], b".")
        return [self._pipe[0]]

    def clear(self) -> None:
        """Forget that paths have answered."""
        if self._pipe is not None:
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 65_536)

    def forget(self) -> None:
        """Let go of paths that do not answer."""
        self.silent = frozenset()
        if self._pipe is not None:
            with _lock:
                for one in _looks.values():
                    one.bells.discard(self._pipe[1])
            for fd in self._pipe:
                os.close(fd)
            self._pipe = None

    def _begin(self, path: str) -> _Look | None:
        """The look at a path; None if the system has no thread for it."""
        with _lock:
            one = _looks.get(path)
            # A look that ended for another caller can be old: look again.
            if one is not None and not (one.has_ended.is_set() and path not in self.silent):
                return one
            one = _Look(path, self._look)
            try:
                threading.Thread(target=one.run, name="edgecron-path", daemon=True).start()
            except RuntimeError:
                return None
            _looks[path] = one
            return one


def look_at_path(path: str) -> PathFacts:
    """Look at a path, for as long as that takes."""
    exists: bool | None = True
    try:
        os.stat(path)
    except OSError as error:
        exists = False if error.errno in (errno.ENOENT, errno.ENOTDIR) else None
    free_bytes = None
    with suppress(OSError):
        found = os.statvfs(path)
        free_bytes = found.f_bavail * found.f_frsize
    return PathFacts(exists=exists, free_bytes=free_bytes, is_mount=os.path.ismount(path))


class KernelMachine:
    """The machine as its kernel shows it. `root` is the folder that has /proc, /sys and /dev.

    A path of a network file system might not answer, and neither might the system bus.
    `look_at_paths` and `look_at_bus` wait `wait_s` for them, in seconds. `look_path` looks at
    one path. `bus` is the system bus, None for that of this machine.

    After `look_at_bus`, the reports of services count, too; while there is no answer of the bus,
    what it might know is unknown.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        root: Path = Path("/"),
        wait_s: float = 1.0,
        look_path: Callable[[str], PathFacts] = look_at_path,
        bus: Bus | None = None,
    ) -> None:
        self._clock = clock
        self._root = root
        self._wait_s = wait_s
        self._slow = SlowPaths(look_path)
        self._paths: dict[str, PathFacts] = {}  # as of the last look
        self._bus = bus
        self._reported: BusFacts | None = None  # as of the last look
        self._is_bus_awaited = False

    def is_online(self) -> bool | None:
        """Whether there is a default route, unless NetworkManager reports that it leads nowhere."""
        has_route = self._has_default_route()
        if has_route is False or self._is_bus_awaited:
            return False if has_route is False else None
        reported = None if self._reported is None else self._reported.connectivity
        return has_route if reported is None else reported == "full"

    def online_note(self) -> str | None:
        """Why NetworkManager reports that the default route leads nowhere; None if it does not."""
        reported = None if self._reported is None else self._reported.connectivity
        if reported is None or reported == "full":
            return None
        where = "a login page" if reported == "portal" else "no way to the internet"
        return f"NetworkManager reports {where}"

    def is_unmetered(self) -> bool | None:
        """Whether NetworkManager reports, or guesses, that the network is not metered."""
        if self._reported is None or self._reported.is_metered is None:
            return None
        return not self._reported.is_metered

    def unmetered_note(self) -> str | None:
        """Why it is unknown whether the network is metered; None if it is known."""
        if self.is_unmetered() is not None:
            return None
        from edgecron.base.system_bus import missing_note  # With the first question to the bus.

        return missing_note() or "NetworkManager does not report it"

    def _has_default_route(self) -> bool | None:
        tables = [self._read("proc/net/route"), self._read("proc/net/ipv6_route")]
        if tables == [None, None]:
            return None
        four, six = (table or "" for table in tables)
        return any(_is_default_4(line) for line in four.splitlines()[1:]) or any(
            _is_default_6(line) for line in six.splitlines()
        )

    def networks(self) -> frozenset[str] | None:
        """The names of network interfaces that are up, and of the networks that are joined."""
        if self._is_bus_awaited:
            return None
        found = self._entries("sys/class/net")
        joined: frozenset[str] = frozenset()
        if self._reported is not None:
            joined = self._reported.networks
        if found is None:
            return joined or None
        return joined.union(one for one in found if self._is_up(one))

    def is_on_mains(self) -> bool | None:
        """Whether a mains or USB supply is connected; True if there is no battery."""
        if self._is_bus_awaited:
            return None
        if self._reported is not None and self._reported.is_on_battery is not None:
            return not self._reported.is_on_battery
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
        if self._is_bus_awaited:
            return None
        if self._reported is not None and self._reported.battery_percent is not None:
            return self._reported.battery_percent
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
        """Return the time since a user typed at a terminal or in a session that logind knows.

        None if there is neither. Terminals lie in file systems of the kernel, which always answer.
        """
        if self._is_bus_awaited:
            return None
        now_ms = self._clock.now_ms()
        used_ms = [typed_ns // 1_000_000 for typed_ns in self._typed_ns()]
        if self._reported is not None and self._reported.is_idle is not None:
            used_ms.append(self._reported.idle_since_ms if self._reported.is_idle else now_ms)
        return max(0, now_ms - max(used_ms)) if used_ms else None

    def _typed_ns(self) -> list[int]:
        """When each terminal was last read from."""
        found = []
        for folder in ("dev/pts", "dev"):
            for name in self._entries(folder) or []:
                is_console = folder == "dev" and name.startswith("tty") and name[3:].isdigit()
                if name.isdigit() or is_console:
                    with suppress(FileNotFoundError):  # It was closed just now.
                        found.append(os.stat(f"{self._root}/{folder}/{name}").st_atime_ns)
        return found

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
        seen = self._slow.look(wanted, wait_s=self._wait_s)
        for real, path in wanted.items():
            self._paths.pop(path, None)
            if real in seen:
                self._paths[path] = seen[real]

    def look_at_bus(self) -> None:
        """Look at the system bus now: what its services report counts until `forget_bus`."""
        if self._bus is None:
            # Loaded when needed: most engines never ask the bus.
            from edgecron.base.system_bus import SystemBus

            self._bus = SystemBus()
        self._reported = self._bus.look(wait_s=self._wait_s)
        self._is_bus_awaited = self._reported is None

    def forget_bus(self) -> None:
        """Listen to the system bus no more, and forget its reports."""
        if self._bus is not None:
            self._bus.forget()
        self._reported, self._is_bus_awaited = None, False

    def is_silent(self, path: str) -> bool:
        """Whether a path did not answer when it was looked at last."""
        return str(self._root / path.lstrip("/")) in self._slow.silent

    def filenos(self) -> list[int]:
        """Descriptors that show an answer of a silent path, and a change on the system bus."""
        paths = self._slow.filenos()
        return paths if self._bus is None else [*paths, *self._bus.filenos()]

    def clear(self) -> None:
        """Forget what `filenos` has shown."""
        self._slow.clear()
        if self._bus is not None:
            self._bus.clear()

    def forget_paths(self) -> None:
        """Let go of the paths that do not answer."""
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
