"""What any store must do for an engine that puts clocks and zones right."""

from __future__ import annotations

from datetime import timedelta

import pytest

from edgecron.base.units import HOUR_MS, from_ms, to_ms
from edgecron.model.choices import Hold
from edgecron.planning.corrections import ClockMarks, KeptTimes, Retimed
from edgecron.planning.next_fire import NextFire
from edgecron.store.sqlite.store import SqliteStore
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import make_spec


def rebased(kept: KeptTimes, *, at_ms: int, next_ms: int) -> Retimed:
    return Retimed(
        kept=kept,
        next=NextFire(plan_ms=next_ms, due_ms=next_ms, source="every 10m"),
        decided_until_ms=at_ms,
        trusted_until_ms=kept.decided_until_ms,
    )


def test_a_new_database_remembers_nothing_of_clock_and_zones(bench: Bench) -> None:
    marks = bench.store.find_clock_marks()

    assert marks == ClockMarks(trusted_high_ms=None, tzdata_version=None, local_timezone=None)


def test_the_trusted_mark_moves_only_from_where_it_was_seen(bench: Bench) -> None:
    first = bench.store.note_trusted(1000, was_ms=None)
    late = bench.store.note_trusted(2000, was_ms=None)
    back = bench.store.note_trusted(500, was_ms=1000)

    assert (first, late, back) == (True, False, True)
    assert bench.store.find_clock_marks().trusted_high_ms == 500


def test_what_goes_by_calendar_times_is_told_from_intervals(bench: Bench) -> None:
    bench.add(make_spec("cron", "0 9 * * *", timezone="Europe/Berlin"))
    bench.add(make_spec("local", "0 9 * * *", timezone="local"))
    bench.add(make_spec("once", "at 2026-11-21T00:00:00Z"))
    bench.add(make_spec("every", "every 10m", timezone="local"))
    bench.add(make_spec("both", "every 10m", "@daily"))
    bench.add(make_spec("boot", "on boot"))

    intervals = bench.store.find_intervals(now_ms=bench.now, has_stepped=False)
    found = bench.store.find_zoned(ids=range(1, 100))
    zoned = bench.store.find_times([one.schedule_id for one in found])

    assert [kept.name for kept in intervals] == ["every"]
    assert [kept.name for kept in zoned] == ["cron", "local", "both"]


def test_kept_times_are_all_that_a_correction_needs(bench: Bench) -> None:
    schedule = bench.add(make_spec("steady", "every 10m"))

    [kept] = bench.store.find_intervals(now_ms=bench.now, has_stepped=False)

    assert schedule.next_plan_at is not None
    next_ms = to_ms(schedule.next_plan_at)
    assert kept == KeptTimes(
        schedule_id=schedule.id,
        revision=1,
        name="steady",
        is_idle=False,
        next=NextFire(plan_ms=next_ms, due_ms=next_ms, source="every 10m"),
        decided_until_ms=bench.now,
        trusted_until_ms=None,
        paused_until_ms=None,
        planned_count=0,
    )


def test_what_was_rebased_is_not_found_again_until_the_clock_steps(bench: Bench) -> None:
    bench.add(make_spec("steady", "every 10m"))
    [kept] = bench.store.find_intervals(now_ms=bench.now, has_stepped=False)
    change = rebased(kept, at_ms=bench.now, next_ms=bench.now + 600_000)

    assert bench.store.retime([change], marks=None) == [True]

    assert bench.store.find_intervals(now_ms=bench.now, has_stepped=False) == []
    assert len(bench.store.find_intervals(now_ms=bench.now, has_stepped=True)) == 1
    assert len(bench.store.find_intervals(now_ms=bench.now - 1, has_stepped=False)) == 1
    [found] = bench.store.find_misdated(now_ms=bench.now, ahead_ms=bench.now)
    assert found.trusted_until_ms == kept.decided_until_ms


def test_what_is_held_is_neither_due_nor_waited_for(bench: Bench, clock: FakeClock) -> None:
    bench.add(make_spec("cron", "* * * * *"))
    bench.add(make_spec("steady", "every 10m"))
    queues = bench.claimant.queues
    [kept] = bench.store.find_intervals(now_ms=bench.now, has_stepped=False)
    due_ms = bench.now + 1_000
    bench.store.retime([rebased(kept, at_ms=bench.now, next_ms=due_ms)], marks=None)
    clock.advance_ms(HOUR_MS)

    def due(hold: Hold) -> list[int]:
        found = bench.store.find_due(queues, now_ms=bench.now, limit=10, hold=hold)
        return [one.plan_ms for one in found]

    assert len(due(Hold.NOTHING)) == 2
    assert due(Hold.CALENDAR) == [due_ms]
    assert due(Hold.ALL) == []
    assert bench.store.next_due_ms(queues, now_ms=bench.now, hold=Hold.CALENDAR) == due_ms
    assert bench.store.next_due_ms(queues, now_ms=bench.now, hold=Hold.ALL) is None


