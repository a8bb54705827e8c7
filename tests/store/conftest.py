"""The stores that the conformance suite runs over, and a bench around one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from edgecron.store.sqlite.store import SqliteStore, open_store
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database

# The files of the suite that also run on PostgreSQL.
_ON_BOTH = {
    "test_store_claims",
    "test_store_ends",
    "test_store_forgetting",
    "test_store_late_order",
    "test_store_measures",
    "test_store_reports",
    "test_store_retention",
    "test_store_retention_any",
    "test_store_job_kinds",
    "test_store_needs",
    "test_store_notices",
    "test_store_offers",
    "test_store_pages",
    "test_store_queued",
    "test_store_schedules",
    "test_store_upkeep",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make_store" in metafunc.fixturenames:
        is_of_file = metafunc.definition.get_closest_marker("of_file") is not None
        is_on_both = metafunc.module.__name__.rpartition(".")[2] in _ON_BOTH and not is_of_file
        kinds = ["sqlite", "postgres"] if is_on_both else ["sqlite"]
        metafunc.parametrize("make_store", kinds, indirect=True)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the store of this test, of the kind of its parameter."""
    opened: list[SqliteStore] = []
    open_one: Callable[..., SqliteStore]
    if request.param == "postgres":
        open_one = request.getfixturevalue("postgres").new_database()
    else:
        open_one = partial(open_store, new_database(tmp_path / "edgecron.db", now_ms=0), now_ms=0)

    def make(*, busy_wait_s: float = 30.0) -> SqliteStore:
        opened.append(open_one(busy_wait_s=busy_wait_s))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def bench(make_store: OpenStore, clock: FakeClock) -> Bench:
    return Bench(make_store, clock)
