"""Pages of executions: whatever is wanted, all of it and nothing else, newest first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, cycle, product
from typing import Any

import pytest

from edgecron.model.choices import Cause, Overlap, Status
from edgecron.model.listing import RunPage, RunSort
from edgecron.model.run import Execution
from edgecron.store.sql.history import (
    MOST_SEPARATE,
    Wanted,
    find_bounds,
    find_page,
    find_page_ids,
    find_sorted,
)
from tests.store.store_bench import Bench, OpenStore
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

MINUTE = 60_000
MANY = (1, 3, 4, *range(1000, 1000 + MOST_SEPARATE))  # of which most have never been

STATUSES: tuple[tuple[Status, ...], ...] = (
    (),
    *((status,) for status in Status),
    (Status.FAILED, Status.SKIPPED),
    (Status.SUCCESS, Status.FAILED, Status.QUEUED),
    (Status.QUEUED, Status.RUNNING),
    tuple(Status),
)
SCHEDULES: tuple[tuple[int, ...] | None, ...] = (None, (), (2,), (99,), (4, 2), (1, 2, 3, 4), MANY)
CAUSES: tuple[tuple[str, ...], ...] = ((), ("manual",), ("schedule", "boot"))
REASONS: tuple[tuple[str | None, ...], ...] = (
    (),
    ("overlap", "request"),
    (None,),
    ("exit", None),
)
ALL_FILTERS = list(product(STATUSES, SCHEDULES, CAUSES, REASONS))
BOUNDS = [(None, None), (20, None), (None, 11), (30, 5), (5, 1)]


@pytest.fixture
def full(make_store: OpenStore, clock: FakeClock) -> Bench:
    """Four schedules, of whose runs some succeeded, failed, were left out, wait, or go on."""
    bench = Bench(make_store, clock, places=3)
    for number in range(3):
        bench.add(make_spec(f"s{number}", overlap=Overlap.QUEUE if number else Overlap.SKIP))
    bench.add(make_spec("rare", "0 0 1 1 *"))
    ends = cycle((Status.SUCCESS, Status.FAILED, Status.SUCCESS, Status.INTERRUPTED))
    for minute in range(12):
        clock.advance_ms(MINUTE)
        started = bench.fire().granted[:2]
        bench.run(f"s{minute % 3}", key=f"manual:{minute}")
        for grant in (*started, *bench.fill().granted[:1]):
            bench.end(grant, status=next(ends))
    [cancelled] = bench.run("rare", key="manual:x")
    bench.store.cancel_queued(cancelled, now_ms=bench.now)
    assert {row.status for row in bench.rows()} == set(Status)
    return bench


def is_wanted(run: Execution, wanted: Wanted) -> bool:
    return (
        (wanted.schedule_ids is None or run.schedule_id in wanted.schedule_ids)
        and (not wanted.statuses or run.status in wanted.statuses)
        and (not wanted.causes or run.cause in wanted.causes)
        and (not wanted.reasons or run.reason in wanted.reasons)
        and (wanted.before_id is None or run.id < wanted.before_id)
        and (wanted.after_id is None or run.id > wanted.after_id)
    )


@pytest.mark.parametrize("number", range(len(BOUNDS)))
def test_a_page_has_what_is_wanted_and_lies_next_to_where_it_begins(
    full: Bench, number: int
) -> None:
    before_id, after_id = BOUNDS[number]
    everything = full.rows()[::-1]
    database = full.store

    # The bounds share all combinations. Those of each bound have every pair of two values.
    tried = ALL_FILTERS[number :: len(BOUNDS)]
    for one, other in combinations(range(4), 2):
        pairs = {(filters[one], filters[other]) for filters in tried}
        assert pairs == {(filters[one], filters[other]) for filters in ALL_FILTERS}
    for statuses, schedules, causes, reasons in tried:
        wanted = Wanted(schedules, statuses, causes, reasons, before_id, after_id)
        expected = [run for run in everything if is_wanted(run, wanted)]
        for limit in (2, 100):
            part = expected[:limit] if after_id is None else expected[-limit:]
            assert find_page(database, wanted, limit=limit) == RunPage(part, []), (wanted, limit)
            assert find_page_ids(database, wanted, limit=limit) == [run.id for run in part]


def test_pages_up_and_down_are_the_same_runs(full: Bench) -> None:
    everything = [run.id for run in full.rows()]
    database = full.store
    down: list[int] = []
    up: list[int] = []

    while page := find_page_ids(database, Wanted(before_id=down[-1] if down else None), limit=7):
        down += page
    while page := find_page_ids(database, Wanted(after_id=up[0] if up else 0), limit=7):
        up = page + up

    assert down == up == everything[::-1]


def test_the_bounds_are_the_first_and_the_last_id(full: Bench) -> None:
    everything = [run.id for run in full.rows()]

    assert find_bounds(full.store) == (everything[0], everything[-1])


def test_the_bounds_of_nothing_are_nothing(bench: Bench) -> None:
    assert find_bounds(bench.store) == (0, 0)


def test_the_causes_of_a_page_are_values(full: Bench) -> None:
    wanted = Wanted(causes=(Cause.MANUAL.value, "'); DROP TABLE executions; --"))

    page = find_page(full.store, wanted, limit=3).runs

    assert {run.cause for run in page} == {Cause.MANUAL}


@pytest.mark.parametrize("is_descending", [True, False])
@pytest.mark.parametrize("sort", list(RunSort))
def test_runs_come_in_any_order_equal_ones_newest_first(
    full: Bench, sort: RunSort, is_descending: bool
) -> None:
    values: dict[RunSort, Callable[[Execution], Any]] = {
        RunSort.RUN: lambda run: run.id,
        RunSort.DURATION: lambda run: run.duration_ms,
        RunSort.SCHEDULE: lambda run: run.schedule,
        RunSort.STATUS: lambda run: _STATUSES.index(run.status),
        RunSort.STARTED: lambda run: (
            run.started_at or (run.due_at if run.status is Status.QUEUED else run.plan_at)
        ),
        RunSort.NOTE: lambda run: run.reason,
    }
    value = values[sort]
    for statuses in ((), (Status.FAILED, Status.SUCCESS)):
        wanted = Wanted(statuses=statuses)
        every = [run for run in full.rows()[::-1] if is_wanted(run, wanted)]
        known = [run for run in every if value(run) is not None]
        known.sort(key=value, reverse=is_descending)
        expected = [*known, *(run for run in every if value(run) is None)]
        for limit in (3, 1000):
            page = find_sorted(full.store, wanted, sort, is_descending=is_descending, limit=limit)
            assert page == RunPage(expected[:limit], [])


_STATUSES = (
    *(Status.RUNNING, Status.QUEUED, Status.FAILED, Status.INTERRUPTED, Status.CANCELLED),
    *(Status.SKIPPED, Status.SUCCESS),
)
