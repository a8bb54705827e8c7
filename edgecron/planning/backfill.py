"""Which plan times of the past a backfill may take. Pure."""

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
    """The plan times in [from, to] that are decided, and how many others lie between them.

    `forgotten_count` of them come first, of which retention has removed rows. `last_ms` is the end
    of the range of those that are decided and known, which may be before its beginning.
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
    """What a backfill would take, and what it leaves out and why.

    `undecided_count` plan times are left to the engine; `out_of_bounds_count` lie before or after
    what the schedule is for. Of `forgotten_count` retention has removed runs: what has succeeded
    is not known, and might run again.
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
    """The last of the first so many plan times, of which there are more."""
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
    """What a backfill's runs have: lower than what is on time, of its schedule and of others."""
    return min(Priority.LOW, priority - _BELOW)


def _count(timing: Timing, from_ms: int, to_ms: int) -> int:
    return timing.times.count_ms(from_ms - 1, to_ms) if to_ms >= from_ms else 0
