"""How the hours of a week are shaded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.tui.week_view import SHADES, shade, week_lines
from edgecron.views.busy import WeekHeat


def test_an_hour_without_any_has_no_shade() -> None:
    assert shade(0, 1, 100) == 0
    assert shade(0, 0, 0) == 0


def test_the_busiest_hour_has_the_darkest_shade_and_the_quietest_the_lightest() -> None:
    assert shade(100, 90, 100) == SHADES
    assert shade(90, 90, 100) == 1
    assert shade(1_000_000, 1, 1_000_000) == SHADES
    assert shade(1, 1, 1_000_000) == 1


def test_a_week_whose_hours_are_all_alike_is_neither_quiet_nor_busy() -> None:
    assert shade(60, 60, 60) == 2


def test_hours_of_different_magnitude_have_different_shades() -> None:
    assert [shade(count, 1, 1000) for count in (1, 10, 100, 1000)] == [1, 2, 3, 4]


def test_a_little_more_than_ever_is_to_be_seen() -> None:
    assert [shade(count, 82, 86) for count in (82, 83, 84, 85, 86)] == [1, 2, 3, 4, 4]


def test_the_hour_that_has_begun_may_have_less_than_the_least() -> None:
    assert shade(34, 82, 84) == 1


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_more_never_has_a_lighter_shade(one: int, other: int) -> None:
    least, most = sorted((one, other))

    shades = [shade(count, least, most) for count in range(most + 1)]

    assert shades == sorted(shades)
    assert set(shades) <= set(range(SHADES + 1))


@pytest.mark.parametrize("width", [30, 57, 78, 119, 198])
def test_the_hours_fill_the_width_whatever_it_is(width: int) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    heat = WeekHeat(first_day=now.date(), counts=((1,) * 24,) * 7, schedules=1)

    (hours, *days), _ = week_lines(heat, now=now, zone=UTC, width=width)

    assert {sum(len(text) for text, _ in day) for day in days} == {width - 1}
    assert next(text for text, _ in hours).split()[:3] == ["0", "6", "12"]


@pytest.mark.parametrize(("width", "last"), [(58, "12"), (73, "18"), (78, "18")])
def test_the_legend_has_room_beside_the_hours(width: int, last: str) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    counts = ((22, 24) * 12,) * 7
    heat = WeekHeat(first_day=now.date(), counts=counts, schedules=1)

    lines, ((legend, _),) = week_lines(heat, now=now, zone=UTC, width=width)

    hours = "".join(text for text, _ in lines[0])
    assert hours.split()[-1] == last
    assert legend == "░ 22 █ 24 /h "
    assert len(hours) + 1 + len(legend) <= width
