"""The first screen: three views of one truth, at any size, in any theme."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual import events
from textual.color import Color
from textual.geometry import Size
from textual.theme import BUILTIN_THEMES

from edgecron.base.units import to_ms
from edgecron.client import Client
from edgecron.tui.app import Appearance
from edgecron.tui.form import ScheduleForm
from edgecron.tui.home import HomeScreen
from edgecron.tui.keys import DEFAULT_LABELS
from edgecron.tui.list_view import LineView
from edgecron.tui.text_line import LEAST_CONTRAST, contrast
from edgecron.tui.themes import SHADES, TEXT_STYLES, THEMES
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.scene import Scene, local_zone, make_scene
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, look_at, watch
from tests.tui.snapshots import check_screen

SIZES = ((40, 10), (80, 24), (120, 30), (160, 48))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "key"), [("schedules", "1"), ("upcoming", "2"), ("runs", "3")], ids=["1", "2", "3"]
)
def test_it_looks_as_it_was_drawn(scene: Scene, size: tuple[int, int], name: str, key: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(key, "j")
        check_screen(seen.lines(), f"home-{name}-{size[0]}x{size[1]}")

    look_at(scene, story, size=size)


def test_a_list_is_drawn_even_if_something_asks_where_it_is_before_its_layout(
    scene: Scene,
) -> None:
    """A list that changed while it was hidden: Textual then sends it no Resize."""

    async def story(seen: Seen) -> None:
        view = seen.app.screen.query_one("#runs", LineView)
        view.refresh()
        await seen.settle()
        seen.app.post_message(events.Key("3", "3"))
        while not view.region:
            await asyncio.sleep(0)  # one pass of the event loop
        await seen.settle()
        await seen.press("j")
        check_screen(seen.lines(), "home-runs-80x24")

    look_at(scene, story, size=(80, 24))


def test_every_text_can_be_read_on_its_ground_in_every_theme(scene: Scene) -> None:
    poor: list[str] = []

    async def story(seen: Seen) -> None:
        for theme in [*THEMES, *BUILTIN_THEMES.values()]:
            seen.app.theme = theme.name
            await seen.pilot.pause()
            poor.extend(f"{theme.name}: {words}" for words in poor_texts(seen))

    look_at(scene, story)

    assert poor == []


def poor_texts(seen: Seen) -> Iterator[str]:
    """The texts of lists with too little contrast, in words."""
    view = seen.app.screen.query_one("#schedules", LineView)
    for on in ("", "cursor", "cursor-blurred", "failed"):
        base = view.rich_style + view.theme_style(on)
        for style in ["", *TEXT_STYLES]:
            if style in SHADES or (style and not TEXT_STYLES[style].color):
                continue  # A shade says how much, beside a letter that does.
            drawn = base + view.theme_style(style, on=on)
            text, ground = drawn.color, drawn.bgcolor
            if text is None or ground is None or not (text.triplet and ground.triplet):
                continue  # a colour of the terminal
            found = contrast(Color.from_rich_color(text), Color.from_rich_color(ground))
            if found < LEAST_CONTRAST:
                yield f"{style or 'text'} on {on or 'the ground'}: {found:.2f}"


def test_the_line_below_tells_more_of_what_is_under_the_cursor(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.pilot.pause(0.2)
        await seen.settle()
        assert "at 02:00 every day" in seen.text()

        await seen.press("3")
        await seen.pilot.pause(0.2)
        await seen.settle()
        assert "because it was planned for 14:32:00 by 'every 1m'" in seen.text()

    look_at(scene, story, size=(120, 30))


def test_no_line_is_wider_than_the_screen_at_any_width(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        for width in (40, 47, 61, 79, 99, 139, 141, 200):
            await seen.pilot.resize_terminal(width, 24)
            await seen.settle()
            for line in seen.lines():
                assert len(line) <= width

    look_at(scene, story)


@pytest.mark.parametrize("action", ["open", "add", "add_form", "edit"])
def test_a_key_that_is_pressed_twice_opens_one_screen(scene: Scene, action: str) -> None:
    async def story(seen: Seen) -> None:
        home = seen.app.screen
        for _ in range(2):  # before the first one has come so far
            await seen.app.run_action(action, seen.app.focused if action == "open" else home)
        await seen.settle()
        assert seen.app.screen is not home
        await seen.press("escape")
        assert seen.app.screen is home

    look_at(scene, story)


def test_times_of_another_zone_have_its_mark_and_a_second_name_is_no_other_zone(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    zones = {"plain": None, "named": "UTC", "local": "local", "far": "Asia/Tokyo"}
    path = new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms())
    with Client(path, clock=clock) as client:
        client.add_all(
            [make_spec(name, "0 9 * * *", timezone=zone) for name, zone in zones.items()]
        )

    async def story(seen: Seen) -> None:
        await seen.press("1")
        shown = {line.split()[1]: line.split()[2] for line in seen.lines()[2:6]}
        assert shown == {"plain": "09:00", "named": "09:00", "local": "09:00", "far": "Tokyo"}

    with local_zone("Etc/UTC"):
        watch(story, path, clock)


def test_with_no_engine_what_was_to_come_becomes_overdue_once_and_the_rest_moves_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with make_scene(tmp_path / "edgecron.db", has_engine=False) as scene:

        async def story(seen: Seen) -> None:
            scene.clock.advance_ms(10 * 60_000)  # type: ignore[attr-defined]
            await seen.pilot.resize_terminal(80, 41)  # Draws it anew, as its timer does later.
            await seen.settle()
            overdue = [line for line in seen.lines() if line.startswith(" overdue")]
            assert [line.split()[2] for line in overdue].count("poll-inverter") == 1
            assert any("in 2m" in line or "in 50s" in line for line in seen.lines())

        look_at(scene, lambda seen: _upcoming(seen, story), size=(80, 40))


async def _upcoming(seen: Seen, story: Callable[[Seen], Awaitable[None]]) -> None:
    await seen.press("2")
    await story(seen)


def test_seconds_are_counted_for_a_line_that_the_cursor_moved_to(tmp_path: Path) -> None:
    clock = FakeClock()
    path = new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms())
    with Client(path, clock=clock) as client:
        client.add_all([make_spec(f"job-{n:02}", "every 4h") for n in range(30)])
        client.add(make_spec("soon", "every 50s"))

    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.resize((80, 24))  # The first lines are drawn again, next in a minute.
        await seen.press("G")
        assert "in 50s" in seen.text()
        clock.advance_ms(10_000)
        async with asyncio.timeout(30):
            await seen.until(lambda: "in 40s" in seen.text())

    watch(story, path, clock)


def test_the_legend_of_the_timeline_is_whole_when_it_is_shown_again(tmp_path: Path) -> None:
    clock = FakeClock()
    path = new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms())
    with Client(path, clock=clock) as client:
        client.add(make_spec("rotate", "every 2h"))

    async def story(seen: Seen) -> None:
        assert "▆ running" in seen.text()
        for key in "123":
            await seen.press(key, "0")
            assert "▆ running" in seen.text()

    watch(story, path, clock)


def test_no_distance_is_promised_by_a_clock_that_can_not_be_trusted(scene: Scene) -> None:
    scene.clock.synchronised = False  # type: ignore[attr-defined]
    with scene.client() as client:
        known_ms = client.store.find_clock_marks().trusted_high_ms
        later_ms = to_ms(datetime(2101, 1, 1, tzinfo=UTC))
        assert client.store.note_trusted(later_ms, was_ms=known_ms)
    seen_texts: list[str] = []

    async def story(seen: Seen) -> None:
        await seen.until(lambda: "held" in seen.text())
        for keys in (("1",), ("2",), ("1", "enter"), ("escape", "p")):
            await seen.press(*keys)
            seen_texts.append(seen.text())
        await seen.press("enter")
        seen_texts.append(seen.told())

    look_at(scene, story, size=(160, 48))

    for text in seen_texts:
        assert re.findall(r"\bin \d+[smhd]\b", text) == []
    assert "held" in seen_texts[0]
    assert "held" in seen_texts[1]


@pytest.mark.parametrize("keys", [("5",), ("6",), ("7",), ("8",), ("1", "w"), ("1", "enter")])
def test_every_screen_has_the_status_line(scene: Scene, keys: tuple[str, ...]) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(*keys)
        assert seen.lines()[-2].startswith(" ● 1 engine   ! 1 overdue   1 running")

    look_at(scene, story, size=(80, 24))


def test_lists_without_schedules_name_the_configured_key_that_adds_one(scene: Scene) -> None:
    client = Client(scene.path, clock=scene.clock)
    for schedule in client.schedules():
        client.remove(schedule.name)
    client.close()

    async def story(seen: Seen) -> None:
        assert "no schedules yet: press + to add one" in seen.text()
        await seen.press("1")
        assert "no schedules yet: press + to add one" in seen.text()

    labels = {**DEFAULT_LABELS, "add": ("+",)}
    look_at(scene, story, appearance=Appearance(labels=labels))


@pytest.mark.parametrize("opened", [("7",), ("8",), ("6",), ("1", "enter"), ("3", "enter")])
def test_the_keys_of_lists_and_screens_work_on_other_screens(
    scene: Scene, opened: tuple[str, ...]
) -> None:
    async def story(seen: Seen) -> None:
        for key, name in enumerate(("timeline", "schedules", "upcoming", "runs")):
            await seen.press(*opened, str(key))
            assert seen.app.focused is seen.app.screen.query_one(f"#{name}")
        await seen.press(*opened, "5", "7", "escape")
        assert isinstance(seen.app.screen, HomeScreen)

    watch(story, scene.path, scene.clock)


def test_a_form_stays_open_for_the_keys_of_lists(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("e", "shift+tab", "1", "7")
        assert isinstance(seen.app.screen, ScheduleForm)

    watch(story, scene.path, scene.clock)


def test_a_note_about_an_order_ends_with_that_order(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1", "s")
        assert "run most often come first" in seen.text()
        await seen.press("s")
        assert "run most often" not in seen.text()
        await seen.press("0", "s")
        assert "run most often come first" in seen.text()
        await seen.press("S", "s")
        assert "can't start an engine" in seen.text()

    watch(story, scene.path, scene.clock)


def test_an_old_size_that_comes_late_changes_nothing(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.pilot.resize_terminal(120, 36)
        await seen.settle()
        old = Size(80, 24)
        seen.app.screen.post_message(events.Resize(old, old))
        await seen.settle()

        assert seen.app.screen.size == Size(120, 36)
        assert seen.app.screen.query_one("#top").size.width == 120

    look_at(scene, story, size=(80, 24))
