"""What an action is for, and what became of it."""

from __future__ import annotations

from collections.abc import Callable

from edgecron.base.errors import EdgecronError
from edgecron.base.values import NamedTuple

Progress = Callable[[int, int], object]  # to how many it is done, and to how many in all


class Chosen(NamedTuple):
    """What an action is for. A schedule is known by its name, or by its id where its line has not
    been looked at; with runs, `names` are those of their schedules as far as they are known."""

    names: tuple[str, ...] = ()
    schedule_ids: tuple[int, ...] = ()
    run_ids: tuple[int, ...] = ()


class Report(NamedTuple):
    """What became of it: how many it was done to, what is to be said of the first of them, how
    many it could not be done to and why, of the first ones; `idle` says of what was queued
    that no engine at work takes it, '' of commands. `is_summed`: what is said is of all of them.
    `removed` names the removed schedules that can be restored."""

    done: int = 0
    said: str = ""
    refused: int = 0
    errors: tuple[EdgecronError, ...] = ()
    idle: tuple[str, ...] = ()
    is_summed: bool = False
    removed: tuple[str, ...] = ()
