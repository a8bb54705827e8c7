"""For the tests of programs that embed a Scheduler: time that moves when it is told to.

    from edgecron.testing import travel

    def test_the_backup_runs_at_night():
        with travel(scheduler, start=datetime(2026, 3, 28, tzinfo=UTC)) as journey:
            journey.advance(days=1)
            assert journey.fired(backup) == [datetime(2026, 3, 28, 2, tzinfo=UTC)]

journey.py     travel, and what is done on the way
driving.py     the engine, stepped by hand, and its life
stage.py       what has been started and has not ended, in the order of its end
calls.py       functions and coroutines, called in their turn; eventloop.py: the coroutines' loop
commands.py    what becomes of commands
waiting.py     waiting for a run, which lets time pass
contexts.py    a RunContext to call a function with
clock.py       a clock that only moves when it is told to

Nothing of it needs pytest, nothing starts a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.testing.clock import FakeClock
    from edgecron.testing.contexts import FakeContext, context
    from edgecron.testing.journey import Journey, travel

_HOME = {
    "FakeClock": "clock",
    "FakeContext": "contexts",
    "Journey": "journey",
    "context": "contexts",
    "travel": "journey",
}

__all__ = ["FakeClock", "FakeContext", "Journey", "context", "travel"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'edgecron.testing' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"edgecron.testing.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
