"""The clock of another machine, by what its answers say: distances to times are told by it."""

from __future__ import annotations

from edgecron.base.clock import Clock


class ServerTime:
    """A Clock. Until something was answered, wall time is this machine's own; all else always is.

    For any threads: several clients of one server share it.
    """

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._ahead_ms: int | None = None  # of the time since this machine's boot

    @property
    def is_known(self) -> bool:
        """Whether the other machine has told its time."""
        return self._ahead_ms is not None

    def note(self, now_ms: int) -> None:
        """Take what an answer says that has just come."""
        # By elapsed time, and not by the wall: this machine's may be wrong, or be set.
        self._ahead_ms = now_ms - self._own.boottime_ms()

    def now_ms(self) -> int:
        ahead_ms = self._ahead_ms
        return self._own.now_ms() if ahead_ms is None else self._own.boottime_ms() + ahead_ms

    def monotonic_ms(self) -> int:
        return self._own.monotonic_ms()

    def boottime_ms(self) -> int:
        return self._own.boottime_ms()

    def boot_id(self) -> str:
        return self._own.boot_id()

    def is_synchronised(self) -> bool | None:
        return self._own.is_synchronised()
