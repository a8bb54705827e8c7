"""Any store: a due time is decided once, by whoever is first, and leaves a row."""

from __future__ import annotations

import pytest

from edgecron.base.units import from_ms
from edgecron.base.values import replace
from edgecron.model.choices import CatchUp, Cause, Overlap, Reason, Status
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import NextFire
from edgecron.planning.retention import Retention, limits_at
from edgecron.planning.times import compile_spec
from edgecron.store.sql.retention import prune as prune_slices
from edgecron.store.sql.schedule_changes import Retiming
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import make_spec, ms

MINUTE = 60_000


def test_a_due_schedule_becomes_a_running_row_and_moves_on(bench: Bench) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE)

    batch = bench.fire()

    [row] = bench.rows()
    assert batch.advanced == 1
    assert [grant.execution_id for grant in batch.granted] == [row.id]
    assert (row.status, row.cause, row.attempt) == (Status.RUNNING, Cause.SCHEDULE, 1)
    assert row.plan_at == row.due_at == row.claimed_at == bench.clock.now()
    assert row.trigger_text == "* * * * *"
    schedule = bench.store.get_schedule("backup")
    assert schedule.next_plan_at == schedule.next_run_at == from_ms(ms("2026-11-20T08:02:00Z"))
    assert schedule.decided_until == row.plan_at
    assert schedule.planned_count == 1


def test_a_schedule_is_not_due_before_its_time(bench: Bench) -> None:
    bench.add()

    bench.clock.advance_ms(MINUTE - 1)

    assert bench.look() == []


@pytest.mark.failure(22)
def test_the_second_engine_loses(make_store: OpenStore, clock: FakeClock) -> None:
    first, second = Bench(make_store, clock), Bench(make_store, clock)
    first.add()
    clock.advance_ms(MINUTE)
    seen_by_first, seen_by_second = first.decide(first.look()), second.decide(second.look())

    won = first.claim(seen_by_first)
    lost = second.claim(seen_by_second)

    assert (won.advanced, len(won.granted)) == (1, 1)
    assert (lost.advanced, lost.granted, lost.decided) == (0, (), ())
    assert first.statuses() == ["running"]


def test_a_claim_takes_what_it_can_and_leaves_what_others_took(
    make_store: OpenStore, clock: FakeClock
) -> None:
    first, second = Bench(make_store, clock), Bench(make_store, clock)
    for name in ("one", "two", "three"):
        first.add(make_spec(name))
    clock.advance_ms(MINUTE)
    seen = second.decide(second.look())
    first.claim(first.decide(first.look(limit=1)))

    batch = second.claim(seen)

    assert batch.advanced == 2
    assert first.statuses() == ["running"] * 3


def test_a_fire_that_has_a_row_already_advances_and_does_not_run(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.ALLOW))
    bench.clock.advance_ms(MINUTE)
    seen = bench.look()
    # The row of 08:01 is there, and the schedule, at 08:02 now, is made to fire for 08:01 again.
    [decision] = bench.decide(seen)
    bench.claim([decision])
    next_ms = ms("2026-11-20T08:02:00Z")
    due = decision.plan.due._replace(plan_ms=next_ms, due_ms=next_ms)
    twice = decision._replace(plan=decision.plan._replace(due=due))

    batch = bench.claim([twice])

    assert batch.advanced == 1
    assert batch.granted == ()
    assert bench.statuses() == ["running"]


@pytest.mark.failure(26)
def test_a_change_between_look_and_claim_wins(bench: Bench) -> None:
    schedule = bench.add()
    bench.clock.advance_ms(MINUTE)
    seen = bench.decide(bench.look())
    assert bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)

    batch = bench.claim(seen)

    assert batch.advanced == 0
    assert bench.rows() == []


