"""Decide about windows of a trigger `once in`: one fire in each, never outside."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidTrigger
from edgecron.base.units import from_ms
from edgecron.model.choices import CatchUp, Cause, Reason
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import next_fire, resolve_due_ms
from edgecron.planning.times import compile_spec, window_warning
from tests.support.specs import SEED, make_due, make_spec, make_timing, ms

HOUR_MS = 3_600_000
NIGHT = "once in 21:00-05:00 when ac-power"


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("late_h", [0, 2, 7.9])
def test_a_fire_runs_while_its_window_is_open(catch_up: CatchUp, late_h: float) -> None:
    timing = make_timing(NIGHT, catch_up=catch_up, max_late_s=60)
    due = make_due("2026-11-20T21:00:00Z")

    plan = plan_fire(timing, due, now_ms=due.plan_ms + round(late_h * HOUR_MS))

    [fire] = plan.fires
    assert (fire.plan_ms, fire.cause) == (due.plan_ms, Cause.SCHEDULE)
    assert plan.missed == ()
    assert plan.next is not None
    assert plan.next.plan_ms == ms("2026-11-21T21:00:00Z")


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_window_that_has_closed_is_missed(catch_up: CatchUp) -> None:
    timing = make_timing(NIGHT, catch_up=catch_up)
    due = make_due("2026-11-20T21:00:00Z")

    plan = plan_fire(timing, due, now_ms=ms("2026-11-21T05:00:00Z"))

    assert plan.fires == ()
    [missed] = plan.missed
    assert (missed.from_ms, missed.count, missed.reason) == (due.plan_ms, 1, Reason.MISFIRE)


def test_of_several_windows_only_the_open_one_runs() -> None:
    timing = make_timing(NIGHT)
    due = make_due("2026-11-20T21:00:00Z")

    plan = plan_fire(timing, due, now_ms=ms("2026-11-23T23:00:00Z"))

    [fire] = plan.fires
    assert fire.plan_ms == ms("2026-11-23T21:00:00Z")
    [missed] = plan.missed
    assert (missed.from_ms, missed.to_ms, missed.count) == (
        due.plan_ms, ms("2026-11-22T21:00:00Z"), 3,
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    gaps_h=st.lists(st.floats(0.01, 60), min_size=1, max_size=12),
    jitter_s=st.sampled_from([0, 0, 600, 90_000]),
    has_condition=st.booleans(),
)
def test_pass_after_pass_each_window_is_decided_once_and_none_fires_outside(
    gaps_h: list[float], jitter_s: int, has_condition: bool
) -> None:
    text = NIGHT if has_condition else NIGHT.partition(" when")[0]
    timing = make_timing(text, jitter_s=jitter_s)
    made_ms = now_ms = ms("2026-11-20T12:00:00Z")
    following = next_fire(timing, made_ms)
    decided: list[int] = []
    for gap_h in gaps_h:
        now_ms += round(gap_h * HOUR_MS)
        while following is not None and following.due_ms <= now_ms:
            due = make_due("2026-11-20T21:00:00Z")._replace(
                plan_ms=following.plan_ms,
                due_ms=following.due_ms,
                decided_until_ms=following.plan_ms - 1,
            )
            plan = plan_fire(timing, due, now_ms=now_ms)
            for fire in plan.fires:
                assert fire.plan_ms <= fire.due_ms <= now_ms < fire.plan_ms + 8 * HOUR_MS
                decided.append(fire.plan_ms)
            for one in plan.missed:
                assert one.to_ms + 8 * HOUR_MS <= now_ms or one.to_ms < plan.decided_until_ms
                decided += openings(one.from_ms - 1, one.to_ms)
            following = plan.next

    assert following is not None
    assert sorted(decided) == [at for at in openings(made_ms, now_ms) if at < following.plan_ms]


def openings(after_ms: int, until_ms: int) -> list[int]:
    first_ms = ms("2026-11-20T21:00:00Z")
    return [at for at in range(first_ms, until_ms + 1, 24 * HOUR_MS) if at > after_ms]


def test_without_conditions_the_start_is_spread_and_stays_the_same() -> None:
    night = NIGHT.partition(" when")[0]
    plan_ms = ms("2026-11-20T21:00:00Z")

    dues = {resolve_due_ms(make_timing(night, name=f"s{number}"), plan_ms) for number in range(50)}

    assert len(dues) == 50
    assert all(plan_ms <= due <= plan_ms + 4 * HOUR_MS for due in dues)
    again_ms = resolve_due_ms(make_timing(night), plan_ms)
    assert again_ms == resolve_due_ms(make_timing(night), plan_ms)
    assert resolve_due_ms(make_timing(NIGHT), plan_ms) == plan_ms


def test_jitter_stays_within_the_window() -> None:
    timing = make_timing(NIGHT, jitter_s=48 * 3600)
    plans = [ms("2026-11-20T21:00:00Z") + day * 24 * HOUR_MS for day in range(50)]

    assert all(plan <= resolve_due_ms(timing, plan) < plan + 8 * HOUR_MS for plan in plans)


def test_a_window_shorter_than_the_usual_run_is_warned_of() -> None:
    timing = make_timing("once in 21:00-22:00 when ac-power")
    after_ms = ms("2026-11-20T00:00:00Z")

    warning = window_warning(timing, usual_ms=2 * HOUR_MS, after_ms=after_ms)

    assert warning == (
        "its runs usually take 2h, but the window of 'once in 21:00-22:00 when ac-power'"
        " is open for 1h: the run continues after the window"
    )
    assert window_warning(timing, usual_ms=HOUR_MS, after_ms=after_ms) is None


@pytest.mark.parametrize(
    ("triggers", "message"),
    [
        ((NIGHT, "every 1h"), "expected no other times beside a window"),
        ((NIGHT, "0 3 * * *"), "expected no other times beside a window"),
        ((NIGHT, "once in 04:00-06:00"), "overlap"),
        (("once in 08:00-20:00", "once in 10:00-11:00 SUN"), "overlap"),
    ],
)
def test_a_schedule_has_no_other_times_beside_its_windows(
    triggers: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidTrigger, match=message):
        compile_spec(make_spec("backup", *triggers), seed=SEED, made_at=from_ms(0))


def test_windows_on_other_days_and_events_can_stand_beside_a_window() -> None:
    spec = make_spec("backup", "once in 21:00-05:00 MON-FRI", "once in 08:00-20:00 SUN", "on boot")

    assert len(compile_spec(spec, seed=SEED, made_at=from_ms(0)).timing.once_in) == 2
