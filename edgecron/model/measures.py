"""Measures of all runs of all time: counts that never fall, and histograms. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgecron.base.values import NamedTuple


class Histogram(NamedTuple):
    """The number of values up to each step, then of all, and their sum in ms."""

    counts: tuple[int, ...]
    sum_ms: int


class MeasuredSchedule(NamedTuple):
    """Measures of one schedule: counts since its creation, and instants in ms."""

    name: str
    success: int
    failed: int
    cancelled: int
    interrupted: int
    skipped: int
    last_run_ms: int | None  # its start, of runs that have ended
    last_success_ms: int | None  # its end
    next_run_ms: int | None
    is_broken: bool
    is_paused: bool
    is_vanished: bool


class OfSchedule(NamedTuple):
    """Further measures of one schedule: how long its runs took, how late they started, and how
    often a claim found the database locked."""

    duration: Histogram
    late: Histogram
    lock_failures: int


class Active(NamedTuple):
    """The number of runs that are running, wait for a place, and wait for a condition."""

    running: int
    queued: int
    owed: int


class Measures(NamedTuple):
    """The measures of a database at one instant. `by_schedule` is by name, if it was wanted."""

    schedules: Sequence[MeasuredSchedule]
    active: Active
    duration: Histogram
    late: Histogram
    lock_failures: int
    by_schedule: Mapping[str, OfSchedule] | None = None


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


class EndedRun(NamedTuple):
    """The values of an ended run that statistics count. Texts are the values of the choices."""

    schedule_id: int
    status: str
    reason: str | None
    cause: str
    attempt: int
    missed_count: int | None
    duration_ms: int | None
    late_ms: int | None  # from due to started; None if it never started
    written_ms: int = 0


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


def histogram_of(counts: Mapping[str, int], steps_ms: Sequence[int], *, sum_ms: int) -> Histogram:
    """Add up counts by step. Unknown steps count in the last one."""
    found, so_far = [], 0
    for step in steps_ms:
        so_far += counts.get(str(step), 0)
        found.append(so_far)
    return Histogram(counts=(*found, sum(counts.values())), sum_ms=sum_ms)


# The database stores counts by these steps, in milliseconds. A new step only splits later values.
DURATION_STEPS_MS = (
    *(10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
    *(14_400_000, 86_400_000),
)
LATE_STEPS_MS = (*(5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 3_600_000),)
