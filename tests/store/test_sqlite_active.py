"""What is active is found without a walk through the past, and asked for once."""

from __future__ import annotations

import pytest

from edgecron.model.choices import Overlap, Status
from tests.store.store_bench import Bench, outcome_of
from tests.support.specs import make_spec


@pytest.mark.failure(48)
def test_what_is_active_or_went_otherwise_than_well_is_read_by_its_own_index(
    bench: Bench,
) -> None:
    bench.add()
    schedule = bench.store.get_schedule("backup")
    connection = bench.store.connection
    statements: list[str] = []
    connection.exec_trace = lambda cursor, sql, bindings: statements.append(sql) or True

    bench.run(key="manual:1")
    bench.store.find_prospects(schedule, most_active=5, now_ms=bench.now)
    bench.store.find_executions(schedule_id=schedule.id, statuses=(Status.SKIPPED,))
    connection.exec_trace = None

    walks = set()
    for sql in statements:
        if "FROM executions" in sql and sql.lstrip().startswith("SELECT"):
            names = dict.fromkeys(("of", "id", "ids", "schedule", "name", "limit", "now", "queue"))
            for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", names):
                if " INDEX " in row[3] and row[3].startswith(
                    ("SEARCH e ", "SEARCH executions ", "SCAN e")
                ):
                    walks.add(row[3].split(" INDEX ")[1].split(" (")[0])
    assert walks == {
        "executions_active",
        "executions_unwell_by_schedule",
    }


def test_an_end_and_the_start_after_it_ask_each_thing_once(bench: Bench) -> None:
    for name in ("first", "second", "third"):
        bench.add(make_spec(name))
        bench.run(name)
    bench.claimant = bench.claimant._replace(max_running=1)
    [running] = bench.fill().granted
    asked: list[str] = []
    connection = bench.store.connection
    connection.exec_trace = lambda cursor, sql, bindings: (
        asked.append(" ".join(sql.split())) or True
    )

    ended, _, batch = bench.store.finish_and_fill(
        [outcome_of(running, bench.now)], claimant=bench.claimant, now_ms=bench.now
    )
    connection.exec_trace = None

    assert [bool(one) for one in ended] == [True]
    assert len(batch.granted) == 1
    assert len(asked) == len(set(asked))
    # Nobody has a group, and nothing is held back.
    assert not [sql for sql in asked if "FROM groups" in sql or "json_each(:keys)" in sql]


def test_what_is_held_back_is_left_out_of_the_next_page(bench: Bench) -> None:
    """A schedule that is full, and a group: more than a page of each stands before the last."""
    bench.add(make_spec("full", overlap=Overlap.QUEUE))
    bench.add(make_spec("grouped", overlap=Overlap.ALLOW, group="disk"))
    bench.store.set_group_limit("disk", 1)
    bench.add(make_spec("free"))
    for number in range(40):
        bench.run("full", key=f"manual:{number}")
        bench.run("grouped", key=f"manual:{number}")
    bench.run("free")

    batch = bench.fill()

    names = {one.id: one.name for one in bench.store.find_schedules()}
    started = sorted(names[one.schedule_id] for one in batch.granted)
    assert started == ["free", "full", "grouped"]


def test_a_large_batch_has_no_other_statement_compiled_again(bench: Bench) -> None:
    for number in range(50):
        bench.add(make_spec(f"s{number}"))
    before = 0
    for _ in range(3):
        bench.clock.advance_ms(60_000)
        before = bench.store.connection.cache_stats()["misses"]
        bench.end(*bench.fire().granted)

    assert bench.store.connection.cache_stats()["misses"] == before
