"""A clock that only a test moves."""

from __future__ import annotations

from datetime import UTC, datetime

from edgecron.base.units import from_ms, to_ms

START = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


class FakeClock:
    """Takes the place of the machine's clocks: wall time, elapsed time, and the kernel's view.

    >>> clock = FakeClock(datetime(2021, 3, 28, tzinfo=UTC))
    >>> clock.advance_ms(1500)
    >>> clock.now()
    datetime.datetime(2021, 3, 28, 0, 0, 1, 500000, tzinfo=datetime.timezone.utc)
    """

    def __init__(self, start: datetime | int = START) -> None:
        self._now_ms = to_ms(start) if isinstance(start, datetime) else start
        self._monotonic_ms = 1_000_000
        self._boottime_ms = 1_000_000
        self._boots = 1
        self.synchronised: bool | None = True  # what the kernel reports

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def boottime_ms(self) -> int:
        return self._boottime_ms

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def is_synchronised(self) -> bool | None:
        return self.synchronised

    def now(self) -> datetime:
        """Return the wall time as an aware UTC datetime."""
        return from_ms(self._now_ms)

    def advance_ms(self, duration_ms: int) -> None:
        """Let time pass, on all clocks."""
        if duration_ms < 0:
            raise ValueError(f"time passed by {duration_ms} ms; use step_ms to set the clock back")
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms
        self._boottime_ms += duration_ms

    def advance_to(self, instant: datetime | int) -> None:
        """Let time pass until a wall instant."""
        target_ms = to_ms(instant) if isinstance(instant, datetime) else instant
        self.advance_ms(target_ms - self._now_ms)

    def suspend_ms(self, duration_ms: int) -> None:
        """Let the machine sleep: elapsed time stops, the time since the boot does not."""
        self._now_ms += duration_ms
        self._boottime_ms += duration_ms

    def step_ms(self, by_ms: int) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now_ms += by_ms

    def set_ms(self, instant_ms: int) -> None:
        """Set the wall clock to an instant; no time passes."""
        self._now_ms = instant_ms

    def set_to(self, instant: datetime) -> None:
        """Set the wall clock to an instant; no time passes."""
        self._now_ms = to_ms(instant)

    def reboot(self, *, down_ms: int = 0) -> None:
        """Boot again after `down_ms`, with another boot id and elapsed time from 0."""
        self._boots += 1
        self._now_ms += down_ms
        self._monotonic_ms = 0
        self._boottime_ms = 0
