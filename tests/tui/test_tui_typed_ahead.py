"""Keys that are typed before the screen has followed: each reaches what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events

from edgecron.tui.form import ScheduleForm
from edgecron.tui.home import HomeScreen
from edgecron.tui.run_screen import RunScreen
from edgecron.tui.text_line import LineInput
from tests.support.scene import Scene, make_scene
from tests.tui.pilot import Seen, watch


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with make_scene(tmp_path / "edgecron.db") as scene:
        yield scene


async def type_ahead(seen: Seen, keys: str) -> None:
    """Press all of them before the first has done anything."""
    for letter in keys:
        key = {"/": "slash", "\r": "enter", "\t": "tab"}.get(letter, letter)
        seen.app.post_message(events.Key(key, letter))
    await seen.settle()


def test_enter_opens_the_line_of_the_list_that_was_asked_for(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "3\r")
        assert isinstance(seen.app.screen, RunScreen)

    watch(story, scene.path, scene.clock)


def test_the_letters_of_a_filter_are_no_actions(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "/prune")
        assert isinstance(seen.app.screen, HomeScreen)
        assert [line.value for line in seen.app.screen.query(LineInput)] == ["prune", "", ""]

    watch(story, scene.path, scene.clock)


def test_the_letters_of_a_search_are_no_actions(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        screen = RunScreen(51)
        seen.app.push_screen(screen)
        await seen.until(lambda: screen.end is not None)
        await type_ahead(seen, "/wt\r")
        assert (screen.view.wanted, screen.view.is_wrapped) == ("wt", False)

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("key", ["\t", "\r"])
def test_letters_after_a_tab_are_those_of_the_next_field(scene: Scene, key: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("a")
        await type_ahead(seen, f"report{key}5m{key}UTC")
        assert isinstance(seen.app.screen, ScheduleForm)
        texts = seen.app.screen.texts
        found = {name: texts[name] for name in ("name", "when", "timezone")}
        assert found["name"] == "report"
        if key == "\t":  # Enter adds a line to the times.
            assert found == {"name": "report", "when": "5m", "timezone": "localUTC"}

    watch(story, scene.path, scene.clock)
