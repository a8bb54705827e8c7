"""What is measured of all that ever ran: durations by `steps`, and counts that never fall. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from edgecron.base.values import NamedTuple


class Histogram(NamedTuple):
    """How many values there were up to each step, the last of all, and their sum in ms."""

    counts: tuple[int, ...]
    sum_ms: int


class MeasuredSchedule(NamedTuple):
    """What is measured of one schedule: counts since it was made, and instants in ms."""

    name: str
    success: int
    failed: int
    cancelled: int
    interrupted: int
    skipped: int
    last_run_ms: int | None
    last_success_ms: int | None
    next_run_ms: int | None
    is_broken: bool
    is_paused: bool
    is_vanished: bool


class OfSchedule(NamedTuple):
    """What is measured of one schedule on request: how long its runs took, how late they started,
    and how often a claim of it found the database locked."""

    duration: Histogram
    late: Histogram
    lock_failures: int


class Active(NamedTuple):
    """How many runs go on, wait for a place, and wait for a condition."""

    running: int
    queued: int
    owed: int


class Measures(NamedTuple):
    """What is measured of a database, at one instant.

    `by_schedule` is by the name of the schedule, None unless the caller asked for it.
    """

    schedules: Sequence[MeasuredSchedule]
    active: Active
    duration: Histogram
    late: Histogram
    lock_failures: int
    by_schedule: Mapping[str, OfSchedule] | None = None


class EndedRun(NamedTuple):
    """What is counted of an execution that has ended; status, reason and cause by their values."""

    schedule_id: int
    status: str
    reason: str | None
    cause: str
    attempt: int
    missed_count: int | None
    duration_ms: int | None
    late_ms: int | None  # from due to started, None where it never was


class Recurrence(NamedTuple):
    """What a schedule's times of a week depend on. `compiled` is its triggers as stored.

    `runs_left` are those that its max_runs allows; None is no limit.
    """

    compiled: str
    next_plan_ms: int | None
    next_run_ms: int | None
    paused_until_ms: int | None
    until_ms: int | None
    runs_left: int | None
    after_end_ms: int | None
    jitter_ms: int


def histogram_of(counts: Mapping[str, int], steps_ms: Sequence[int], *, sum_ms: int) -> Histogram:
    """Counts by step, added up: each step counts all below it. Steps that nobody knows count in
    the last."""
    found, so_far = [], 0
    for step in steps_ms:
        so_far += counts.get(str(step), 0)
        found.append(so_far)
    return Histogram(counts=(*found, sum(counts.values())), sum_ms=sum_ms)


# Milliseconds. What is stored goes by these: one that is added splits what comes from then on.
DURATION_STEPS_MS = (
    *(10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
    *(14_400_000, 86_400_000),
)
LATE_STEPS_MS = (*(5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 3_600_000),)
_BEYOND = "more"


def step_of(value_ms: int, steps_ms: Sequence[int]) -> str:
    """The name of the step that a value belongs to."""
    place = bisect_left(steps_ms, value_ms)
    return str(steps_ms[place]) if place < len(steps_ms) else _BEYOND
