"""Any store: what needs a condition waits for it, is woken by it, and given up at its deadline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgecron.base.units import from_ms, to_ms
from edgecron.model.choices import Cause, Hold, Overlap, Reason, Status, WaitsFor
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.planning.next_fire import Fire
from edgecron.planning.times import compile_spec
from edgecron.store.contract import Claimant
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import enqueue, make_spec

MINUTE = 60_000
HOUR = 60 * MINUTE
YEARLY = "@yearly"


@pytest.fixture
def pair(bench: Bench) -> Bench:
    """`backup`, which is run by hand, and `report`, every minute, which needs its success."""
    bench.add(make_spec("backup", YEARLY))
    bench.add(make_spec("report", needs=("success:backup:1h",), needs_deadline_s=7200))
    return bench


def succeed(
    bench: Bench, name: str, *, key: str = "manual:1", status: Status = Status.SUCCESS
) -> None:
    bench.run(name, key=key)
    [grant] = [grant for grant in bench.fill().granted if grant.fire_key == key]
    bench.end(grant, status=status)


def shown(bench: Bench, name: str) -> list[str]:
    return [describe(row) for row in bench.rows(name)]


def describe(row: Execution) -> str:
    if row.waiting_for is not None:
        return f"waits for {row.waiting_for}"
    return f"{row.status}:{row.reason}" if row.reason else str(row.status)


def test_a_fire_whose_need_is_not_met_waits_for_it(pair: Bench) -> None:
    pair.clock.advance_ms(MINUTE)

    batch = pair.fire()
    filled = pair.fill()

    [row] = pair.rows("report")
    assert (row.status, row.waiting_for) == (Status.QUEUED, "success:backup:1h")
    assert row.wait_until == from_ms(to_ms(row.due_at) + 2 * HOUR)
    assert batch.granted == filled.granted == ()
    [one] = batch.decided
    assert (one.waits_for, one.condition) == (WaitsFor.CONDITION, "success:backup:1h")
    assert one.wait_until_ms == to_ms(row.due_at) + 2 * HOUR


def test_a_fire_whose_need_is_met_runs_at_once(pair: Bench) -> None:
    succeed(pair, "backup")
    pair.clock.advance_ms(MINUTE)

    assert len(pair.fire().granted) == 1


def test_the_success_that_is_needed_wakes_what_waits(pair: Bench) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    before = pair.store.has_queued()

    succeed(pair, "backup")
    woken = pair.store.has_queued()
    batch = pair.fill()

    assert (before, woken) == (False, True)
    assert [grant.schedule_id for grant in batch.granted] == [pair.store.get_schedule("report").id]


@pytest.mark.parametrize("status", [Status.FAILED])
def test_no_other_end_wakes_it(pair: Bench, status: Status) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()

    succeed(pair, "backup", status=status)

    assert shown(pair, "report") == ["waits for success:backup:1h"]


def test_a_success_of_another_name_wakes_nothing(bench: Bench) -> None:
    for name in ("backup", "backup-2", "backup.old", "backup1", "backuq", "back"):
        bench.add(make_spec(name, YEARLY))
    bench.add(make_spec("ever", needs=("success:backup",)))
    bench.add(make_spec("lately", needs=("success:backup:1h",)))
    bench.clock.advance_ms(MINUTE)
    bench.fire()

    for name in ("backup-2", "backup.old", "backup1", "backuq", "back"):
        succeed(bench, name)
    waiting = shown(bench, "ever") + shown(bench, "lately")
    succeed(bench, "backup")

    assert waiting == ["waits for success:backup", "waits for success:backup:1h"]
    assert shown(bench, "ever") == shown(bench, "lately") == ["queued"]


def test_it_is_given_up_at_its_deadline_and_says_what_did_not_come_true(pair: Bench) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    wake_ms = pair.store.next_due_ms(("command",), now_ms=pair.now)
    before = pair.store.get_schedule("report").counts[Status.SKIPPED]
    [row] = pair.rows("report")

    pair.clock.advance_to(to_ms(row.due_at) + 2 * HOUR - 1)
    early = pair.fill()
    pair.clock.advance_ms(1)
    batch = pair.fill()
    again = pair.fill()

    assert wake_ms is not None
    assert wake_ms <= to_ms(row.due_at) + 2 * HOUR
    assert early.decided == again.decided == ()
    [one] = batch.decided
    assert (one.status, one.reason) == (Status.SKIPPED, Reason.CONDITION)
    [row] = pair.rows("report")
    assert (row.status, row.reason, row.waiting_for) == ("skipped", "condition", None)
    assert row.error_msg == "needed a success of backup within 1h, which was not true within 2h"
    assert row.claimed_at is None
    assert pair.store.get_schedule("report").counts[Status.SKIPPED] == before + 1


def test_the_engine_is_told_to_wake_at_the_deadline(bench: Bench) -> None:
    bench.add(make_spec("backup", YEARLY))
    bench.add(make_spec("report", needs=("success:backup",), needs_deadline_s=600))
    bench.clock.advance_ms(MINUTE)
    bench.fire()
    schedule = bench.store.get_schedule("report")
    bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)
    [row] = bench.rows("report")

    assert bench.store.next_due_ms(("command",), now_ms=bench.now) == to_ms(row.due_at) + 600_000


def test_all_needs_must_hold_and_the_first_that_does_not_is_waited_for(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.add(make_spec(name, YEARLY))
    bench.add(make_spec("report", needs=("success:a", "success:b")))
    bench.clock.advance_ms(MINUTE)
    bench.fire()
    first = shown(bench, "report")

    succeed(bench, "a")
    told = bench.fill().decided
    second = shown(bench, "report")
    succeed(bench, "b")
    batch = bench.fill()

    assert first == ["waits for success:a"]
    assert second == ["waits for success:b"]
    assert [(one.status, one.condition) for one in told] == [(Status.QUEUED, "success:b")]
    assert len(batch.granted) == 1


def test_needs_are_judged_again_when_a_place_comes_late(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench, none = Bench(make_store, clock), Bench(make_store, clock, places=0)
    bench.add(make_spec("backup", YEARLY))
    bench.add(
        make_spec(
            "report",
            "at 2026-11-20T08:01:00Z",
            needs=("success:backup:10m",),
            needs_deadline_s=3600,
        )
    )
    succeed(bench, "backup")
    clock.advance_ms(MINUTE)
    none.fire()
    queued = shown(bench, "report")

    clock.advance_ms(20 * MINUTE)
    batch = bench.fill()
    owed = shown(bench, "report")
    clock.advance_ms(40 * MINUTE)
    bench.fill()

    assert queued == ["queued"]
    assert batch.granted == ()
    assert owed == ["waits for success:backup:10m"]
    assert shown(bench, "report") == ["skipped:condition"]


def test_a_place_that_comes_after_the_deadline_finds_it_given_up_or_starts_it(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench, none = Bench(make_store, clock), Bench(make_store, clock, places=0)
    bench.add(make_spec("backup", YEARLY))
    succeed(bench, "backup")
    for name, duration in (("brief", "1h"), ("long", "4h")):
        needs = (f"success:backup:{duration}",)
        bench.add(make_spec(name, "at 2026-11-20T08:01:00Z", needs=needs, needs_deadline_s=60))
    clock.advance_ms(MINUTE)
    none.fire()
    clock.advance_ms(2 * HOUR)

    bench.fill()

    assert shown(bench, "brief") == ["skipped:condition"]
    assert shown(bench, "long") == ["running"]


def test_what_follows_a_fire_that_is_given_up_last_starts_as_well(
    make_store: OpenStore, clock: FakeClock
) -> None:
    """Its row comes before the one whose place the walk over what is queued has reached."""
    bench, none = Bench(make_store, clock), Bench(make_store, clock, places=0)
    bench.add(make_spec("backup", YEARLY))
    succeed(bench, "backup")
    needs = ("success:backup:1h",)
    bench.add(make_spec("brief", "at 2026-11-20T08:01:00Z", needs=needs, needs_deadline_s=60))
    bench.add(make_spec("tell", "after brief:any", priority=10))
    clock.advance_ms(MINUTE)
    none.fire()
    clock.advance_ms(2 * HOUR)

    bench.fill()

    assert shown(bench, "tell") == ["running"]


def test_a_run_by_hand_needs_nothing(pair: Bench) -> None:
    pair.run("report")

    assert len(pair.fill().granted) == 1


def test_a_retry_does_not_ask_again(bench: Bench) -> None:
    bench.add(make_spec("backup", YEARLY))
    needs: dict[str, Any] = {"needs": ("success:backup:10m",), "retries": 1, "retry_delay_s": 1200}
    bench.add(make_spec("report", "at 2026-11-20T08:01:00Z", **needs))
    succeed(bench, "backup")
    bench.clock.advance_ms(MINUTE)
    bench.end(*bench.fire().granted, status=Status.FAILED)

    bench.clock.advance_ms(30 * MINUTE)
    batch = bench.fill()

    assert [grant.cause for grant in batch.granted] == [Cause.RETRY]


@pytest.mark.parametrize("cause", [Cause.CATCH_UP, Cause.AFTER, Cause.BACKFILL])
def test_fires_of_every_other_cause_need_it(pair: Bench, cause: Cause) -> None:
    schedule = pair.store.get_schedule("report")
    fire = Fire(plan_ms=pair.now, due_ms=pair.now, cause=cause, fire_key=f"{cause}:1")

    enqueue(pair.store, schedule, fire, now_ms=pair.now)

    assert shown(pair, "report") == ["waits for success:backup:1h"]
    assert pair.fill().granted == ()


def test_a_boot_needs_it(bench: Bench) -> None:
    bench.add(make_spec("backup", YEARLY))
    bench.add(make_spec("warm-up", "on boot", needs=("success:backup",)))

    bench.fire_boot("boot-2")

    assert shown(bench, "warm-up") == ["waits for success:backup"]


def test_what_waits_for_a_condition_takes_no_place_but_is_active(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock, places=1)
    bench.add(make_spec("backup", YEARLY))
    bench.add(make_spec("report", needs=("success:backup",)))
    clock.advance_ms(MINUTE)
    bench.fire()
    clock.advance_ms(MINUTE)
    bench.fire()

    bench.run("backup")
    batch = bench.fill()

    assert shown(bench, "report") == ["waits for success:backup", "skipped:overlap"]
    assert len(batch.granted) == 1


def test_what_was_edited_away_is_not_waited_for_any_more(pair: Bench) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    schedule = pair.store.get_schedule("report")

    edit(pair, schedule, needs=())
    batch = pair.fill()

    assert len(batch.granted) == 1


def edit(bench: Bench, schedule: Schedule, **policies: Any) -> None:
    spec = replace(schedule.spec, policies=replace(schedule.spec.policies, **policies))
    compiled = compile_spec(spec, seed=bench.store.seed, made_at=from_ms(bench.now))
    assert bench.store.update_schedule(
        schedule, compiled, retiming=None, boot_id="boot-1", origin="test", now_ms=bench.now
    )


@pytest.mark.failure(26)
@pytest.mark.parametrize("how", ["cancel", "remove"])
def test_what_waits_can_be_withdrawn(pair: Bench, how: str) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    [row] = pair.rows("report")

    if how == "cancel":
        pair.store.cancel_queued(row.id, now_ms=pair.now)
    else:
        schedule = pair.store.get_schedule("report")
        pair.store.remove_schedule(schedule, missed=(), now_ms=pair.now)

    after = pair.store.find_execution(row.id)
    assert after is not None
    assert (after.status, after.waiting_for, after.wait_until) == ("cancelled", None, None)


def test_a_pause_holds_what_is_woken(pair: Bench) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    schedule = pair.store.get_schedule("report")
    pair.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=pair.now)

    succeed(pair, "backup")

    assert pair.fill().granted == ()
    assert shown(pair, "report") == ["queued"]


def test_what_replaces_lets_the_old_one_run_until_its_need_is_met(bench: Bench) -> None:
    bench.add(make_spec("backup", YEARLY))
    bench.add(make_spec("feed", needs=("success:backup:1m30s",), overlap=Overlap.REPLACE))
    succeed(bench, "backup")
    bench.clock.advance_ms(MINUTE)
    [old] = bench.fire().granted
    for _ in range(3):
        bench.clock.advance_ms(MINUTE)
        bench.fire()
    waiting, asked = shown(bench, "feed"), bench.store.find_cancelled(bench.claimant.engine_id)

    succeed(bench, "backup", key="manual:2")
    batch = bench.fill()
    again = bench.fill()
    asked_then = bench.store.find_cancelled(bench.claimant.engine_id)
    bench.end(old)
    last = bench.fill()

    assert waiting == [
        "running", "cancelled:replaced", "cancelled:replaced", "waits for success:backup:1m30s"
    ]  # fmt: skip
    assert asked == []
    assert (batch.has_replaced, again.has_replaced) == (True, False)
    assert asked_then == [old.execution_id]
    assert len(last.granted) == 1


def test_an_engine_for_one_run_gives_nothing_else_up(pair: Bench) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    pair.clock.advance_ms(3 * HOUR)
    [wanted] = pair.run("backup")
    claimant: Claimant = pair.claimant._replace(only=wanted)

    batch = pair.store.claim_queued(claimant=claimant, now_ms=pair.now)

    assert [grant.execution_id for grant in batch.granted] == [wanted]
    assert batch.decided == ()
    assert shown(pair, "report") == ["waits for success:backup:1h"]


def test_many_that_have_waited_too_long_are_given_up_in_turns(bench: Bench) -> None:
    bench.add(make_spec("backup", YEARLY))
    needs: dict[str, Any] = {
        "needs": ("success:backup",),
        "needs_deadline_s": 60,
        "overlap": Overlap.ALLOW,
    }
    schedule = bench.add(make_spec("report", YEARLY, **needs))
    for number in range(300):
        fire = Fire(
            plan_ms=bench.now, due_ms=bench.now, cause=Cause.BACKFILL, fire_key=f"backfill:{number}"
        )
        enqueue(bench.store, schedule, fire, now_ms=bench.now)
    bench.clock.advance_ms(HOUR)

    counts = [len(bench.fill().decided) for _ in range(3)]

    assert counts == [250, 50, 0]


def test_an_older_success_that_is_written_late_does_not_hide_a_newer_one(pair: Bench) -> None:
    """As of a run that was adopted, and whose end comes from a journal."""
    edit(pair, pair.store.get_schedule("backup"), overlap=Overlap.ALLOW)
    for key in ("manual:old", "manual:new"):
        pair.run("backup", key=key)
    old, new = pair.fill().granted
    pair.clock.advance_ms(2 * HOUR)
    pair.end(new)
    pair.clock.step_ms(-2 * HOUR)
    pair.end(old)
    pair.clock.step_ms(2 * HOUR)

    pair.clock.advance_ms(MINUTE)
    pair.fire()

    assert [row.waiting_for for row in pair.rows("report")][-1] is None


@pytest.mark.failure(5)
@pytest.mark.parametrize("hold", [Hold.CALENDAR, Hold.ALL])
def test_a_clock_that_can_not_be_trusted_gives_nothing_up(pair: Bench, hold: Hold) -> None:
    pair.clock.advance_ms(MINUTE)
    pair.fire()
    [row] = pair.rows("report")
    pair.clock.step_ms(1000 * HOUR)

    held = pair.store.claim_queued(claimant=pair.claimant, now_ms=pair.now, hold=hold)
    wakes = [
        pair.store.next_due_ms(("command",), now_ms=pair.now, hold=one)
        for one in (Hold.ALL, Hold.NOTHING)
    ]
    pair.clock.step_ms(-1000 * HOUR)
    pair.fill()

    assert held.decided == ()
    assert row.wait_until is not None
    assert (wakes[0] is None, wakes[1] is not None) == (True, True)
    assert shown(pair, "report") == ["waits for success:backup:1h"]


def test_what_was_queued_by_a_clock_that_was_ahead_keeps_its_deadline(pair: Bench) -> None:
    pair.clock.step_ms(1000 * HOUR)
    schedule = pair.store.get_schedule("report")
    fire = Fire(plan_ms=pair.now, due_ms=pair.now, cause=Cause.BACKFILL, fire_key="backfill:1")
    enqueue(pair.store, schedule, fire, now_ms=pair.now)
    pair.clock.step_ms(-1000 * HOUR)

    pair.store.bring_back_queued(now_ms=pair.now, ahead_ms=pair.now)

    [row] = pair.rows("report")
    assert row.wait_until == from_ms(pair.now + 2 * HOUR)
