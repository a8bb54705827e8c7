"""The output of the selected line's run, beside or below the lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.tui.list_view import LineView
from edgecron.tui.output_tail import OutputTail, find_run
from tests.support.scene import Scene, make_scene
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_screen


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with make_scene(tmp_path / "edgecron.db") as scene:
        yield scene


def is_shown(seen: Seen) -> bool:
    return bool(seen.app.screen.query_one(OutputTail).region)


def test_the_output_follows_the_cursor_in_every_list(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("j")
        assert "backup-photos  run 1673  ▸ running" in seen.text()
        assert "/srv/photos/2017" in seen.text()
        await seen.press("3", "j")
        assert "poll-inverter  run 1680  ✗ failed" in seen.text()
        assert "inverter.lan: connection refused" in seen.text()
        await seen.press("k")
        assert "poll-inverter  run 1681  ✓ success" in seen.text()
        await seen.press("1", "j", "j")
        assert "copy-offsite  run 1631  ○ queued" in seen.text()
        assert "has not started yet" in seen.text()
        check_screen(seen.lines(), "home-schedules-120x36")

    watch(story, scene.path, scene.clock, size=(120, 36))


def test_the_output_of_the_chosen_run_of_a_lane_is_shown(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("h")
        assert "backup-home  run " in seen.text()
        await seen.press("escape", *"jjjjjj", "h")
        assert "poll-inverter  run " in seen.text()

    watch(story, scene.path, scene.clock, size=(120, 36))


def test_a_key_hides_the_output_and_shows_it_where_there_is_little_room(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert is_shown(seen)
        await seen.press("o")
        assert not is_shown(seen)
        await seen.resize((80, 24))
        await seen.press("j")
        assert not is_shown(seen)
        await seen.press("o")
        assert is_shown(seen)
        check_screen(seen.lines(), "home-output-80x24")

    watch(story, scene.path, scene.clock, size=(120, 36))


def test_in_a_low_terminal_the_list_keeps_lines_above_the_output(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("o", "1")
        view = seen.app.screen.query_one("#schedules", LineView)
        assert is_shown(seen)
        assert view.region.height >= 3
        assert seen.app.screen.query_one(OutputTail).region.height >= 3

    watch(story, scene.path, scene.clock, size=(80, 12))


def test_in_a_small_terminal_the_output_is_hidden_first(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert not is_shown(seen)
        await seen.resize((120, 36))
        assert is_shown(seen)
        assert "backup-home  run 975  ✓ success" in seen.text()

    watch(story, scene.path, scene.clock, size=(80, 24))


def test_the_output_has_the_rows_that_the_lanes_leave(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        lanes = seen.app.screen.query_one("#timeline", LineView).region
        assert 21 <= lanes.height <= 24  # The heading, 20 lanes, and rows for a filter.
        assert seen.app.screen.query_one(OutputTail).region.height > 60 - 20 - 14

    watch(story, scene.path, scene.clock, size=(200, 60))


def test_a_running_run_is_chosen_before_newer_ones_that_did_not_run(scene: Scene) -> None:
    with scene.client() as client:
        running = find_run(client, "backup-photos")
        client.add(make_spec("new", "every 1h"))
        never = find_run(client, "new")
        last = find_run(client, "poll-inverter")

    assert running is not None
    assert (running.id, running.status) == (1673, "running")
    assert never is None
    assert last is not None
    assert last.id == 1681


def test_the_days_of_upcoming_runs_come_before_the_output(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("2")
        assert not is_shown(seen)
        assert "Thu" in seen.text()
        await seen.press("o")
        assert is_shown(seen)
        assert "Thu" not in seen.text()
        await seen.press("o", "0")
        assert not is_shown(seen)

    watch(story, scene.path, scene.clock, size=(120, 36))
