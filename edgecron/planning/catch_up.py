"""Decide about a due schedule, whether it is a second or fifty years late. Pure.

A fire that is late by up to ON_TIME_MS runs. Several fires due at once, or one that is later, are
one missed range. Of this range, `once` runs the latest within max-late, `skip` runs none, and
`all` runs the newest MAX_CATCH_UP in sequence. The other times of the range become one skipped row.
A trigger `once in` has its window instead of that: see `_plan_window`.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgecron.base.units import DAY_MS
from edgecron.base.values import replace
from edgecron.model.choices import MAX_CATCH_UP, ON_TIME_MS, CatchUp, Cause, Reason
from edgecron.planning.next_fire import (
    Due,
    Fire,
    FirePlan,
    Missed,
    NextFire,
    PlanTimes,
    Timing,
    count_planned,
    excluded_until,
    fresh_fire,
    is_excluded,
    last_planned,
    missed_until,
    next_fire,
    resolve_due_ms,
)

AGAIN = "again:"  # begins the key of a plan time that is repeated by a clock that was set back
_TOGETHER_MS = 1000  # fires whose due times are this close came due together
_MOST_JITTERED = 4096  # plan times that a pass looks at one by one if jitter reorders them
_LOOK_BACK_MS = 128_000  # the newest hundred are looked for here first: enough for every second


def plan_fire(timing: Timing, due: Due, *, now_ms: int) -> FirePlan:
    """Decide every plan time of a due schedule up to now, at a cost that does not grow with them.

    `due.due_ms` is not later than `now_ms`.
    """
    plan = _plan_all(timing, due, now_ms=now_ms)
    if timing.windows is None or plan.decided_until_ms <= due.decided_until_ms:
        return plan
    excluded = excluded_until(
        timing, decided_until_ms=due.decided_until_ms, until_ms=plan.decided_until_ms
    )
    return plan if excluded is None else plan._replace(missed=(excluded, *plan.missed))


def _plan_all(timing: Timing, due: Due, *, now_ms: int) -> FirePlan:
    """The plan without the times that windows exclude."""
    is_done = timing.max_runs is not None and due.planned_count >= timing.max_runs
    if due.repeats_since_ms is not None and due.plan_ms <= due.decided_until_ms and not is_done:
        return _plan_repeated(timing, due, now_ms)
    if due.plan_ms <= due.decided_until_ms or is_done:
        return _pass_over(timing, due)
    if is_excluded(timing, due.plan_ms):
        passed = _pass_over(timing, due._replace(decided_until_ms=due.plan_ms))
        count = due.planned_count
        following = _following(timing, due.plan_ms, (), now_ms=now_ms, planned_count=count)
        return passed._replace(due=due, next=following)
    if due.paused_until_ms is not None and due.plan_ms < due.paused_until_ms:
        return _end_pause(timing, due, due.paused_until_ms - 1)
    if timing.once_in:
        return _plan_window(timing, due, now_ms)
    following = next_fire(timing, due.plan_ms, planned_count=due.planned_count + 1)
    is_alone = following is None or following.due_ms > now_ms
    if is_alone and due.paused_until_ms is None and now_ms - due.due_ms <= ON_TIME_MS:
        return _plan_alone(due, following)
    latest_ms = _latest_due_ms(timing, due, now_ms)
    if _is_misfire(timing, due, latest_ms=latest_ms, now_ms=now_ms):
        fires = _catch_up(timing, due, latest_ms=latest_ms, now_ms=now_ms)
    elif timing.catch_up is CatchUp.ALL and latest_ms != due.plan_ms:
        fires = _fire_all(timing, due, latest_ms, cause=Cause.SCHEDULE, not_before_ms=due.plan_ms)
    else:
        fires = (_fire(timing, due, latest_ms, cause=Cause.SCHEDULE),)
    if timing.max_runs is not None:
        fires = fires[: max(0, timing.max_runs - due.planned_count)]
    planned_count = due.planned_count + len(fires)
    return FirePlan(
        due=due,
        fires=fires,
        missed=tuple(_missed(timing, due, fires, latest_ms)),
        decided_until_ms=latest_ms,
        next=_following(timing, latest_ms, fires, now_ms=now_ms, planned_count=planned_count),
    )


def _following(
    timing: Timing, latest_ms: int, fires: tuple[Fire, ...], *, now_ms: int, planned_count: int
) -> NextFire | None:
    """The next fire. If a run is active, its end sets the time of an interval after the end."""
    if fires or timing.after_end_ms is None:
        return next_fire(timing, latest_ms, planned_count=planned_count)
    return fresh_fire(timing, max(latest_ms, now_ms), planned_count=planned_count)


def _plan_alone(due: Due, following: NextFire | None) -> FirePlan:
    """The plan of nearly every fire: one fire on time, and the next is still to come."""
    # In the order of the fields: by name, these values take twice as long.
    fire = Fire(due.plan_ms, due.due_ms, Cause.SCHEDULE, due.source)
    return FirePlan(due, (fire,), (), due.plan_ms, following)


def _plan_window(timing: Timing, due: Due, now_ms: int) -> FirePlan:
    """Plan the fire of a window: it runs while the window is open, however late that is.

    Windows that have closed are missed, whatever `catch_up` says.
    """
    latest_ms = _latest_due_ms(timing, due, now_ms)
    closes_ms = timing.closes_ms(latest_ms)
    is_open = closes_ms is not None and now_ms < closes_ms
    fires = (_fire(timing, due, latest_ms, cause=Cause.SCHEDULE),) if is_open else ()
    return FirePlan(
        due=due,
        fires=fires,
        missed=tuple(_missed(timing, due, fires, latest_ms)),
        decided_until_ms=latest_ms,
        next=next_fire(timing, latest_ms, planned_count=due.planned_count + len(fires)),
    )


def _pass_over(timing: Timing, due: Due) -> FirePlan:
    """Pass over plan times that are decided already, as the clock went back."""
    return FirePlan(
        due=due,
        fires=(),
        missed=(),
        decided_until_ms=due.decided_until_ms,
        next=next_fire(timing, due.decided_until_ms, planned_count=due.planned_count),
    )


def _end_pause(timing: Timing, due: Due, held_until_ms: int) -> FirePlan:
    """Record the times that a pause held, up to its last instant, if no fire follows."""
    missed = missed_until(
        timing,
        decided_until_ms=due.decided_until_ms,
        until_ms=held_until_ms,
        reason=Reason.PAUSED,
        planned_count=due.planned_count,
    )
    return FirePlan(
        due=due,
        fires=(),
        missed=() if missed is None else (missed,),
        decided_until_ms=held_until_ms,
        next=next_fire(timing, held_until_ms, planned_count=due.planned_count),
    )


def _plan_repeated(timing: Timing, due: Due, now_ms: int) -> FirePlan:
    """Decide plan times that come a second time, as the clock was set back.

    Their fires have a key of their own. If the clock passes the repeated span in one step, it was
    corrected: these times were decided before.
    """
    until_ms, elapsed = due.decided_until_ms, timing.times.elapsed
    is_put_right = now_ms > until_ms and now_ms - due.due_ms > ON_TIME_MS
    if elapsed is None or is_put_right:
        return _pass_over(timing, due)
    repeated = replace(timing, times=RepeatedTimes(timing.times, elapsed, until_ms=until_ms))
    again = due._replace(decided_until_ms=due.plan_ms - 1, repeats_since_ms=None)
    plan = _plan_all(repeated, again, now_ms=now_ms)
    key = f"{AGAIN}{due.repeats_since_ms}"
    fires = tuple(
        fire._replace(fire_key=key) if fire.plan_ms <= until_ms else fire for fire in plan.fires
    )
    # Times up to the end of the span have their rows already.
    missed = [
        one if one.from_ms > until_ms else _after(timing, until_ms, one) for one in plan.missed
    ]
    return plan._replace(
        due=due, fires=fires, missed=tuple(one for one in missed if one is not None)
    )


class RepeatedTimes:
    """The plan times of a schedule while a clock that was set back repeats a span.

    Up to the end of the span there are only those that follow elapsed time: others are decided.
    """

    def __init__(self, every: PlanTimes, elapsed: PlanTimes, *, until_ms: int) -> None:
        self._every = every
        self._repeated = elapsed
        self._until_ms = until_ms

    @property
    def elapsed(self) -> PlanTimes | None:
        return self._repeated

    def next_repeated(self, after_ms: int, *, fired_ms: int) -> tuple[int, str] | None:
        return self._repeated.next_repeated(after_ms, fired_ms=fired_ms)

    def next_with_source(self, after_ms: int) -> tuple[int, str] | None:
        if after_ms < self._until_ms:
            found = self._repeated.next_with_source(after_ms)
            if found is not None and found[0] <= self._until_ms:
                return found
        return self._every.next_with_source(max(after_ms, self._until_ms))

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        end_ms = self._until_ms
        count = 0
        if after_ms < end_ms:
            count = self._repeated.count_ms(after_ms, min(until_ms, end_ms))
        if until_ms > end_ms:
            count += self._every.count_ms(max(after_ms, end_ms), until_ms)
        return count

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        end_ms = self._until_ms
        last_ms = None
        if until_ms > end_ms:
            last_ms = self._every.last_ms(max(after_ms, end_ms), until_ms)
        if last_ms is None and after_ms < end_ms:
            last_ms = self._repeated.last_ms(after_ms, min(until_ms, end_ms))
        return last_ms


def _after(timing: Timing, after_ms: int, missed: Missed) -> Missed | None:
    """The part of a range after an instant; None if there is none."""
    return missed_until(
        timing, decided_until_ms=after_ms, until_ms=missed.to_ms, reason=missed.reason
    )


def _latest_due_ms(timing: Timing, due: Due, now_ms: int) -> int:
    """The latest plan time whose due time has come. The first one is due, by its row."""
    certain = last_planned(timing, due.plan_ms, now_ms - timing.most_jitter_ms)
    latest_ms = due.plan_ms if certain is None else certain
    for _ in range(_MOST_JITTERED if timing.most_jitter_ms else 0):
        following = next_fire(timing, latest_ms)
        if following is None or following.due_ms > now_ms:
            break
        latest_ms = following.plan_ms
    return latest_ms


def _is_misfire(timing: Timing, due: Due, *, latest_ms: int, now_ms: int) -> bool:
    """Whether fires are a misfire: one that is late by over a minute, or several due at once.

    Several that came due together are not a misfire, because an engine that is never late meets
    them too. The cause is a jitter longer than the interval, or a person moved the first.
    """
    if now_ms - due.due_ms > ON_TIME_MS:
        return True
    return (
        latest_ms != due.plan_ms and resolve_due_ms(timing, latest_ms) > due.due_ms + _TOGETHER_MS
    )


def _catch_up(timing: Timing, due: Due, *, latest_ms: int, now_ms: int) -> tuple[Fire, ...]:
    """The fires of a misfire that run, oldest first."""
    max_late_ms = timing.max_late_ms
    if max_late_ms is None:
        following = timing.times.next_with_source(latest_ms)
        interval_ms = following[0] - latest_ms if following else 0
        max_late_ms = max(DAY_MS, interval_ms)
    start_ms = now_ms if timing.windows is None else timing.windows.next_open_ms(now_ms)
    if start_ms is None:
        return ()
    not_before_ms = start_ms - max_late_ms
    if timing.catch_up is CatchUp.ALL:
        return _fire_all(timing, due, latest_ms, cause=Cause.CATCH_UP, not_before_ms=not_before_ms)
    # An engine that is only slow does not catch up: the latest time is nearly on time.
    cause = Cause.CATCH_UP if now_ms - due.due_ms > ON_TIME_MS else Cause.SCHEDULE
    fire = _fire(timing, due, latest_ms, cause=cause)
    if timing.catch_up is CatchUp.ONCE and fire.due_ms >= not_before_ms:
        return (fire,)
    return ()


def _fire_all(
    timing: Timing, due: Due, latest_ms: int, *, cause: Cause, not_before_ms: int
) -> tuple[Fire, ...]:
    """The newest fires that were due at or after an instant, to run in sequence."""
    # The first was due first: if it is at most that late, all are.
    is_within = due.due_ms >= not_before_ms
    from_ms = due.plan_ms if is_within else max(due.plan_ms, not_before_ms - timing.jitter_ms)
    fires: list[Fire] = []
    plan_ms: int | None = _first_of_newest(timing, min(from_ms, latest_ms), latest_ms)
    while plan_ms is not None and plan_ms <= latest_ms:
        fire = _fire(timing, due, plan_ms, cause=cause)
        # If jitter delays some more than others, all that follow one at most that late run too.
        if fires or fire.due_ms >= not_before_ms:
            fires.append(fire._replace(in_sequence=True))
        following = timing.times.next_with_source(plan_ms)
        plan_ms = following[0] if following else None
    return tuple(fires[-MAX_CATCH_UP:])


def _first_of_newest(timing: Timing, from_ms: int, latest_ms: int) -> int:
    """The earliest of the newest MAX_CATCH_UP plan times in [from, latest]."""
    low, high = from_ms - 1, latest_ms
    # The count falls as its start rises, so halving finds the place. Begin near the end, as there
    # is less to count.
    back_ms = _LOOK_BACK_MS
    while latest_ms - back_ms > low:
        if count_planned(timing, latest_ms - back_ms, latest_ms) >= MAX_CATCH_UP:
            low = latest_ms - back_ms
            break
        high = latest_ms - back_ms
        back_ms *= 4
    if count_planned(timing, low, latest_ms) > MAX_CATCH_UP:
        while high - low > 1:
            middle = (low + high) // 2
            if count_planned(timing, middle, latest_ms) >= MAX_CATCH_UP:
                low = middle
            else:
                high = middle
    found = timing.times.next_with_source(low)
    # A plan time that a person moved might not be one of the trigger's own.
    return found[0] if found and found[0] <= latest_ms else latest_ms


def _missed(timing: Timing, due: Due, fires: tuple[Fire, ...], latest_ms: int) -> Iterator[Missed]:
    if due.paused_until_ms is not None:
        paused = missed_until(
            timing,
            decided_until_ms=due.decided_until_ms,
            until_ms=min(due.paused_until_ms, due.plan_ms) - 1,
            reason=Reason.PAUSED,
        )
        if paused is not None:
            yield paused
    last_missed_ms = fires[0].plan_ms - 1 if fires else latest_ms
    if fires and fires[0].plan_ms <= due.plan_ms:
        return
    first: tuple[int, str | None] | None = (due.plan_ms, due.source)
    if timing.catch_up is not CatchUp.ALL:
        # At its due time an engine would have run the latest of these, and skipped the others.
        on_time_ms = _latest_due_ms(timing, due, due.due_ms)
        if on_time_ms > due.plan_ms:
            passed_ms = min(on_time_ms - 1, last_missed_ms)
            reason = Reason.RESCHEDULED if _is_moved(timing, due) else Reason.JITTER
            yield _range(timing, (due.plan_ms, due.source), passed_ms, reason)
            first = timing.times.next_with_source(passed_ms)
    if first is not None and first[0] <= last_missed_ms:
        yield _range(timing, first, last_missed_ms, Reason.MISFIRE)


def _range(timing: Timing, first: tuple[int, str | None], until_ms: int, reason: Reason) -> Missed:
    """The plan times from one of them, with its trigger, up to an instant."""
    first_ms, source = first
    others = count_planned(timing, first_ms, until_ms)
    last_ms = last_planned(timing, first_ms, until_ms) if others else first_ms
    assert last_ms is not None
    return Missed(from_ms=first_ms, to_ms=last_ms, count=1 + others, reason=reason, source=source)


def _is_moved(timing: Timing, due: Due) -> bool:
    """Whether `reschedule` gave the first fire another time than its plan time and jitter do."""
    return not due.plan_ms <= due.due_ms <= due.plan_ms + timing.most_jitter_ms


def _fire(timing: Timing, due: Due, plan_ms: int, *, cause: Cause) -> Fire:
    """The fire of a plan time. The due time and source of the first one are recorded.

    No other fire is due before the first one.
    """
    if plan_ms == due.plan_ms:
        return Fire(plan_ms=plan_ms, due_ms=due.due_ms, cause=cause, source=due.source)
    found = timing.times.next_with_source(plan_ms - 1)
    return Fire(
        plan_ms=plan_ms,
        due_ms=max(due.due_ms, resolve_due_ms(timing, plan_ms)),
        cause=cause,
        source=found[1] if found and found[0] == plan_ms else None,
    )