def test_a_fire_of_another_trigger_between_look_and_claim_counts_towards_max_runs(
    bench: Bench,
) -> None:
    bench.add(make_spec("first", "@yearly"))
    bench.add(make_spec("both", "* * * * *", "after first", max_runs=2, overlap=Overlap.ALLOW))
    bench.run("first")
    [granted] = bench.fill().granted
    bench.clock.advance_ms(MINUTE)
    seen = bench.decide(bench.look())
    bench.end(granted)
    bench.claim(seen)

    bench.clock.advance_ms(MINUTE)
    bench.fire()

    assert [row.cause for row in bench.rows("both")] == [Cause.AFTER, Cause.SCHEDULE]
    both = bench.store.get_schedule("both")
    assert (both.planned_count, both.next_run_at) == (2, None)


def test_an_edit_between_look_and_claim_wins_although_the_next_time_is_the_same(
    bench: Bench,
) -> None:
    schedule = bench.add()
    bench.clock.advance_ms(MINUTE)
    seen = bench.decide(bench.look())
    spec = make_spec(max_running=2)
    compiled = compile_spec(spec, seed=bench.store.seed, made_at=schedule.created_at)
    assert bench.store.update_schedule(
        schedule, compiled, retiming=None, boot_id="b", origin="test", now_ms=bench.now
    )

    stale = bench.claim(seen)
    fresh = bench.fire()

    assert (stale.advanced, fresh.advanced) == (0, 1)
    assert [row.revision for row in bench.rows()] == [2]


@pytest.mark.failure(26)
def test_a_removal_between_look_and_claim_wins(bench: Bench) -> None:
    schedule = bench.add()
    bench.clock.advance_ms(MINUTE)
    seen = bench.decide(bench.look())
    assert bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)

    batch = bench.claim(seen)

    assert batch.advanced == 0
    assert bench.store.find_executions().runs == []


@pytest.mark.failure(26)
def test_a_pause_after_the_claim_comes_too_late_for_that_run(bench: Bench) -> None:
    schedule = bench.add()
    bench.clock.advance_ms(MINUTE)
    bench.fire()

    assert bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)

    assert bench.statuses() == ["running"]
    bench.clock.advance_ms(10 * MINUTE)
    assert bench.look() == []


def test_each_scope_has_its_own_row_in_the_same_transaction(bench: Bench) -> None:
    bench.add(make_spec(scopes=(("device", "a"), ("device", "b"), ("device", "c"))))
    bench.clock.advance_ms(MINUTE)

    batch = bench.fire()

    assert batch.advanced == 1
    assert [(row.scope_kind, row.scope_id, row.status) for row in bench.rows()] == [
        ("device", "a", Status.RUNNING),
        ("device", "b", Status.RUNNING),
        ("device", "c", Status.RUNNING),
    ]
    assert len({grant.lease_token for grant in batch.granted}) == 3


def test_overlap_looks_at_each_scope_on_its_own(bench: Bench) -> None:
    bench.add(make_spec(scopes=(("device", "a"), ("device", "b"))))
    bench.clock.advance_ms(MINUTE)
    first = bench.fire()
    bench.end(first.granted[0])
    bench.clock.advance_ms(MINUTE)

    second = bench.fire()

    assert [grant.scope_id for grant in second.granted] == [first.granted[0].scope_id]
    assert bench.statuses()[2:] == ["running", "skipped"]


def test_missed_times_are_one_row_with_range_and_count(bench: Bench) -> None:
    bench.add(make_spec("backup", "0 * * * *"))
    bench.clock.advance_to(ms("2026-11-20T12:30:00Z"))

    bench.fire()

    missed, run = bench.rows()
    assert (missed.status, missed.reason, missed.fire_key) == (
        Status.SKIPPED,
        Reason.MISFIRE,
        "missed",
    )
    assert missed.missed_count == 3
    assert missed.missed_from_at == missed.plan_at
    assert (run.cause, run.status) == (Cause.CATCH_UP, Status.RUNNING)
    assert bench.store.get_schedule("backup").counts[Status.SKIPPED] == 3


