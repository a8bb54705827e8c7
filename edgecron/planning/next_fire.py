"""Find a schedule's next fire, and define the values of a decision. Pure.

Instants are milliseconds since 1970. `catch_up` decides about a fire that is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from edgecron.base.units import format_duration_ms
from edgecron.base.values import NamedTuple, blake2b, dataclass
from edgecron.base.window_texts import most_spread_ms
from edgecron.model.choices import CatchUp, Cause, MissedBy, Reason
from edgecron.planning.windows import MOST_STEPS, Windows

if TYPE_CHECKING:
    from edgecron.triggers import OnceInTrigger


class PlanTimes(Protocol):
    """The plan times of a schedule's triggers, merged and without duplicates."""

    def next_with_source(self, after_ms: int) -> tuple[int, str] | None:
        """The first plan time later than this and the text of its trigger; None: no more."""

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        """Count the plan times in (after, until], at a cost that does not grow with them."""

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        """The latest plan time in (after, until], or None."""

    @property
    def elapsed(self) -> PlanTimes | None:
        """The plan times that follow elapsed time (intervals, wildcard cron); None: no such."""

    def next_repeated(self, after_ms: int, *, fired_ms: int) -> tuple[int, str] | None:
        """The first of these later than this that can come again after a clock was set back.

        `fired_ms`: the last fire, by the clock as it is now. No interval is cut short.
        """


class WindowedTimes:
    """The plan times of a schedule at which it can start or, with `is_open` False, the others."""

    def __init__(self, times: PlanTimes, windows: Windows, *, is_open: bool) -> None:
        self._times = times
        self._windows = windows
        self._is_open = is_open

    @property
    def elapsed(self) -> PlanTimes | None:
        elapsed = self._times.elapsed
        if elapsed is None:
            return None
        return WindowedTimes(elapsed, self._windows, is_open=self._is_open)

    def next_with_source(self, after_ms: int) -> tuple[int, str] | None:
        return self._next(self._times.next_with_source, after_ms)

    def next_repeated(self, after_ms: int, *, fired_ms: int) -> tuple[int, str] | None:
        return self._next(partial(self._times.next_repeated, fired_ms=fired_ms), after_ms)

    def _next(
        self, find: Callable[[int], tuple[int, str] | None], after_ms: int
    ) -> tuple[int, str] | None:
        for _ in range(MOST_STEPS):
            found = find(after_ms)
            if found is None:
                return None
            span = self._windows.span_at(found[0])
            if span.is_open == self._is_open:
                return found
            after_ms = span.end_ms - 1
        return None

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        for _ in range(MOST_STEPS):
            found_ms = self._times.last_ms(after_ms, until_ms) if until_ms > after_ms else None
            if found_ms is None:
                return None
            span = self._windows.span_at(found_ms)
            if span.is_open == self._is_open:
                return found_ms
            until_ms = span.start_ms - 1
        return None

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        count = 0
        while after_ms < until_ms:
            span = self._windows.span_at(after_ms + 1)
            last_ms = min(until_ms, span.end_ms - 1)
            if span.is_open == self._is_open:
                count += self._times.count_ms(after_ms, last_ms)
            after_ms = last_ms
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The input of planning for a schedule: its times, and the policies about late ones.

    `times` are those at which it can start. `excluded` are the others, if it has `windows`.
    """

    name: str
    times: PlanTimes
    seed: bytes
    catch_up: CatchUp
    max_late_ms: int | None
    jitter_ms: int
    from_ms: int | None = None
    until_ms: int | None = None
    max_runs: int | None = None
    after_end_ms: int | None = None  # an interval that counts from the end of the last run
    windows: Windows | None = None
    excluded: PlanTimes | None = None
    once_in: tuple[OnceInTrigger, ...] = ()  # if there are any, no other trigger has plan times

    @property
    def most_jitter_ms(self) -> int:
        """A bound of the time from a plan time until it is due."""
        return max(self.jitter_ms, *(most_spread_ms(one.text) for one in self.once_in), 0)

    def closes_ms(self, plan_ms: int) -> int | None:
        """When the window of a fire closes, so that no run can start any more; None: never."""
        for one in self.once_in:
            if one.next_after_ms(plan_ms - 1) == plan_ms:
                return one.closes_ms(plan_ms)
        return None


class Due(NamedTuple):
    """The columns of a schedule whose next fire is due: the identity of that fire.

    `repeats_since_ms`: since then a clock that was set back repeats decided plan times.
    """

    schedule_id: int
    revision: int
    plan_ms: int
    due_ms: int
    decided_until_ms: int
    paused_until_ms: int | None
    planned_count: int
    source: str | None
    repeats_since_ms: int | None = None


class NextFire(NamedTuple):
    """The next fire of a schedule: its identity, when it is due, and which trigger gave it."""

    plan_ms: int
    due_ms: int
    source: str


class Fire(NamedTuple):
    """A plan time that will run. `in_sequence`: one of several that catch_up=all runs in turn.

    `payload`, `priority` and `timeout_s` are its own; None: it has its schedule's.
    """

    plan_ms: int
    due_ms: int
    cause: Cause
    source: str | None = None
    fire_key: str = ""
    in_sequence: bool = False
    payload: str | None = None
    missed_by: MissedBy | None = None
    priority: int | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Plan times from `from_ms` to `to_ms`, both included, that will not run, and why.

    `missed_by` and `error_msg` say what kept an engine from them, if that is known. `source` is
    the trigger of the first, if that is known.
    """

    from_ms: int
    to_ms: int
    count: int
    reason: Reason
    missed_by: MissedBy | None = None
    error_msg: str | None = None
    source: str | None = None


