"""What the service manager is told of an engine, and when.

An engine that has done its first step is ready; one that does no more steps is silent, and is
restarted. It is told at what the engine does anyway: an idle engine wakes for nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from edgecron.base.clock import Clock
from edgecron.base.units import format_ms
from edgecron.engine.pulse import FindNext
from edgecron.engine.sd_manager import ServiceManager
from edgecron.engine.sleep import SAFETY_MS

_STATUS_MS = 10_000  # a new status at most so often: each one wakes the service manager
_EXTEND_MS = 60_000  # so long we may be silent while we stop


class Feed:
    """The pulse of an engine, for the service manager.

    `main_pid` is told as the process to watch, None where it is not ours to say. `warn` is told
    once where the service manager can't be reached: it will take us for one that never started.
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
        self._status_ms: int | None = None  # when it was looked at last
        self._stopping_ms: int | None = None  # when that was told last

    @property
    def every_ms(self) -> int | None:
        """Half of what the service manager bears, as it asks for."""
        watchdog_ms = self._manager.watchdog_ms
        return None if watchdog_ms is None else max(watchdog_ms // 2, 1)

    def looked(self, *, running: int, find_next: FindNext) -> None:
        lines = [] if self._is_ready else self._ready_lines()
        if self._is_hungry():
            lines.append("WATCHDOG=1")
        status = self._new_status(running, find_next)
        if status is not None:
            lines.append(f"STATUS={status}")
        if lines and self._send(lines):
            self._is_ready = True
            self._note(lines, status)

    def troubled(self, error: Exception) -> None:
        lines = ["WATCHDOG=1"] if self._is_hungry() else []
        status = f"in trouble: {error}".replace("\n", " ")
        if status != self._status:
            lines.append(f"STATUS={status}")
        if lines and self._send(lines):
            self._note(lines, status)

    def stopping(self, *, running: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._stopping_ms is not None and now_ms - self._stopping_ms < _EXTEND_MS // 2:
            return
        # How long runs are waited for is ours to know: here we bound no more than our silence.
        extend = f"EXTEND_TIMEOUT_USEC={_EXTEND_MS * 1000}"
        lines = ["STOPPING=1", extend, "WATCHDOG=1", f"STATUS=stopping, {running} running"]
        if self._send(lines):
            self._stopping_ms = now_ms

    def _ready_lines(self) -> list[str]:
        return ["READY=1"] if self._main_pid is None else ["READY=1", f"MAINPID={self._main_pid}"]

    def _is_hungry(self) -> bool:
        """Whether it must be fed now, as the next look may be as late as looks are."""
        every_ms = self.every_ms
        if every_ms is None:
            return False
        since_ms = self._clock.monotonic_ms() - self._fed_ms
        return since_ms >= max(every_ms - SAFETY_MS, every_ms // 2)

    def _new_status(self, running: int, find_next: FindNext) -> str | None:
        """What is to be shown, where that is something new."""
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
            # It is told at the next look, then. A full socket may be read by then.
            if not self._has_warned and not isinstance(error, BlockingIOError):
                self._has_warned = True
                place = self._manager.address
                self._warn(f"the service manager can't be told how it goes, at {place}: {error}")
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
