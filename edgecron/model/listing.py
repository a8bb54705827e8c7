"""Schedules and runs in lists: how they stand, their lines, orders, pages and weeks. Pure.

A screen holds the ids of all schedules in order, and reads only the lines that it shows.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple
from edgecron.model.choices import Cause, Status

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule

NO_TIMES_LEFT = "no more times within its windows"


class Idle(StrEnum):
    """Why a schedule has no next time."""

    VANISHED = "vanished"  # no engine of its program offers it
    BROKEN = "broken"  # its trigger can't be read
    PAUSED = "paused"  # without end
    MAX_RUNS = "max_runs"  # it has had all its planned fires
    ENDED = "ended"  # its --until has passed, or no time lies before it
    OWN_END = "own_end"  # it waits for the end of its own run
    UPSTREAM = "upstream"  # it waits for the end of another schedule's run
    BOOT = "boot"  # it waits for the next boot of the machine
    DEMAND = "demand"  # it runs only if somebody asks for it
    DONE = "done"  # its triggers have no more times
    EXCLUDED = "excluded"  # its windows exclude the rest of its times
    NO_NEXT = "no_next"  # an engine has to compute its next time


class Standing(NamedTuple):
    """A schedule in a list. The fields are those of a Schedule and its specification.

    `last_status` is the value of a Status. If a schedule has no next time, `is_done` means that it
    gets none, and `is_active` that a run is queued or running. `gone_upstreams` are schedules that
    it follows and that do not exist. `is_excluded`: windows exclude the next time, and no other
    time follows.
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
    timezone: str | None = "local"
    is_excluded: bool = False


def standing_of(schedule: Schedule) -> Standing:
    """How a schedule stands."""
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
        timezone=spec.timezone,
        is_excluded=schedule.is_excluded,
    )


def find_idle(standing: Standing, *, now: datetime) -> Idle | None:
    """Why a schedule has no next time; None if it has one."""
    if standing.vanished_at is not None:
        return Idle.VANISHED
    if standing.trigger_error is not None:
        return Idle.BROKEN
    if not standing.enabled:
        return Idle.PAUSED
    if standing.is_excluded:
        return Idle.EXCLUDED
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
    if "on demand" in standing.triggers:
        return Idle.DEMAND
    return Idle.DONE if standing.until_at is None else Idle.ENDED


def _has_times(standing: Standing) -> bool:
    """Whether a trigger of a schedule has times and is not only an event."""
    return any(not text.startswith(("on ", "after ")) for text in standing.triggers)


def upstreams(standing: Standing) -> list[str]:
    """The schedules that a schedule follows, by name."""
    texts = [text for text in standing.triggers if text.startswith("after ")]
    return [text[6:].partition(":")[0] for text in texts]


def idle_words(standing: Standing, *, now: datetime) -> str | None:
    """Why a schedule has no next time, in a few words; None if it has one."""
    idle = find_idle(standing, now=now)
    if idle is None:
        return None
    done = "its last run is active" if standing.is_active else "done"
    is_past = standing.until_at is not None and standing.until_at <= now
    return {
        Idle.VANISHED: "no program runs it",
        Idle.BROKEN: f"broken: {standing.trigger_error}",
        Idle.PAUSED: "paused",
        Idle.MAX_RUNS: f"{done}: --max-runs {standing.max_runs} is reached",
        Idle.ENDED: f"{done}: "
        + ("its --until has passed" if is_past else "no more times before its --until"),
        Idle.OWN_END: "after its run ends",
        Idle.UPSTREAM: _upstream_words(standing),
        Idle.BOOT: "at boot",
        Idle.DEMAND: "on demand",
        Idle.DONE: f"{done}: no more times",
        Idle.EXCLUDED: f"{done}: {NO_TIMES_LEFT}",
        Idle.NO_NEXT: "missing; an engine will compute it",
    }[idle]


def _upstream_words(standing: Standing) -> str:
    """`after load`, `after load; sum is gone`, or `never: load is gone`."""
    names, gone = upstreams(standing), standing.gone_upstreams
    if not gone:
        return f"after {' or '.join(names)}"
    lost = f"{' and '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone"
    left = [name for name in names if name not in gone]
    return f"after {' or '.join(left)}; {lost}" if left else f"never: {lost}"


MOST_RECENT = 20  # runs that a line shows
_FINISHED = frozenset({Idle.MAX_RUNS, Idle.ENDED, Idle.DONE, Idle.EXCLUDED})


class SortBy(StrEnum):
    NAME = "name"  # in order of code points
    WHEN = "when"  # how often it runs, most often first; then the words of its triggers
    NEXT = "next"  # its next time
    LAST = "last"  # the time of its last run
    STATUS = "status"  # of its last run, failures first
    RUNS = "runs"  # the number of its runs


class RunSort(StrEnum):
    RUN = "run"  # its number: when it was decided
    DURATION = "duration"
    STATUS = "status"  # running and queued ones first, then failures
    SCHEDULE = "schedule"  # its name
    STARTED = "started"  # when it started, or should
    NOTE = "note"  # its reason


MOST_SORTED = 1000  # runs of an order other than newest first, which has no index


class ScheduleState(StrEnum):
    ACTIVE = "active"  # it will run: at a time, after another run, or at boot
    PAUSED = "paused"  # without end, or until a time in the future
    VANISHED = "vanished"  # no engine of its program offers it
    BROKEN = "broken"  # its triggers or other parts can't be read
    DONE = "done"  # it will not run again


class Recent(NamedTuple):
    """A run that was started and has ended. `status` is the value of a Status."""

    status: str
    duration_ms: int | None


