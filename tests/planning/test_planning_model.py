"""Planning against a plain model: a list of times, and a loop over it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgecron.base.units import format_ms
from edgecron.model.choices import CatchUp, Cause
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import Due, resolve_due_ms
from tests.support.specs import make_due, make_timing, ms

START_MS = ms("2026-11-20T00:00:00Z")
MINUTE_MS = 60_000

outages = st.integers(0, 3 * 24 * 60 * MINUTE_MS)
graces = st.none() | st.integers(0, 2 * 24 * 3600)
intervals = st.sampled_from([1, 5, 7, 15, 60, 720, 1440])


@settings(max_examples=300, deadline=None)
# A minute late at a grace of nothing, and at a single run: rarely drawn, and once judged wrongly.
@example(1, MINUTE_MS, CatchUp.ALL, 0, 0, None, None)
@example(1, MINUTE_MS, CatchUp.ONCE, None, 0, 1, None)
@example(1, 90_000, CatchUp.ALL, 5, 0, None, None)
@given(
    interval=intervals,
    outage_ms=outages,
    catch_up=st.sampled_from(CatchUp),
    max_late_s=graces,
    jitter_s=st.sampled_from([0, 0, 10, 90, 3000]),
    max_runs=st.none() | st.integers(1, 120),
    until_min=st.none() | st.integers(0, 4000),
)
def test_each_due_time_is_decided_once(
    interval: int,
    outage_ms: int,
    catch_up: CatchUp,
    max_late_s: int | None,
    jitter_s: int,
    max_runs: int | None,
    until_min: int | None,
) -> None:
    end = None if until_min is None else format_ms(START_MS + until_min * MINUTE_MS)
    timing = make_timing(
        f"every {interval}m from 2026-11-20T00:00:00Z",
        catch_up=catch_up,
        max_late_s=max_late_s,
        jitter_s=jitter_s,
        max_runs=max_runs,
        end=end,
    )
    first_due = resolve_due_ms(timing, START_MS)
    now_ms = first_due + outage_ms
    due = Due(
        schedule_id=1,
        revision=1,
        plan_ms=START_MS,
        due_ms=first_due,
        decided_until_ms=START_MS - 1,
        paused_until_ms=None,
        planned_count=0,
        source=None,
    )

    plan = plan_fire(timing, due, now_ms=now_ms)

    step_ms = interval * MINUTE_MS
    last_ms = now_ms if until_min is None else START_MS + until_min * MINUTE_MS
    grid = list(range(START_MS, max(START_MS, min(now_ms, last_ms)) + 1, step_ms))
    decided = [time for time in grid if time <= plan.decided_until_ms]
    runs = [fire.plan_ms for fire in plan.fires]
    missed = [time for span in plan.missed for time in grid if span.from_ms <= time <= span.to_ms]
    # Each time at most once, and each of those decided, but for those that max-runs cuts off.
    assert len(set(runs)) == len(runs)
    assert not set(runs) & set(missed)
    assert sum(span.count for span in plan.missed) == len(missed) == len(set(missed))
    if max_runs is None or len(runs) < max_runs:
        assert sorted(runs + missed) == decided
    else:
        assert sorted(runs + missed) == decided[: len(runs) + len(missed)]
    assert runs == sorted(runs)
    # None early, none forgotten.
    for fire in plan.fires:
        assert fire.due_ms <= now_ms
        assert resolve_due_ms(timing, fire.plan_ms) <= now_ms
    if not jitter_s and max_runs is None:
        assert decided == grid
    if not jitter_s:
        assert plan.next is None or plan.next.plan_ms > now_ms
    assert plan.next is None or plan.next.due_ms > now_ms
    # Which of them run.
    assert len(runs) <= (100 if catch_up is CatchUp.ALL else 1)
    if catch_up is CatchUp.ONCE and runs:
        assert runs == [decided[-1]]
    if len(grid) == 1 and outage_ms <= 60_000:
        assert [fire.cause for fire in plan.fires] == [Cause.SCHEDULE]
    if not jitter_s and catch_up is CatchUp.ALL and max_runs is None and len(grid) > 1:
        max_late_ms = (
            max(24 * 3600, interval * 60) * 1000 if max_late_s is None else max_late_s * 1000
        )
        wanted = [time for time in grid if now_ms - time <= max_late_ms]
        assert runs == wanted[-100:]


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.integers(1, 6 * 60 * MINUTE_MS), min_size=1, max_size=12),
    catch_up=st.sampled_from(CatchUp),
    jitter_s=st.sampled_from([0, 45, 1200]),
)
def test_pass_after_pass_nothing_is_decided_twice_or_left_out(
    steps: list[int], catch_up: CatchUp, jitter_s: int
) -> None:
    timing = make_timing("every 7m", "every 10m", catch_up=catch_up, jitter_s=jitter_s)
    grid_start = ms("1970-01-01T00:00:00Z")
    due = make_due("2026-11-20T00:00:00Z", decided="2026-11-19T23:59:59Z")
    first = timing.times.next_with_source(due.decided_until_ms)
    assert first is not None
    state = Due(
        schedule_id=1,
        revision=1,
        plan_ms=first[0],
        due_ms=resolve_due_ms(timing, first[0]),
        decided_until_ms=due.decided_until_ms,
        paused_until_ms=None,
        planned_count=0,
        source=first[1],
    )
    now_ms = due.decided_until_ms
    seen: list[int] = []

    for step in steps:
        now_ms += step
        if state.due_ms > now_ms:
            continue
        plan = plan_fire(timing, state, now_ms=now_ms)
        seen += [fire.plan_ms for fire in plan.fires]
        for span in plan.missed:
            times = [
                time
                for time in range(span.from_ms, span.to_ms + 1, MINUTE_MS)
                if (time - grid_start) % (7 * MINUTE_MS) == 0
                or (time - grid_start) % (10 * MINUTE_MS) == 0
            ]
            assert len(times) == span.count
            seen += times
        assert plan.next is not None
        state = Due(
            schedule_id=1,
            revision=1,
            plan_ms=plan.next.plan_ms,
            due_ms=plan.next.due_ms,
            decided_until_ms=plan.decided_until_ms,
            paused_until_ms=None,
            planned_count=state.planned_count + len(plan.fires),
            source=plan.next.source,
        )

    expected = [
        time
        for time in range(ms("2026-11-20T00:00:00Z"), state.decided_until_ms + 1, MINUTE_MS)
        if (time - grid_start) % (7 * MINUTE_MS) == 0 or (time - grid_start) % (10 * MINUTE_MS) == 0
    ]
    assert sorted(seen) == expected
