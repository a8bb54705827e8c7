"""Fires to come, and ranges that will not: bounds, counts, and a cost that does not grow."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import cast

import pytest

from edgecron.base.units import format_ms
from edgecron.model.choices import CatchUp, Reason
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import PlanTimes, Timing, missed_until, next_fire, next_fires
from tests.support.specs import make_due, make_timing, ms

HOURLY = "0 * * * *"


def test_fires_to_come_are_later_than_the_instant_and_in_order() -> None:
    timing = make_timing(HOURLY)

    times = [
        format_ms(fire.plan_ms)
        for fire in islice(next_fires(timing, ms("2026-11-20T08:00:00Z")), 3)
    ]

    assert times == ["2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"]


def test_from_counts_itself_in_and_so_does_until() -> None:
    timing = make_timing(HOURLY, start="2026-11-20T10:00:00Z", end="2026-11-20T11:00:00Z")

    times = [format_ms(fire.plan_ms) for fire in next_fires(timing, ms("2026-11-20T08:00:00Z"))]

    assert times == ["2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"]


def test_max_runs_counts_what_was_planned_before() -> None:
    timing = make_timing(HOURLY, max_runs=3)

    rest = list(next_fires(timing, ms("2026-11-20T08:00:00Z"), planned_count=1))

    assert len(rest) == 2
    assert next_fire(timing, ms("2026-11-20T08:00:00Z"), planned_count=3) is None


def test_an_event_has_no_time_to_come() -> None:
    assert next_fire(make_timing("on boot"), ms("2026-11-20T08:00:00Z")) is None


def test_a_missed_range_has_its_first_and_last_time_and_their_number() -> None:
    timing = make_timing(HOURLY)

    span = missed_until(
        timing,
        decided_until_ms=ms("2026-11-20T08:00:00Z"),
        until_ms=ms("2026-11-20T11:30:00Z"),
        reason=Reason.PAUSED,
    )

    assert span is not None
    assert (format_ms(span.from_ms), format_ms(span.to_ms), span.count, span.reason) == (
        "2026-11-20T09:00:00Z",
        "2026-11-20T11:00:00Z",
        3,
        Reason.PAUSED,
    )


def test_a_missed_range_without_a_time_is_none() -> None:
    timing = make_timing(HOURLY)

    span = missed_until(
        timing,
        decided_until_ms=ms("2026-11-20T08:00:00Z"),
        until_ms=ms("2026-11-20T08:59:59Z"),
        reason=Reason.PAUSED,
    )

    assert span is None


def test_a_missed_range_keeps_to_the_bounds() -> None:
    timing = make_timing(HOURLY, start="2026-11-20T09:30:00Z", end="2026-11-20T10:30:00Z")

    span = missed_until(
        timing,
        decided_until_ms=ms("2026-11-20T01:00:00Z"),
        until_ms=ms("2026-11-21T01:00:00Z"),
        reason=Reason.EDITED,
    )

    assert span is not None
    assert (format_ms(span.from_ms), span.count) == ("2026-11-20T10:00:00Z", 1)


def test_a_schedule_that_has_had_its_runs_misses_nothing() -> None:
    timing = make_timing(HOURLY, max_runs=2)

    span = missed_until(
        timing,
        decided_until_ms=ms("2026-11-20T08:00:00Z"),
        until_ms=ms("2026-12-20T08:00:00Z"),
        reason=Reason.EDITED,
        planned_count=2,
    )

    assert span is None


class Counted:
    """Plan times that count how often they are asked."""

    def __init__(self, timing: Timing) -> None:
        self._times = timing.times
        self.calls = 0

    def next_with_source(self, after_ms: int) -> tuple[int, str] | None:
        self.calls += 1
        return self._times.next_with_source(after_ms)

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        self.calls += 1
        return self._times.count_ms(after_ms, until_ms)

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        self.calls += 1
        return self._times.last_ms(after_ms, until_ms)


@pytest.mark.failure(3)
@pytest.mark.parametrize("catch_up", CatchUp)
def test_fifty_missed_years_of_seconds_cost_what_a_missed_day_costs(catch_up: CatchUp) -> None:
    def calls_until(now: str) -> tuple[int, int]:
        timing = make_timing("* * * * * *", catch_up=catch_up)
        counted = Counted(timing)
        plan = plan_fire(
            replace(timing, times=cast("PlanTimes", counted)),
            make_due("1976-11-20T08:00:00Z"),
            now_ms=ms(now),
        )
        return counted.calls, sum(span.count for span in plan.missed) + len(plan.fires)

    day_calls, day_count = calls_until("1976-11-21T08:00:00Z")
    years_calls, years_count = calls_until("2026-11-20T08:00:00Z")

    assert day_count == 86_401
    assert years_count == (ms("2026-11-20T08:00:00Z") - ms("1976-11-20T08:00:00Z")) // 1000 + 1
    assert years_calls <= day_calls + 20
    assert years_calls <= 400
