"""Schedules and runs as a screen pages through them: lines, orders, and what filters look at.

Pure. Of all schedules a screen holds the ids alone, in order, and reads the lines that it shows.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple
from edgecron.model.standing import Idle, Standing, find_idle

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule

MOST_RECENT = 20  # runs that a line shows
_OVER = frozenset({Idle.MAX_RUNS, Idle.ENDED, Idle.DONE})


class SortBy(StrEnum):
    NAME = "name"  # in order of code points
    WHEN = "when"  # the texts of its triggers
    NEXT = "next"  # when it may run next
    LAST = "last"  # when its last run was
    STATUS = "status"  # of its last run: what went wrong comes first
    RUNS = "runs"  # how many it has had


class ScheduleState(StrEnum):
    ACTIVE = "active"  # something is to come of it, be it after something else, or at boot
    PAUSED = "paused"  # without end, or until a time to come
    VANISHED = "vanished"  # no engine of its program offers it: nobody runs it
    BROKEN = "broken"  # its triggers, or something else of it, can't be read
    DONE = "done"  # nothing is to come of it


class Recent(NamedTuple):
    """A run that was started and has ended; `status` is the value of a Status."""

    status: str
    duration_ms: int | None


class ScheduleLine(NamedTuple):
    """A schedule as a line of a list shows it.

    `recent` are its newest runs that were started and have ended, oldest first; `active` is how
    many are queued or running. `timezone` None is UTC. `when` is its triggers in a few words, or
    their texts where they can't be read.
    """

    id: int
    standing: Standing
    when: str
    timezone: str | None
    group: str | None
    recent: tuple[Recent, ...]
    active: int


class ScheduleKeys(NamedTuple):
    """What a filter looks at of a schedule; `last_status` is the value of a Status."""

    id: int
    name: str
    state: ScheduleState
    last_status: str | None
    group: str | None


class RunPage(NamedTuple):
    """Runs, newest first, and the numbers of those between them whose rows can't be read."""

    runs: list[Execution]
    unreadable: list[int]


class SchedulePage(NamedTuple):
    """Schedules by name, and the names of those between them whose rows can't be read."""

    schedules: list[Schedule]
    unreadable: list[str]

    @property
    def names(self) -> list[str]:
        """The names of all of them, in order."""
        return sorted([*(schedule.name for schedule in self.schedules), *self.unreadable])


class Choice(NamedTuple):
    """Which schedules a list shows; a default lets every schedule through.

    Each of `words` stands in the name, group, description or job, in letters of either case.
    `is_failed`: the last run failed or was interrupted. `is_paused`: paused without end, or until
    a time to come.
    """

    words: tuple[str, ...] = ()
    group: str | None = None
    is_failed: bool = False
    is_paused: bool = False


class RunBounds(NamedTuple):
    """The first and the last id of all executions; 0 and 0 where there is none."""

    first_id: int
    last_id: int


def state_of(standing: Standing, *, now: datetime) -> ScheduleState:
    """Whether anything is to come of a schedule, in one word."""
    idle = find_idle(standing, now=now)
    if idle is Idle.VANISHED:
        return ScheduleState.VANISHED
    if idle is Idle.BROKEN:
        return ScheduleState.BROKEN
    if idle is Idle.PAUSED or (standing.paused_until is not None and standing.paused_until > now):
        return ScheduleState.PAUSED
    is_over = idle in _OVER and not standing.is_active
    return ScheduleState.DONE if is_over else ScheduleState.ACTIVE
