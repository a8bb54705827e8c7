"""A place with real engines, or a story of a virtual one, for each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engine.machines import Machine
from tests.support.engines import Place
from tests.support.postgres import PostgresServer
from tests.support.stores import ServerClock, ServerStores
from tests.support.story import START_MS, Story

# The files whose stories are also told on PostgreSQL.
_ON_BOTH = {
    "test_engine_backfill",
    "test_engine_backlog",
    "test_engine_declared",
    "test_engine_followups",
    "test_engine_limits",
    "test_engine_needs",
    "test_engine_next_times",
    "test_engine_paused",
    "test_engine_policies",
    "test_engine_presence",
    "test_engine_recovery",
    "test_engine_rehearsal",
    "test_engine_rescheduled",
    "test_engine_sql_edits",
    "test_engine_steps",
    "test_engine_told",
    "test_engine_told_more",
    "test_engine_undo",
    "test_engine_versions",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "story" in metafunc.fixturenames and "story" not in metafunc.module.__dict__:
        is_of_file = metafunc.definition.get_closest_marker("of_file") is not None
        is_on_both = metafunc.module.__name__.rpartition(".")[2] in _ON_BOTH
        kinds = ["sqlite", "postgres"] if is_on_both and not is_of_file else ["sqlite"]
        metafunc.parametrize("story", kinds, indirect=True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def story(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Story]:
    """A story over the store of its parameter."""
    if request.param == "sqlite":
        yield Story(tmp_path / "story.db")
        return
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url = request.getfixturevalue("postgres").create_database()
    clock = ServerClock(START_MS)  # after a skip without a server, nothing would close its file
    stores = ServerStores(url, clock=clock)
    told = Story(tmp_path / "story.db", clock=clock, stores=stores)
    yield told
    told.client.close()
    told.world.close()
    stores.close()
    clock.close()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def first(url: str, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine("first", url, tmp_path)
    yield machine
    machine.store.close()


@pytest.fixture
def second(url: str, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine("second", url, tmp_path)
    yield machine
    machine.store.close()
