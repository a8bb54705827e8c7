"""Tell the service manager that an engine works, by the protocol of systemd's `sd_notify`.

An engine is ready after its first step. An engine that does no more steps is silent, and the
service manager restarts it. Messages go out when the engine is awake anyway: an idle engine does
not wake for them. `man 3 sd_notify` and `man 3 sd_watchdog_enabled` are the sources.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from typing import Protocol

from edgecron.base.clock import Clock
from edgecron.base.units import format_ms
from edgecron.base.values import dataclass

SOCKET = "NOTIFY_SOCKET"
WATCHDOG_USEC, WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceManager:
    """The service manager's socket: a path, or an abstract name after '@'.

    It takes a process that is silent for `watchdog_ms` for hanging; None: it does not watch.
    """

    address: str
    watchdog_ms: int | None

    def send(self, text: str) -> None:
        """Send lines of NAME=VALUE. Raises OSError, also if it would have to wait.

        Each message has a socket of its own, so that no forked child keeps one open.
        """
        # Linux marks abstract names with a NUL.
        address = "\0" + self.address[1:] if self.address[0] == "@" else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), address)


def find_manager(environ: Mapping[str, str], *, pid: int) -> ServiceManager | None:
    """Find the service manager of this process; None if there is none that we can reach."""
    address = environ.get(SOCKET, "")
    # Otherwise it is `vsock:`, for whole virtual machines, or invalid.
    if len(address) < 2 or address[0] not in "/@":
        return None
    return ServiceManager(address=address, watchdog_ms=_watchdog_ms(environ, pid=pid))


def take_manager(environ: MutableMapping[str, str], *, pid: int) -> ServiceManager | None:
    """Find it, and hide it from all processes that we start: it is only for us."""
    manager = find_manager(environ, pid=pid)
    for name in (SOCKET, WATCHDOG_USEC, WATCHDOG_PID):
        environ.pop(name, None)
    return manager


def _watchdog_ms(environ: Mapping[str, str], *, pid: int) -> int | None:
    # It might be meant for another process, whose environment we inherited.
    if environ.get(WATCHDOG_PID, str(pid)) != str(pid):
        return None
    text = environ.get(WATCHDOG_USEC, "")
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) // 1000 or None


FindNext = Callable[[], tuple[str, int] | None]


class Watchdog(Protocol):
    """Watchdog interface, called by the engine's own thread. It must neither raise nor wait."""

    @property
    def every_ms(self) -> int | None:
        """How often it must be called; None: whenever the engine is awake."""

    def note_alive(self, *, running: int, find_next: FindNext) -> None:
        """Note that the engine has done a step, or found nothing to do.

        `find_next` returns the schedule that fires next and when; None: nothing is to come. Raises
        what it raises.
        """

    def note_trouble(self, error: Exception) -> None:
        """Note that the engine can't work and tries again: it does not hang."""

    def note_stopping(self, *, running: int) -> None:
        """Note that the engine stops; it is called again at each look while runs are left."""


class NoWatchdog:
    """No process watches this engine."""

    every_ms = None

    def note_alive(self, *, running: int, find_next: FindNext) -> None:
        pass

    def note_trouble(self, error: Exception) -> None:
        pass

    def note_stopping(self, *, running: int) -> None:
        pass


_STATUS_MS = 10_000  # how often the status changes at most: each wakes the service manager
_EXTEND_MS = 60_000  # how long a stopping engine can be silent


