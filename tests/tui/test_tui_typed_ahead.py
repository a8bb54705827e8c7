"""Keys that are typed before the screen has followed: each reaches what it is for."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from textual import events

from edgecron.tui.app import Appearance
from edgecron.tui.dialogs import ConfirmDialog, Lines
from edgecron.tui.form import ScheduleForm
from edgecron.tui.home import HomeScreen
from edgecron.tui.keys import DEFAULT_KEYS
from edgecron.tui.list_view import LineView
from edgecron.tui.palette import Help
from edgecron.tui.run_screen import RunScreen
from edgecron.tui.schedule_screen import ScheduleScreen
from edgecron.tui.text_line import LineInput
from tests.support.scene import Scene
from tests.tui.pilot import Seen, watch


async def type_ahead(seen: Seen, keys: str) -> None:
    """Press all of them before the first has done anything."""
    for letter in keys:
        names = {"/": "slash", ":": "colon", "\r": "enter", "\n": "ctrl+j", "\t": "tab"}
        key = names.get(letter, letter)
        seen.app.post_message(events.Key(key, letter))
    await seen.settle()


@pytest.mark.parametrize("enter", ["\r", "\n"])
def test_enter_opens_the_line_of_the_list_that_was_asked_for(scene: Scene, enter: str) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, f"3{enter}")
        assert isinstance(seen.app.screen, RunScreen)

    watch(story, scene.path, scene.clock)


def test_a_configured_key_that_terminals_send_for_enter_is_not_enter(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "3\n")
        assert isinstance(seen.app.screen, Help)

    appearance = Appearance(keys={**DEFAULT_KEYS, "help": ("ctrl+j",)})
    watch(story, scene.path, scene.clock, appearance=appearance)


def test_the_letters_of_a_filter_are_no_actions(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "/prune")
        assert isinstance(seen.app.screen, HomeScreen)
        assert [line.value for line in seen.app.screen.query(LineInput)] == ["prune"]

    watch(story, scene.path, scene.clock)


def test_the_letters_of_a_search_are_no_actions(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        screen = RunScreen(51)
        seen.app.push_screen(screen)
        await seen.until(lambda: screen.end is not None)
        await type_ahead(seen, "/wt\r")
        assert (screen.view.wanted, screen.view.is_wrapped) == ("wt", False)

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("place", ["0", "1", "2", "3"])
def test_a_key_after_the_enter_of_a_filter_is_for_the_list(scene: Scene, place: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(place)
        await type_ahead(seen, "/backup\rj")
        assert isinstance(seen.app.focused, LineView)
        assert seen.app.focused.cursor == 1
        assert "backup" in [line.value for line in seen.app.screen.query(LineInput)]

    watch(story, scene.path, scene.clock)


def has_ended(screen: RunScreen) -> bool:
    return screen.end is not None


def test_a_key_after_the_enter_of_a_search_goes_to_the_next_match(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        places = []
        for keys in ("/e\r", "/e\rn"):
            screen = RunScreen(51)
            seen.app.push_screen(screen)
            await seen.until(partial(has_ended, screen))
            await type_ahead(seen, keys)
            assert screen.view.wanted == "e"
            assert screen.view.hit is not None
            places.append(list(screen.view.hits).index(screen.view.hit))
        assert places[1] == (places[0] + 1) % len(screen.view.hits)

    watch(story, scene.path, scene.clock)


def test_letters_after_the_enter_of_a_line_are_those_of_the_next_line(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("b")
        assert isinstance(seen.app.screen, Lines)
        await seen.press("ctrl+u")
        await type_ahead(seen, "2026-11-01\r2")
        assert isinstance(seen.app.screen, Lines)
        assert seen.app.screen.texts[0] == "2026-11-01"
        assert seen.app.screen.texts[1].startswith("2")

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("key", ["\t", "\r"])
def test_letters_after_a_tab_are_those_of_the_next_field(scene: Scene, key: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("A")
        await type_ahead(seen, f"report{key}5m")
        assert isinstance(seen.app.screen, ScheduleForm)
        texts = seen.app.screen.texts
        assert (texts["name"], texts["when"]) == ("report", "5m")

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("key", ["m", "p", "b"])
def test_keys_after_one_that_opens_a_question_are_for_the_question(scene: Scene, key: str) -> None:
    async def story(seen: Seen) -> None:
        before = seen.app.screen
        await type_ahead(seen, f"{key}ruq")
        assert isinstance(seen.app.screen, Lines)
        assert seen.app.screen.texts[0].endswith("ruq")
        await seen.press("escape")
        assert seen.app.screen is before
        assert seen.told() == ""
        await seen.press("r")
        assert "started" in seen.told() or "queued" in seen.told()

    watch(story, scene.path, scene.clock)


def test_a_removal_is_not_agreed_to_before_it_is_asked(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "dy\r")
        assert isinstance(seen.app.screen, ConfirmDialog)
        await seen.press("y")
        assert "removed" in seen.told()

    watch(story, scene.path, scene.clock)


def test_letters_after_the_key_of_the_form_are_those_of_its_first_field(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "Areport\t5m")
        assert isinstance(seen.app.screen, ScheduleForm)
        texts = seen.app.screen.texts
        assert (texts["name"], texts["when"]) == ("report", "5m")

    watch(story, scene.path, scene.clock)


def test_keys_act_again_if_no_question_comes(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "xr")  # The first schedule has no active run.
        assert seen.told() == "backup-home: no active runs"
        await seen.press("?")
        assert isinstance(seen.app.screen, Help)

    watch(story, scene.path, scene.clock)


def test_a_line_typed_ahead_is_saved_and_its_letters_are_no_actions(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "ahourly run ./zap.sh\r")
        await seen.until(lambda: "added zap" in seen.told())

    watch(story, scene.path, scene.clock)


def test_keys_after_the_one_for_the_form_are_for_the_form(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, "azap: hourly run ls\t-x")
        await seen.until(lambda: isinstance(seen.app.screen, ScheduleForm))
        await seen.settle()
        assert isinstance(seen.app.screen, ScheduleForm)
        assert seen.app.screen.texts["name"] == "zap-x"

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("passes", range(0, 60, 4))
def test_a_list_that_is_wanted_again_before_it_was_hidden_keeps_the_focus(
    scene: Scene, passes: int
) -> None:
    async def story(seen: Seen) -> None:
        seen.app.post_message(events.Key("2", "2"))
        for _ in range(passes):
            await asyncio.sleep(0)  # one pass of the event loop
        seen.app.post_message(events.Key("1", "1"))
        await seen.settle()
        assert seen.app.focused is seen.app.screen.query_one("#schedules")

    watch(story, scene.path, scene.clock, size=(80, 24))


@pytest.mark.parametrize("place", ["0", "1", "2", "3"])
def test_the_letters_of_a_second_filter_of_a_burst_are_no_actions(scene: Scene, place: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(place)
        await type_ahead(seen, "/backup\r/prune")
        assert isinstance(seen.app.screen, HomeScreen)
        assert isinstance(seen.app.focused, LineInput)
        assert seen.app.focused.value == "backupprune"

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("place", ["1", "3"])
def test_keys_after_the_enter_of_the_palette_are_for_the_list_it_opens(
    scene: Scene, place: str
) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, f":{'schedules' if place == '1' else 'runs'}\rjj")
        focused = seen.app.focused
        assert isinstance(focused, LineView)
        assert (focused.id, focused.cursor) == ("schedules" if place == "1" else "runs", 2)

    watch(story, scene.path, scene.clock)


@pytest.mark.parametrize("action", ["pause", "add", "add form"])
def test_letters_after_the_enter_of_the_palette_are_for_what_it_opens(
    scene: Scene, action: str
) -> None:
    async def story(seen: Seen) -> None:
        before = seen.app.screen
        await type_ahead(seen, f":{action}\rruq")
        await seen.until(lambda: seen.app.screen is not before)
        await seen.settle()
        assert isinstance(seen.app.focused, LineInput)
        assert seen.app.focused.value.endswith("ruq")
        assert seen.told() == ""

    watch(story, scene.path, scene.clock)


def test_keys_after_the_enter_of_a_schedule_in_the_palette_are_for_its_screen(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, ":prune-s\rr")
        await seen.until(lambda: isinstance(seen.app.screen, ScheduleScreen))
        await seen.until(lambda: "prune-snapshots" in seen.told())

    watch(story, scene.path, scene.clock)


def test_keys_after_a_name_that_the_palette_does_not_find_stay_in_its_line(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await type_ahead(seen, ":zzz\rruq")
        await seen.until(lambda: "zzzruq" in seen.text())
        await seen.press("escape", "?")
        assert isinstance(seen.app.screen, Help)

    watch(story, scene.path, scene.clock)
