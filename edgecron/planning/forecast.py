"""List the fires of schedules, as people see them: those to come, and those of a backfill. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import takewhile

from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import dataclass, replace
from edgecron.base.window_texts import most_spread_ms
from edgecron.model.choices import CatchUp, Priority
from edgecron.model.schedule import Schedule
from edgecron.planning.next_fire import Missed, Timing, excluded_until, next_fires
from edgecron.planning.windows import Span, Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingFire:
    """A fire to come: its plan time, its earliest start, and the trigger that gave it.

    `is_moved`: a person has moved it to another time.
    """

    schedule: str
    plan_at: datetime
    due_at: datetime
    source: str | None
    is_moved: bool = False


# The next fire of a schedule and those after it, by its time and the schedule's place.
_Stream = tuple[datetime, int, UpcomingFire, Iterator[UpcomingFire]]


def fires_of(schedule: Schedule, timing: Callable[[], Timing]) -> Iterator[UpcomingFire]:
    """The fires of a schedule from its next one on; none if it is paused, done or vanished.

    `timing` is called only after the first fire, which is recorded.
    """
    if schedule.next_plan_at is None or schedule.next_run_at is None:
        return
    if schedule.vanished_at is not None:
        return
    if schedule.paused_until is not None and schedule.next_plan_at < schedule.paused_until:
        return  # The pause holds it until its end, when it is recorded; nothing follows.
    if schedule.is_excluded:
        return
    first = UpcomingFire(
        schedule=schedule.name,
        plan_at=schedule.next_plan_at,
        due_at=schedule.next_run_at,
        source=schedule.next_source,
        is_moved=is_moved(schedule),
    )
    # Fires that it was moved past come due with it: the last of them runs, or all in turn.
    is_last_alone = schedule.spec.policies.catch_up is not CatchUp.ALL
    if first.is_moved and is_last_alone:
        first = _last_until(first, timing())
    yield first
    after_ms, due_at = to_ms(first.plan_at), first.due_at
    for fire in next_fires(timing(), after_ms, planned_count=schedule.planned_count + 1):
        # Each fire is decided after the one before, even if that has the longer jitter.
        due_at = max(due_at, from_ms(fire.due_ms))
        yield UpcomingFire(
            schedule=schedule.name,
            plan_at=from_ms(fire.plan_ms),
            due_at=due_at,
            source=fire.source,
        )


def fires_within(
    schedule: Schedule, timing: Callable[[], Timing], within: Windows, spans: tuple[Span, ...]
) -> Iterator[UpcomingFire]:
    """The next fire of a schedule, if it comes due in these windows, and those in their next spans.

    Times outside are passed over without looking at each.
    """
    every = fires_of(schedule, timing)
    first = next(every, None)
    if first is None:
        return
    at_ms, after_ms = to_ms(first.due_at), to_ms(first.plan_at)
    if within.is_open(at_ms):
        yield first
    if schedule.spec.max_runs is not None:  # Each fire counts.
        end = from_ms(spans[-1].end_ms) if spans else first.due_at
        before = takewhile(lambda fire: fire.due_at < end, every)
        yield from (fire for fire in before if within.is_open(to_ms(fire.due_at)))
        return
    if not spans:
        return
    # Loaded when needed: the first lines of the dashboard need no triggers.
    from edgecron.planning.times import may_start_in

    known = timing()
    is_late = at_ms > after_ms or known.most_jitter_ms > 0  # Then runs start after their times.
    if not is_late and not may_start_in(known, spans):
        return
    for span in spans:
        if at_ms >= span.end_ms:
            continue
        for fire in next_fires(known, max(after_ms, span.start_ms - 1 - known.most_jitter_ms)):
            due_ms = max(at_ms, fire.due_ms)
            if due_ms >= span.end_ms:
                break
            at_ms, after_ms = due_ms, fire.plan_ms
            if at_ms >= span.start_ms:
                yield UpcomingFire(
                    schedule=schedule.name,
                    plan_at=from_ms(fire.plan_ms),
                    due_at=from_ms(at_ms),
                    source=fire.source,
                )


def excluded_before(timing: Timing, after_ms: int, plans_ms: Iterable[int]) -> list[Missed]:
    """The times that windows exclude before each of these plan times, as one range each."""
    found = []
    for plan_ms in plans_ms:
        found.append(excluded_until(timing, decided_until_ms=after_ms, until_ms=plan_ms - 1))
        after_ms = plan_ms
    return [one for one in found if one is not None]


def in_order(
    coming: Iterator[Schedule], fires: Callable[[Schedule], Iterator[UpcomingFire]]
) -> Iterator[UpcomingFire]:
    """The fires of many schedules as they come due; those at one time in the order of `coming`.

    `coming` yields the schedules by their next time, and is read only as far as needed. A schedule
    that comes twice counts once.
    """
    heap: list[_Stream] = []
    seen: set[int] = set()
    following = next(coming, None)
    while heap or following is not None:
        while following is not None and (
            not heap or following.next_run_at is None or following.next_run_at < heap[0][0]
        ):
            if following.id not in seen:
                seen.add(following.id)
                _push_next(heap, len(seen), fires(following))
            following = next(coming, None)
        if heap:
            _, place, fire, stream = heappop(heap)
            yield fire
            _push_next(heap, place, stream)


def _push_next(heap: list[_Stream], place: int, stream: Iterator[UpcomingFire]) -> None:
    fire = next(stream, None)
    if fire is not None:
        heappush(heap, (fire.due_at, place, fire, stream))


def is_moved(schedule: Schedule) -> bool:
    """Whether the next fire starts at another time than its plan time and jitter say."""
    plan_at, run_at = schedule.next_plan_at, schedule.next_run_at
    if plan_at is None or run_at is None:
        return False
    jitter = max(
        timedelta(seconds=schedule.spec.policies.jitter_s),
        timedelta(milliseconds=most_spread_ms(schedule.next_source)),
    )
    return not plan_at <= run_at <= plan_at + jitter


def _last_until(first: UpcomingFire, timing: Timing) -> UpcomingFire:
    until_ms = to_ms(first.due_at) - timing.most_jitter_ms
    last_ms = timing.times.last_ms(to_ms(first.plan_at), until_ms)
    if last_ms is None:
        return first
    found = timing.times.next_with_source(last_ms - 1)
    return replace(first, plan_at=from_ms(last_ms), source=found[1] if found else None)


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
