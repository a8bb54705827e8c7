"""Find the past plan times that a backfill can take. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from edgecron.base.values import dataclass
from edgecron.model.choices import Priority
from edgecron.model.schedule import Schedule
from edgecron.planning.next_fire import Timing

MOST_BACKFILLED = 10_000  # runs of one backfill
_BELOW = 10  # the schedule's own priority, at least


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTimes:
    """The decided plan times of a range, and how many others lie in it.

    Retention has removed rows of the first `forgotten_count`. `last_ms` is the end of the range of
    decided and known times, which can be before its beginning.
    """

    from_ms: int
    last_ms: int
    count: int
    forgotten_count: int
    undecided_count: int
    out_of_bounds_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFire:
    """A plan time of the past, in one scope, and the trigger that gave it."""

    plan_at: datetime
    scope: tuple[str, str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """The fires that a backfill would take, and those that it would not, and why.

    `undecided_count` plan times are left to the engine; `out_of_bounds_count` lie outside the
    schedule's bounds. Retention has removed runs of `forgotten_count` times: whether they succeeded
    is unknown, so they are not run again.
    """

    schedule: Schedule
    wanted: tuple[PastFire, ...]
    succeeded: tuple[PastFire, ...]
    active: tuple[PastFire, ...]
    forgotten_count: int
    undecided_count: int
    out_of_bounds_count: int


def find_past_times(
    timing: Timing,
    *,
    from_ms: int,
    to_ms: int,
    decided_until_ms: int,
    pruned_until_ms: int | None = None,
) -> PastTimes:
    """Count a range, at a cost that does not grow with it."""
    count = timing.times.count_ms
    first_ms = from_ms if timing.from_ms is None else max(from_ms, timing.from_ms)
    end_ms = to_ms if timing.until_ms is None else min(to_ms, timing.until_ms)
    last_ms = min(end_ms, decided_until_ms)
    within = _count(timing, first_ms, end_ms)
    forgotten = 0
    if pruned_until_ms is not None:
        forgotten = _count(timing, first_ms, min(last_ms, pruned_until_ms))
        first_ms = max(first_ms, pruned_until_ms + 1)
    decided = _count(timing, first_ms, last_ms)
    everything = count(from_ms - 1, to_ms) if to_ms >= from_ms else 0
    return PastTimes(
        from_ms=first_ms,
        last_ms=last_ms,
        count=decided,
        forgotten_count=forgotten,
        undecided_count=within - forgotten - decided,
        out_of_bounds_count=everything - within,
    )


def times_of(timing: Timing, past: PastTimes) -> Iterator[tuple[int, str]]:
    """Each of these plan times, and the text of its trigger."""
    found = timing.times.next_with_source(past.from_ms - 1)
    while found is not None and found[0] <= past.last_ms:
        yield found
        found = timing.times.next_with_source(found[0])


def last_of_first(timing: Timing, past: PastTimes, most: int) -> int:
    """The last of the first `most` plan times; there are more."""
    low, high = past.from_ms - 1, past.last_ms + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _count(timing, past.from_ms, middle) <= most:
            low = middle
        else:
            high = middle
    found = timing.times.last_ms(past.from_ms - 1, low)
    return past.from_ms if found is None else found


def default_priority(priority: int) -> int:
    """The priority of a backfill's runs: lower than that of runs on time, of all schedules."""
    return min(Priority.LOW, priority - _BELOW)


def _count(timing: Timing, from_ms: int, to_ms: int) -> int:
    return timing.times.count_ms(from_ms - 1, to_ms) if to_ms >= from_ms else 0
