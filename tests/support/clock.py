"""The clock of all tests, which the programs of others have for theirs."""

from __future__ import annotations

from edgecron.embedding.travel_engine import START, FakeClock

__all__ = ["START", "FakeClock", "PacedClock"]


class PacedClock(FakeClock):
    """A clock by which each look at elapsed time takes `pace_ms`, as on a busy machine."""

    pace_ms = 0

    def monotonic_ms(self) -> int:
        self.advance_ms(self.pace_ms)
        return super().monotonic_ms()
