"""Retention: what goes first, what never goes, and what is still known afterwards."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from edgecron.base.units import MIB
from edgecron.model.choices import Cause, Overlap, Status
from edgecron.model.run import Outcome, Output, OutputChunk, Stream
from edgecron.planning.next_fire import Fire
from edgecron.planning.retention import (
    UNLIMITED,
    Kind,
    Reason,
    Removed,
    Retention,
    limits_at,
    sum_of,
)
from edgecron.store.contract import Granted
from edgecron.store.sql import notices, outbox
from edgecron.store.sql.manual_runs import Enqueued
from edgecron.store.sql.old_rows import remove_runs
from edgecron.store.sql.retention import prune as prune_slices
from edgecron.store.sqlite.whole_file import repair_orphans
from tests.store.store_bench import Bench, OpenStore, outcome_of
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.stores import check_soundness, drop_trigger

MINUTE_MS = 60_000
DAY_S = 86_400
BOTH = (("device", "a"), ("device", "b"))


def keep(**limits: Any) -> Retention:
    """These limits and no others."""
    given: dict[str, Any] = dict.fromkeys(Retention.__dataclass_fields__)
    return Retention(**(given | limits))


def prune(
    bench: Bench, retention: Retention, *, name: str | None = None, is_trial: bool = False
) -> list[Removed]:
    """All of a pass, summed."""
    limits = limits_at(retention, bench.now, is_trusted=True)
    schedule_id = None if name is None else bench.store.get_schedule(name).id
    done: list[Removed] = []
    for removed in prune_slices(bench.store, limits, schedule_id=schedule_id, is_trial=is_trial):
        done = done if removed is None else sum_of(done, removed)
    return done


def counts(removed: list[Removed]) -> dict[tuple[Kind, Reason], int]:
    return {(one.kind, one.reason): one.count for one in removed}


def live(
    bench: Bench, runs: int, *, status: Status = Status.SUCCESS, printed: int = 0
) -> list[int]:
    """Let a schedule run at each of the next minutes; the ids."""
    ids = []
    for _ in range(runs):
        bench.clock.advance_ms(MINUTE_MS)
        granted = bench.fire().granted
        for grant in granted:
            bench.store.finish([end_of(bench, grant, status, printed)], now_ms=bench.now)
            ids.append(grant.execution_id)
    return ids


def live_together(bench: Bench, runs: int) -> None:
    """Add a schedule and let it run many times, each time with output, in few transactions."""
    bench.add(make_spec(overlap=Overlap.ALLOW))
    fires = [
        Fire(plan_ms=bench.now + n, due_ms=bench.now, cause=Cause.MANUAL, fire_key=f"manual:{n}")
        for n in range(runs)
    ]
    schedule = bench.store.get_schedule("backup")
    bench.store.enqueue_together([Enqueued(schedule, fires)], now_ms=bench.now)
    while granted := bench.fill().granted:
        ends = []
        for grant in granted:
            bench.clock.advance_ms(1)
            ends.append(end_of(bench, grant, Status.SUCCESS, 1))
        bench.store.finish(ends, now_ms=bench.now)


def end_of(bench: Bench, grant: Granted, status: Status, printed: int) -> Outcome:
    outcome = outcome_of(grant, bench.now, status)
    if not printed:
        return outcome
    chunk = OutputChunk(stream=Stream.STDOUT, at_ms=bench.now, content=bytes(range(250)) * printed)
    return outcome._replace(output=Output(chunks=(chunk,), stdout_bytes=250 * printed))


def left(bench: Bench, name: str | None = None) -> list[int]:
    return [row.id for row in bench.rows(name)]


def later(bench: Bench, days: float) -> None:
    """Let time pass in which nothing is looked at."""
    bench.clock.advance_ms(round(days * DAY_S * 1000))


# What goes.


def test_runs_older_than_the_limit_go(bench: Bench) -> None:
    bench.add()
    live(bench, 20)
    later(bench, 30)
    young = live(bench, 20)

    removed = prune(bench, keep(history_age_s=10 * DAY_S))

    assert left(bench)[-20:] == young[-20:]
    assert counts(removed) == {(Kind.RUN, Reason.AGE): 20}


def test_the_newest_runs_of_each_schedule_are_counted(bench: Bench) -> None:
    bench.add(make_spec("often"))
    bench.add(make_spec("seldom", "*/10 * * * *"))
    live(bench, 30)

    removed = prune(bench, keep(history_count=5))

    assert len(left(bench, "often")) == 5
    assert len(left(bench, "seldom")) == 3
    assert counts(removed) == {(Kind.RUN, Reason.COUNT): 25}


def test_the_runs_of_each_schedule_are_counted_in_a_step_of_their_own(bench: Bench) -> None:
    # An engine fires between two steps: one that counted every schedule would make it late.
    for number in range(10):
        bench.add(make_spec(f"busy-{number}"))
    live(bench, 3)
    prune(bench, keep(history_count=2))
    limits = limits_at(keep(history_count=2), bench.now, is_trusted=True)

    steps = list(prune_slices(bench.store, limits, schedule_id=None, is_trial=False))

    assert len(steps) >= 10
    assert not any(steps)


def test_old_output_goes_and_its_run_stays(bench: Bench) -> None:
    bench.add()
    [old] = live(bench, 1, printed=1)
    later(bench, 100)
    live(bench, 12, printed=1)

    removed = prune(bench, Retention())

    assert counts(removed) == {(Kind.OUTPUT, Reason.AGE): 1}
    assert old in left(bench)


def test_of_output_that_went_it_is_known_how_much_it_was_and_when_it_went(bench: Bench) -> None:
    bench.add()
    [old] = live(bench, 1, printed=3)
    live(bench, 1)

    prune(bench, keep(output_bytes=0))
    output = bench.store.find_output(old)

    assert output is not None
    assert (output.stdout_bytes, output.chunks) == (750, ())
    assert output.removed_at == bench.clock.now()


def test_of_a_run_that_printed_nothing_no_output_is_said_to_be_gone(bench: Bench) -> None:
    bench.add()
    [silent, *_] = live(bench, 3)

    prune(bench, keep(output_bytes=0))

    assert bench.store.find_output(silent) is None


def test_the_oldest_output_goes_until_the_rest_is_within_the_bytes(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 200, printed=80)
    [(total,)] = bench.store.rows("SELECT sum(length(chunks)) FROM outputs")

    removed = prune(bench, keep(output_bytes=total // 2))

    gone = [id_ for id_ in ids if bench.store.find_output(id_).removed_at]  # type: ignore[union-attr]
    [(rest,)] = bench.store.rows("SELECT sum(length(chunks)) FROM outputs")
    assert gone == ids[: len(gone)]
    assert total * 0.48 < rest <= total // 2
    assert counts(removed) == {(Kind.OUTPUT, Reason.BYTES): len(gone)}
    assert left(bench) == ids


def test_the_last_output_of_a_schedule_outlives_the_age(bench: Bench) -> None:
    bench.add(make_spec("yearly", "0 9 1 1 *"))
    later(bench, 50)
    [last] = live(bench, 1, printed=1)
    later(bench, 300)

    removed = prune(bench, keep(output_age_s=DAY_S))

    assert bench.store.find_output(last).chunks  # type: ignore[union-attr]
    assert removed == []


def test_the_oldest_runs_go_until_the_database_is_small_enough(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 5, printed=1)
    big = bench.store
    with big.transaction():
        # A past of many rows, made at once.
        big.change(
            """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
               INSERT INTO executions (schedule_id, revision, plan_at, cause, due_at, queue,
                   status, claimed_at, started_at, finished_at)
               SELECT 1, 1, :from + i * 60000, 'schedule', 0, 'command', 'success', 1, 1,
                   :from + i * 60000 FROM n""",
            {"from": bench.now - 400 * DAY_S * 1000},
        )
    assert big.find_size()[0] > 3 * MIB // 2

    removed = prune(bench, keep(database_bytes=MIB))
    again = prune(bench, keep(database_bytes=MIB))

    assert again == []
    assert big.find_size()[0] <= MIB
    assert {one.reason for one in removed} == {Reason.BYTES}
    rows = left(bench)
    assert ids[-1] in rows
    assert max(rows) > 12_000
    assert len(rows) < 9_000


def test_of_a_small_database_output_fills_a_half_at_most() -> None:
    limits = limits_at(keep(database_bytes=10 * MIB, output_bytes=64 * MIB), 0, is_trusted=True)

    assert limits.output_bytes == 5 * MIB


def test_without_limits_nothing_goes(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 20, printed=1)
    later(bench, 4000)

    assert prune(bench, UNLIMITED) == []
    assert left(bench) == ids


def test_of_one_schedule_alone_nothing_of_another_goes(bench: Bench) -> None:
    bench.add(make_spec("noisy"))
    bench.add(make_spec("other"))
    live(bench, 20, printed=1)

    removed = prune(bench, keep(history_count=3, output_bytes=1), name="noisy")

    assert len(left(bench, "noisy")) == 3
    assert len(left(bench, "other")) == 20
    assert counts(removed) == {(Kind.OUTPUT, Reason.BYTES): 20, (Kind.RUN, Reason.COUNT): 17}
    assert all(bench.store.find_output(id_).chunks for id_ in left(bench, "other"))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "limits",
    [
        keep(history_age_s=DAY_S, history_count=4),
        keep(output_age_s=DAY_S, output_bytes=1000, history_count=10),
        Retention(history_count=7),
    ],
)
def test_a_trial_says_what_a_pass_removes_and_removes_nothing(
    bench: Bench, limits: Retention
) -> None:
    bench.add(make_spec("one"))
    live(bench, 15, printed=1)
    later(bench, 200)
    bench.add(make_spec("two"))
    live(bench, 15, printed=1)
    before = left(bench)

    tried = prune(bench, limits, is_trial=True)
    kept = left(bench)
    removed = prune(bench, limits)

    assert kept == before
    assert counts(tried) == counts(removed)
    assert tried


def test_what_is_removed_in_one_transaction_is_bounded(bench: Bench, make_store: OpenStore) -> None:
    live_together(bench, 400)
    limits = limits_at(keep(history_count=1), bench.now, is_trusted=True)
    peer = make_store()

    sizes = []
    before = rows_of(peer)
    for _ in prune_slices(bench.store, limits, schedule_id=None, is_trial=False):
        now = rows_of(peer)
        sizes.append(before - now)
        before = now

    assert max(sizes) <= 250
    assert sum(sizes) == 2 * 399


@pytest.mark.of_file
def test_outputs_without_a_run_are_repaired_in_slices(bench: Bench, make_store: OpenStore) -> None:
    bench.add()
    live(bench, 401, printed=1)
    bench.store.rows("PRAGMA foreign_keys = OFF")
    with bench.store.transaction():
        bench.store.change("UPDATE outputs SET execution_id = execution_id + 1000000")
        for number in range(5):
            bench.store.change(
                """INSERT INTO outputs SELECT :id, encoding, zeroblob(1000000), stdout_bytes,
                       stderr_bytes, dropped_bytes, dropped_after, removed_at
                   FROM outputs LIMIT 1""",
                {"id": 2_000_000 + number},
            )
    bench.store.rows("PRAGMA foreign_keys = ON")
    [kept] = live(bench, 1, printed=1)
    peer = make_store()

    slices = []
    before = outputs_of(peer)
    for repaired in repair_orphans(bench.store):
        now = outputs_of(peer)
        assert before[0] - now[0] == repaired.row_count
        slices.append((before[0] - now[0], before[1] - now[1]))
        before = now

    assert max(rows for rows, _ in slices) <= 250
    assert max(size_bytes for _, size_bytes in slices) <= 2 * MIB
    assert sum(rows for rows, _ in slices) == 406
    assert bench.store.find_output(kept) is not None
    assert list(repair_orphans(bench.store)) == []


@pytest.mark.of_file
def test_small_tables_are_repaired_together(bench: Bench, make_store: OpenStore) -> None:
    database = bench.store
    database.rows("PRAGMA foreign_keys = OFF")
    with database.transaction():
        database.change("INSERT INTO schedule_scopes VALUES (99, 'tenant', 'a')")
        database.change("INSERT INTO schedule_revisions VALUES (99, 1, 0, 'x', '{}', NULL)")
    database.rows("PRAGMA foreign_keys = ON")
    peer = make_store()

    repairs = repair_orphans(bench.store)
    first = next(repairs)
    left = peer.rows("SELECT 1 FROM pragma_foreign_key_check")
    tables = {first.table, *(one.table for one in repairs)}

    assert left == []
    assert tables == {"schedule_scopes", "schedule_revisions"}


def outputs_of(store: Any) -> tuple[int, int]:
    [(count, size_bytes)] = store.rows("SELECT count(*), sum(length(chunks)) FROM outputs")
    return int(count), int(size_bytes)


def rows_of(store: Any) -> int:
    [(count,)] = store.rows(
        "SELECT (SELECT count(*) FROM executions) + (SELECT count(*) FROM outputs)"
    )
    return int(count)


# What never goes.


def test_what_has_not_ended_stays(bench: Bench) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE_MS)
    [running] = bench.fire().granted
    [queued] = bench.run(key="manual:1")
    later(bench, 1000)

    prune(bench, keep(history_age_s=1, history_count=1))

    assert left(bench) == [running.execution_id, queued]


def test_the_last_run_stays_however_old_it_is(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 5)
    later(bench, 5000)

    prune(bench, keep(history_age_s=DAY_S))

    assert left(bench) == ids[-1:]
    assert bench.store.get_schedule("backup").last_execution_id == ids[-1]


def test_the_last_success_stays_behind_any_number_of_failures(bench: Bench) -> None:
    bench.add()
    successes = live(bench, 3)
    failures = live(bench, 30, status=Status.FAILED)

    prune(bench, keep(history_count=2))

    assert left(bench) == [successes[-1], *failures[-2:]]


def test_earlier_attempts_of_a_fire_that_goes_on_stay(bench: Bench) -> None:
    bench.add(make_spec(retries=3, retry_delay_s=3600.0))
    [first] = live(bench, 1, status=Status.FAILED)
    bench.run(key="manual:1")
    later(bench, 0.01)

    prune(bench, keep(history_age_s=1, history_count=1))

    kept = [(row.attempt, row.status) for row in bench.rows() if row.cause != "manual"]
    assert kept == [(1, Status.FAILED), (2, Status.QUEUED)]
    assert first in left(bench)


def test_the_first_attempt_of_a_fire_goes_after_the_others(bench: Bench) -> None:
    """Without it the fire would be decided anew where a clock comes by its time again."""
    bench.add(make_spec(retries=1, retry_delay_s=1.0))
    [first] = live(bench, 1, status=Status.FAILED)
    bench.clock.advance_ms(MINUTE_MS // 2)
    [retry] = bench.fill().granted
    bench.end(retry, status=Status.FAILED)
    [newest] = live(bench, 1)

    rows_left = []
    for keeps in (2, 1, 1):
        prune(bench, keep(history_count=keeps))
        rows_left.append(left(bench))

    assert rows_left == [[first, retry.execution_id, newest], [first, newest], [newest]]


def test_the_newest_row_of_each_scope_stays_since_it_may_grow(bench: Bench) -> None:
    bench.add(make_spec(scopes=BOTH))
    live(bench, 6)
    later(bench, 500)

    prune(bench, keep(history_age_s=DAY_S))

    assert [row.scope_id for row in bench.rows()] == ["a", "b"]


def test_a_fire_that_was_moved_to_be_early_stays_decided(bench: Bench) -> None:
    """Its row says so where the mark is taken back: nothing may run twice."""
    bench.add(make_spec("yearly", "0 9 1 1 *"))
    schedule = bench.store.get_schedule("yearly")
    bench.store.reschedule(schedule, run_ms=bench.now, now_ms=bench.now)
    [early] = bench.fire().granted
    bench.end(early)
    for number in range(20):
        bench.run("yearly", key=f"manual:{number}")
        bench.end(*bench.fill().granted)

    prune(bench, keep(history_count=2))

    assert early.execution_id in left(bench)


def test_boots_of_all_machines_stay_decided(bench: Bench) -> None:
    bench.add(make_spec("backup", "on boot", "* * * * *", overlap=Overlap.ALLOW))
    bench.store.register_engine(
        key="there", pid=2, boot_id="boot-there", queues=("command",), now_ms=bench.now
    )
    for boot_id in ("boot-there", "boot-forgotten", "boot-here"):
        bench.end(*bench.fire_boot(boot_id).granted)
    live(bench, 3)

    prune(bench, keep(history_count=1))

    assert bench.fire_boot("boot-there").advanced == 0
    assert bench.fire_boot("boot-forgotten").advanced == 1


# What is still right afterwards.


def test_counters_and_last_times_survive(bench: Bench) -> None:
    bench.add()
    live(bench, 30)
    live(bench, 10, status=Status.FAILED)
    before = bench.store.get_schedule("backup")

    prune(bench, keep(history_count=1, output_bytes=0))

    after = bench.store.get_schedule("backup")
    assert (after.run_count, after.counts) == (before.run_count, before.counts)
    assert (after.last_run_at, after.last_success_at) == (
        before.last_run_at,
        before.last_success_at,
    )
    assert (after.next_plan_at, after.decided_until) == (before.next_plan_at, before.decided_until)
    assert after.revision == before.revision


def test_a_removed_row_marks_its_plan_time(bench: Bench) -> None:
    bench.add()
    live(bench, 10)
    rows = bench.rows()

    prune(bench, keep(history_count=4))

    assert bench.store.get_schedule("backup").pruned_until == rows[5].plan_at


def test_a_run_by_hand_marks_no_plan_time(bench: Bench) -> None:
    bench.add()
    for number in range(10):
        bench.clock.advance_ms(1)
        bench.run(key=f"manual:{number}")
        bench.end(*bench.fill().granted)

    prune(bench, keep(history_count=2))

    assert len(left(bench)) == 2
    assert bench.store.get_schedule("backup").pruned_until is None


def test_a_plan_time_whose_row_went_is_not_backfilled(bench: Bench) -> None:
    bench.add()
    live(bench, 10)
    rows = bench.rows()
    prune(bench, keep(history_count=4))
    wanted = [(ms_of(row.plan_at), "* * * * *", ("global", "")) for row in rows]

    schedule = bench.store.get_schedule("backup")
    queued = bench.store.queue_backfill(schedule, wanted, priority=0, now_ms=bench.now)

    assert queued == []


def ms_of(instant: Any) -> int:
    return round(instant.timestamp() * 1000)


def test_an_id_that_was_removed_is_told_from_one_that_never_was(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 5)
    prune(bench, keep(history_count=1))

    assert bench.store.is_removed(ids[0])
    assert not bench.store.is_removed(ids[-1])
    assert not bench.store.is_removed(ids[-1] + 1)
    assert not bench.store.is_removed(0)


def test_no_id_is_given_twice_when_all_is_removed_but_the_newest(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 5)
    schedule = bench.store.get_schedule("backup")
    bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)
    later(bench, 500)
    prune(bench, keep(history_age_s=DAY_S))
    assert left(bench) == ids[-1:]

    bench.add(make_spec("another"))
    [again] = live(bench, 1)

    assert again > ids[-1]


# Schedules that a person removed.


def test_a_removed_schedule_goes_when_its_runs_have_gone(bench: Bench) -> None:
    bench.add(make_spec("gone"))
    live(bench, 5)
    bench.store.remove_schedule(bench.store.get_schedule("gone"), missed=(), now_ms=bench.now)
    bench.add(make_spec("stays"))
    later(bench, 500)
    live(bench, 1)

    removed = prune(bench, keep(history_age_s=DAY_S))

    assert counts(removed) == {(Kind.RUN, Reason.AGE): 5, (Kind.SCHEDULE, Reason.AGE): 1}
    assert bench.store.find_removals("gone") == []
    database = bench.store
    assert database.rows("SELECT DISTINCT schedule_id FROM schedule_revisions") == [(2,)]
    check_soundness(database)


def test_the_highest_id_of_a_schedule_stays_so_that_it_is_not_given_again(bench: Bench) -> None:
    bench.add(make_spec("gone"))
    bench.store.remove_schedule(bench.store.get_schedule("gone"), missed=(), now_ms=bench.now)
    later(bench, 500)

    prune(bench, keep(history_age_s=DAY_S))

    assert bench.add(make_spec("new")).id == 2


def test_many_revisions_of_a_removed_schedule_go_in_several_transactions(bench: Bench) -> None:
    schedule = bench.add(make_spec("edited"))
    with bench.store.transaction():
        bench.store.change(
            """WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
               INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
               SELECT 1, i, 0, 'test', '{}' FROM n"""
        )
    bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)
    bench.add(make_spec("stays"))
    later(bench, 500)

    removed = prune(bench, keep(history_age_s=DAY_S))

    assert counts(removed)[Kind.SCHEDULE, Reason.AGE] == 1
    [(revisions,)] = bench.store.rows("SELECT count(*) FROM schedule_revisions")
    assert revisions == 1


def count_definitions(bench: Bench) -> int:
    """How many rows define schedules."""
    tables = ["schedules", "schedule_scopes", "schedule_upstreams", "schedule_revisions", "state"]
    return sum(bench.store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables)


@pytest.mark.parametrize("scopes", [0, 30, 247, 248, 900])
def test_a_transaction_deletes_few_rows_of_removed_schedules(bench: Bench, scopes: int) -> None:
    for number in range(25):
        name = f"gone{number}"
        pairs = tuple(("device", f"d{one}") for one in range(scopes if number < 12 else 1))
        bench.add(make_spec(name, scopes=pairs or (("global", ""),)))
        bench.store.remove_schedule(bench.store.get_schedule(name), missed=(), now_ms=bench.now)
    bench.add(make_spec("stays"))
    later(bench, 500)
    kept = count_definitions(bench)
    limits = limits_at(keep(history_age_s=DAY_S), bench.now, is_trusted=True)

    left_rows = [kept]
    for _ in prune_slices(bench.store, limits, schedule_id=None, is_trial=False):
        left_rows.append(count_definitions(bench))

    assert max(before - after for before, after in pairwise(left_rows)) <= 250
    assert bench.store.rows("SELECT name FROM schedules") == [("stays",)]
    check_soundness(bench.store)


# Clocks.


def test_by_a_clock_that_can_not_be_trusted_nothing_is_too_old(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 5, printed=1)
    later(bench, 30_000)
    limits = limits_at(keep(history_age_s=DAY_S, output_age_s=DAY_S), bench.now, is_trusted=False)

    assert list(prune_slices(bench.store, limits, schedule_id=None, is_trial=False)) == []
    assert left(bench) == ids


def test_what_a_clock_in_1970_has_written_is_not_taken_for_old(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 3)
    with bench.store.transaction():
        drop_trigger(bench.store, "executions_final", "executions")
        bench.store.change(
            "UPDATE executions SET plan_at = 60000 * id, finished_at = 60000 * id WHERE id < 3"
        )

    prune(bench, keep(history_age_s=DAY_S))

    assert left(bench) == ids


def test_what_a_clock_that_was_behind_has_written_among_young_rows_stays(bench: Bench) -> None:
    bench.add()
    ids = live(bench, 20)
    with bench.store.transaction():
        drop_trigger(bench.store, "executions_final", "executions")
        bench.store.change(
            """UPDATE executions SET plan_at = plan_at - 43200000000,
                   finished_at = finished_at - 43200000000 WHERE id BETWEEN 14 AND 17"""
        )

    prune(bench, Retention())

    assert left(bench) == ids


# Several.


def test_another_engine_does_not_begin_within_the_hour(bench: Bench, make_store: OpenStore) -> None:
    bench.add()
    live(bench, 20)
    limits = limits_at(keep(history_count=2), bench.now, is_trusted=True)
    peer = make_store()
    ours = bench.store.begin_pruning(limits)
    assert ours is not None
    removed = [one for one in ours if one is not None]

    within = peer.begin_pruning(limits)
    bench.clock.advance_ms(60 * MINUTE_MS)
    after = peer.begin_pruning(limits_at(keep(history_count=2), bench.now, is_trusted=True))

    assert sum(one.count for one in removed) == 18
    assert within is None
    assert after is not None


def test_a_pass_ends_where_somebody_else_has_begun_one(bench: Bench, make_store: OpenStore) -> None:
    bench.add()
    live(bench, 20)
    limits = limits_at(keep(history_count=2), bench.now, is_trusted=True)
    peer = make_store()
    ours, theirs = bench.store.begin_pruning(limits), peer.begin_pruning(limits)
    assert ours is not None
    assert theirs is not None

    removed = [one for one in theirs if one is not None]
    nothing = [one for one in ours if one is not None]

    assert sum(one.count for one in removed) == 18
    assert nothing == []


def test_a_mark_far_ahead_was_left_by_a_wrong_clock_and_keeps_nobody_off(bench: Bench) -> None:
    bench.add()
    live(bench, 5)
    ahead = limits_at(keep(history_count=2), bench.now + 10**11, is_trusted=True)
    begun = bench.store.begin_pruning(ahead)
    assert begun is not None
    list(begun)

    again = bench.store.begin_pruning(limits_at(Retention(), bench.now, is_trusted=True))

    assert again is not None


def test_a_pass_that_finds_nothing_writes_nothing(bench: Bench, make_store: OpenStore) -> None:
    bench.add()
    live(bench, 20, printed=1)
    peer = make_store()
    before = peer.change_mark

    begun = bench.store.begin_pruning(limits_at(Retention(), bench.now, is_trusted=True))
    assert begun is not None
    list(begun)

    assert peer.change_mark == before


def test_a_pass_that_breaks_off_has_removed_less_and_leaves_it_sound(
    bench: Bench, clock: FakeClock
) -> None:
    live_together(bench, 700)
    limits = limits_at(keep(history_count=2), bench.now, is_trusted=True)
    passing = prune_slices(bench.store, limits, schedule_id=None, is_trial=False)
    done = [next(passing) for _ in range(4)]
    passing.close()  # type: ignore[attr-defined]

    half = len(left(bench))
    prune(bench, keep(history_count=2))

    assert any(done)
    assert 2 < half < 700
    assert len(left(bench)) == 2
    check_soundness(bench.store)


def test_what_was_changed_since_it_was_looked_at_stays(bench: Bench, make_store: OpenStore) -> None:
    """The last run of a look may be another one by the time of the transaction."""
    bench.add()
    ids = live(bench, 10)
    now = bench.now

    with bench.store.transaction():
        removed = remove_runs(bench.store, ids, now_ms=now)

    assert sorted(removed) == ids[:-1]


# Notices.


def add_notices(bench: Bench, rule: str, *statuses: str, days_ago: float) -> None:
    """Add notices of a rule, of events at one instant of the past."""
    with bench.store.transaction():
        bench.store.change_many(
            """INSERT INTO notices (rule, event, at, detail, status, due_at, sent_at)
               VALUES (:rule, 'failed', :at, '{}', :status,
                   iif(:status = 'waiting', :at, NULL), iif(:status = 'sent', :at, NULL))""",
            [
                {"rule": rule, "at": bench.now - round(days_ago * DAY_S * 1000), "status": one}
                for one in statuses
            ],
        )


def kept_notices(bench: Bench) -> list[tuple[str, str, int]]:
    """The notices that are left, as (rule, status, number of them)."""
    rows = bench.store.rows(
        "SELECT rule, status, count(*) FROM notices GROUP BY rule, status ORDER BY rule, status"
    )
    return [(row[0], row[1], row[2]) for row in rows]


def test_notices_go_after_90_days_once_they_are_final(bench: Bench) -> None:
    add_notices(bench, "ops", "sent", "given_up", "waiting", days_ago=91)
    add_notices(bench, "ops", "sent", days_ago=89)
    retention = keep(history_age_s=400 * DAY_S)

    trial = prune(bench, retention, is_trial=True)
    removed = prune(bench, retention)

    assert counts(removed) == counts(trial) == {(Kind.NOTICE, Reason.AGE): 2}
    assert kept_notices(bench) == [("ops", "sent", 1), ("ops", "waiting", 1)]


def test_a_chatty_rule_keeps_5000_notices_and_takes_none_of_another(bench: Bench) -> None:
    add_notices(bench, "chatty", *["sent"] * 3_000, *["given_up"] * 2_100, days_ago=1)
    add_notices(bench, "other", "sent", days_ago=2)
    retention = keep(history_age_s=400 * DAY_S)

    trial = prune(bench, retention, is_trial=True)
    removed = prune(bench, retention)

    assert counts(removed) == counts(trial) == {(Kind.NOTICE, Reason.COUNT): 100}
    assert kept_notices(bench) == [
        ("chatty", "given_up", 2_100),
        ("chatty", "sent", 2_900),
        ("other", "sent", 1),
    ]


def test_a_pass_over_one_schedule_leaves_the_notices(bench: Bench) -> None:
    bench.add()
    add_notices(bench, "ops", "sent", days_ago=91)

    assert prune(bench, keep(history_age_s=400 * DAY_S), name="backup") == []


def test_what_no_sender_looked_at_is_forgotten_after_90_days(bench: Bench) -> None:
    mark = {"name": "ops", "channel": "command", "wants_runs": 0, "words": "all"}
    more: dict[str, object] = {"late_ms": None, "slow_ms": None, "beat_ms": None, "rule": None}
    outbox.write_rules(bench.store, [mark | more], source="f")
    bench.add()
    [old] = live(bench, 1, status=Status.FAILED)
    later(bench, 91)
    [young] = live(bench, 1, status=Status.FAILED)

    prune(bench, keep(history_age_s=400 * DAY_S))

    waiting = {one.execution_id for one in notices.find_happenings(bench.store, limit=10)}
    assert old not in waiting
    assert young in waiting
