"""The clock of all tests, which the programs of others have for theirs."""

from __future__ import annotations

from edgecron.embedding.fake_clock import START, FakeClock

__all__ = ["START", "FakeClock"]