def test_times_change_only_where_they_are_as_they_were_read(
    bench: Bench, make_store: OpenStore, clock: FakeClock
) -> None:
    bench.add(make_spec("moves", "every 10m"))
    bench.add(make_spec("stays", "every 10m"))
    found = bench.store.find_intervals(now_ms=bench.now, has_stepped=False)
    wanted = ClockMarks(trusted_high_ms=None, tzdata_version="2026b", local_timezone="UTC")
    clock.advance_ms(600_000)
    [due, _] = bench.look()
    assert due.schedule_id == found[0].schedule_id
    Bench(make_store, clock).claim(bench.decide([due]))

    changes = [rebased(kept, at_ms=bench.now, next_ms=bench.now + 60_000) for kept in found]
    done = bench.store.retime(changes, marks=wanted)

    # The marks are for all of them together: the next look sees what is left.
    assert done == [False, True]
    assert bench.store.find_clock_marks().tzdata_version is None
    assert bench.store.get_schedule("stays").next_plan_at == from_ms(bench.now + 60_000)
    assert bench.store.retime([], marks=wanted) == []
    assert bench.store.find_clock_marks() == wanted


def test_a_schedule_that_is_decided_into_the_future_was_moved_by_a_clock_or_by_a_person(
    bench: Bench, clock: FakeClock
) -> None:
    by_clock = bench.add(make_spec("by_clock", "0 0 1 1 *"))
    by_hand = bench.add(make_spec("by_hand", "0 0 1 1 *"))
    assert by_hand.next_plan_at is not None
    soon = bench.now + 1_000
    bench.store.reschedule(by_hand, run_ms=soon, now_ms=bench.now)
    clock.advance_ms(1_000)
    bench.fire()
    clock.set_to(by_clock.next_plan_at or from_ms(0))
    bench.fire()
    clock.set_ms(soon)

    found = bench.store.find_misdated(now_ms=bench.now, ahead_ms=bench.now + 3 * HOUR_MS)

    assert [kept.name for kept in found] == ["by_clock"]


def test_a_removed_schedule_is_left_alone_and_a_paused_one_is_idle(bench: Bench) -> None:
    gone = bench.add(make_spec("gone", "@daily"))
    held = bench.add(make_spec("held", "@daily"))
    bench.store.remove_schedule(gone, missed=(), now_ms=bench.now)
    bench.store.pause_schedule(held, until_ms=None, following=None, now_ms=bench.now)
    early_ms = bench.now - 24 * HOUR_MS

    found = bench.store.find_misdated(now_ms=early_ms, ahead_ms=early_ms)

    assert [(kept.name, kept.is_idle, kept.next) for kept in found] == [("held", True, None)]
    change = Retimed(kept=found[0], next=None, decided_until_ms=early_ms)
    assert bench.store.retime([change], marks=None) == [True]
    assert bench.store.get_schedule("held").decided_until == from_ms(early_ms)


def test_what_was_queued_by_a_clock_that_was_ahead_waits_from_now_on(
    bench: Bench, clock: FakeClock
) -> None:
    bench.add(make_spec("backup", "@daily"))
    clock.advance_ms(10 * HOUR_MS)
    [queued_id] = bench.run("backup")
    clock.step_ms(-10 * HOUR_MS)

    moved = bench.store.bring_back_queued(now_ms=bench.now, ahead_ms=bench.now)
    again = bench.store.bring_back_queued(now_ms=bench.now, ahead_ms=bench.now)

    assert (moved, again) == (1, 0)
    execution = bench.store.find_execution(queued_id)
    assert execution is not None
    assert execution.queued_at == from_ms(bench.now)
    assert execution.due_at - execution.plan_at == -timedelta(hours=10)


def count_twice_and_fail(store: SqliteStore) -> None:
    with store.transaction():
        store.change("UPDATE meta SET lock_failures = 1")
    with store.transaction(), store.transaction():
        store.change("UPDATE meta SET lock_failures = lock_failures + 1")
    assert store.row("SELECT lock_failures FROM meta") == (2,)
    raise RuntimeError


def test_a_transaction_within_another_one_is_a_part_of_it(make_store: OpenStore) -> None:
    store = make_store()

    with pytest.raises(RuntimeError), store.transaction():
        count_twice_and_fail(store)
    undone = store.row("SELECT lock_failures FROM meta")
    with store.transaction():
        store.change("UPDATE meta SET lock_failures = 3")

    assert (undone, make_store().row("SELECT lock_failures FROM meta")) == ((0,), (3,))