class FirePlan(NamedTuple):
    """The decision about a due schedule: which fires run, which times are missed, what is next."""

    due: Due
    fires: tuple[Fire, ...]
    missed: tuple[Missed, ...]
    decided_until_ms: int
    next: NextFire | None

    @property
    def is_late(self) -> bool:
        """Whether times were missed, or are caught up: all fires of a plan have the same cause."""
        return bool(self.missed or (self.fires and self.fires[0].cause is Cause.CATCH_UP))


def next_fire(timing: Timing, after_ms: int, *, planned_count: int = 0) -> NextFire | None:
    """The first fire whose plan time is later than `after_ms`, within the schedule's bounds.

    If none follows, it is the last time that the windows exclude, to be recorded then.
    """
    if timing.max_runs is not None and planned_count >= timing.max_runs:
        return None
    if timing.from_ms is not None:
        after_ms = max(after_ms, timing.from_ms - 1)
    found = timing.times.next_with_source(after_ms)
    if found is None or (timing.until_ms is not None and found[0] > timing.until_ms):
        return _last_excluded(timing, after_ms)
    plan_ms, source = found
    return NextFire(plan_ms, resolve_due_ms(timing, plan_ms), source)


def _last_excluded(timing: Timing, after_ms: int) -> NextFire | None:
    """The last excluded time within the schedule's end, or the first if it has no end."""
    found = None if timing.excluded is None else timing.excluded.next_with_source(after_ms)
    if found is None or timing.excluded is None:
        return None
    plan_ms, source = found
    if timing.until_ms is not None:
        last_ms = timing.excluded.last_ms(after_ms, timing.until_ms)
        if last_ms is None:
            return None
        plan_ms = last_ms
    return NextFire(plan_ms=plan_ms, due_ms=resolve_due_ms(timing, plan_ms), source=source)


def is_excluded(timing: Timing, plan_ms: int) -> bool:
    """Whether the windows of a schedule exclude a plan time."""
    return timing.windows is not None and not timing.windows.is_open(plan_ms)


def fresh_fire(
    timing: Timing, after_ms: int, *, planned_count: int = 0, idle_ms: int | None = None
) -> NextFire | None:
    """The first fire later than `after_ms` of a schedule that has no active run.

    As `next_fire`, but an interval after the end counts from `idle_ms`, or from `after_ms`.
    """
    found = next_fire(timing, after_ms, planned_count=planned_count)
    if timing.after_end_ms is None:
        return found
    if timing.max_runs is not None and planned_count >= timing.max_runs:
        return None
    idle_ms = after_ms if idle_ms is None else idle_ms
    plan_ms = max(idle_ms + timing.after_end_ms, timing.from_ms or 0)
    if timing.windows is not None:
        opens_ms = timing.windows.next_open_ms(plan_ms)
        if opens_ms is None:
            return found
        plan_ms = opens_ms
    if timing.until_ms is not None and plan_ms > timing.until_ms:
        return found
    if found is not None and found.plan_ms <= plan_ms:
        return found
    source = f"every {format_duration_ms(timing.after_end_ms)} after end"
    return NextFire(plan_ms=plan_ms, due_ms=resolve_due_ms(timing, plan_ms), source=source)


def next_after_pause(
    timing: Timing,
    until_ms: int,
    *,
    decided_until_ms: int,
    planned_count: int = 0,
    idle_ms: int | None = None,
) -> NextFire | None:
    """The first fire from the end of a pause on.

    If none follows, it is the first that the pause holds, due at its end, to be recorded then. An
    interval after the end counts from `idle_ms`, or from the end of the pause.
    """
    following = fresh_fire(
        timing,
        max(until_ms - 1, decided_until_ms),
        planned_count=planned_count,
        idle_ms=max(until_ms, decided_until_ms) if idle_ms is None else idle_ms,
    )
    if following is not None:
        return following
    held = next_fire(timing, decided_until_ms, planned_count=planned_count)
    return None if held is None else held._replace(due_ms=max(until_ms, held.due_ms))


