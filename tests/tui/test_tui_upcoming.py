"""Upcoming runs: the bar of the next 24 hours, repeats in one line, and the hours of a week."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.planning.forecast import UpcomingFire
from edgecron.tui.upcoming import SHADES, WeekView, bar_lines, fold_repeats, shade, week_lines
from edgecron.views.busy import WeekHeat
from tests.support.scene import Scene
from tests.tui.pilot import Seen, look_at

NOW = datetime(2026, 11, 20, 8, 12, 34, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def fire(due_at: datetime, schedule: str = "job") -> UpcomingFire:
    return UpcomingFire(schedule=schedule, plan_at=due_at, due_at=due_at, source="every 1m")


def bar(*hours: float, known_until: datetime | None = None) -> list[str]:
    fires = [fire(NOW + hour * HOUR, f"job-{n}") for n, hour in enumerate(hours)]
    lines = bar_lines(fires, 48, now=NOW, zone=ZONE, known_until=known_until)
    return ["".join(text for text, _ in line) for line in lines]


def test_the_bar_shows_24_hours_however_far_the_fires_are() -> None:
    near, far = bar(1, 25, 49), bar(1, 20_000)

    assert near == far
    assert near[0].count("·") == 47


def test_overdue_fires_count_in_the_first_cell() -> None:
    assert bar(-5)[0][1] != "·"


def test_without_fires_the_bar_is_empty() -> None:
    assert bar()[0] == " " + "·" * 48


def test_an_ellipsis_stands_for_times_that_were_not_read() -> None:
    assert bar(1, known_until=NOW + 2 * HOUR)[0].rstrip().endswith("·…")
    assert bar(1, known_until=NOW + 2 * HOUR)[0].count("·") < 6


def test_a_pile_up_has_its_sign_below_the_bar_and_a_note() -> None:
    shown = bar(*[3.25] * 5)

    assert "▲" in shown[1]
    assert "5 runs start within a minute (job-0, job-1, job-2, ...)" in shown[2]


def test_fires_within_five_minutes_are_one_line_for_each_hour() -> None:
    often = [fire(NOW + n * MINUTE, "poll") for n in range(90)]
    hourly = [fire(NOW + n * HOUR, "hourly") for n in range(3)]
    fires = sorted([*often, *hourly], key=lambda one: one.due_at)

    folded = fold_repeats(fires)

    assert [(line.fire.schedule, line.runs) for line in folded] == [
        *(("poll", 60), ("hourly", 1), ("poll", 30), ("hourly", 1), ("hourly", 1)),
    ]
    assert folded[0].last_at == NOW + 59 * MINUTE


def test_every_five_minutes_is_not_folded_and_a_moved_fire_stands_apart() -> None:
    apart = [fire(NOW + 5 * n * MINUTE) for n in range(3)]
    moved = UpcomingFire(
        schedule="job", plan_at=NOW, due_at=NOW + MINUTE, source=None, is_moved=True
    )

    assert [line.runs for line in fold_repeats(apart)] == [1, 1, 1]
    assert [line.runs for line in fold_repeats([fire(NOW), moved])] == [1, 1]


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


@pytest.mark.parametrize(("size", "keys"), [((80, 24), "2"), ((160, 48), "1")])
def test_a_week_is_counted_when_it_is_shown(scene: Scene, size: tuple[int, int], keys: str) -> None:
    async def story(seen: Seen) -> None:
        week = seen.app.screen.query_one(WeekView)
        assert not any(week.lines())
        await seen.press(*keys)
        await seen.until(lambda: any(week.lines()))
        assert "Fri" in seen.text()

    look_at(scene, story, size=size)
