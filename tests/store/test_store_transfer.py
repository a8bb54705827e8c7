"""A whole database that is copied from one store into another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgecron.base.errors import Conflict
from edgecron.store.sql.transfer import TABLES, copy_all
from edgecron.store.sqlite.store import SqliteStore, open_store
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

HOUR_MS = 3_600_000


def nothing(done: int, most: int) -> None:
    """Ignore progress."""


@pytest.fixture(params=["to_server", "to_file"])
def ends(
    request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path
) -> Iterator[tuple[OpenStore, OpenStore]]:
    """What opens the store that is copied, and the empty one."""
    with ExitStack() as stack:

        def closing(open_one: OpenStore) -> OpenStore:
            def open_it() -> SqliteStore:
                store = open_one()
                stack.callback(store.close)
                return store

            return open_it

        file = closing(lambda: open_store(tmp_path / "app.db", now_ms=0))
        server = closing(postgres.new_database())
        yield (file, server) if request.param == "to_server" else (server, file)


def fill(bench: Bench) -> None:
    """Make schedules with a history, and remove the newest run."""
    bench.add(make_spec("sync", "every 1h"))
    bench.add(make_spec("gone", "@daily"))
    bench.add(make_spec("scan", "@daily", on="each", group="disk"))
    bench.store.join_machine(("command on each",), "web1")
    bench.store.set_group_limit("disk", 2)
    for _ in range(3):
        bench.clock.advance_ms(HOUR_MS)
        batch = bench.fire()
        bench.end(*batch.granted)
    bench.store.remove_schedule(bench.store.get_schedule("gone"), missed=(), now_ms=bench.now)
    bench.run("sync")


def test_a_copy_has_every_row_and_the_seed(ends: tuple[OpenStore, OpenStore]) -> None:
    open_source, open_target = ends
    bench = Bench(open_source, FakeClock())
    fill(bench)
    target = open_target()
    uuid = target.uuid

    contents = copy_all(bench.store, target, on_progress=nothing)

    again = open_target()
    assert set(contents) == set(TABLES)
    assert contents["executions"].rows == len(bench.rows()) == 4
    assert again.find_executions(limit=100).runs == bench.store.find_executions(limit=100).runs
    for name in ("sync", "scan"):
        assert again.get_schedule(name) == bench.store.get_schedule(name)
    assert again.get_schedule("scan").spec.scopes == (("machine", "web1"),)
    assert contents["groups"].rows == 1
    assert (again.seed, again.uuid) == (bench.store.seed, uuid)


def test_the_copy_goes_on_with_new_ids(ends: tuple[OpenStore, OpenStore]) -> None:
    open_source, open_target = ends
    clock = FakeClock()
    bench = Bench(open_source, clock)
    fill(bench)
    copy_all(bench.store, open_target(), on_progress=nothing)
    before = {row.id for row in bench.rows()}

    copy = Bench(open_target, clock)
    clock.advance_ms(HOUR_MS)
    copy.fire()

    assert copy.claimant.engine_id > bench.claimant.engine_id
    new = {row.id for row in copy.rows()} - before
    assert len(new) == 1
    assert min(new) > max(before)


def test_a_target_with_schedules_is_refused(ends: tuple[OpenStore, OpenStore]) -> None:
    open_source, open_target = ends
    bench = Bench(open_source, FakeClock())
    fill(bench)
    target = Bench(open_target, FakeClock())
    target.add(make_spec("other", "@daily"))

    with pytest.raises(Conflict, match="1 schedules and 0 runs, expected an empty database"):
        copy_all(bench.store, target.store, on_progress=nothing)

    assert target.store.get_schedule("other").spec.name == "other"
    assert target.rows() == []


def test_progress_reaches_its_end(ends: tuple[OpenStore, OpenStore]) -> None:
    open_source, open_target = ends
    bench = Bench(open_source, FakeClock())
    fill(bench)
    seen: list[tuple[int, int]] = []

    copy_all(bench.store, open_target(), on_progress=lambda done, most: seen.append((done, most)))

    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


def test_a_run_that_starts_meanwhile_is_refused(ends: tuple[OpenStore, OpenStore]) -> None:
    open_source, open_target = ends
    bench = Bench(open_source, FakeClock())
    bench.add(make_spec("sync", "every 1h"))
    bench.clock.advance_ms(HOUR_MS)
    bench.fire()

    with pytest.raises(Conflict, match="has started meanwhile"):
        copy_all(bench.store, open_target(), on_progress=nothing)


def test_a_table_without_rows_keeps_its_last_id(ends: tuple[OpenStore, OpenStore]) -> None:
    open_source, open_target = ends
    source = open_source()
    with source.transaction():
        source.set_last_ids({"notices": 500})
    target = open_target()

    copy_all(source, target, on_progress=nothing)

    assert target.find_last_ids()["notices"] == 500