def test_the_newest_missed_row_grows_until_another_row_follows(bench: Bench) -> None:
    bench.add(make_spec("backup", "0 * * * *", catch_up=CatchUp.SKIP))
    for time in ("10:30", "12:30"):
        bench.clock.advance_to(ms(f"2026-11-20T{time}:00Z"))
        bench.fire()
    grown = bench.rows()
    bench.run()
    bench.clock.advance_to(ms("2026-11-20T13:30:00Z"))

    bench.fire()

    assert [row.missed_count for row in grown] == [4]
    assert [(row.status, row.missed_count) for row in bench.rows()] == [
        (Status.SKIPPED, 4),
        (Status.QUEUED, None),
        (Status.SKIPPED, 1),
    ]


def test_overlap_skips_grow_one_row_beside_the_run(bench: Bench) -> None:
    bench.add()
    for _ in range(5):
        bench.clock.advance_ms(MINUTE)
        bench.fire()

    run, skipped = bench.rows()
    assert run.status is Status.RUNNING
    assert (skipped.status, skipped.reason, skipped.missed_count) == (
        Status.SKIPPED,
        Reason.OVERLAP,
        4,
    )


def test_overlap_queue_lets_one_wait_and_skips_the_rest(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.QUEUE))
    for _ in range(4):
        bench.clock.advance_ms(MINUTE)
        bench.fire()

    assert bench.statuses() == ["running", "queued", "skipped"]
    assert bench.rows()[2].missed_count == 2


def test_overlap_allow_runs_beside(bench: Bench) -> None:
    bench.add(make_spec(overlap=Overlap.ALLOW))
    for _ in range(3):
        bench.clock.advance_ms(MINUTE)
        bench.fire()

    assert bench.statuses() == ["running"] * 3


@pytest.mark.failure(28)
def test_catching_up_all_runs_one_after_the_other(bench: Bench) -> None:
    bench.add(make_spec(catch_up=CatchUp.ALL, overlap=Overlap.QUEUE, max_running=3))
    bench.clock.advance_ms(5 * MINUTE + 30_000)
    first = bench.fire()
    at_first = bench.statuses()

    order = [grant.plan_ms for grant in first.granted]
    running = list(first.granted)
    while running:
        assert len(running) == 1
        bench.clock.advance_ms(100)
        bench.end(*running)
        running = list(bench.fill().granted)
        order += [grant.plan_ms for grant in running]

    assert at_first == ["running", "queued", "queued", "queued", "queued"]
    assert order == sorted(order)
    assert bench.statuses() == ["success"] * 5


@pytest.mark.failure(50)
def test_a_long_outage_leaves_a_hundred_catch_ups_at_most(bench: Bench) -> None:
    bench.add(make_spec(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW))
    bench.clock.advance_ms(1000 * MINUTE)

    bench.fire()
    bench.fill()

    statuses = bench.statuses()
    assert len(statuses) == 101
    assert statuses.count("running") == 1
    assert bench.rows()[0].missed_count == 900


def test_of_more_than_there_are_places_priority_decides_who_starts(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock, places=2)
    for name, priority in (("low", -10), ("plain", 0), ("high", 10)):
        bench.add(make_spec(name, priority=priority))
    clock.advance_ms(MINUTE)

    batch = bench.fire()

    assert bench.statuses("high") == bench.statuses("plain") == ["running"]
    assert bench.statuses("low") == ["queued"]
    assert [grant.schedule_id for grant in batch.granted] == [
        bench.store.get_schedule("high").id,
        bench.store.get_schedule("plain").id,
    ]
    assert all(grant.is_new for grant in batch.granted)
    assert [one.status for one in batch.decided] == ["queued"]


def test_a_due_schedule_of_a_higher_priority_is_decided_before_any_run_starts(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock, places=1)
    for name, priority in (("first", 0), ("second", 0), ("high", 10)):
        bench.add(make_spec(name, priority=priority))
    clock.advance_ms(MINUTE)
    due = bench.look()

    some = bench.claim(bench.decide(due[:2]))
    rest = bench.claim(bench.decide(due[2:]))

    assert some.granted == ()
    assert [grant.schedule_id for grant in rest.granted] == [bench.store.get_schedule("high").id]


