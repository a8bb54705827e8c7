"""Decide about due schedules: a table of cases, each with its runs, missed times and next time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from edgecron.base.units import format_ms
from edgecron.model.choices import CatchUp, Cause, Reason
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import FirePlan
from tests.support.specs import make_due, make_timing, ms

ON, LATE = Cause.SCHEDULE, Cause.CATCH_UP
ONCE, SKIP, ALL = CatchUp.ONCE, CatchUp.SKIP, CatchUp.ALL
HOURLY, DAILY = "0 * * * *", "0 8 * * *"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A schedule due at 08:00 on 20 November 2026, looked at `now`, and what is to come of it.

    `runs` are (hour:minute, cause); `missed` is (first, last, count); times are of that day.
    """

    now: str
    trigger: str = HOURLY
    runs: tuple[tuple[str, Cause], ...] = ()
    missed: tuple[str, str, int] | None = None
    upcoming: str | None = None
    policies: dict[str, Any]


def hour(at_ms: int) -> str:
    """The time of day of an instant, as 08:00."""
    text = format_ms(at_ms)
    assert text is not None
    return text[11:16]


def on_day(time: str) -> str:
    return f"2026-11-20T{time}:00Z" if len(time) == 5 else f"2026-11-20T{time}Z"


ROWS = {
    # One fire. Up to 60 s late is on time, whatever catch_up says.
    "on time": Row(now="08:00", policies={}, runs=(("08:00", ON),), upcoming="09:00"),
    "59 s late": Row(now="08:00:59", policies={}, runs=(("08:00", ON),), upcoming="09:00"),
    "60 s late, skip": Row(
        now="08:01", policies={"catch_up": SKIP}, runs=(("08:00", ON),), upcoming="09:00"
    ),
    "61 s late, once": Row(
        now="08:01:01", policies={"catch_up": ONCE}, runs=(("08:00", LATE),), upcoming="09:00"
    ),
    "61 s late, all": Row(
        now="08:01:01", policies={"catch_up": ALL}, runs=(("08:00", LATE),), upcoming="09:00"
    ),
    "61 s late, skip": Row(
        now="08:01:01",
        policies={"catch_up": SKIP},
        missed=("08:00", "08:00", 1),
        upcoming="09:00",
    ),
    "59 s late, max-late 0": Row(
        now="08:00:59", policies={"max_late_s": 0}, runs=(("08:00", ON),), upcoming="09:00"
    ),
    "61 s late, max-late 0": Row(
        now="08:01:01",
        policies={"max_late_s": 0},
        missed=("08:00", "08:00", 1),
        upcoming="09:00",
    ),
    "as late as max-late allows": Row(
        now="08:30", policies={"max_late_s": 1800}, runs=(("08:00", LATE),), upcoming="09:00"
    ),
    "a millisecond later than max-late allows": Row(
        now="08:30:00.001",
        policies={"max_late_s": 1800},
        missed=("08:00", "08:00", 1),
        upcoming="09:00",
    ),
    "as late as max-late allows, all": Row(
        now="09:30",
        policies={"catch_up": ALL, "max_late_s": 5400},
        runs=(("08:00", LATE), ("09:00", LATE)),
        upcoming="10:00",
    ),
    "the first a millisecond later than max-late allows, all": Row(
        now="09:30:00.001",
        policies={"catch_up": ALL, "max_late_s": 5400},
        runs=(("09:00", LATE),),
        missed=("08:00", "08:00", 1),
        upcoming="10:00",
    ),
    # Two that are due a second apart came due together. Several due at once are one misfire.
    "a second apart, skip": Row(
        now="08:00:01",
        trigger="* * * * * *",
        policies={"catch_up": SKIP},
        runs=(("08:00:01", ON),),
        missed=("08:00", "08:00", 1),
        upcoming="08:00:02",
    ),
    "three due, once": Row(
        now="10:30",
        policies={"catch_up": ONCE},
        runs=(("10:00", LATE),),
        missed=("08:00", "09:00", 2),
        upcoming="11:00",
    ),
    "three due, skip": Row(
        now="10:30",
        policies={"catch_up": SKIP},
        missed=("08:00", "10:00", 3),
        upcoming="11:00",
    ),
    "three due, all": Row(
        now="10:30",
        policies={"catch_up": ALL},
        runs=(("08:00", LATE), ("09:00", LATE), ("10:00", LATE)),
        upcoming="11:00",
    ),
    # Several at once are a misfire, even where the last of them alone would have been on time.
    "three due, the last of them just now, once": Row(
        now="10:00:30",
        policies={"catch_up": ONCE},
        runs=(("10:00", LATE),),
        missed=("08:00", "09:00", 2),
        upcoming="11:00",
    ),
    "three due, the last of them just now, skip": Row(
        now="10:00:30",
        policies={"catch_up": SKIP},
        missed=("08:00", "10:00", 3),
        upcoming="11:00",
    ),
    "three due, the last of them just now, all": Row(
        now="10:00:30",
        policies={"catch_up": ALL},
        runs=(("08:00", LATE), ("09:00", LATE), ("10:00", LATE)),
        upcoming="11:00",
    ),
    "three due, max-late covers the last, all": Row(
        now="10:00:30",
        policies={"catch_up": ALL, "max_late_s": 60},
        runs=(("10:00", LATE),),
        missed=("08:00", "09:00", 2),
        upcoming="11:00",
    ),
    "three due, a max-late of seconds is meant, once": Row(
        now="10:00:30",
        policies={"catch_up": ONCE, "max_late_s": 10},
        missed=("08:00", "10:00", 3),
        upcoming="11:00",
    ),
    "three due, max-late covers the last two, all": Row(
        now="10:30",
        policies={"catch_up": ALL, "max_late_s": 5400},
        runs=(("09:00", LATE), ("10:00", LATE)),
        missed=("08:00", "08:00", 1),
        upcoming="11:00",
    ),
    "three due, max-late covers none, once": Row(
        now="10:30",
        policies={"catch_up": ONCE, "max_late_s": 600},
        missed=("08:00", "10:00", 3),
        upcoming="11:00",
    ),
    "three due, max-late covers none, all": Row(
        now="10:30",
        policies={"catch_up": ALL, "max_late_s": 600},
        missed=("08:00", "10:00", 3),
        upcoming="11:00",
    ),
    # Bounds.
    "until is the plan time itself": Row(now="08:00", policies={"end": on_day("08:00")},
        runs=(("08:00", ON),)),
    "until ends a misfire early": Row(
        now="12:30",
        policies={"end": on_day("09:59")},
        runs=(("09:00", LATE),),
        missed=("08:00", "08:00", 1),
    ),
    "until ends a misfire early, all": Row(
        now="12:30",
        policies={"end": on_day("09:59"), "catch_up": ALL},
        runs=(("08:00", LATE), ("09:00", LATE)),
    ),
    "the last of max-runs": Row(now="08:00", policies={"max_runs": 1}, runs=(("08:00", ON),)),
    "the last but one of max-runs": Row(
        now="08:00", policies={"max_runs": 2}, runs=(("08:00", ON),), upcoming="09:00"
    ),
    "max-runs cuts what all would run": Row(
        now="10:30",
        policies={"max_runs": 2, "catch_up": ALL},
        runs=(("08:00", LATE), ("09:00", LATE)),
    ),
    "what was missed does not count for max-runs": Row(
        now="10:30",
        policies={"max_runs": 2},
        runs=(("10:00", LATE),),
        missed=("08:00", "09:00", 2),
        upcoming="11:00",
    ),
    # One instant.
    "at, on time": Row(
        now="08:00", trigger="at 2026-11-20T08:00:00Z", policies={}, runs=(("08:00", ON),)
    ),
    "at, late": Row(
        now="11:00", trigger="at 2026-11-20T08:00:00Z", policies={}, runs=(("08:00", LATE),)
    ),
    "at, late, skip": Row(
        now="11:00",
        trigger="at 2026-11-20T08:00:00Z",
        policies={"catch_up": SKIP},
        missed=("08:00", "08:00", 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_a_due_schedule_becomes(row: Row) -> None:
    timing = make_timing(row.trigger, **row.policies)

    plan = plan_fire(timing, make_due(on_day("08:00")), now_ms=ms(on_day(row.now)))

    assert shown(plan) == (
        [(on_day(time), cause) for time, cause in row.runs],
        [(on_day(row.missed[0]), on_day(row.missed[1]), row.missed[2])] if row.missed else [],
        on_day(row.upcoming) if row.upcoming else None,
    )


def shown(plan: FirePlan) -> tuple[object, object, object]:
    return (
        [(format_ms(fire.plan_ms), fire.cause) for fire in plan.fires],
        [(format_ms(span.from_ms), format_ms(span.to_ms), span.count) for span in plan.missed],
        None if plan.next is None else format_ms(plan.next.plan_ms),
    )


def test_a_time_at_which_a_pause_ends_runs_and_is_not_paused() -> None:
    due = make_due(on_day("08:00"), decided=on_day("05:30"), paused_until=on_day("08:00"))

    plan = plan_fire(make_timing(HOURLY), due, now_ms=ms(on_day("08:00")))

    assert shown(plan) == (
        [(on_day("08:00"), ON)],
        [(on_day("06:00"), on_day("07:00"), 2)],
        on_day("09:00"),
    )


@pytest.mark.parametrize("catch_up", CatchUp)
def test_default_max_late_is_a_day_for_what_comes_often(catch_up: CatchUp) -> None:
    timing = make_timing("at 2026-11-20T08:00:00Z", catch_up=catch_up)
    within_ms = ms("2026-11-21T08:00:00Z")

    within = plan_fire(timing, make_due("2026-11-20T08:00:00Z"), now_ms=within_ms)
    beyond = plan_fire(timing, make_due("2026-11-20T08:00:00Z"), now_ms=within_ms + 1)

    assert len(within.fires) == (0 if catch_up is SKIP else 1)
    assert beyond.fires == ()
    assert beyond.missed[0].count == 1


def test_default_max_late_is_one_interval_for_what_comes_rarely() -> None:
    timing = make_timing("0 8 1 * *")

    plan = plan_fire(timing, make_due("2026-11-01T08:00:00Z"), now_ms=ms("2026-11-30T08:00:00Z"))

    assert [fire.cause for fire in plan.fires] == [LATE]


def test_all_runs_the_newest_hundred_and_counts_the_rest() -> None:
    timing = make_timing("* * * * *", catch_up=ALL)

    plan = plan_fire(timing, make_due("2026-11-20T00:00:00Z"), now_ms=ms("2026-11-20T10:00:00Z"))

    assert len(plan.fires) == 100
    assert format_ms(plan.fires[0].plan_ms) == "2026-11-20T08:21:00Z"
    assert format_ms(plan.fires[-1].plan_ms) == "2026-11-20T10:00:00Z"
    assert shown(plan)[1] == [("2026-11-20T00:00:00Z", "2026-11-20T08:20:00Z", 501)]


def test_what_all_runs_is_to_run_in_sequence() -> None:
    timing = make_timing(HOURLY, catch_up=ALL)

    late = plan_fire(timing, make_due(on_day("08:00")), now_ms=ms(on_day("10:30")))
    on_time = plan_fire(timing, make_due(on_day("08:00")), now_ms=ms(on_day("08:00")))

    assert all(fire.in_sequence for fire in late.fires)
    assert not any(fire.in_sequence for fire in on_time.fires)


def test_a_range_of_a_pause_comes_before_a_range_of_a_misfire() -> None:
    timing = make_timing(HOURLY, catch_up=SKIP)
    due = make_due(on_day("08:00"), decided=on_day("04:30"), paused_until=on_day("07:30"))

    plan = plan_fire(timing, due, now_ms=ms(on_day("09:30")))

    assert [(span.reason, span.count) for span in plan.missed] == [
        (Reason.PAUSED, 3),
        (Reason.MISFIRE, 2),
    ]
    assert shown(plan)[1] == [
        (on_day("05:00"), on_day("07:00"), 3),
        (on_day("08:00"), on_day("09:00"), 2),
    ]


def test_a_pause_that_held_no_time_back_leaves_no_range() -> None:
    timing = make_timing(HOURLY)
    due = make_due(on_day("08:00"), decided=on_day("07:00"), paused_until=on_day("07:30"))

    plan = plan_fire(timing, due, now_ms=ms(on_day("08:00")))

    assert plan.missed == ()
    assert len(plan.fires) == 1


def test_the_earliest_of_several_triggers_comes_next_and_is_named() -> None:
    timing = make_timing("0 8 * * *", "30 8 * * *", "at 2026-11-20T08:15:00Z")

    plan = plan_fire(timing, make_due(on_day("08:00")), now_ms=ms(on_day("08:00")))

    assert plan.next is not None
    assert plan.next.plan_ms == ms(on_day("08:15"))
    assert plan.next.source == "at 2026-11-20T08:15:00Z"


def test_the_same_instant_from_two_triggers_is_one_fire() -> None:
    timing = make_timing("0 * * * *", "0 8-10 * * *", catch_up=ALL)

    plan = plan_fire(timing, make_due(on_day("08:00")), now_ms=ms(on_day("10:30")))

    assert [fire.plan_ms for fire in plan.fires] == [
        ms(on_day(time)) for time in ("08:00", "09:00", "10:00")
    ]


def test_a_fire_that_was_moved_later_runs_then_with_its_plan_time() -> None:
    timing = make_timing(DAILY)

    plan = plan_fire(
        timing, make_due(on_day("08:00"), run=on_day("11:00")), now_ms=ms(on_day("11:00"))
    )

    assert [(fire.plan_ms, fire.due_ms, fire.cause) for fire in plan.fires] == [
        (ms(on_day("08:00")), ms(on_day("11:00")), ON)
    ]
    assert plan.next is not None
    assert format_ms(plan.next.plan_ms) == "2026-11-21T08:00:00Z"


def test_a_fire_that_was_moved_earlier_runs_then_and_its_plan_time_is_decided() -> None:
    timing = make_timing(DAILY)

    plan = plan_fire(
        timing, make_due(on_day("08:00"), run=on_day("05:00")), now_ms=ms(on_day("05:00"))
    )

    assert [(fire.plan_ms, fire.cause) for fire in plan.fires] == [(ms(on_day("08:00")), ON)]
    assert plan.decided_until_ms == ms(on_day("08:00"))
    assert plan.next is not None
    assert format_ms(plan.next.plan_ms) == "2026-11-21T08:00:00Z"


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_fire_that_was_moved_past_its_successors_is_no_misfire(catch_up: CatchUp) -> None:
    timing = make_timing(HOURLY, catch_up=catch_up)
    due = make_due(on_day("08:00"), run=on_day("10:30"))

    plan = plan_fire(timing, due, now_ms=ms(on_day("10:30")))

    assert plan.fires[-1].plan_ms == ms(on_day("10:00"))


@pytest.mark.failure(4)
def test_what_is_decided_already_does_not_fire_again_after_the_clock_went_back() -> None:
    timing = make_timing(HOURLY)
    due = make_due(on_day("08:00"), decided=on_day("10:00"))

    plan = plan_fire(timing, due, now_ms=ms(on_day("08:00")))

    assert plan.fires == ()
    assert plan.missed == ()
    assert plan.next is not None
    assert plan.next.plan_ms == ms(on_day("11:00"))
    assert plan.decided_until_ms == ms(on_day("10:00"))


def test_all_keeps_what_passed_while_a_fire_that_was_moved_was_waited_for() -> None:
    """What came due together with the moved one is late since then, and not since its plan."""
    timing = make_timing(HOURLY, catch_up=ALL, max_late_s=120)
    due = make_due("2026-11-20T08:00:00Z", run="2026-11-20T10:30:00Z")

    plan = plan_fire(timing, due, now_ms=ms("2026-11-20T10:31:30Z"))

    assert [format_ms(fire.plan_ms) for fire in plan.fires] == [
        "2026-11-20T08:00:00Z",
        "2026-11-20T09:00:00Z",
        "2026-11-20T10:00:00Z",
    ]
    assert plan.missed == ()


@pytest.mark.parametrize("catch_up", [ONCE, SKIP])
def test_times_that_a_moved_fire_passed_are_rescheduled_and_later_ones_missed(
    catch_up: CatchUp,
) -> None:
    timing = make_timing(HOURLY, catch_up=catch_up)
    due = make_due(on_day("08:00"), run=on_day("11:30"))

    on_time = plan_fire(timing, due, now_ms=ms(on_day("11:30")))
    late = plan_fire(timing, due, now_ms=ms(on_day("14:30")))

    def spans(plan: FirePlan) -> list[tuple[str, str, int, Reason]]:
        return [(hour(one.from_ms), hour(one.to_ms), one.count, one.reason) for one in plan.missed]

    assert spans(on_time) == [("08:00", "10:00", 3, Reason.RESCHEDULED)]
    last = ("13:00", 3) if catch_up is ONCE else ("14:00", 4)
    assert spans(late) == [
        ("08:00", "10:00", 3, Reason.RESCHEDULED),
        ("11:00", *last, Reason.MISFIRE),
    ]


def test_times_that_a_clock_repeats_fire_with_a_key_of_their_own_until_they_are_fresh() -> None:
    timing = make_timing("*/30 * * * *")
    due = make_due(on_day("08:00"), decided=on_day("09:00"))._replace(repeats_since_ms=7)
    plans = []

    for _ in range(4):
        plan = plan_fire(timing, due, now_ms=due.due_ms)
        assert plan.next is not None
        plans += [(hour(one.plan_ms), one.fire_key) for one in plan.fires]
        due = due._replace(
            plan_ms=plan.next.plan_ms,
            due_ms=plan.next.due_ms,
            decided_until_ms=max(due.decided_until_ms, plan.decided_until_ms),
        )

    again = "again:7"
    assert plans == [("08:00", again), ("08:30", again), ("09:00", again), ("09:30", "")]