def next_fires(timing: Timing, after_ms: int, *, planned_count: int = 0) -> Iterator[NextFire]:
    """All coming fires, in order, as `next` shows them."""
    while (found := next_fire(timing, after_ms, planned_count=planned_count)) is not None:
        if is_excluded(timing, found.plan_ms):
            return
        yield found
        after_ms = found.plan_ms
        planned_count += 1


def resolve_due_ms(timing: Timing, plan_ms: int) -> int:
    """Add the jitter to a plan time: a stable hash of seed, name and plan time.

    It stays within the window of the plan time. A trigger `once in` without conditions has a
    jitter of its own.
    """
    most_ms = timing.jitter_ms
    for one in timing.once_in:
        if one.next_after_ms(plan_ms - 1) == plan_ms:
            most_ms = min(most_ms or one.spread_ms(plan_ms), one.closes_ms(plan_ms) - plan_ms - 1)
    if most_ms and timing.windows is not None:
        most_ms = timing.windows.last_due_ms(plan_ms, plan_ms + most_ms) - plan_ms
    if not most_ms:
        return plan_ms
    return plan_ms + jitter_of(timing.name, plan_ms, seed=timing.seed, most_ms=most_ms)


def jitter_of(name: str, plan_ms: int, *, seed: bytes, most_ms: int) -> int:
    """The jitter of one fire, from 0 to `most_ms`: always the same for the same seed."""
    if not most_ms:
        return 0
    digest = blake2b(f"{name}\0{plan_ms}".encode(), key=seed, digest_size=8).digest()
    return int.from_bytes(digest, "big") % (most_ms + 1)


def missed_until(
    timing: Timing,
    *,
    decided_until_ms: int,
    until_ms: int,
    reason: Reason,
    planned_count: int = 0,
) -> Missed | None:
    """The plan times in (decided_until, until] as one range; None if there are none."""
    if timing.max_runs is not None and planned_count >= timing.max_runs:
        return None
    after_ms = decided_until_ms
    if timing.from_ms is not None:
        after_ms = max(after_ms, timing.from_ms - 1)
    return _range_of(timing, timing.times, after_ms, until_ms, reason)


def excluded_until(timing: Timing, *, decided_until_ms: int, until_ms: int) -> Missed | None:
    """The times in (decided_until, until] that the windows exclude; None if there are none."""
    if timing.excluded is None:
        return None
    after_ms = decided_until_ms
    if timing.from_ms is not None:
        after_ms = max(after_ms, timing.from_ms - 1)
    return _range_of(timing, timing.excluded, after_ms, until_ms, Reason.EXCLUDED)


def passed_until(
    timing: Timing,
    *,
    decided_until_ms: int,
    until_ms: int,
    reason: Reason,
    planned_count: int = 0,
) -> tuple[Missed, ...]:
    """The plan times in (decided_until, until] as ranges: those that windows exclude, and others.

    There are none if the schedule had all its runs.
    """
    if timing.max_runs is not None and planned_count >= timing.max_runs:
        return ()
    found = (
        excluded_until(timing, decided_until_ms=decided_until_ms, until_ms=until_ms),
        missed_until(timing, decided_until_ms=decided_until_ms, until_ms=until_ms, reason=reason),
    )
    return tuple(one for one in found if one is not None)


def _range_of(
    timing: Timing, times: PlanTimes, after_ms: int, until_ms: int, reason: Reason
) -> Missed | None:
    bound_ms = until_ms if timing.until_ms is None else min(until_ms, timing.until_ms)
    if bound_ms <= after_ms:
        return None
    count = times.count_ms(after_ms, bound_ms)
    if count == 0:
        return None  # To look for the first one could take years of windows.
    first = times.next_with_source(after_ms)
    last_ms = times.last_ms(after_ms, bound_ms)
    if first is None or last_ms is None:
        return None
    return Missed(from_ms=first[0], to_ms=last_ms, count=count, reason=reason, source=first[1])


def count_planned(timing: Timing, after_ms: int, until_ms: int) -> int:
    """Count the plan times in (after, until], within the schedule's end."""
    bound_ms = until_ms if timing.until_ms is None else min(until_ms, timing.until_ms)
    return timing.times.count_ms(after_ms, bound_ms) if bound_ms > after_ms else 0


def last_planned(timing: Timing, after_ms: int, until_ms: int) -> int | None:
    """The latest plan time in (after, until], within the schedule's end, or None."""
    bound_ms = until_ms if timing.until_ms is None else min(until_ms, timing.until_ms)
    return timing.times.last_ms(after_ms, bound_ms) if bound_ms > after_ms else None
