"""EXPLAIN QUERY PLAN: every hot query finds its rows by an index, and sorts nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from edgecron.base.units import MIB
from edgecron.model.choices import Overlap, Status
from edgecron.planning.retention import Retention, limits_at
from edgecron.store.contract import Claimant
from edgecron.store.sql import outbox, retention
from edgecron.store.sql.explanations import find_deciding, find_revision
from edgecron.store.sql.history import Wanted, find_page, find_page_ids
from edgecron.store.sql.notices import find_incidents, find_stalls_told
from edgecron.store.sql.outbox import find_broken_rules
from edgecron.store.sql.overlap_replace import replace_oldest
from edgecron.store.sql.queue_order import Blocked
from edgecron.store.sql.statistics import (
    count_by_cell,
    find_ended,
    find_output_sizes,
    find_recurring_of,
)
from edgecron.store.sql.waiting_rows import wake_for_success, wake_schedule
from edgecron.store.sqlite.store import SqliteStore, open_store
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.offering import come
from tests.support.specs import make_spec

QUEUES = ("command", "py:app")
SEAT = Claimant(engine_id=1, supervisor_id="s1", queues=QUEUES, max_running=3)
OFFERS = frozenset({"callable poll", "command s1"})


def within(store: SqliteStore, call: Callable[[], object]) -> object:
    """Call in a transaction, as all that writes is."""
    with store.transaction():
        return call()


HOT: dict[str, Callable[[SqliteStore, Bench], object]] = {
    "find_due": lambda store, bench: store.find_due(QUEUES, now_ms=bench.now, limit=10),
    "next_due_ms": lambda store, bench: store.next_due_ms(QUEUES, now_ms=bench.now),
    "find_due, offered": lambda store, bench: store.find_due(
        QUEUES, now_ms=bench.now, limit=10, offers=OFFERS
    ),
    "find_boot_due": lambda store, bench: store.find_boot_due(QUEUES, boot_id="b", offers=OFFERS),
    "next_due_ms, offered": lambda store, bench: store.next_due_ms(
        QUEUES, now_ms=bench.now, offers=OFFERS
    ),
    "upcoming, offered": lambda store, bench: store.upcoming(QUEUES, limit=10, offers=OFFERS),
    "claim_queued, offered": lambda store, bench: store.claim_queued(
        claimant=SEAT._replace(offers=OFFERS), now_ms=bench.now
    ),
    "note_vanished": lambda store, bench: come(store, "py:app", "poll"),
    "is_used": lambda store, bench: [store.is_used(queue) for queue in QUEUES],
    "upcoming": lambda store, bench: store.upcoming(QUEUES, limit=10),
    "find_next": lambda store, bench: store.find_next(QUEUES),
    "load_schedules": lambda store, bench: store.load_schedules([(1, 1), (2, 1)]),
    "claim_due": lambda store, bench: bench.fire(),
    "claim_queued": lambda store, bench: store.claim_queued(claimant=SEAT, now_ms=bench.now),
    "claim_queued, late": lambda store, bench: store.claim_queued(
        claimant=SEAT, now_ms=bench.now + 86_400_000
    ),
    "blocked": lambda store, bench: Blocked().find_all_keys(store),
    "wake": lambda store, bench: within(store, lambda: wake_for_success(store, "s1")),
    "wake a schedule": lambda store, bench: within(
        store, lambda: wake_schedule(store, 3, now_ms=bench.now)
    ),
    "bring_back_queued": lambda store, bench: store.bring_back_queued(
        now_ms=bench.now - 1, ahead_ms=bench.now - 1
    ),
    "give_up_expired": lambda store, bench: store.claim_queued(
        claimant=SEAT, now_ms=bench.now + 2 * 3_600_000
    ),
    "find_covered": lambda store, bench: store.find_covered(
        bench.store.get_schedule("s3"), ("global", ""), from_ms=bench.now - 300_000, to_ms=bench.now
    ),
    "queue_backfill": lambda store, bench: store.queue_backfill(
        bench.store.get_schedule("s3"),
        [(bench.now - 120_000, "@hourly", ("global", ""))],
        priority=0,
        now_ms=bench.now,
    ),
    "remove": lambda store, bench: store.remove_schedule(
        bench.store.get_schedule("s290"), missed=(), now_ms=bench.now
    ),
    "is_decided_early": lambda store, bench: store.is_decided_early(
        bench.store.get_schedule("s3"), now_ms=bench.now
    ),
    "find_ended": lambda store, bench: find_ended(store, None, since_ms=0, limit=9),
    "find_ended of one": lambda store, bench: find_ended(store, [3], since_ms=0, limit=9),
    "find_recurring_of": lambda store, bench: find_recurring_of(store, [3, 4]),
    "find_output_sizes": lambda store, bench: find_output_sizes(store, 3, since_ms=0, limit=9),
    "find_deciding": lambda store, bench: find_deciding(
        store, 3, ("global", ""), from_ms=bench.now, to_ms=bench.now + 59_999
    ),
    "find_revision": lambda store, bench: find_revision(store, 3, at_ms=bench.now),
    "find_times": lambda store, bench: store.find_times([1, 2, 3]),
    "has_queued": lambda store, bench: store.has_queued(),
    "find_running": lambda store, bench: store.find_running(),
    "finish": lambda store, bench: bench.end(*bench.fill().granted),
    "enqueue": lambda store, bench: bench.run("s1", key="manual:x"),
    "enqueue once": lambda store, bench: [bench.run_once(name) for name in ("s1", "s1", "many")],
    "history": lambda store, bench: store.find_executions(before_id=500),
    "history of one": lambda store, bench: store.find_executions(schedule_id=3, before_id=500),
    "failures": lambda store, bench: store.find_executions(statuses=(Status.FAILED,)),
    "failures of one": lambda store, bench: store.find_executions(
        schedule_id=3, statuses=(Status.FAILED, Status.SKIPPED), before_id=500
    ),
    "failures after": lambda store, bench: find_page(
        store, Wanted(statuses=(Status.FAILED,), reasons=("exit",), after_id=50), limit=9
    ),
    "a page of many": lambda store, bench: find_page(
        store, Wanted(range(1, 2000), statuses=(Status.FAILED,), before_id=500), limit=9
    ),
    "successes": lambda store, bench: store.find_executions(statuses=(Status.SUCCESS,)),
    "one execution": lambda store, bench: store.find_execution(5),
    "last execution": lambda store, bench: store.last_execution_of(
        bench.store.get_schedule("s1").id
    ),
    "output": lambda store, bench: store.find_output(5),
    "is_removed": lambda store, bench: store.is_removed(5),
    "prune one": lambda store, bench: prune(store, bench, 3),
    "prune": lambda store, bench: prune(store, bench, None),
    "waiting pings": lambda store, bench: outbox.find_waiting(store, "ops", schedule="s3"),
    "notices of a rule": lambda store, bench: outbox.find_notices(
        store, before_id=None, limit=20, rule="ops"
    ),
    "notices": lambda store, bench: outbox.find_notices(store, before_id=9, limit=20, rule=None),
    "messages of a rule": lambda store, bench: outbox.find_sent_ms(
        store, "ops", since_ms=bench.now, limit=20
    ),
    "last messages": lambda store, bench: outbox.find_last_sent_ms(store, ["ops"]),
    "stalled engines": lambda store, bench: find_stalls_told(store, since_ms=bench.now),
    "broken rules": lambda store, bench: find_broken_rules(store),
    "incidents": lambda store, bench: find_incidents(store, [3], now_ms=bench.now),
    "next try of a rule": lambda store, bench: outbox.find_retry_ms(store, "ops"),
    "coming": lambda store, bench: list(islice(store.coming_schedules(), 100)),
}


def prune(store: SqliteStore, bench: Bench, schedule_id: int | None) -> None:
    """A pass in which most limits are passed."""
    with store.transaction():
        store.change(
            """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes, stderr_bytes,
                   dropped_bytes, dropped_after)
               SELECT id, 'raw', zeroblob(100), 100, 0, 0, 0 FROM executions WHERE id < 600
               ON CONFLICT DO NOTHING"""
        )
    kept = Retention(
        output_age_s=1, output_bytes=1, history_age_s=60, history_count=2, database_bytes=MIB
    )
    limits = limits_at(kept, bench.now + 300_000, is_trusted=True)
    assert any(retention.prune(store, limits, schedule_id=schedule_id, is_trial=True))
    assert any(retention.prune(store, limits, schedule_id=schedule_id, is_trial=False))


# What looks at every schedule, at a start or when clocks and zones change; at no history.
REPAIRS: dict[str, Callable[[SqliteStore, Bench], object]] = {
    "find_misdated": lambda store, bench: store.find_misdated(
        now_ms=bench.now - 1, ahead_ms=bench.now - 1
    ),
    "find_intervals": lambda store, bench: store.find_intervals(now_ms=bench.now, has_stepped=True),
    "find_zoned": lambda store, bench: store.find_zoned(),
    "bring_back_successes": lambda store, bench: store.bring_back_successes(now_ms=bench.now - 1),
}

# A row of a JSON array, of a pragma or of a counted subquery is no table of ours.
# They sort at most `limit` runs of each schedule.
SPANS: dict[str, Callable[[SqliteStore, Bench], object]] = {
    "count_by_cell": lambda store, bench: count_by_cell(
        store, [3, 4], since_ms=0, until_ms=bench.now, cell_ms=60_000, now_ms=bench.now, limit=9
    ),
}
_ALLOWED = re.compile(
    r"SCAN (w|named|json_each) VIRTUAL TABLE"
    # Few groups have a limit, few engines are remembered, and rules for notices are few.
    r"|SCAN (g|r|n LEFT-JOIN|CONSTANT ROW|engines|c)$"
    # What runs or waits now, whatever the past holds.
    r"|SCAN \w+ USING (COVERING )?INDEX executions_(active|queued)$"
    # A page of the whole history is read backwards by id, and ends at its limit.
    r"|SCAN e$"
)


# A schedule's whole past, by an index that says nothing else of what is looked for.
_WALK = re.compile(
    r"SEARCH \w+ USING (COVERING )?INDEX (sqlite_autoindex_executions_1|executions_by_schedule)"
    r" \(schedule_id=\?\)"
)


@pytest.fixture(scope="module", params=["with statistics", "without statistics"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int]:
    """Three hundred schedules with a past of three thousand runs, and much that waits; its time.

    It is made once: that takes two seconds.
    """
    path = tmp_path_factory.mktemp("filled") / "edgecron.db"
    clock = FakeClock()
    bench = Bench(lambda: open_store(path, now_ms=0), clock, places=100_000)
    for number in range(300):
        bench.add(
            make_spec(f"s{number}", overlap=Overlap.ALLOW, group="disk" if number % 2 else None)
        )
    for number in range(20, 40):
        bench.add(make_spec(f"follows{number}", f"after s{number}:any"))
    bench.add(make_spec("many", scopes=(("device", "a"), ("device", "b"))))
    bench.store.set_group_limit("disk", 100_000)
    for minute in range(10):
        clock.advance_ms(60_000)
        while (batch := bench.fire()).advanced:
            bench.end(*batch.granted, status=Status.FAILED if minute == 7 else Status.SUCCESS)
    for number in range(50):
        bench.run(f"s{number}", key="manual:1")
    for number in range(20):
        name = f"waits{number}"
        bench.add(make_spec(name, needs=("success:s1:1s",), needs_deadline_s=3600))
    clock.advance_ms(60_000)
    bench.claim(bench.decide([due for due in bench.look(limit=1000) if due.schedule_id > 300]))
    if request.param == "with statistics":
        bench.store.connection.execute("ANALYZE")
    bench.store.close()
    return path, clock.now_ms()


@pytest.fixture
def full(
    filled: tuple[Path, int], make_store: OpenStore, tmp_path: Path, clock: FakeClock
) -> Bench:
    """A copy of it, at its time."""
    original, now_ms = filled
    shutil.copy(original, tmp_path / "edgecron.db")
    clock.advance_ms(now_ms - clock.now_ms())
    return Bench(make_store, clock, places=100_000)


def test_every_hot_query_is_served_by_an_index(full: Bench) -> None:
    slow = slow_parts(full, HOT, _ALLOWED)

    assert not slow, "\n".join(f"{name}: {line}" for name in slow for line in sorted(slow[name]))


def test_the_runs_of_a_span_are_found_by_an_index_before_they_are_grouped(full: Bench) -> None:
    slow = slow_parts(full, SPANS, _ALLOWED)

    parts = [part for parts in slow.values() for part in parts]
    assert all(part.startswith("USE TEMP B-TREE FOR GROUP BY") for part in parts), parts


def test_what_looks_at_every_schedule_looks_at_no_history(full: Bench) -> None:
    slow = slow_parts(
        full, REPAIRS, re.compile(r"SCAN (schedules$|json_each( EXISTS)? VIRTUAL TABLE)")
    )

    assert not slow, "\n".join(f"{name}: {line}" for name in slow for line in sorted(slow[name]))


def slow_parts(
    full: Bench,
    calls: dict[str, Callable[[SqliteStore, Bench], object]],
    allowed: re.Pattern[str],
) -> dict[str, set[str]]:
    """What walks or sorts in the statements of calls, by their names."""
    connection = full.store.connection
    slow: dict[str, set[str]] = {}
    for name, call in calls.items():
        statements: set[str] = set()

        def note(cursor: object, sql: str, bindings: object, seen: set[str] = statements) -> bool:
            seen.add(sql)
            return True

        connection.exec_trace = note
        call(full.store, full)
        connection.exec_trace = None
        assert statements, f"{name} asked nothing"
        for sql in statements:
            if not re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT)\b", sql):
                continue
            for line in plan_of(full, sql):
                if "TEMP B-TREE" in line or (line.startswith("SCAN") and not allowed.search(line)):
                    slow.setdefault(name, set()).add(f"{line}  <-  {' '.join(sql.split())}")
                if _WALK.search(line) and "LIMIT" not in sql:
                    slow.setdefault(name, set()).add(f"{line}  <-  {' '.join(sql.split())}")
    return slow


def plan_of(bench: Bench, sql: str) -> list[str]:
    names = set(re.findall(r"(?<![:\w]):([a-z_0-9]+)", sql))
    params = dict.fromkeys(names)
    rows = bench.store.connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)
    return [row[3] for row in rows]


def test_a_page_of_history_begins_where_the_one_before_it_ended(full: Bench) -> None:
    """`SCAN e` is allowed above for a first page alone: the next ones seek."""
    statements: list[str] = []
    connection = full.store.connection
    connection.exec_trace = lambda cursor, sql, bindings: statements.append(sql) or True

    full.store.find_executions(before_id=500, limit=3)

    connection.exec_trace = None
    walk, _ = statements
    assert plan_of(full, walk)[0] == "SEARCH e USING INTEGER PRIMARY KEY (rowid<?)"


@pytest.mark.parametrize(
    ("statuses", "index"),
    [((), "executions_by_schedule"), ((Status.FAILED,), "executions_unwell_by_schedule")],
)
def test_of_some_schedules_each_is_read_from_where_its_page_begins(
    full: Bench, statuses: tuple[Status, ...], index: str
) -> None:
    statements: list[str] = []
    connection = full.store.connection
    connection.exec_trace = lambda cursor, sql, bindings: statements.append(sql) or True

    find_page_ids(full.store, Wanted((1, 2, 3), statuses, before_id=500), limit=2)

    connection.exec_trace = None
    assert len(statements) == 3
    [walk] = set(statements)
    [search] = plan_of(full, walk)
    assert re.fullmatch(rf"SEARCH e USING .*INDEX {index} .*(row)?id<\?\)", search)


@pytest.mark.parametrize(
    "call",
    [find_broken_rules, lambda store: outbox.find_notices(store, before_id=9, limit=2, rule="r")],
)
def test_notices_of_a_rule_are_found_without_those_of_others(
    full: Bench, call: Callable[[SqliteStore], object]
) -> None:
    statements: list[str] = []
    connection = full.store.connection
    connection.exec_trace = lambda cursor, sql, bindings: statements.append(sql) or True

    call(full.store)

    connection.exec_trace = None
    plan = plan_of(full, statements[0])
    assert any(re.search(r" INDEX notices_by_rule \(rule=\?", line) for line in plan), plan


@pytest.mark.parametrize(
    ("call", "index"),
    [
        (lambda store: store.find_executions(statuses=(Status.RUNNING,)), "executions_active"),
        (lambda store: store.find_executions(statuses=(Status.QUEUED,)), "executions_queued"),
        (
            lambda store: store.find_executions(schedule_id=3, statuses=(Status.QUEUED,)),
            "executions_active",
        ),
        (lambda store: store.find_waiting(limit=20), "executions_owed"),
        (
            lambda store: replace_oldest(store, (3, "global", ""), count=0, by=0, now_ms=0),
            "executions_active",
        ),
    ],
)
def test_what_is_active_is_found_without_the_past(
    full: Bench, call: Callable[[SqliteStore], object], index: str
) -> None:
    """It is little, and may be sorted; the newest of it may lie far back."""
    statements: list[str] = []
    connection = full.store.connection
    connection.exec_trace = lambda cursor, sql, bindings: statements.append(sql) or True

    call(full.store)

    connection.exec_trace = None
    assert f" INDEX {index}" in plan_of(full, statements[0])[0]
