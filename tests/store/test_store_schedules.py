"""Any store: schedules are made, changed, removed and found; each queue sees its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgecron.base.errors import AlreadyExists, NotFound
from edgecron.base.units import from_ms
from edgecron.model.choices import (
    CatchUp,
    Durability,
    JobKind,
    OnInterrupt,
    Overlap,
    Reason,
    StallAction,
    Status,
)
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Missed, NextFire, next_fire
from edgecron.planning.times import compile_spec
from edgecron.store.sql.schedule_changes import Retiming
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import make_spec, ms

MINUTE = 60_000

FULL = ScheduleSpec(
    name="full",
    triggers=("0 8 * * *", "at 2027-01-01T00:00:00Z"),
    job=Job(
        kind=JobKind.COMMAND,
        argv=("/bin/echo", "$(touch x)", "ü", ""),
        payload='{"a": 1}',
        stdin="in\n",
        env={"A": "1", "B": "two words"},
        env_file="/etc/env",
        cwd="/tmp",
        user="nobody",
        nice=-5,
        ionice="best-effort:6",
        memory_max="512MiB",
        cpu_max="1.5",
    ),
    timezone="Europe/Berlin",
    queue="py:app",
    group="disk",
    description="all of it\nin two lines",
    policies=Policies(
        catch_up=CatchUp.ALL,
        max_late_s=90.5,
        overlap=Overlap.QUEUE,
        max_running=2,
        timeout_s=1.5,
        stall_timeout_s=0.5,
        stall_action=StallAction.END,
        kill_grace_s=0,
        retries=3,
        retry_delay_s=1,
        retry_factor=1.5,
        retry_max_delay_s=60,
        on_interrupt=OnInterrupt.RETRY,
        ok_codes=(0, 3),
        notify=("mail", "chat"),
        between=("21:00-05:00", "SAT,SUN"),
        not_between=("23:00-24:00 MON",),
        except_days=("2026-12-24", "2027-01-01..2027-01-06"),
        priority=7,
        jitter_s=30,
        keep_awake=True,
        wake=True,
        durability=Durability.NORMAL,
    ),
    scopes=(("device", "a"), ("tenant", "b c")),
    from_at=from_ms(ms("2026-11-01T00:00:00Z")),
    until_at=from_ms(ms("2028-01-01T00:00:00Z")),
    max_runs=9,
)


def change(bench: Bench, name: str, spec: ScheduleSpec) -> bool:
    schedule = bench.store.get_schedule(name)
    compiled = compile_spec(spec, seed=bench.store.seed, made_at=from_ms(bench.now))
    return bench.store.update_schedule(
        schedule, compiled, retiming=None, boot_id="boot-1", origin="test", now_ms=bench.now
    )


def test_a_schedule_is_read_back_as_it_was_written(bench: Bench) -> None:
    made = bench.add(FULL)

    assert made.spec == FULL
    assert (made.enabled, made.revision, made.paused_until) == (True, 1, None)
    assert made.created_at == made.updated_at == bench.clock.now()


def test_an_engine_reads_the_revision_it_asks_for(bench: Bench) -> None:
    made = bench.add(FULL)
    change(bench, "full", replace(FULL, description="other"))

    old, new = bench.store.load_schedules([(made.id, 1), (made.id, 2)])
    gone = bench.store.load_schedules([(made.id + 1, 1)])

    assert (old.spec, old.revision) == (FULL, 1)
    assert (new.spec.description, new.revision) == ("other", 2)
    assert gone == []


@pytest.mark.failure(58)
def test_a_name_that_is_taken_is_refused(bench: Bench) -> None:
    bench.add()

    with pytest.raises(AlreadyExists, match="'backup' exists already"):
        bench.add()


@pytest.mark.failure(58)
def test_a_change_to_a_name_that_is_taken_is_refused_and_changes_nothing(bench: Bench) -> None:
    bench.add(make_spec("one"))
    bench.add(make_spec("two"))

    with pytest.raises(AlreadyExists, match="'one' exists already"):
        change(bench, "two", make_spec("one"))

    assert [schedule.name for schedule in bench.store.find_schedules()] == ["one", "two"]
    assert bench.store.get_schedule("two").revision == 1


@pytest.mark.failure(59)
def test_several_schedules_are_made_or_none(bench: Bench) -> None:
    bench.add(make_spec("taken"))
    made = []
    for name in ("new", "taken", "newer"):
        spec = make_spec(name)
        compiled = compile_spec(spec, seed=bench.store.seed, made_at=from_ms(bench.now))
        retiming = Retiming(next=next_fire(compiled.timing, bench.now), decided_until_ms=bench.now)
        made.append((compiled, retiming))

    with pytest.raises(AlreadyExists):
        bench.store.insert_schedules(made, boot_id="b", origin="test", now_ms=bench.now)

    assert [schedule.name for schedule in bench.store.find_schedules()] == ["taken"]


def test_the_second_of_two_changes_of_what_was_read_loses(bench: Bench) -> None:
    schedule = bench.add()

    first = bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)
    second = bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)
    removed = bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)

    assert (first, second, removed) == (True, False, False)
    assert bench.store.get_schedule("backup").revision == 2


def test_a_change_of_anything_else_keeps_the_next_time(bench: Bench) -> None:
    before = bench.add()

    assert change(bench, "backup", make_spec(priority=5))

    after = bench.store.get_schedule("backup")
    assert after.next_plan_at == before.next_plan_at
    assert (after.revision, after.spec.policies.priority) == (2, 5)


def test_a_removed_name_can_be_used_again_and_history_stays(bench: Bench) -> None:
    old = bench.add()
    bench.run()
    bench.store.remove_schedule(old, missed=(), now_ms=bench.now)

    new = bench.add()

    assert new.id != old.id
    assert bench.rows("backup") == []
    [row] = bench.store.find_executions().runs
    assert (row.schedule_id, row.status, row.reason) == (
        old.id,
        Status.CANCELLED,
        Reason.REMOVED,
    )


def test_a_schedule_that_is_not_there_is_not_found_with_a_suggestion(bench: Bench) -> None:
    bench.add(make_spec("backup"))

    with pytest.raises(NotFound) as caught:
        bench.store.get_schedule("bakup")

    assert caught.value.hint == "did you mean 'backup'?"
    assert bench.store.find_schedule("bakup") is None


def test_a_broken_trigger_stops_its_schedule_and_no_other(bench: Bench) -> None:
    broken = bench.add(make_spec("broken"))
    bench.add(make_spec("sound"))

    stale = bench.store.mark_broken(broken.id, revision=7, error="x", now_ms=bench.now)
    marked = bench.store.mark_broken(broken.id, revision=1, error="no zone", now_ms=bench.now)
    bench.clock.advance_ms(MINUTE)

    assert (stale, marked) == (False, True)
    shown = bench.store.get_schedule("broken")
    assert (shown.trigger_error, shown.next_plan_at) == ("no zone", None)
    assert len(bench.fire().granted) == 1


def test_each_queue_sees_its_own(make_store: OpenStore, clock: FakeClock) -> None:
    bench = Bench(make_store, clock)
    bench.add(make_spec("theirs", "on boot", "* * * * *", queue="py:app"))
    bench.run("theirs")
    clock.advance_ms(MINUTE)

    assert bench.look() == []
    assert bench.fill().granted == ()
    assert bench.store.find_boot_due(("command",), boot_id="boot-2") == []
    assert bench.store.upcoming(("command",), limit=10) == []
    assert bench.store.next_due_ms(("command",), now_ms=0) is None
    both = ("command", "py:app")
    assert len(bench.store.find_due(both, now_ms=clock.now_ms(), limit=10)) == 1
    assert len(bench.store.find_boot_due(both, boot_id="boot-2")) == 1
    assert len(bench.store.upcoming(both, limit=10)) == 1


def test_what_is_due_comes_earliest_first_and_no_more_than_asked(bench: Bench) -> None:
    for name, minute in (("c", 3), ("a", 1), ("b", 2)):
        bench.add(make_spec(name, f"{minute} 8 * * *"))
    bench.clock.advance_ms(5 * MINUTE)

    due = bench.look(limit=2)

    names = [bench.store.load_schedules([(one.schedule_id, 1)])[0].spec.name for one in due]
    assert names == ["a", "b"]


def test_the_next_due_time_is_the_earliest_of_all(bench: Bench) -> None:
    nothing = bench.store.next_due_ms(("command",), now_ms=bench.now)
    bench.add(make_spec("late", "0 9 * * *"))
    late = bench.store.next_due_ms(("command",), now_ms=bench.now)
    bench.add(make_spec("early", "30 8 * * *"))

    early = bench.store.next_due_ms(("command",), now_ms=bench.now)

    assert nothing is None
    assert (late, early) == (ms("2026-11-20T09:00:00Z"), ms("2026-11-20T08:30:00Z"))


def test_a_pause_with_an_end_keeps_a_next_time_and_one_without_has_none(bench: Bench) -> None:
    schedule = bench.add()
    until_ms = bench.now + 3600_000
    following = NextFire(plan_ms=until_ms, due_ms=until_ms, source="* * * * *")

    bench.store.pause_schedule(schedule, until_ms=until_ms, following=following, now_ms=bench.now)
    timed = bench.store.get_schedule("backup")
    bench.store.pause_schedule(timed, until_ms=None, following=None, now_ms=bench.now)
    endless = bench.store.get_schedule("backup")

    assert (timed.enabled, timed.paused_until, timed.next_run_at) == (
        True,
        from_ms(until_ms),
        from_ms(until_ms),
    )
    assert (endless.enabled, endless.paused_until, endless.next_run_at) == (False, None, None)


def test_resuming_records_what_was_held_and_decides_the_boot_that_passed(bench: Bench) -> None:
    schedule = bench.add(make_spec("backup", "* * * * *", "on boot"))
    bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)
    bench.clock.advance_ms(5 * MINUTE)
    paused = bench.store.get_schedule("backup")
    span = Missed(from_ms=bench.now - MINUTE, to_ms=bench.now, count=2, reason=Reason.PAUSED)
    following = NextFire(plan_ms=bench.now + MINUTE, due_ms=bench.now + MINUTE, source="x")

    assert bench.store.resume_schedule(
        paused,
        retiming=Retiming(next=following, decided_until_ms=bench.now, missed=(span,)),
        boot_id="boot-2",
        now_ms=bench.now,
    )

    [row] = bench.rows()
    assert (row.reason, row.missed_count) == (Reason.PAUSED, 2)
    assert bench.fire_boot("boot-2").advanced == 0
    assert bench.fire_boot("boot-3").advanced == 1


def test_a_change_of_another_connection_is_noticed_and_an_own_one_is_not(
    make_store: OpenStore, clock: FakeClock
) -> None:
    mine, other = Bench(make_store, clock), Bench(make_store, clock)
    mark = mine.store.change_mark

    mine.add(make_spec("own"))
    after_own = mine.store.change_mark
    other.add(make_spec("foreign"))

    assert after_own == mark
    assert mine.store.change_mark != mark


def test_history_pages_go_on_before_the_last_id(bench: Bench) -> None:
    bench.add(make_spec("a", overlap=Overlap.ALLOW))
    bench.add(make_spec("b", overlap=Overlap.ALLOW))
    for number in range(10):
        bench.run("ab"[number % 2], key=f"manual:{number}")
    bench.end(*bench.fill().granted[:4], status=Status.FAILED)
    schedule_id = bench.store.get_schedule("a").id

    first = bench.store.find_executions(schedule_id=schedule_id, limit=3).runs
    second = bench.store.find_executions(
        schedule_id=schedule_id, before_id=first[-1].id, limit=3
    ).runs
    failed = bench.store.find_executions(statuses=(Status.FAILED,), limit=3).runs
    either = bench.store.find_executions(statuses=(Status.FAILED, Status.RUNNING), limit=100).runs

    assert [row.id for row in first + second] == [9, 7, 5, 3, 1]
    assert [row.id for row in failed] == [4, 3, 2]
    assert [row.id for row in either] == list(range(10, 0, -1))


def test_the_last_run_is_the_newest_that_was_started(bench: Bench) -> None:
    schedule = bench.add()
    none = bench.store.last_execution_of(schedule.id)
    bench.run(key="manual:a")
    bench.fill()
    bench.run(key="manual:b")

    last = bench.store.last_execution_of(schedule.id)

    assert none is None
    assert last is not None
    assert last.fire_key == "manual:a"
    assert bench.store.find_execution(last.id) == last
    assert bench.store.find_execution(999) is None


def test_an_engine_that_was_drained_and_stops_is_not_resumed(bench: Bench) -> None:
    engine_id = bench.claimant.engine_id
    bench.store.drain_engine(engine_id, now_ms=bench.now)
    bench.store.close_queues(engine_id, now_ms=bench.now)

    is_resumed = bench.store.resume_engine(engine_id, now_ms=bench.now)

    [engine] = bench.store.find_engines()
    assert (is_resumed, engine.queues) == (False, ())