def test_late_runs_are_all_decided_before_any_starts(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = Bench(make_store, clock, places=1)
    for name in ("one", "other"):
        bench.add(make_spec(name))
    clock.advance_ms(10 * MINUTE)

    assert bench.fire().granted == ()
    assert bench.statuses("one") == ["skipped", "queued"]


def test_a_new_fire_does_not_overtake_what_waits(make_store: OpenStore, clock: FakeClock) -> None:
    bench = Bench(make_store, clock, places=1)
    bench.add(make_spec("early", "1 8 * * *"))
    bench.add(make_spec("late", "2 8 * * *"))
    bench.add(make_spec("other", "1 8 * * *"))
    clock.advance_ms(MINUTE)
    [first] = bench.fire().granted
    bench.end(first)
    clock.advance_ms(MINUTE)

    batch = bench.fire()

    assert [grant.schedule_id for grant in batch.granted] == [bench.store.get_schedule("other").id]
    assert bench.statuses("late") == ["queued"]


def test_a_boot_fires_once(bench: Bench) -> None:
    bench.add(make_spec("backup", "on boot"))

    same_boot = bench.fire_boot("boot-1")
    first = bench.fire_boot("boot-2")
    again = bench.fire_boot("boot-2")

    assert same_boot.advanced == 0
    assert (first.advanced, again.advanced) == (1, 0)
    [row] = bench.rows()
    assert (row.cause, row.fire_key) == (Cause.BOOT, "boot:boot-2")


def test_a_boot_fires_once_however_many_machines_boot_after_it(bench: Bench) -> None:
    bench.add(make_spec("backup", "on boot", overlap=Overlap.ALLOW))

    fired = [bench.fire_boot(boot_id).advanced for boot_id in ("here", "there", "here", "there")]

    assert fired == [1, 1, 0, 0]


def test_a_boot_before_a_schedule_was_added_is_not_its_boot(bench: Bench) -> None:
    bench.add(make_spec("backup", "on boot"))

    found = [
        len(bench.store.find_boot_due(("command",), boot_id="there", booted_ms=bench.now + at_ms))
        for at_ms in (-1, 0, 1)
    ]

    assert found == [0, 1, 1]


@pytest.mark.parametrize(
    "before", [make_spec("backup", "@daily"), make_spec("backup", "on boot", on="there")]
)
def test_a_boot_before_an_edit_made_the_schedule_is_not_its_boot(
    bench: Bench, before: ScheduleSpec
) -> None:
    bench.add(before)
    edited_ms = bench.now + 60_000
    compiled = compile_spec(
        make_spec("backup", "on boot"), seed=bench.store.seed, made_at=from_ms(bench.now)
    )
    for at_ms in (edited_ms, edited_ms + 60_000):
        assert bench.store.update_schedule(
            bench.store.get_schedule("backup"), compiled, retiming=None,
            boot_id="here", origin="test", now_ms=at_ms,
        )  # fmt: skip

    found = [
        len(bench.store.find_boot_due(("command",), boot_id="there", booted_ms=booted_ms))
        for booted_ms in (bench.now, edited_ms - 1, edited_ms, edited_ms + 90_000)
    ]

    assert found == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "how", ["resumed", "restored", "paused for a time", "resumed early", "paused unseen"]
)
def test_a_boot_while_a_schedule_was_held_is_not_its_boot(bench: Bench, how: str) -> None:
    store, schedule = bench.store, bench.add(make_spec("backup", "on boot"))
    retiming = Retiming(next=None, decided_until_ms=bench.now)
    bench.clock.advance_ms(MINUTE)
    until_ms = {"paused for a time": 2, "resumed early": 9, "paused unseen": 2}.get(how)
    if until_ms is not None:
        until_ms = bench.now + until_ms * MINUTE
    if how == "restored":
        assert store.remove_schedule(schedule, missed=(), now_ms=bench.now)
    else:
        assert store.pause_schedule(schedule, until_ms=until_ms, following=None, now_ms=bench.now)
    bench.clock.advance_ms(MINUTE)
    booted_ms = bench.now
    if how not in ("resumed early", "paused unseen"):  # Else no engine records a skipped boot.
        bench.fire_boot("here")
    bench.clock.advance_ms(2 * MINUTE)
    if how.startswith("resumed"):
        store.resume_schedule(
            store.get_schedule("backup"), retiming=retiming, boot_id="here", now_ms=bench.now
        )
    elif how == "restored":
        [(removed, _)] = store.find_last_removed("backup")
        before = replace(removed, enabled=True)
        store.restore_removed(before, retiming=retiming, boot_id="here", now_ms=bench.now)

    found = [
        len(store.find_boot_due(("command",), boot_id="there", booted_ms=at_ms, now_ms=bench.now))
        for at_ms in (booted_ms, bench.now + 1)
    ]

    assert found == [0, 1]


