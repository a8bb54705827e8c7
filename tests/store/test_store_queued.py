"""Any store: free places go to queued rows, in order and within every limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgecron.base.units import from_ms
from edgecron.model.choices import Cause, JobKind, Overlap, Status
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Fire, NextFire
from edgecron.planning.times import compile_spec
from edgecron.store.sql.manual_runs import Enqueued
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import enqueue, make_spec

MINUTE = 60_000


@pytest.mark.failure(27)
def test_two_runs_by_hand_in_one_instant_are_two_executions(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.ALLOW))
    bench.clock.advance_ms(MINUTE)

    bench.run(key="manual:a")
    bench.run(key="manual:b")
    bench.fire()

    assert len(bench.rows()) == 3
    assert len({(row.plan_at, row.fire_key) for row in bench.rows()}) == 3


def test_a_run_by_hand_waits_until_an_engine_takes_it(bench: Bench) -> None:
    bench.add()

    bench.run()
    before = bench.statuses()
    batch = bench.fill()

    assert before == ["queued"]
    assert len(batch.granted) == 1
    assert bench.statuses() == ["running"]


def test_a_run_by_hand_obeys_overlap(bench: Bench) -> None:
    bench.add()
    bench.run(key="manual:a")
    bench.fill()

    bench.run(key="manual:b")

    assert bench.statuses() == ["running", "skipped"]


def test_a_run_by_hand_ignores_a_pause(bench: Bench) -> None:
    schedule = bench.add()
    bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)

    bench.run()
    bench.fill()

    assert bench.statuses() == ["running"]


@pytest.mark.failure(26)
def test_a_run_of_a_schedule_that_was_removed_meanwhile_is_not_queued(bench: Bench) -> None:
    schedule = bench.add()
    bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)
    fire = Fire(plan_ms=bench.now, due_ms=bench.now, cause=Cause.MANUAL, fire_key="manual:1")

    found = bench.store.enqueue_together([Enqueued(schedule, (fire,))], now_ms=bench.now)

    assert found == [None]
    assert bench.rows() == []


@pytest.mark.failure(49)
def test_places_go_by_priority_then_due_time_then_id_across_pages(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock, places=0)
    for number in range(300):
        bench.add(make_spec(f"s{number}", priority=(-10, 0, 10)[number % 3]))
        bench.run(f"s{number}", key="manual:1")
        clock.advance_ms(1 if number % 5 else 0)
    roomy = Bench(make_store, clock, places=290)

    batch = roomy.fill()

    expected = sorted(roomy.rows(), key=lambda row: (-row.priority, row.due_at, row.id))
    assert [grant.execution_id for grant in batch.granted] == [row.id for row in expected[:290]]
    assert roomy.statuses().count("queued") == 10


def test_a_blocked_row_does_not_block_what_is_behind_it_even_pages_later(
    make_store: OpenStore, clock: FakeClock
) -> None:
    none, bench = Bench(make_store, clock, places=0), Bench(make_store, clock, places=5)
    bench.add(make_spec("blocked", overlap=Overlap.ALLOW, max_running=1))
    bench.add(make_spec("free"))
    fires = [
        Fire(plan_ms=none.now, due_ms=none.now, cause=Cause.MANUAL, fire_key=f"manual:{number}")
        for number in range(600)
    ]
    blocked = Enqueued(none.store.get_schedule("blocked"), fires)
    none.store.enqueue_together([blocked], now_ms=none.now)
    none.run("free")

    batch = bench.fill()

    assert len(batch.granted) == 2
    assert bench.statuses("free") == ["running"]


def test_an_engine_takes_no_more_than_it_has_places(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock, places=3)
    bench.add(make_spec(overlap=Overlap.ALLOW))
    for number in range(5):
        bench.run(key=f"manual:{number}")

    first = bench.fill()
    full = bench.fill()
    bench.end(first.granted[0])
    after = bench.fill()

    assert [len(batch.granted) for batch in (first, full, after)] == [3, 0, 1]


def test_two_engines_do_not_take_the_same_row(make_store: OpenStore, clock: FakeClock) -> None:
    first, second = Bench(make_store, clock), Bench(make_store, clock)
    first.add()
    first.run()

    batches = [first.fill(), second.fill()]

    assert [len(batch.granted) for batch in batches] == [1, 0]


def test_a_group_runs_no_more_than_it_may(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add(make_spec(name, group="disk"))
    bench.store.set_group_limit("disk", 2)
    bench.clock.advance_ms(MINUTE)

    batch = bench.fire()
    waiting = bench.fill()
    bench.end(batch.granted[0])
    after = bench.fill()

    assert [len(one.granted) for one in (batch, waiting, after)] == [2, 0, 1]


def test_a_group_without_a_limit_has_none(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add(make_spec(name, group="disk"))
    bench.store.set_group_limit("disk", 1)
    bench.store.set_group_limit("disk", None)
    bench.clock.advance_ms(MINUTE)

    assert len(bench.fire().granted) == 3


def test_a_schedule_limit_holds_for_queued_rows(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.ALLOW, max_running=2))
    for number in range(4):
        bench.run(key=f"manual:{number}")

    assert len(bench.fill().granted) == 2
    assert bench.fill().granted == ()


def test_a_pause_holds_what_is_queued_and_its_end_lets_it_go(bench: Bench) -> None:
    schedule = bench.add(make_spec(overlap=Overlap.QUEUE))
    bench.clock.advance_ms(MINUTE)
    first = bench.fire().granted
    bench.clock.advance_ms(MINUTE)
    bench.fire()
    until_ms = bench.now + 3600_000
    later = NextFire(plan_ms=until_ms + MINUTE, due_ms=until_ms + MINUTE, source="* * * * *")
    bench.store.pause_schedule(schedule, until_ms=until_ms, following=later, now_ms=bench.now)
    bench.end(*first)

    held = bench.fill()
    wake_ms = bench.store.next_due_ms(("command",), now_ms=bench.now)
    bench.clock.advance_ms(3600_000)
    freed = bench.fill()

    assert held.granted == ()
    assert wake_ms == until_ms
    assert len(freed.granted) == 1


def test_a_row_that_waits_for_its_time_is_not_taken_early(bench: Bench) -> None:
    schedule = bench.add(make_spec("backup", "at 2030-01-01T00:00:00Z"))
    due_ms = bench.now + 5000
    fire = Fire(plan_ms=bench.now, due_ms=due_ms, cause=Cause.MANUAL, fire_key="manual:1")
    enqueue(bench.store, schedule, fire, now_ms=bench.now)

    wake_ms = bench.store.next_due_ms(("command",), now_ms=bench.now)
    bench.clock.advance_ms(4999)
    early = bench.fill()
    bench.clock.advance_ms(1)
    on_time = bench.fill()

    assert early.granted == ()
    assert wake_ms == due_ms
    assert len(on_time.granted) == 1


def test_an_engine_for_one_execution_takes_that_one_only(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.ALLOW))
    bench.run(key="manual:a")
    [wanted] = bench.run(key="manual:b")

    batch = bench.store.claim_queued(
        claimant=bench.claimant._replace(only=wanted), now_ms=bench.now
    )

    assert [grant.execution_id for grant in batch.granted] == [wanted]
    assert bench.statuses() == ["queued", "running"]


def test_whether_anything_waits_is_known(bench: Bench) -> None:
    bench.add()
    before = bench.store.has_queued()
    bench.run()
    waiting = bench.store.has_queued()
    bench.fill()

    assert (before, waiting, bench.store.has_queued()) == (False, True, False)
    assert bench.store.count_active() == {Status.RUNNING: 1}


def change(bench: Bench, spec: ScheduleSpec) -> None:
    compiled = compile_spec(spec, seed=bench.store.seed, made_at=from_ms(bench.now))
    assert bench.store.update_schedule(
        bench.store.get_schedule(spec.name),
        compiled,
        retiming=None,
        boot_id="boot-1",
        origin="test",
        now_ms=bench.now,
    )


def at(bench: Bench, machine: str) -> Bench:
    """The bench as the engine of a machine, with the queues that it finds in use."""
    placed = bench.store.find_placed((f"command on {machine}",))
    bench.claimant = bench.claimant._replace(queues=("command", *placed))
    return bench


def test_a_retry_follows_its_schedule_to_another_machine(bench: Bench) -> None:
    bench.add(make_spec(on="web1", retries=1, retry_delay_s=0))
    bench.run()
    [granted] = at(bench, "web1").fill().granted
    change(bench, make_spec(on="web2", retries=1, retry_delay_s=0))

    bench.end(granted, status=Status.FAILED)

    assert at(bench, "web1").fill().granted == ()
    assert len(at(bench, "web2").fill().granted) == 1


def test_a_queued_run_follows_its_schedule_that_becomes_a_shell_line(bench: Bench) -> None:
    bench.add(make_spec(on="web1"))
    [queued] = bench.run()
    shell = Job(kind=JobKind.SHELL, argv=("true",))
    change(bench, replace(make_spec(on="web2"), job=shell))

    [granted] = at(bench, "web2").fill().granted

    assert (granted.execution_id, granted.revision) == (queued, 1)


def test_a_queued_run_of_another_kind_is_claimed_on_its_machine(bench: Bench) -> None:
    bench.add(make_spec(on="web1"))
    bench.run()
    function = Job(kind=JobKind.CALLABLE, argv=("backup",))
    change(bench, replace(make_spec(on="web1", queue="py:app"), job=function))

    assert len(at(bench, "web1").fill().granted) == 1