class ServiceWatchdog:
    """Feed the service manager's watchdog for one engine.

    `main_pid` is the process to watch, None if the program decides that. `warn` is called once if
    the service manager can't be reached: it will think that we never started.
    """

    def __init__(
        self,
        manager: ServiceManager,
        *,
        clock: Clock,
        main_pid: int | None,
        warn: Callable[[str], object],
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._main_pid = main_pid
        self._warn = warn
        self._is_ready = False
        self._has_warned = False
        self._fed_ms = clock.monotonic_ms()
        self._status = ""
        self._status_ms: int | None = None  # when it was made last
        self._stopping_ms: int | None = None  # when that was sent last

    @property
    def every_ms(self) -> int | None:
        """Half of the service manager's limit, as its documentation asks for."""
        watchdog_ms = self._manager.watchdog_ms
        return None if watchdog_ms is None else max(watchdog_ms // 2, 1)

    def note_alive(self, *, running: int, find_next: FindNext) -> None:
        lines = [] if self._is_ready else self._ready_lines()
        if self._is_feed_due():
            lines.append("WATCHDOG=1")
        status = self._new_status(running, find_next)
        if status is not None:
            lines.append(f"STATUS={status}")
        if lines and self._send(lines):
            self._is_ready = True
            self._note(lines, status)

    def note_trouble(self, error: Exception) -> None:
        lines = ["WATCHDOG=1"] if self._is_feed_due() else []
        status = f"in trouble: {error}".replace("\n", " ")
        if status != self._status:
            lines.append(f"STATUS={status}")
        if lines and self._send(lines):
            self._note(lines, status)

    def note_stopping(self, *, running: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._stopping_ms is not None and now_ms - self._stopping_ms < _EXTEND_MS // 2:
            return
        # This bounds only our silence. How long to wait for runs is a setting of the engine.
        extend = f"EXTEND_TIMEOUT_USEC={_EXTEND_MS * 1000}"
        lines = ["STOPPING=1", extend, "WATCHDOG=1", f"STATUS=stopping, {running} running"]
        if self._send(lines):
            self._stopping_ms = now_ms

    def _ready_lines(self) -> list[str]:
        return ["READY=1"] if self._main_pid is None else ["READY=1", f"MAINPID={self._main_pid}"]

    def _is_feed_due(self) -> bool:
        """Whether to feed it now: the next look can be as late as `every_ms`."""
        if self.every_ms is None:
            return False
        return self._clock.monotonic_ms() - self._fed_ms >= self.every_ms * 2 // 3

    def _new_status(self, running: int, find_next: FindNext) -> str | None:
        """The status to show, None if it has not changed."""
        now_ms = self._clock.monotonic_ms()
        if self._status_ms is not None and now_ms - self._status_ms < _STATUS_MS:
            return None
        self._status_ms = now_ms
        status = _status_words(running, find_next())
        return None if status == self._status else status

    def _send(self, lines: list[str]) -> bool:
        try:
            self._manager.send("\n".join(lines))
        except OSError as error:
            # The next look tries again. A full socket might be read by then.
            if not self._has_warned and not isinstance(error, BlockingIOError):
                self._has_warned = True
                place = self._manager.address
                self._warn(f"the service manager can't be notified at {place}: {error}")
            return False
        return True

    def _note(self, lines: list[str], status: str | None) -> None:
        if "WATCHDOG=1" in lines:
            self._fed_ms = self._clock.monotonic_ms()
        if status is not None:
            self._status = status


def _status_words(running: int, coming: tuple[str, int] | None) -> str:
    if coming is None:
        return f"{running} running; nothing to come"
    name, at_ms = coming
    return f"{running} running; next: {name} at {format_ms(at_ms)}"


def take_service_watchdog(*, clock: Clock, warn: Callable[[str], object]) -> ServiceWatchdog | None:
    """Make the watchdog of a process that is only an engine; None without a service manager.

    Processes that it starts do not see the variables. If the service manager ends a hanging engine
    by SIGABRT, Python prints the line at which it hung.
    """
    manager = take_manager(os.environ, pid=os.getpid())
    if manager is None:
        return None
    if manager.watchdog_ms is not None:
        import faulthandler

        faulthandler.enable()
    return ServiceWatchdog(manager, clock=clock, main_pid=os.getpid(), warn=warn)


def find_service_watchdog(*, clock: Clock, warn: Callable[[str], object]) -> ServiceWatchdog | None:
    """Make the watchdog of a program's engine; None without a service manager.

    The program decides which process is watched, and keeps the variables.
    """
    manager = find_manager(os.environ, pid=os.getpid())
    return (
        None if manager is None else ServiceWatchdog(manager, clock=clock, main_pid=None, warn=warn)
    )
