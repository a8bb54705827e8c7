"""The dashboard's screen for `simulate`: days, their hours, and what to know of them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from edgecron.client import Client
from edgecron.planning.simulation import SimulatedDay, Simulation
from edgecron.tui.simulation_screen import find_days
from tests.support.scene import Scene
from tests.support.story import a_spec
from tests.tui.pilot import Seen, watch

SIZES = [(80, 24), (120, 36), (160, 48), (200, 60)]
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("size", SIZES)
def test_the_coming_days_are_lines_and_their_hours_bars(
    scene: Scene, size: tuple[int, int]
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("6")
        await seen.until(lambda: "runs of" in seen.text())
        days = [line for line in seen.lines() if ":00" in line and "2026-11-2" in line]
        assert len(days) >= 4
        assert any(letter in line for line in days for letter in "░▒▓█")
        await seen.press("j", "enter")
        assert "active" in seen.text()
        assert "All 7 days" in seen.text() or size == (80, 24)
        await seen.press("escape", "escape")
        assert "simulation of" not in seen.text()

    watch(story, scene.path, scene.clock, size=size)


def test_a_week_becomes_a_month_and_a_year(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("6")
        for days in (7, 30, 365, 7):
            await seen.until(lambda: "runs of" in seen.text())
            assert f"simulation of {days} days" in seen.text()
            await seen.press("t")

    watch(story, scene.path, scene.clock, size=(120, 36))


def test_the_palette_finds_the_simulation(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("ctrl+p")
        await seen.write("simulate")
        await seen.press("enter")
        await seen.until(lambda: "runs of" in seen.text())
        assert "simulation of 7 days" in seen.text()

    watch(story, scene.path, scene.clock, size=(80, 24))


def test_escape_leaves_a_simulation_that_is_not_ready(scene: Scene) -> None:
    with Client(scene.path, clock=scene.clock) as client:
        client.add_all([a_spec(f"probe{number}", "* * * * *") for number in range(200)])

    async def story(seen: Seen) -> None:
        await seen.press("6")
        await seen.press("t", "t", "escape")
        assert "simulation of" not in seen.text()
        await seen.press("6")
        await seen.until(lambda: "runs of" in seen.text())

    watch(story, scene.path, scene.clock, size=(80, 24))


def found(from_at: datetime, *, hours: int) -> Simulation:
    """A simulation in which one run starts in each hour, and as many are active as its number."""
    days = tuple(
        SimulatedDay(
            from_at=datetime.fromtimestamp(from_at.timestamp() + 86_400 * number, UTC),
            runs=24,
            most_active=23,
            most_active_at=from_at,
            hourly_runs=(1,) * 24,
            hourly_active=tuple(range(24)),
        )
        for number in range(-(-hours // 24))
    )
    return Simulation(
        from_at=from_at,
        until_at=datetime.fromtimestamp(from_at.timestamp() + 3600 * hours, UTC),
        runs=hours,
        most_active=23,
        most_active_at=from_at,
        days=days,
        schedules=(),
        groups=(),
        pile_ups=(),
    )


def test_hours_belong_to_their_local_day_also_if_clocks_change() -> None:
    begin = datetime(2026, 10, 24, 22, tzinfo=UTC)  # midnight; 25 hours until the next one

    days = find_days(found(begin, hours=49), now=begin, zone=BERLIN)

    assert [day.date.isoformat() for day in days] == ["2026-10-25", "2026-10-26"]
    assert [day.runs for day in days] == [25, 24]
    assert [hour.runs for hour in days[0].hours if hour is not None] == [1, 1, 2, *(1,) * 21]


def test_an_hour_that_clocks_skip_does_not_exist() -> None:
    begin = datetime(2027, 3, 27, 23, tzinfo=UTC)

    [day] = find_days(found(begin, hours=23), now=begin, zone=BERLIN)

    assert [number for number, hour in enumerate(day.hours) if hour is None] == [2]


def test_hours_that_are_over_are_not_shown() -> None:
    begin = datetime(2026, 6, 1, 22, tzinfo=UTC)
    now = datetime(2026, 6, 2, 10, 30, tzinfo=UTC)

    [day] = find_days(found(begin, hours=24), now=now, zone=BERLIN)

    assert next(number for number, hour in enumerate(day.hours) if hour is not None) == 12
