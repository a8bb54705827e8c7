"""The order of a long backlog: found once a second, and true of what has changed since."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from edgecron.model.choices import Cause, Status
from edgecron.model.run import Outcome
from edgecron.planning.next_fire import Fire
from edgecron.store.contract import ClaimBatch
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import enqueue, make_spec

MINUTE_MS = 60_000


def with_backlog(make_store: OpenStore, clock: FakeClock, *, scopes: int) -> Bench:
    """An engine of 8 places, of which 2 are for late runs, and a late run of each scope."""
    bench = Bench(make_store, clock, places=8)
    many = tuple(("tenant", f"t{number:04}") for number in range(scopes))
    bench.add(make_spec("crowd", scopes=many))
    bench.add(make_spec("other", scopes=many))
    clock.advance_ms(60 * MINUTE_MS)
    bench.fire()
    bench.end(*bench.fill().granted)
    return bench


def end_all(bench: Bench) -> None:
    outcomes = [
        Outcome(
            execution_id=row.execution_id,
            lease_token=row.lease_token,
            status=Status.SUCCESS,
            reason=None,
            exit_code=0,
            started_ms=bench.now,
            finished_ms=bench.now,
            duration_ms=0,
        )
        for row in bench.store.find_running()
    ]
    bench.store.finish(outcomes, now_ms=bench.now)


def count_steps(bench: Bench, call: Callable[[], ClaimBatch]) -> tuple[int, ClaimBatch]:
    """How much SQLite works for a call, in hundreds of its steps; and what the call returns."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection = bench.store.connection
    connection.set_progress_handler(count, 100)
    batch = call()
    connection.set_progress_handler(None)
    return steps, batch


def work_of_a_fill(bench: Bench) -> tuple[int, int]:
    """How much SQLite works to give two places to late runs, in hundreds of its steps; and how
    many were started."""
    end_all(bench)
    steps, batch = count_steps(bench, bench.fill)
    return steps, len(batch.granted)


@pytest.mark.of_file
def test_a_long_backlog_is_put_in_order_once_a_second(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = with_backlog(make_store, clock, scopes=1000)
    clock.advance_ms(2000)

    first, *others = [work_of_a_fill(bench) for _ in range(4)]
    clock.advance_ms(1000)
    later = work_of_a_fill(bench)

    assert {started for _, started in (first, *others, later)} == {2}
    assert max(steps for steps, _ in others) * 3 < first[0]
    assert later[0] * 2 > first[0]


def test_what_is_paused_since_is_not_started_of_a_long_backlog(
    make_store: OpenStore, clock: FakeClock
) -> None:
    bench = with_backlog(make_store, clock, scopes=300)
    clock.advance_ms(2000)
    end_all(bench)
    before = bench.fill().granted
    paused = before[0].schedule_id
    with bench.store.transaction():
        bench.store.change("UPDATE schedules SET enabled = 0 WHERE id = :id", {"id": paused})

    end_all(bench)
    after = bench.fill().granted

    assert len(after) == 2
    assert paused not in {one.schedule_id for one in after}


@pytest.mark.of_file
def test_delayed_runs_cost_a_fire_little(make_store: OpenStore, clock: FakeClock) -> None:
    bench = Bench(make_store, clock)
    schedule = bench.add()
    for number in range(1000):
        at_ms = bench.now + 1000 * MINUTE_MS
        fire = Fire(plan_ms=at_ms, due_ms=at_ms, cause=Cause.MANUAL, fire_key=f"manual:{number}")
        enqueue(bench.store, schedule, fire, now_ms=bench.now)
    other = bench.add(make_spec("other"))

    works = []
    for one in (schedule, other):
        clock.advance_ms(MINUTE_MS)
        [due] = [due for due in bench.look() if due.schedule_id == one.id]
        decisions = bench.decide([due])
        steps, batch = count_steps(bench, partial(bench.claim, decisions))
        assert len(batch.granted) == 1
        works.append(steps)

    of_delayed, of_none = works
    assert of_delayed - of_none < 200  # hundreds of steps, for 1,000 delayed runs
