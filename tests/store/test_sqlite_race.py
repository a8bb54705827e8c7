"""Several processes race for the same due schedules: each fires once."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from edgecron.model.choices import Overlap
from edgecron.store.sqlite.store import open_store
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

PROCESSES, SCHEDULES, MINUTES = 6, 20, 10


def _race(path: Path, start_ms: int, barrier: object, results: object) -> None:
    clock = FakeClock(start_ms)
    bench = Bench(lambda: open_store(path, now_ms=start_ms), clock)
    granted: list[tuple[int, int]] = []
    for _ in range(MINUTES):
        clock.advance_ms(60_000)
        barrier.wait(60)  # type: ignore[attr-defined]
        while bench.look():
            batch = bench.fire()
            granted += [(grant.schedule_id, grant.plan_ms) for grant in batch.granted]
        granted += [(grant.schedule_id, grant.plan_ms) for grant in bench.fill().granted]
    bench.store.close()
    results.put(granted)  # type: ignore[attr-defined]


@pytest.mark.failure(22)
def test_engines_that_race_for_the_same_due_times_fire_each_once(
    make_store: OpenStore, clock: FakeClock, tmp_path: Path
) -> None:
    bench = Bench(make_store, clock)
    for number in range(SCHEDULES):
        bench.add(make_spec(f"s{number}", overlap=Overlap.ALLOW))
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=_race, args=(tmp_path / "edgecron.db", bench.now, barrier, results))
        for _ in range(PROCESSES)
    ]

    for process in processes:
        process.start()
    granted = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)

    fired = sorted(one for each in granted for one in each)
    expected = [
        (schedule.id, bench.now + minute * 60_000)
        for schedule in bench.store.find_schedules()
        for minute in range(1, MINUTES + 1)
    ]
    assert fired == sorted(expected)
    assert bench.statuses() == ["running"] * (SCHEDULES * MINUTES)
