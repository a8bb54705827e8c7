"""A server reads few rows for a claim or a list, however many runs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgecron.model.choices import Overlap
from edgecron.store.sql.queue import has_expired
from edgecron.store.sql.statistics import count_by_cell, find_ended
from edgecron.store.sqlite.store import SqliteStore
from tests.store.store_bench import Bench
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

QUEUED = 3_000
# Of schedules, engines and runs together: a claim reads pages of rows, not all that are queued.
MOST_READ = 300


def queue_copies(store: SqliteStore, *, is_analyzed: bool = True) -> None:
    """Queue many runs like each one that is queued."""
    columns = """schedule_id, scope_kind, scope_id, revision, fire_key, cause, due_at,
        max_attempts, queue, priority, status, queued_at"""
    with store.transaction():
        store.change(
            f"""INSERT INTO executions ({columns}, plan_at)
                SELECT {columns}, plan_at + n
                FROM executions CROSS JOIN generate_series(1, :count) AS n
                WHERE status = 'queued'""",
            {"count": QUEUED},
        )
        if is_analyzed:
            store.change("ANALYZE executions")  # as the server does by itself, later


def read_rows(store: SqliteStore) -> int:
    """How many rows the last transactions have read so far, with this one."""
    row = store.row(
        """SELECT CAST(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) AS BIGINT)
           FROM pg_stat_xact_user_tables"""
    )
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_a_claim_reads_few_of_the_runs_that_wait(
    postgres: PostgresServer, is_analyzed: bool
) -> None:
    open_store = postgres.new_database()
    bench = Bench(lambda: open_store(busy_wait_s=30), FakeClock(), places=2)
    store = bench.store
    bench.add(make_spec("poll", overlap=Overlap.ALLOW))
    other = bench.add(make_spec("other"))
    bench.run("poll", key="manual:first")
    bench.fill()  # So the queued runs of `poll` are put off, and other schedules are looked for.
    bench.run("poll", key="manual:0")
    queue_copies(store, is_analyzed=is_analyzed)
    bench.clock.advance_ms(60_000)
    bench.run("other", key="manual:1")

    with store.transaction():
        before = read_rows(store)
        [granted] = bench.fill().granted
        read = read_rows(store) - before
    store.close()

    assert granted.schedule_id == other.id
    assert read < MOST_READ


def test_a_claim_reads_few_of_the_runs_that_the_server_has_not_counted_yet(
    postgres: PostgresServer,
) -> None:
    open_store = postgres.new_database()
    bench = Bench(lambda: open_store(busy_wait_s=30), FakeClock(), places=1)
    store = bench.store
    bench.add(make_spec("poll", overlap=Overlap.ALLOW))
    bench.run("poll", key="manual:0")
    queue_copies(store, is_analyzed=False)
    bench.clock.advance_ms(60_000)

    with store.transaction():
        before = read_rows(store)
        granted = bench.fill().granted
        read = read_rows(store) - before
    store.close()

    assert len(granted) == 1
    assert read < MOST_READ


def test_a_fire_reads_few_of_the_runs_that_wait(postgres: PostgresServer) -> None:
    open_store = postgres.new_database()
    bench = Bench(lambda: open_store(busy_wait_s=30), FakeClock(), places=2)
    store = bench.store
    bench.add(make_spec("poll", overlap=Overlap.ALLOW))
    bench.add(make_spec("other"))
    bench.run("poll", key="manual:0")
    queue_copies(store)
    bench.clock.advance_ms(60_000)

    with store.transaction():
        before = read_rows(store)
        fired = bench.fire()
        bench.run("poll", key="manual:1")
        read = read_rows(store) - before
    store.close()

    assert (fired.advanced, len(fired.granted)) == (2, 2)
    assert read < MOST_READ


def test_lists_of_schedules_read_each_run_few_times(postgres: PostgresServer) -> None:
    open_store = postgres.new_database()
    bench = Bench(lambda: open_store(busy_wait_s=30), FakeClock())
    store = bench.store
    ids = [bench.add(make_spec(name, overlap=Overlap.ALLOW)).id for name in ("poll", "other")]
    bench.run("poll", key="manual:0")
    queue_copies(store)

    with store.transaction():
        before = read_rows(store)
        find_ended(store, ids, since_ms=0, limit=10)
        after_ended = read_rows(store)
        count_by_cell(
            store,
            ids,
            since_ms=0,
            until_ms=bench.now + 1,
            cell_ms=bench.now,
            now_ms=bench.now,
            limit=10,
        )
        after_cells = read_rows(store)
    store.close()

    # A few times each, not once for each other run: those would be 9,000,000.
    assert after_ended - before < 3 * QUEUED
    assert after_cells - after_ended < 3 * QUEUED


def test_a_queue_without_runs_is_found_without_reading_the_others(postgres: PostgresServer) -> None:
    open_store = postgres.new_database()
    bench = Bench(lambda: open_store(busy_wait_s=30), FakeClock())
    store = bench.store
    bench.add(make_spec("poll", overlap=Overlap.ALLOW))
    bench.run("poll", key="manual:0")
    queue_copies(store)

    with store.transaction():
        before = read_rows(store)
        placed = store.find_placed(("command on web1", "command on each"))
        after_placed = read_rows(store)
        is_used = store.is_used("program")
        after_used = read_rows(store)
    store.close()

    assert (placed, is_used) == ((), False)
    assert after_placed - before < MOST_READ
    assert after_used - after_placed < MOST_READ


def test_waits_that_have_ended_are_found_without_reading_other_runs(
    postgres: PostgresServer,
) -> None:
    open_store = postgres.new_database()
    bench = Bench(lambda: open_store(busy_wait_s=30), FakeClock())
    store = bench.store
    bench.add(make_spec("poll", overlap=Overlap.ALLOW))
    bench.run("poll", key="manual:0")
    queue_copies(store)

    with store.transaction():
        before = read_rows(store)
        for _ in range(12):  # After some times, the server keeps one plan for all values.
            assert not has_expired(store, ("command",), now_ms=bench.now)
        read = read_rows(store) - before
    store.close()

    assert read < MOST_READ
