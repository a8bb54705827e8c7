"""For the tests of programs that embed a Scheduler: time that moves when it is told to.

    from edgecron.embedding.testing import travel

    def test_the_backup_runs_at_night():
        with travel(scheduler, start=datetime(2026, 3, 28, tzinfo=UTC)) as journey:
            journey.advance(days=1)
            assert journey.fired(backup) == [datetime(2026, 3, 28, 2, tzinfo=UTC)]

travel           travel, and what is done on the way
travel_engine    the engine, stepped by hand; waiting for a run lets time pass
travel_calls     functions and coroutines, called in turn
travel_commands  what becomes of commands
fake_context     a RunContext to call a function with
fake_clock       a clock that only moves when a test moves it

Nothing here needs pytest or starts a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.embedding.fake_clock import FakeClock
    from edgecron.embedding.fake_context import FakeContext, context
    from edgecron.embedding.travel import Journey, travel

_HOME = {
    "FakeClock": "fake_clock",
    "FakeContext": "fake_context",
    "Journey": "travel",
    "context": "fake_context",
    "travel": "travel",
}

__all__ = ["FakeClock", "FakeContext", "Journey", "context", "travel"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'edgecron.embedding.testing' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"edgecron.embedding.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
