"""The next hours as a bar."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.planning.forecast import UpcomingFire
from edgecron.tui.timeline import Timeline, timeline

NOW = datetime(2026, 11, 20, 8, 12, 34, tzinfo=UTC)
BERLIN = "Europe/Berlin"
HOUR = timedelta(hours=1)


def fire(due_at: datetime, schedule: str = "job") -> UpcomingFire:
    return UpcomingFire(schedule=schedule, plan_at=due_at, due_at=due_at, source=None)


def in_hours(*hours: float) -> list[UpcomingFire]:
    return [fire(NOW + hour * HOUR, f"job-{n}") for n, hour in enumerate(hours)]


def line(
    fires: list[UpcomingFire],
    *,
    width: int = 48,
    now: datetime = NOW,
    zone: str = BERLIN,
) -> Timeline:
    return timeline(fires, width, now=now, zone=zone)


@pytest.mark.parametrize(
    ("ahead", "span_s"),
    [
        (timedelta(minutes=40), 60),
        (timedelta(hours=3), 300),
        (timedelta(hours=11), 900),
        (timedelta(days=1), 3600),
        (timedelta(days=11), 6 * 3600),
        (timedelta(days=40), 86_400),
        (timedelta(days=300), 7 * 86_400),
        (timedelta(days=40_000), 52 * 7 * 86_400),
    ],
)
def test_a_cell_is_as_long_as_the_fires_need(ahead: timedelta, span_s: int) -> None:
    assert line([fire(NOW), fire(NOW + ahead)]).span_s == span_s


def test_a_far_one_of_many_leaves_the_others_apart() -> None:
    found = line(in_hours(*range(1, 20), 9000))

    assert found.span_s == 1800
    assert sum(found.counts) == 19


def test_cells_begin_at_round_local_times() -> None:
    found = line(in_hours(0.1, 0.2, 10), zone="Asia/Kathmandu")  # It is 13:57:34 there.

    assert found.span_s == 900
    assert found.edges[0] == datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
    assert len(found.edges) == 49
    assert found.counts[:2] == (0, 2)


def test_what_is_due_already_counts_in_the_first_cell() -> None:
    found = line(in_hours(-5, 0, 10))

    assert found.counts[0] == 2
    assert max(found.counts) == 2


def test_labels_stand_at_local_hours_and_at_midnight_tell_the_day() -> None:
    found = line(in_hours(22), width=48)

    assert found.span_s == 1800
    assert [(tick.cell, tick.label) for tick in found.ticks] == [
        (6, "12:00"), (18, "18:00"), (30, "Sat 21"), (42, "06:00"),
    ]  # fmt: skip


def test_labels_of_days_and_weeks_have_dates() -> None:
    days, weeks = line(in_hours(24 * 40)), line(in_hours(24 * 300))

    assert [tick.label for tick in days.ticks][:2] == ["Nov 23", "Dec 07"]
    assert [tick.label for tick in weeks.ticks][:2] == ["Jan 2027", "Apr 2027"]


def test_a_narrow_bar_has_no_label_that_is_cut() -> None:
    for width in range(1, 60):
        found = line(in_hours(3), width=width)
        ends = [(tick.cell, tick.cell + len(tick.label)) for tick in found.ticks]
        assert all(end <= width for _, end in ends)
        assert all(end < begin for (_, end), (begin, _) in pairwise(ends))


def test_without_fires_there_is_an_empty_bar() -> None:
    found = line([])

    assert found.counts == (0,) * 48
    assert max(found.counts) == 0
    assert found.pile_ups == ()


def test_five_schedules_in_the_same_minute_are_a_pile_up() -> None:
    at = (NOW + HOUR).replace(second=5)
    fires = [fire(at + timedelta(seconds=10 * n), f"job-{n}") for n in range(5)]

    [pile] = line([*fires, fire(at + timedelta(minutes=30))]).pile_ups

    assert pile.at == at
    assert pile.starts == 5
    assert pile.schedules == ("job-0", "job-1", "job-2", "job-3", "job-4")
    assert line(fires[:4]).pile_ups == ()


def test_starts_of_one_schedule_and_of_different_minutes_are_none() -> None:
    often = [fire(NOW + timedelta(seconds=5 * n)) for n in range(50)]
    apart = [fire(NOW + timedelta(seconds=15 * n), f"job-{n}") for n in range(50)]

    assert line(often).pile_ups == ()
    assert line(apart).pile_ups == ()


def test_each_minute_has_a_pile_of_its_own() -> None:
    fires = [fire(NOW + timedelta(minutes=m), f"job-{n}") for m in range(3) for n in range(6)]

    assert [(pile.at, pile.starts) for pile in line(fires).pile_ups] == [
        (NOW + timedelta(minutes=m), 6) for m in range(3)
    ]


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (datetime(2026, 10, 24, 20, 0, tzinfo=UTC), "clocks go back from 03:00 to 02:00"),
        (datetime(2026, 3, 28, 20, 0, tzinfo=UTC), "clocks go forward from 02:00 to 03:00"),
    ],
)
def test_a_clock_change_is_marked_and_labels_follow_the_clock(now: datetime, text: str) -> None:
    found = line([fire(now + 20 * HOUR)], now=now)

    [change] = found.changes
    assert change.text == text
    assert change.cell == bisect_right(found.edges, change.at) - 1
    assert change.at == datetime(now.year, now.month, now.day + 1, 1, tzinfo=UTC)
    [six] = [tick for tick in found.ticks if tick.label == "06:00"]
    offset = 1 if "back" in text else 2
    assert found.edges[six.cell] == datetime(
        now.year, now.month, now.day + 1, 6 - offset, tzinfo=UTC
    )


def test_days_begin_at_midnight_on_both_sides_of_a_clock_change() -> None:
    now = datetime(2026, 10, 20, 20, 0, tzinfo=UTC)

    found = line([fire(now + timedelta(days=40))], now=now)

    assert found.span_s == 86_400
    assert {edge.hour for edge in found.edges} == {22, 23}
    assert len(found.changes) == 1


@given(
    st.lists(st.integers(-100, 10**7), max_size=40),
    st.integers(1, 120),
    st.sampled_from([BERLIN, "UTC", "Australia/Lord_Howe", "Pacific/Apia"]),
)
def test_no_fire_is_lost_and_the_edges_are_in_order(
    seconds: list[int], width: int, zone: str
) -> None:
    fires = [fire(NOW + timedelta(seconds=s), f"job-{s % 9}") for s in sorted(seconds)]

    found = line(fires, width=width, zone=zone)

    later = len(fires) - sum(found.counts)
    assert 0 <= later <= len(fires) // 10 or width == 1
    assert list(found.edges) == sorted(set(found.edges))
    assert found.edges[0] <= NOW < found.edges[1]
