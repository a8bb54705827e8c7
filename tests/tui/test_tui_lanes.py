"""The timeline: schedules as lanes of past and coming runs."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.tui.run_screen import RunScreen
from edgecron.tui.schedule_screen import ScheduleScreen
from tests.support.clock import FakeClock
from tests.support.scene import Scene
from tests.support.specs import make_spec
from tests.support.terminal import on_terminal, read_until
from tests.tui.pilot import Seen, look_at, watch
from tests.tui.snapshots import check_screen

SIZES = ((40, 10), (80, 24), (120, 36), (160, 48))


def lane_of(seen: Seen, name: str) -> str:
    return next(line for line in seen.lines() if f" {name} " in line)


def chosen_run(seen: Seen) -> str:
    found = re.search(r": run \d+", seen.text())
    return found[0] if found else "none"


def axis_of(seen: Seen) -> str:
    return seen.lines()[2]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_timeline_looks_as_it_was_drawn(scene: Scene, size: tuple[int, int]) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0", "j")
        check_screen(seen.lines(), f"home-timeline-{size[0]}x{size[1]}")

    look_at(scene, story, size=size)


def test_the_dashboard_opens_with_the_timeline_and_s_sorts_it(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert "24 hours" in seen.text()
        assert "SCHEDULE ▴" in seen.text()
        await seen.press("s", "s")
        assert "NEXT ▴" in seen.text()
        await seen.press("s")
        assert "by last" in seen.text()
        await seen.press("1", "0")
        assert "24 hours" in seen.text()

    look_at(scene, story, size=(120, 36))


def test_zoom_goes_from_an_hour_to_a_week_and_stops_there(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0")
        shown = ["24 hours"]
        assert "24 hours" in seen.text()
        for key in ("+", "+", "+", "-", "-", "-", "-"):
            await seen.press(key)
            shown += [
                words
                for words in ("1 hour ", "6 hours", "24 hours", "7 days")
                if words in seen.text()
            ]
        assert shown == [
            *("24 hours", "6 hours", "1 hour ", "1 hour "),
            *("6 hours", "24 hours", "7 days", "7 days"),
        ]
        assert "Wed 18" in seen.text()

    look_at(scene, story, size=(120, 36))


def test_a_span_of_the_past_is_scrolled_to_and_t_returns_to_now(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0")
        now = seen.text()
        assert "14:32" in now

        await seen.press("[", "[")
        assert "Thu 19" in seen.text()
        assert "14:32" not in seen.lines()[1]
        assert "┈" not in lane_of(seen, "poll-meter")  # Nothing is to come there.

        await seen.press("t")
        assert seen.text() == now

    look_at(scene, story, size=(120, 36))


def test_the_cursor_goes_from_run_to_run_and_enter_opens_what_is_there(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0", "h")
        await seen.pilot.pause(0.2)
        await seen.settle()
        assert ": run " in seen.text()
        assert "success after" in seen.text()

        await seen.press("enter")
        assert isinstance(seen.app.screen, RunScreen)
        assert seen.app.screen.found is not None
        assert seen.app.screen.found.run.schedule == "backup-home"

        await seen.press("escape", "escape", "enter")
        assert isinstance(seen.app.screen, ScheduleScreen)

    look_at(scene, story, size=(160, 48))


def test_a_time_to_come_opens_the_schedule(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0", *"jjjjjj", "l")
        await seen.pilot.pause(0.2)
        await seen.settle()
        assert "to come" in seen.text()

        await seen.press("enter")
        assert isinstance(seen.app.screen, ScheduleScreen)

    look_at(scene, story, size=(160, 48))


def test_beyond_the_last_run_the_span_moves_and_more_runs_come(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0", "h", "h")
        assert "t now" in seen.text()
        await seen.press("h")
        await seen.pilot.pause(0.2)
        await seen.settle()
        assert "Nov 19" in seen.text()

    look_at(scene, story, size=(120, 36))


def test_the_chosen_run_stays_chosen_while_time_passes_and_the_width_changes(scene: Scene) -> None:
    clock = scene.clock
    assert isinstance(clock, FakeClock)

    async def story(seen: Seen) -> None:
        await seen.press("0", "+", "+", "/")
        await seen.write("poll-meter")
        await seen.press("enter", "h")
        assert ": run " in seen.text()
        run = chosen_run(seen)

        cells = axis_of(seen)
        clock.advance_ms(3 * 75_000)
        await seen.until(lambda: axis_of(seen) != cells)
        assert chosen_run(seen) == run

        await seen.resize((120, 36))
        assert chosen_run(seen) == run
        await seen.press("enter")
        assert isinstance(seen.app.screen, RunScreen)

    look_at(scene, story, size=(160, 48))


def test_a_run_that_takes_longer_than_usual_is_not_promised_to_end(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert "until 14:53" in seen.text()
        scene.clock.advance_ms(30 * 60_000)  # type: ignore[attr-defined]
        await seen.press("r")
        await seen.until(lambda: "past 14:53" in seen.text())
        assert "until 14:53" not in seen.text()

    look_at(scene, story, size=(120, 36))


def test_a_click_on_a_lane_chooses_the_run(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0")
        line = lane_of(seen, "backup-home")
        y = seen.lines().index(line)
        await seen.click(None, line.index("▖"), y)
        await seen.pilot.pause(0.2)
        await seen.settle()
        assert ": run " in seen.text()

    look_at(scene, story, size=(160, 48))


def test_a_filter_and_actions_work_on_lanes_as_on_the_list(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0", "/")
        await seen.write("backup")
        await seen.press("enter", "p")
        assert "backup-home" in seen.text()
        assert "weather" not in seen.text()
        assert "Pause" in seen.text()

    look_at(scene, story, size=(120, 36))


def test_a_clock_change_and_an_excluded_day_have_signs(scene: Scene) -> None:
    with scene.client() as client:
        tomorrow = client.now().date() + timedelta(days=1)
        client.add(make_spec("all-year", "0 2 * * *", except_days=(str(tomorrow),)))

    async def story(seen: Seen) -> None:
        await seen.press("0", "/")
        await seen.write("all-year")
        await seen.press("enter", "-")
        assert "×" in seen.lines()[1]
        assert "excluded day of all-year" in seen.text()

    look_at(scene, story, size=(120, 36))


def test_the_signs_stay_above_their_cells_while_a_list_covers_the_timeline(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0")
        await seen.until(lambda: "▲" in seen.lines()[1])
        signs = seen.lines()[1]
        await seen.press("1")
        seen.app.post_changed()
        await seen.settle()
        await seen.press("0")
        assert seen.lines()[1] == signs

    look_at(scene, story, size=(120, 36))


def test_a_run_that_ends_is_shown_without_a_key(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("0")
        assert lane_of(seen, "warm-cache").strip().endswith("at boot")
        with scene.client() as client:
            client.run_now("warm-cache")
        await seen.until(lambda: "○" in lane_of(seen, "warm-cache")[10:])

    look_at(scene, story, size=(120, 36))


def test_a_person_sees_zooms_and_leaves_the_timeline_on_a_terminal(tmp_path: Path) -> None:
    environment = {
        **{key: value for key, value in os.environ.items() if key != "NO_COLOR"},
        "EDGECRON_DB": str(tmp_path / "edgecron.db"),
        "TZ": "UTC",
        "TERM": "xterm-256color",
    }
    with Client(tmp_path / "edgecron.db") as client:
        client.add(make_spec("nightly", "every 1h"))
    with on_terminal(environment) as outer:
        read_until(outer, "nightly")
        read_until(outer, "24 hours")
        os.write(outer, b"-")
        read_until(outer, "7 days")
        os.write(outer, b"q")
        read_until(outer, None)


@pytest.mark.parametrize("count", [59, 60, 61, 150])
def test_a_list_of_any_length_is_read_as_a_whole(tmp_path: Path, count: int) -> None:
    async def story(seen: Seen) -> None:
        for key in ("0", "1"):
            await seen.press(key, "G")
            assert f"job-{count:03}" in seen.text()
            await seen.press("g")
            assert "job-001" in seen.text()

    clock = FakeClock()
    with Client(tmp_path / "many.db", clock=clock) as client:
        client.add_all([make_spec(f"job-{number + 1:03}", "@daily") for number in range(count)])
    watch(story, tmp_path / "many.db", clock, size=(160, 48))
