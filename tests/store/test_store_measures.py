"""What is measured of all that ever ran: counted with the ends, and never less than before."""

from __future__ import annotations

import threading

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.model.choices import Status
from edgecron.model.run import (
    DURATION_STEPS_MS,
    LATE_STEPS_MS,
    Active,
    Histogram,
    histogram_of,
)
from edgecron.planning.retention import Retention, limits_at
from edgecron.store.contract import Granted
from edgecron.store.sql.retention import prune
from edgecron.store.sql.statistics import (
    count_active,
    find_by_schedule,
    find_durations,
    find_lateness,
    find_lock_failures,
    find_measured,
)
from tests.store.store_bench import Bench, OpenStore, outcome_of
from tests.support.specs import make_spec

MINUTE_MS = 60_000
YEAR_MS = 366 * 86_400_000


def end_after(
    bench: Bench, grant: Granted, *, duration_ms: int | None, status: Status = Status.SUCCESS
) -> None:
    outcome = outcome_of(grant, bench.now, status)._replace(duration_ms=duration_ms)
    assert bench.store.finish([outcome], now_ms=bench.now) != [None]


def run_once(bench: Bench, *, late_ms: int = 0, duration_ms: int | None = 0) -> None:
    """Fire the next minute's runs, late by so much, and end them."""
    bench.clock.advance_ms(MINUTE_MS + late_ms)
    for grant in bench.fire().granted:
        end_after(bench, grant, duration_ms=duration_ms)
    bench.clock.step_ms(-late_ms)


def up_to(histogram: Histogram, steps_ms: tuple[int, ...]) -> dict[int | None, int]:
    """How many there are in each step that has any, alone."""
    found, before = {}, 0
    for step, count in zip((*steps_ms, None), histogram.counts, strict=True):
        if count > before:
            found[step] = count - before
        before = count
    return found


@pytest.mark.parametrize(
    ("value_ms", "step"),
    [(0, 10), (10, 10), (11, 50), (86_400_000, 86_400_000), (86_400_001, None)],
)
def test_a_value_belongs_to_the_first_step_that_it_does_not_exceed(
    bench: Bench, value_ms: int, step: int | None
) -> None:
    bench.add()

    run_once(bench, duration_ms=value_ms)

    assert up_to(find_durations(bench.store), DURATION_STEPS_MS) == {step: 1}


def test_a_step_that_nobody_knows_any_more_counts_in_the_last() -> None:
    found = histogram_of({"10": 2, "77": 3, "more": 1}, (10, 100), sum_ms=9)

    assert found == Histogram(counts=(2, 2, 6), sum_ms=9)


def test_runs_are_counted_by_how_long_they_took_and_how_late_they_were(bench: Bench) -> None:
    bench.add()
    run_once(bench, duration_ms=9)
    run_once(bench, duration_ms=40, late_ms=700)
    run_once(bench, duration_ms=400_000_000)

    durations, late = find_durations(bench.store), find_lateness(bench.store)

    assert up_to(durations, DURATION_STEPS_MS) == {10: 1, 50: 1, None: 1}
    assert durations.sum_ms == 400_000_049
    assert up_to(late, LATE_STEPS_MS) == {5: 2, 1_000: 1}
    assert late.sum_ms == 700


def test_ends_of_one_transaction_are_all_counted(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add(make_spec(name))
    bench.clock.advance_ms(MINUTE_MS)
    granted = bench.fire().granted

    bench.end(*granted)

    assert find_durations(bench.store).counts[0] == 3
    assert find_lateness(bench.store).counts[-1] == 3


def test_a_run_that_never_started_is_measured_by_neither(bench: Bench) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE_MS)
    [grant] = bench.fire().granted
    ended = outcome_of(grant, bench.now, Status.FAILED)
    outcome = ended._replace(started_ms=None, duration_ms=None)

    bench.store.finish([outcome], now_ms=bench.now)

    database = bench.store
    assert find_measured(database, now_ms=bench.now)[0].failed == 1
    assert find_durations(database).counts[-1] == 0
    assert find_lateness(database).counts[-1] == 0


def test_what_was_caught_up_says_nothing_of_how_punctual_an_engine_is(bench: Bench) -> None:
    bench.add()
    bench.clock.advance_ms(10 * MINUTE_MS + 500)
    [grant] = bench.fire().granted
    end_after(bench, grant, duration_ms=5)

    [row] = [row for row in bench.rows() if row.id == grant.execution_id]
    assert row.cause == "catch_up"
    assert find_lateness(bench.store).counts[-1] == 0
    assert find_durations(bench.store).counts[-1] == 1


