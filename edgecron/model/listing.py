"""Schedules and runs as a screen pages through them: lines, orders, and what filters look at.

Pure. Of all schedules a screen holds the ids alone, in order, and reads the lines that it shows.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule


class Idle(StrEnum):
    """Why nothing is to come of a schedule."""

    VANISHED = "vanished"  # no engine of its program offers it: nobody runs it
    BROKEN = "broken"  # its trigger can't be read
    PAUSED = "paused"  # without end
    MAX_RUNS = "max_runs"  # it has had as many fires as it may have
    ENDED = "ended"  # its --until has passed, or none of its times lies before it
    OWN_END = "own_end"  # it waits for the end of its own run
    UPSTREAM = "upstream"  # it waits for the end of another schedule's run
    BOOT = "boot"  # it waits for the machine's next boot
    DONE = "done"  # its triggers have no more times
    NO_NEXT = "no_next"  # its next time is missing, and an engine computes it


class Standing(NamedTuple):
    """A schedule in a list. The fields are those of a Schedule and its specification.

    `last_status` is the value of a Status. Of a schedule without a next time, `is_done` says that
    no time is to come, and `is_active` that a run of it is queued or running.
    `gone_upstreams` are schedules that it comes after, and that are not there any more.
    """

    name: str
    triggers: tuple[str, ...]
    enabled: bool
    paused_until: datetime | None
    next_run_at: datetime | None
    trigger_error: str | None
    last_status: str | None
    last_run_at: datetime | None
    run_count: int
    planned_count: int
    max_runs: int | None
    until_at: datetime | None
    vanished_at: datetime | None
    is_done: bool = False
    is_active: bool = False
    gone_upstreams: tuple[str, ...] = ()


def standing_of(schedule: Schedule) -> Standing:
    """How a schedule that was read whole stands."""
    spec, last = schedule.spec, schedule.last_status
    return Standing(
        name=spec.name,
        triggers=spec.triggers,
        enabled=schedule.enabled,
        paused_until=schedule.paused_until,
        next_run_at=schedule.next_run_at,
        trigger_error=schedule.trigger_error,
        last_status=None if last is None else last.value,
        last_run_at=schedule.last_run_at,
        run_count=schedule.run_count,
        planned_count=schedule.planned_count,
        max_runs=spec.max_runs,
        until_at=spec.until_at,
        vanished_at=schedule.vanished_at,
        is_done=schedule.is_done,
        is_active=schedule.is_active,
        gone_upstreams=schedule.gone_upstreams,
    )


def find_idle(standing: Standing, *, now: datetime) -> Idle | None:
    """Why nothing is to come of a schedule by its own; None where its next time is known."""
    if standing.vanished_at is not None:
        return Idle.VANISHED
    if standing.trigger_error is not None:
        return Idle.BROKEN
    if not standing.enabled:
        return Idle.PAUSED
    if standing.next_run_at is not None:
        return None
    if standing.max_runs is not None and standing.planned_count >= standing.max_runs:
        return Idle.MAX_RUNS
    if standing.until_at is not None and standing.until_at <= now:
        return Idle.ENDED
    has_after_end = any(text.endswith(" after end") for text in standing.triggers)
    if has_after_end and standing.is_active:
        return Idle.OWN_END
    if not standing.is_done and (has_after_end or _has_times(standing)):
        return Idle.NO_NEXT
    if upstreams(standing):
        return Idle.UPSTREAM
    if "on boot" in standing.triggers:
        return Idle.BOOT
    return Idle.DONE if standing.until_at is None else Idle.ENDED


def _has_times(standing: Standing) -> bool:
    """Whether a trigger of a schedule is more than an event."""
    return any(text != "on boot" and not text.startswith("after ") for text in standing.triggers)


def upstreams(standing: Standing) -> list[str]:
    """The schedules that a schedule follows, by name."""
    texts = [text for text in standing.triggers if text.startswith("after ")]
    return [text[6:].partition(":")[0] for text in texts]


def idle_words(standing: Standing, *, now: datetime) -> str | None:
    """Why nothing is to come of a schedule, in a few words."""
    idle = find_idle(standing, now=now)
    if idle is None:
        return None
    done = "its last run is active" if standing.is_active else "done"
    is_past = standing.until_at is not None and standing.until_at <= now
    return {
        Idle.VANISHED: "nobody runs it",
        Idle.BROKEN: f"broken: {standing.trigger_error}",
        Idle.PAUSED: "paused",
        Idle.MAX_RUNS: f"{done}: has had its {standing.max_runs} planned runs",
        Idle.ENDED: f"{done}: "
        + ("its --until has passed" if is_past else "no more times before its --until"),
        Idle.OWN_END: "after its run has ended",
        Idle.UPSTREAM: _upstream_words(standing),
        Idle.BOOT: "at boot",
        Idle.DONE: f"{done}: no more times",
        Idle.NO_NEXT: "its next time is missing; an engine computes it",
    }[idle]


def _upstream_words(standing: Standing) -> str:
    """`after load`, and which of several are gone: `never: load is gone`."""
    names, gone = upstreams(standing), standing.gone_upstreams
    if not gone:
        return f"after {' or '.join(names)}"
    lost = f"{' and '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone"
    left = [name for name in names if name not in gone]
    return f"after {' or '.join(left)}; {lost}" if left else f"never: {lost}"


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


class NamedId(NamedTuple):
    """The id and the name of a schedule."""

    id: int
    name: str


class Removal(NamedTuple):
    """A removed schedule."""

    schedule_id: int
    removed_at: datetime
