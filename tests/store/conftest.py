"""The stores that the conformance suite runs over, and a bench around one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.store.sqlite.store import SqliteStore, open_store
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the store of this test; another kind of store is one more parameter here."""
    opened: list[SqliteStore] = []
    assert request.param == "sqlite"
    path = new_database(tmp_path / "edgecron.db", now_ms=0)

    def make() -> SqliteStore:
        opened.append(open_store(path, now_ms=0))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def bench(make_store: OpenStore, clock: FakeClock) -> Bench:
    return Bench(make_store, clock)