def test_a_late_finish_of_a_lost_execution_is_not_measured(bench: Bench) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE_MS)
    [grant] = bench.fire().granted
    bench.end(grant)

    assert bench.end(grant) == [False]

    assert find_durations(bench.store).counts[-1] == 1


def test_no_count_falls_when_runs_and_their_schedule_are_removed_for_good(bench: Bench) -> None:
    for name in ("gone", "gone-too"):
        bench.add(make_spec(name))
    run_once(bench, duration_ms=40, late_ms=20)
    for name in ("gone", "gone-too"):
        schedule = bench.store.get_schedule(name)
        bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)
    bench.add(make_spec("stays"))
    run_once(bench, duration_ms=70)
    database = bench.store
    before = find_durations(database), find_lateness(database)
    bench.clock.advance_ms(YEAR_MS)

    limits = limits_at(Retention(history_age_s=86_400), bench.now, is_trusted=True)
    for _ in prune(bench.store, limits, schedule_id=None, is_trial=False):
        pass

    assert database.rows("SELECT name FROM schedules") == [("stays",)]
    assert (find_durations(database), find_lateness(database)) == before
    assert before[0].sum_ms == 150
    assert [one.name for one in find_measured(database, now_ms=bench.now)] == ["stays"]


def test_what_is_active_is_told_by_what_it_waits_for(bench: Bench) -> None:
    bench.add(make_spec("running"))
    bench.add(make_spec("owed", needs=("success:running:1h",)))
    bench.add(make_spec("queued"))
    bench.clock.advance_ms(MINUTE_MS)
    bench.claim([one for one in bench.decide(bench.look()) if one.spec.name != "queued"])
    bench.run("queued")

    assert count_active(bench.store) == Active(running=1, queued=1, owed=1)


def test_counts_that_somebody_wrote_by_hand_break_nothing(bench: Bench) -> None:
    bench.add()
    with bench.store.transaction():
        bench.store.change(
            """UPDATE schedules SET duration_counts = '{"10": "x", "50": -3, "zz": 2}',
                   late_counts = '[1, null]'"""
        )

    run_once(bench, duration_ms=9)

    assert find_durations(bench.store).counts[-1] >= 1
    find_lateness(bench.store)


# Another's lock.


def _find_it_taken(make_store: OpenStore, times: int) -> None:
    """Give up on another's lock so often, and then write."""
    other, store = make_store(), make_store(busy_wait_s=0.001)
    for _ in range(times):
        with (
            other.transaction(),
            pytest.raises(DatabaseBusy),
            store.transaction(),
        ):
            pass
    with store.transaction():
        pass
    before = find_lock_failures(other)
    store.register_engine(key="k", pid=1, boot_id="b", queues=(), now_ms=0)
    assert find_lock_failures(other) == before + times
    store.register_engine(key="l", pid=1, boot_id="b", queues=(), now_ms=0)
    assert find_lock_failures(other) == before + times


def test_another_s_lock_is_counted_by_the_next_transaction_that_writes(
    make_store: OpenStore,
) -> None:
    _find_it_taken(make_store, 2)
    _find_it_taken(make_store, 1)

    assert find_lock_failures(make_store()) == 3


def test_a_claim_that_found_the_database_locked_is_counted_for_its_schedule(
    bench: Bench, make_store: OpenStore
) -> None:
    bench.add(make_spec("poll", "* * * * *"))
    bench.add(make_spec("idle", "0 0 1 1 *"))
    other, claims = make_store(), bench.store
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with other.transaction():
            is_held.set()
            while not claims.lock_waits:
                may_go_on.wait(0.001)

    run_once(bench)
    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    run_once(bench)
    holder.join()
    run_once(bench)

    found = find_by_schedule(claims)
    assert (found["poll"].lock_failures, found["idle"].lock_failures) == (1, 0)
    assert (found["poll"].duration.counts[-1], found["idle"].duration.counts[-1]) == (3, 0)


def test_locks_that_were_found_are_counted_again_where_their_transaction_is_rolled_back(
    make_store: OpenStore,
) -> None:
    other, store = make_store(), make_store(busy_wait_s=0.001)
    with other.transaction(), pytest.raises(DatabaseBusy), store.transaction():
        pass

    def write_and_fail() -> None:
        with store.transaction():
            store.change("UPDATE meta SET trusted_high_at = 1")
            raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError):
        write_and_fail()
    with store.transaction():
        store.change("UPDATE meta SET trusted_high_at = 1")

    assert find_lock_failures(other) == 1
