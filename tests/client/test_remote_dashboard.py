"""The dashboard on the database of another machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from edgecron.base.clock import ServerTime, SystemClock
from edgecron.client import Client
from edgecron.client.remote import RemoteClient
from edgecron.client.remote_connection import Connector
from edgecron.client.remote_link import read_server
from edgecron.client.resources import RESOURCES, Resource, resource_types
from edgecron.http.serving import HttpService, UnixPlace
from tests.support.scene import make_scene
from tests.support.specs import make_spec
from tests.tui.pilot import ZONE, CountingDashboard, Seen, run

Story = Callable[[Seen, HttpService], Awaitable[None]]


def watch(story: Story, folder: Path, *, started: Callable[[], None] = lambda: None) -> None:
    """Run a story on a screen that shows the database of a server; the server may be closed.

    `started` is called once the server runs.
    """
    service = HttpService(folder / "edge.db", UnixPlace(folder / "edge.sock"), token=None)
    lines = Connector(read_server(f"unix:{folder}/edge.sock"))
    time = ServerTime(SystemClock())

    def opened() -> RemoteClient:
        return RemoteClient(lines, time=time)

    async def show() -> None:
        app = CountingDashboard(opened, clock=time, zone=ZONE, writing=lambda must_exist: opened())
        async with app.run_test(size=(160, 30), notifications=True) as pilot:
            seen = Seen(app, pilot)
            await seen.settle()
            await story(seen, service)

    service.start()
    try:
        started()
        run(show())
    finally:
        service.close()


def test_the_timeline_of_a_server_shows_runs_to_come(tmp_path: Path) -> None:
    async def story(seen: Seen, service: HttpService) -> None:
        await seen.until(lambda: "┈┈┈" in seen.text() and "24 hours" in seen.text())

    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("often", "every 1m"))
    watch(story, tmp_path)


def test_it_shows_schedules_and_what_others_change_of_them(tmp_path: Path) -> None:
    async def story(seen: Seen, service: HttpService) -> None:
        await seen.until(lambda: "backup" in seen.text())
        with Client(tmp_path / "edge.db") as other:
            other.add(make_spec("fresh", "@hourly"))
        await seen.until(lambda: "fresh" in seen.text())
        assert "edge.sock" in seen.text()
        await seen.press("2")
        await seen.until(lambda: "@hourly" in seen.text())
        await seen.press("1", "enter")
        await seen.until(lambda: "Next runs" in seen.text())

    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("backup", "@daily"))
    watch(story, tmp_path)


def test_what_is_done_from_it_is_done_there(tmp_path: Path) -> None:
    async def story(seen: Seen, service: HttpService) -> None:
        await seen.until(lambda: "backup" in seen.text())
        await seen.press("1", "r")
        await seen.until(lambda: "run 1 of backup: queued" in seen.told())
        await seen.press("slash")
        await seen.write("rep")
        await seen.press("enter")
        await seen.until(lambda: "1 match" in seen.text())

    with Client(tmp_path / "edge.db") as client:
        client.add_all([make_spec("backup", "@daily"), make_spec("report", "@daily")])
    watch(story, tmp_path)
    with Client(tmp_path / "edge.db") as client:
        assert [run.schedule for run in client.history()] == ["backup"]


def test_a_server_that_is_lost_has_a_banner_until_it_comes_back(tmp_path: Path) -> None:
    async def story(seen: Seen, service: HttpService) -> None:
        await seen.until(lambda: "backup" in seen.text())
        await asyncio.to_thread(service.close)
        await seen.until(lambda: "can't be reached" in seen.text())
        await asyncio.to_thread(service.start)
        await seen.until(lambda: "can't be reached" not in seen.text())
        assert "backup" in seen.text()

    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("backup", "@daily"))
    watch(story, tmp_path)


def test_failures_of_an_older_server_are_listed_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_elsewhere() -> None:
        later = RESOURCES["acknowledged"]._replace(path="/later")
        monkeypatch.setitem(cast("dict[str, Resource]", RESOURCES), "acknowledged", later)
        resource_types.cache_clear()

    async def story(seen: Seen, service: HttpService) -> None:
        await seen.until(lambda: "poll-inverter" in seen.text())
        await seen.press("7")
        await seen.until(
            lambda: "the server is older: it has no list of acknowledged" in seen.text()
        )
        assert "poll-inverter" in seen.lines()[2]
        assert not seen.told()

    with make_scene(tmp_path / "edge.db"):
        pass
    try:
        watch(story, tmp_path, started=ask_elsewhere)
    finally:
        resource_types.cache_clear()


def test_an_older_server_shows_its_lists_and_the_dashboard_names_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_elsewhere() -> None:
        later = RESOURCES["timeline"]._replace(path="/later")
        monkeypatch.setitem(cast("dict[str, Resource]", RESOURCES), "timeline", later)
        resource_types.cache_clear()

    async def story(seen: Seen, service: HttpService) -> None:
        await seen.until(lambda: "the server is older: it has no timeline" in seen.told())
        assert "backup" in seen.text()
        assert "nothing at this path" not in seen.text()
        await seen.press("1")
        assert "@daily" in seen.text()

    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("backup", "@daily"))
    try:
        watch(story, tmp_path, started=ask_elsewhere)
    finally:
        resource_types.cache_clear()
