"""The key that runs an engine from the dashboard, and stops it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.client import Client
from edgecron.tui.app import OwnMachine
from tests.support.accounts import as_root
from tests.support.processes import ends
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "edgecron.db"
    with Client(path) as client:
        client.add(make_spec("backup", "0 2 * * *"))
    return path


def shown(database: Path, *, starts_at_once: bool = False) -> dict[str, object]:
    return {"machine": OwnMachine(database, starts_engine=starts_at_once)}


def test_it_runs_one_which_is_shown_as_ours_and_stops_it_after_a_question(database: Path) -> None:
    async def story(seen: Seen) -> None:
        assert "✗ no engine: S starts one" in seen.text()
        await seen.press("S")
        told = seen.told()
        await seen.until(lambda: "● 1 engine, this dashboard's" in seen.text())
        await seen.press("S")
        asked = seen.text()
        await seen.press("n", "S", "y")
        await seen.until(lambda: "the dashboard's engine stopped" in seen.told())
        await seen.until(lambda: "✗ no engine" in seen.text())

        assert "started an engine; it stops when you leave" in told
        assert "Stop this dashboard's engine?" in asked

    watch(story, database, SystemClock(), **shown(database))


def test_it_is_run_at_once_where_that_is_asked_for_and_ends_with_the_dashboard(
    database: Path,
) -> None:
    pids: list[int] = []

    async def story(seen: Seen) -> None:
        await seen.until(lambda: "● 1 engine, this dashboard's" in seen.text())
        assert seen.app.engine_pid is not None
        pids.append(os.pidfd_open(seen.app.engine_pid))

    watch(story, database, SystemClock(), **shown(database, starts_at_once=True))

    assert ends(pids[0], bound_s=0)
    os.close(pids[0])
    with Client(database) as client:
        assert client.engines() == []


def test_one_that_ends_by_itself_is_told_with_what_it_said_last(database: Path) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("S")
        await seen.until(lambda: "● 1 engine, this dashboard's" in seen.text())
        assert seen.app.engine_pid is not None
        os.kill(seen.app.engine_pid, signal.SIGKILL)
        await seen.until(lambda: "the dashboard's engine stopped: " in seen.told())
        await seen.until(lambda: "✗ 1 gone" in seen.text())

    watch(story, database, SystemClock(), **shown(database))


@as_root
def test_of_another_user_s_database_none_is_run(database: Path) -> None:
    os.chown(database, 12_345, 12_345)

    async def story(seen: Seen) -> None:
        await seen.press("S")

        assert "belongs to user 12345" in seen.told()
        assert seen.app.engine_pid is None

    watch(story, database, SystemClock(), **shown(database))


def test_where_none_can_be_run_it_says_so(database: Path) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("S")

        assert (
            "this dashboard can't start an engine: the database is on another machine"
            in seen.told()
        )

    watch(story, database, SystemClock())
