"""What is active of a schedule is found without a walk through its past."""

from __future__ import annotations

import pytest
from store_bench import Bench

from edgecron.model import Status


@pytest.mark.failure(48)
def test_what_is_active_or_went_otherwise_than_well_is_read_by_its_own_index(
    bench: Bench,
) -> None:
    bench.add()
    schedule = bench.store.get_schedule("backup")
    connection = bench.store._database._connection
    statements: list[str] = []
    connection.exec_trace = lambda cursor, sql, bindings: statements.append(sql) or True

    bench.run(key="manual:1")
    bench.store.find_prospects(schedule, most_active=5, now_ms=bench.now)
    bench.store.find_executions(schedule_id=schedule.id, statuses=(Status.SKIPPED,))
    connection.exec_trace = None

    walks = set()
    for sql in statements:
        if "FROM executions" in sql and sql.lstrip().startswith("SELECT"):
            names = dict.fromkeys(("ids", "id", "schedule", "limit", "now", "queue"))
            for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", names):
                if row[3].startswith(("SEARCH e ", "SEARCH executions ", "SCAN e")):
                    walks.add(row[3].split(" INDEX ")[1].split(" (")[0])
    assert walks == {
        "executions_active",
        "executions_unwell_by_schedule",
    }
