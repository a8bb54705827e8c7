"""Any store: what happens is recorded for notices by the transaction of the event."""

from __future__ import annotations

import pytest

from edgecron.model.choices import Status
from edgecron.store.sql import notices, outbox
from edgecron.store.sqlite.store import SqliteStore
from tests.store.store_bench import Bench, OpenStore
from tests.support.specs import make_spec

MINUTE = 60_000


def mark(name: str = "ops", *, wants_runs: bool = False) -> dict[str, object]:
    found = {"name": name, "channel": "command", "wants_runs": int(wants_runs), "words": "all"}
    return {**found, "late_ms": None, "slow_ms": None, "beat_ms": None, "rule": None}


def happened(store: SqliteStore) -> list[tuple[str, str]]:
    """What is recorded, as (schedule, status)."""
    return [(one.schedule, one.status) for one in notices.find_happenings(store, limit=100)]


def run_once(bench: Bench, status: Status) -> None:
    bench.clock.advance_ms(MINUTE)
    for granted in bench.fire().granted:
        bench.end(granted, status=status)


def test_nothing_is_recorded_without_a_rule(bench: Bench) -> None:
    bench.add()

    run_once(bench, Status.FAILED)

    assert happened(bench.store) == []
    assert not bench.store.has_notify_rules()
    assert bench.store.next_notice_ms(now_ms=bench.now) is None


def test_a_failure_is_recorded_by_its_own_transaction(bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark()], source="f")
    bench.add()

    run_once(bench, Status.FAILED)

    assert happened(bench.store) == [("backup", "failed")]
    assert bench.store.next_notice_ms(now_ms=bench.now) == 0


def test_a_success_is_recorded_only_if_it_can_end_a_trouble(bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark()], source="f")
    bench.add()

    run_once(bench, Status.SUCCESS)
    before = happened(bench.store)
    run_once(bench, Status.FAILED)
    run_once(bench, Status.SUCCESS)

    assert before == []
    assert happened(bench.store) == [("backup", "failed"), ("backup", "success")]


def test_every_run_is_recorded_for_a_rule_that_wants_runs(bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark(wants_runs=True)], source="f")
    bench.add()

    run_once(bench, Status.SUCCESS)

    assert happened(bench.store) == [("backup", "running"), ("backup", "success")]


def test_a_queued_run_is_recorded_when_it_starts(make_store: OpenStore, bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark(wants_runs=True)], source="f")
    bench.add()
    bench.run()
    before = happened(bench.store)

    bench.fill()

    assert before == []
    assert happened(bench.store) == [("backup", "running")]


def test_a_run_that_is_queued_again_can_be_late(bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark() | {"late_ms": 10 * MINUTE}], source="f")
    bench.add()
    bench.clock.advance_ms(MINUTE)
    [claimed] = bench.fire().granted
    in_time = notices.find_watched(bench.store, now_ms=bench.now + 20 * MINUTE, limit=5)

    bench.store.requeue(claimed.execution_id, claimed.lease_token, now_ms=bench.now)

    late = notices.find_watched(bench.store, now_ms=bench.now + 20 * MINUTE, limit=5)
    assert in_time == []
    assert [(one.event, one.execution_id, one.until_ms) for one in late] == [
        ("late", claimed.execution_id, None)
    ]


def test_the_end_of_an_engine_is_recorded(bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark()], source="f")

    bench.store.retire_engine(bench.claimant.engine_id, now_ms=bench.now)
    bench.store.retire_engine(bench.claimant.engine_id, now_ms=bench.now)

    [one] = notices.find_happenings(bench.store, limit=10)
    assert (one.status, one.engine_id) == ("stopped", bench.claimant.engine_id)
    assert notices.find_engine_end(bench.store, bench.claimant.engine_id) == ("stopped", 1)


def test_rules_of_one_file_do_not_touch_those_of_another(bench: Bench) -> None:
    outbox.write_rules(bench.store, [mark("a")], source="user")
    outbox.write_rules(bench.store, [mark("b")], source="system")

    is_changed = outbox.write_rules(bench.store, [mark("a")], source="user")
    outbox.write_rules(bench.store, [], source="user")

    assert not is_changed
    assert [(one.name, one.source) for one in outbox.find_rules(bench.store)] == [("b", "system")]


@pytest.mark.failure(94)
def test_a_rule_that_the_file_of_a_machine_lacks_is_kept_for_a_time(bench: Bench) -> None:
    store = bench.store
    outbox.write_rules(store, [mark("a"), mark("b")], source="f")
    found = []
    for at_ms, names in ((10, "a"), (11, "ab"), (20, "a"), (29, "a"), (30, "a")):
        outbox.write_rules(store, list(map(mark, names)), source="f", now_ms=at_ms, kept_ms=10)
        found.append([(one.name, one.gone_ms) for one in outbox.find_rules(store)])

    kept = [("a", None), ("b", 20)]
    assert found == [
        [("a", None), ("b", 10)], [("a", None), ("b", None)], kept, kept, [("a", None)],
    ]  # fmt: skip


@pytest.mark.parametrize("status", [Status.FAILED, Status.INTERRUPTED])
def test_a_trouble_of_many_runs_is_read_in_order(bench: Bench, status: Status) -> None:
    outbox.write_rules(bench.store, [mark()], source="f")
    for name in ("a", "b", "c"):
        bench.add(make_spec(name=name))

    run_once(bench, status)

    assert sorted(happened(bench.store)) == [(name, status.value) for name in ("a", "b", "c")]