def test_two_engines_decide_a_boot_once(make_store: OpenStore, clock: FakeClock) -> None:
    first, second = Bench(make_store, clock), Bench(make_store, clock)
    first.add(make_spec("backup", "on boot", overlap=Overlap.ALLOW))

    seen_by_first, seen_by_second = first.decide_boot("boot-2"), second.decide_boot("boot-2")
    won = first.claim_boot(seen_by_first, "boot-2")
    clock.advance_ms(MINUTE)
    lost = second.claim_boot(seen_by_second, "boot-2")

    assert (len(seen_by_second), won.advanced, lost.advanced) == (1, 1, 0)
    assert first.statuses() == ["running"]


def test_a_boot_stays_decided_although_retention_has_removed_its_row(
    make_store: OpenStore, clock: FakeClock
) -> None:
    first, second = Bench(make_store, clock), Bench(make_store, clock)
    first.add(make_spec("backup", "on boot"))
    seen_by_second = second.decide_boot("boot-2")
    [fired] = first.fire_boot("boot-2").granted
    first.end(fired)
    clock.advance_ms(MINUTE)
    first.run()
    first.end(*first.fill().granted)  # the newest run of a schedule stays
    clock.advance_ms(MINUTE)
    limits = limits_at(Retention(history_age_s=1), first.now, is_trusted=True)
    list(prune_slices(first.store, limits, schedule_id=None, is_trial=False))
    assert fired.execution_id not in [row.id for row in first.rows()]

    lost = second.claim_boot(seen_by_second, "boot-2")

    assert (len(seen_by_second), lost.advanced, len(second.rows())) == (1, 0, 1)


def test_a_boot_within_a_pause_leaves_a_row_and_one_after_it_runs(bench: Bench) -> None:
    schedule = bench.add(make_spec("backup", "on boot"))
    until_ms = bench.now + MINUTE
    assert bench.store.pause_schedule(schedule, until_ms=until_ms, following=None, now_ms=bench.now)

    bench.fire_boot("boot-2")
    bench.clock.advance_ms(2 * MINUTE)
    bench.fire_boot("boot-3")

    held, run = bench.rows()
    assert (held.status, held.reason) == (Status.SKIPPED, Reason.PAUSED)
    assert (run.status, run.cause) == (Status.RUNNING, Cause.BOOT)


def test_the_end_of_a_pause_records_what_it_held(bench: Bench) -> None:
    schedule = bench.add()
    until_ms = bench.now + 10 * MINUTE
    following = NextFire(plan_ms=until_ms, due_ms=until_ms, source="* * * * *")
    assert bench.store.pause_schedule(
        schedule, until_ms=until_ms, following=following, now_ms=bench.now
    )
    bench.clock.advance_ms(10 * MINUTE)

    bench.fire()

    held, run = bench.rows()
    assert (held.reason, held.missed_count) == (Reason.PAUSED, 9)
    assert run.status is Status.RUNNING
    assert bench.store.get_schedule("backup").paused_until is None