class ScheduleLine(NamedTuple):
    """A line of a list of schedules.

    `recent` are its newest runs that were started and have ended, oldest first; `active` counts
    the queued and running ones, `running` only the running ones. If `timezone` is None, its times
    are in UTC. `when` is its triggers in a few words, or their texts if they can't be read.
    """

    id: int
    standing: Standing
    when: str
    timezone: str | None
    group: str | None
    recent: tuple[Recent, ...]
    active: int
    running: int = 0


class ScheduleKeys(NamedTuple):
    """The values of a schedule that a filter reads.

    `last_status` is the value of a Status, `job` the stored text of the job.
    """

    id: int
    name: str
    state: ScheduleState
    last_status: str | None
    group: str | None
    job: str


class RunPage(NamedTuple):
    """Runs, newest first, and the ids of runs among them that can't be read."""

    runs: list[Execution]
    unreadable: list[int]


class SchedulePage(NamedTuple):
    """Schedules by name, and the names of schedules among them that can't be read."""

    schedules: list[Schedule]
    unreadable: list[str]

    @property
    def names(self) -> list[str]:
        """All names, in order."""
        return sorted([*(schedule.name for schedule in self.schedules), *self.unreadable])


class Choice(NamedTuple):
    """Which schedules a list shows; by default all.

    Each of `words` is part of the name, group, description or job, in upper or lower case.
    `is_failed`: the last run failed or was interrupted. `is_paused`: paused without end, or until
    a time in the future.
    """

    words: tuple[str, ...] = ()
    group: str | None = None
    is_failed: bool = False
    is_paused: bool = False


class RunChoice(NamedTuple):
    """Which runs a history shows; by default all.

    Only runs before the id, from `since` on and before `until`: by their start, or by their plan
    time if they have not started. `with_former`: also those of removed schedules of the name.
    """

    statuses: tuple[Status, ...] = ()
    causes: tuple[Cause, ...] = ()
    before_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    with_former: bool = False


ALL_RUNS = RunChoice()
ACTIVE_RUNS = RunChoice(statuses=(Status.QUEUED, Status.RUNNING))


class RunBounds(NamedTuple):
    """The first and the last id of all runs; 0 and 0 if there is none."""

    first_id: int
    last_id: int


class RunCell(NamedTuple):
    """The runs of a schedule that began in one cell of a span; cell -1 is all time before it.

    `failed` counts interrupted runs too, `skipped` cancelled ones, and `active` queued ones. The
    first run began at `first_at`, and the last one ended at `last_at` (an active one: now).
    `running_since` is the start of the newest run that is running. `run_id` is the newest run that
    failed, or the newest run.
    """

    cell: int
    runs: int
    failed: int
    skipped: int
    active: int
    first_at: datetime
    last_at: datetime
    running_since: datetime | None
    run_id: int


class FireCell(NamedTuple):
    """How many fires of a schedule are planned in one cell of a span."""

    cell: int
    fires: int


class Lane(NamedTuple):
    """A schedule in a span of time that is divided into cells.

    Runs before the cell `read_from` were not read: there are too many. `usual_ms` is the median
    duration; None without a running run. `excluded` are days on which the schedule never fires.
    """

    schedule_id: int
    runs: tuple[RunCell, ...] = ()
    fires: tuple[FireCell, ...] = ()
    read_from: int = 0
    usual_ms: int | None = None
    excluded: tuple[date, ...] = ()


def state_of(standing: Standing, *, now: datetime) -> ScheduleState:
    """The state of a schedule in one word."""
    idle = find_idle(standing, now=now)
    if idle is Idle.VANISHED:
        return ScheduleState.VANISHED
    if idle is Idle.BROKEN:
        return ScheduleState.BROKEN
    if idle is Idle.PAUSED or (standing.paused_until is not None and standing.paused_until > now):
        return ScheduleState.PAUSED
    is_finished = idle in _FINISHED and not standing.is_active
    return ScheduleState.DONE if is_finished else ScheduleState.ACTIVE


class NamedId(NamedTuple):
    """The id and the name of a schedule."""

    id: int
    name: str


class Acknowledged(NamedTuple):
    """Failures of a schedule with one error that a person has seen, up to a run."""

    schedule_id: int
    error: str
    execution_id: int


class Removal(NamedTuple):
    """A removed schedule."""

    schedule_id: int
    removed_at: datetime


class Suspect(NamedTuple):
    """The values of an enabled schedule that say whether it is healthy. `last_status` is the value
    of a Status; instants are in ms.

    `due_ms`: since when its time is due, or the queued run `waiting_id` can start.
    """

    id: int
    name: str
    queue: str
    last_status: str | None
    last_success_ms: int | None
    has_succeeded: bool
    skipped_count: int
    is_active: bool
    due_ms: int | None
    waiting_id: int | None


class Streak(NamedTuple):
    """The fires of a schedule that failed since its last success; `since_ms` is the first end.

    `is_at_least`: there were more, which were removed or not read.
    """

    fires: int
    since_ms: int | None
    is_at_least: bool


class Recurrence(NamedTuple):
    """The values that determine the times of a schedule in a week. `compiled` is its stored
    triggers.

    `runs_left` None: no limit. The last four are its windows as stored, and their zone.
    """

    compiled: str
    next_plan_ms: int | None
    next_run_ms: int | None
    paused_until_ms: int | None
    until_ms: int | None
    runs_left: int | None
    after_end_ms: int | None
    jitter_ms: int
    between: str = "[]"
    not_between: str = "[]"
    except_days: str = "[]"
    timezone: str | None = None
