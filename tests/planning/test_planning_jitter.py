"""Jitter: stable, bounded, and no misfire of its own making."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from edgecron.model.choices import CatchUp, Reason
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import next_fire, next_fires, resolve_due_ms
from edgecron.planning.times import jitter_warning
from tests.support.specs import SEED, make_due, make_timing, ms

START = "2026-11-20T08:00:00Z"
HOURLY = "0 * * * *"


def test_a_due_time_is_the_same_each_time_it_is_asked() -> None:
    timing = make_timing(HOURLY, jitter_s=600)

    assert resolve_due_ms(timing, ms(START)) == resolve_due_ms(timing, ms(START))


def test_due_times_lie_within_the_jitter_and_use_all_of_it() -> None:
    timing = make_timing(HOURLY, jitter_s=600)

    delays = [fire.due_ms - fire.plan_ms for fire in islice(next_fires(timing, ms(START)), 500)]

    assert all(0 <= delay <= 600_000 for delay in delays)
    assert min(delays) < 30_000
    assert max(delays) > 570_000


def test_without_jitter_a_fire_is_due_at_its_plan_time() -> None:
    timing = make_timing(HOURLY)

    assert resolve_due_ms(timing, ms(START)) == ms(START)


def test_another_seed_another_name_and_another_time_give_other_delays() -> None:
    timing = make_timing(HOURLY, jitter_s=600)
    others = [
        replace(timing, seed=SEED[::-1]),
        replace(timing, name="other"),
    ]

    delays = {resolve_due_ms(one, ms(START)) for one in (timing, *others)}
    delays.add(resolve_due_ms(timing, ms(START) + 1) - 1)

    assert len(delays) == 4


def test_what_next_shows_is_what_the_plan_gives() -> None:
    timing = make_timing(HOURLY, jitter_s=600)
    shown = next_fire(timing, ms(START) - 1)
    assert shown is not None

    plan = plan_fire(timing, make_due(START), now_ms=shown.due_ms)

    assert plan.fires[0].plan_ms == shown.plan_ms
    assert plan.next == next_fire(timing, shown.plan_ms)


def test_a_plan_time_whose_delay_is_not_over_does_not_run_early() -> None:
    timing = make_timing("* * * * *", jitter_s=50)
    first = next_fire(timing, ms(START) - 1)
    second = next_fire(timing, ms(START))
    assert first is not None
    assert second is not None

    plan = plan_fire(
        timing, make_due(START)._replace(due_ms=first.due_ms), now_ms=second.due_ms - 1
    )

    assert [fire.plan_ms for fire in plan.fires] == [first.plan_ms]
    assert plan.next == second


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_jitter_longer_than_the_interval_makes_no_misfire_by_itself(catch_up: CatchUp) -> None:
    timing = make_timing("* * * * *", jitter_s=600, catch_up=catch_up)
    decided = ms(START)
    fire = next_fire(timing, decided)
    ran = 0

    for _ in range(50):
        assert fire is not None
        due = make_due(START)._replace(
            plan_ms=fire.plan_ms, due_ms=fire.due_ms, decided_until_ms=decided
        )
        plan = plan_fire(timing, due, now_ms=fire.due_ms)
        assert plan.fires, "an engine that was never late ran nothing"
        ran += len(plan.fires)
        decided, fire = plan.decided_until_ms, plan.next

    assert ran >= 50


def test_grace_counts_from_the_due_time_and_leaves_no_hole() -> None:
    timing = make_timing("* * * * *", jitter_s=1200, max_late_s=600, catch_up=CatchUp.ALL)
    now_ms = ms("2026-11-20T09:00:00Z")

    plan = plan_fire(timing, make_due(START), now_ms=now_ms)

    decided = {fire.plan_ms for fire in plan.fires}
    for span in plan.missed:
        decided.update(range(span.from_ms, span.to_ms + 1, 60_000))
    assert decided == set(range(ms(START), plan.decided_until_ms + 1, 60_000))
    assert len(decided) == len(plan.fires) + sum(span.count for span in plan.missed)


def test_every_time_that_jitter_passes_is_recorded_as_skipped_for_it() -> None:
    timing = make_timing("* * * * *", jitter_s=600)
    decided = first = ms(START)
    fire = next_fire(timing, decided)
    ran: set[int] = set()
    skipped = 0

    for _ in range(50):
        assert fire is not None
        due = make_due(START)._replace(
            plan_ms=fire.plan_ms, due_ms=fire.due_ms, decided_until_ms=decided
        )
        plan = plan_fire(timing, due, now_ms=fire.due_ms + 500)
        ran.update(one.plan_ms for one in plan.fires)
        assert {one.reason for one in plan.missed} <= {Reason.JITTER}
        skipped += sum(one.count for one in plan.missed)
        decided, fire = plan.decided_until_ms, plan.next

    assert skipped > 0
    assert len(ran) + skipped == (decided - first) // 60_000


@pytest.mark.parametrize(
    ("trigger", "jitter_s", "is_warned"),
    [
        ("every 5m", 301, True),
        ("every 5m", 300, False),
        ("0 9,10 * * *", 7200, True),
        ("0 9 * * *", 7200, False),
        ("at 2027-01-01T00:00:00Z", 7200, False),
    ],
)
def test_a_jitter_that_is_longer_than_an_interval_warns(
    trigger: str, jitter_s: int, is_warned: bool
) -> None:
    timing = make_timing(trigger, jitter_s=jitter_s)

    warning = jitter_warning(timing, after_ms=ms(START))

    assert (warning is not None) == is_warned
    if warning is not None:
        assert "is longer than the interval" in warning
