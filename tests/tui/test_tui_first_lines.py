"""The first lines of the dashboard, and the parts that it reads after them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from threading import Event
from typing import cast

import pytest
from textual import events
from textual.screen import Screen

from edgecron.base.errors import NotFound
from edgecron.client import Client
from edgecron.client.protocol import Client as AnyClient
from edgecron.client.schedules import FirstLines
from edgecron.tui.app import OwnMachine
from edgecron.tui.database_thread import DatabaseThread
from edgecron.tui.home import HomeScreen
from edgecron.tui.run_screen import RunScreen
from edgecron.tui.schedule_screen import ScheduleScreen
from tests.support.scene import Scene
from tests.support.specs import make_spec
from tests.tui.pilot import ZONE, CountingDashboard, Seen, look_at, run

BOUND_S = 20.0


@pytest.mark.parametrize("is_there", [True, False])
def test_a_light_client_answers_only_the_first_question(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "edge.db"
    if is_there:
        Client(path).add(make_spec("backup"))
    delivered: Queue[Callable[[], None]] = Queue()
    told: list[object] = []
    thread = DatabaseThread(
        lambda: Client(path, must_exist=True),
        first_opened=lambda: cast("AnyClient", FirstLines(path, must_exist=True)),
        deliver=delivered.put,
        name="test-reader",
    )
    thread.start()

    def ask() -> object:
        thread.ask("kind", lambda client: type(client), answer=told.append, refused=told.append)
        while not told:
            delivered.get(timeout=BOUND_S)()
        return told.pop()

    first = ask()
    Client(path).add(make_spec("rotate"))
    later = [ask(), ask()]
    thread.close()

    assert first is FirstLines if is_there else isinstance(first, NotFound)
    assert later == [Client, Client]


def test_times_are_described_though_the_first_lines_have_them_as_written(scene: Scene) -> None:
    asked: list[FirstLines] = []

    def first_opened() -> AnyClient:
        asked.append(FirstLines(scene.path, clock=scene.clock, must_exist=True))
        return cast("AnyClient", asked[0])

    async def story(seen: Seen) -> None:
        assert "backup" in seen.text()
        await seen.press("1")
        assert "02:00 every day" in seen.text()

    look_at(scene, story, machine=OwnMachine(scene.path, first_opened=first_opened))

    assert len(asked) == 1


@pytest.mark.parametrize(
    ("key", "name", "words"),
    [
        ("1", "schedules", "02:00 every day"),
        ("2", "upcoming", "sync-calendar"),
        ("3", "runs", "success"),
    ],
)
def test_a_list_can_be_opened_before_the_database_has_answered(
    scene: Scene, key: str, name: str, words: str
) -> None:
    may_open = Event()

    def first_opened() -> AnyClient:
        assert may_open.wait(BOUND_S)
        return Client(scene.path, clock=scene.clock, must_exist=True)

    async def story(seen: Seen) -> None:
        await seen.pilot.press(key)
        await seen.until(lambda: seen.app.focused is not None and seen.app.focused.id == name)
        assert words not in seen.text()
        may_open.set()
        await seen.settle()
        assert words in seen.text()

    look_at(
        scene,
        story,
        is_readable=False,
        machine=OwnMachine(scene.path, first_opened=first_opened),
    )


@pytest.mark.parametrize(
    ("key", "opened"), [("", ScheduleScreen), ("1", ScheduleScreen), ("3", RunScreen)]
)
@pytest.mark.parametrize("later", ["", "2"])
def test_enter_before_the_first_answer_opens_the_line_that_comes(
    scene: Scene, key: str, opened: type[Screen[object]], later: str
) -> None:
    may_open = Event()

    def first_opened() -> AnyClient:
        assert may_open.wait(BOUND_S)
        return Client(scene.path, clock=scene.clock, must_exist=True)

    async def story(seen: Seen) -> None:
        await seen.pilot.press(*key, "enter", *later)
        may_open.set()
        await seen.settle()
        assert isinstance(seen.app.screen, HomeScreen if later else opened)

    look_at(
        scene,
        story,
        is_readable=False,
        machine=OwnMachine(scene.path, first_opened=first_opened),
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("1", "j", "j", "enter"), "schedule  copy-offsite"),
        (("1", "G", "k", "enter"), "schedule  warm-cache"),
        (("j", "space", "r"), "run 1682 of backup-photos"),
        (("1", "j", "e"), "edit  backup-photos"),
        (("1", "slash", *"made"), " / made "),
        (("1", "j", "enter", "escape"), "1 of 20"),
        (("1", "j", "I", "enter"), "edgecron  schedule  "),
    ],
)
@pytest.mark.parametrize("is_burst", [False, True])
def test_keys_before_the_first_answer_are_for_the_lines_that_come(
    scene: Scene, keys: tuple[str, ...], words: str, is_burst: bool
) -> None:
    may_open = Event()

    def first_opened() -> AnyClient:
        assert may_open.wait(BOUND_S)
        return Client(scene.path, clock=scene.clock, must_exist=True)

    async def story(seen: Seen) -> None:
        if is_burst:
            for key in keys:
                seen.app.post_message(events.Key(key, key if len(key) == 1 else None))
        else:
            await seen.pilot.press(*keys)
        may_open.set()
        await seen.settle()
        assert words in seen.text()

    look_at(
        scene,
        story,
        is_readable=False,
        machine=OwnMachine(scene.path, first_opened=first_opened),
    )


def test_a_screen_that_closes_meanwhile_adds_no_lists(scene: Scene) -> None:
    def first_opened() -> AnyClient:
        # Close the screen after the first lines, just before it adds the other lists.
        app.call_from_thread(app.screen.call_after_refresh, leave)
        return Client(scene.path, clock=scene.clock, must_exist=True)

    def leave() -> None:
        app.screen.remove()
        is_closing.set()

    async def story() -> None:
        async with app.run_test(size=(80, 24)):
            await asyncio.wait_for(is_closing.wait(), BOUND_S)

    is_closing = asyncio.Event()
    app = CountingDashboard(
        lambda: Client(scene.path, clock=scene.clock, must_exist=True),
        clock=scene.clock,
        zone=ZONE,
        machine=OwnMachine(scene.path, first_opened=first_opened),
    )
    run(story())
