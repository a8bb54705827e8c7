"""Many processes on one database: how long until all that is due is claimed, and how fairly.

Fifty engines know their schedules beforehand and sleep until one instant, at which a thousand are
due; each writes down when its claims were committed. And eight processes claim as fast as they
can, with edgecron's own waiting for the write lock and with SQLite's busy timeout.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.clock import SystemClock
from edgecron.model.claim import Claim
from edgecron.store.connection import Database
from tests.bench.enginerig import EngineRig
from tests.bench.machine import Setting
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.table import Row, at_least, at_most
from tests.bench.timing import percentile

CLAIMERS, DUE = 50, 1000
LEAD_MS = 2_000  # from the moment that all are ready until the schedules are due
HAMMERS = 8
BOUND_S = 300.0


def rows(setting: Setting) -> Iterator[Row]:
    yield _crowd_row(setting)
    yield _fairness_row(setting)


def _crowd_row(setting: Setting) -> Row:
    rounds = [_claim_at_once(setting) for _ in range(setting.pick(5, 1))]
    worst = sorted(percentile(delays, 0.99) for delays in rounds)
    middle = worst[len(worst) // 2]
    everything = [delay for delays in rounds for delay in delays]
    return Row(
        bench="crowd",
        what="1,000 due schedules, 50 claiming processes: due to claimed, p99",
        measured=f"{middle:.0f} ms",
        reach=at_most(100, "ms"),
        value=middle,
        figures={"p99_ms": worst, "median_ms": percentile(everything, 0.5)},
        note=f"p99 of {len(rounds)} rounds {', '.join(f'{one:.0f}' for one in worst)} ms;"
        f" median of all {percentile(everything, 0.5):.0f} ms, last {max(everything):.0f} ms",
    )


def _fairness_row(setting: Setting) -> Row:
    seconds = setting.pick(5, 2)
    ours, theirs = (
        _hammer_at_once(setting, wait, seconds) for wait in ("edgecron", "busy_timeout")
    )
    return Row(
        bench="crowd",
        what="Jain's fairness index, 8 hammering processes",
        measured=f"{jain(ours):.3f}",
        reference=f"SQLite's busy timeout {jain(theirs):.3f}",
        ratio=jain(ours) / jain(theirs),
        reach=at_least(0.8),
        value=jain(ours),
        figures={"ours": ours, "theirs": theirs},
        note=f"{sum(ours) / seconds:,.0f} and {sum(theirs) / seconds:,.0f} transactions/s",
    )


def jain(counts: Sequence[int]) -> float:
    """Jain's fairness index of these shares: 1 is all equal, 1/N one has everything."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 0.0


def _claim_at_once(setting: Setting) -> list[float]:
    """Milliseconds from due to committed, of each claim."""
    with setting.place() as folder:
        database = folder / "crowd.db"
        make(database, [command_spec("s", "every 1h")])
        multiply(database, "s", DUE - 1)

        def release(start: Any) -> None:
            due_ms = SystemClock().now_ms() + LEAD_MS
            set_due(database, due_ms)
            start.value = due_ms

        found = _together(CLAIMERS, _claim, (str(database),), release)
    delays = [delay for one in found for delay in one]
    assert len(delays) == DUE, f"{len(delays)} claims of {DUE} schedules"
    return delays


def _claim(database: str, ready: Any, start: Any, out: Any) -> None:
    """One claiming process: ready, asleep until all are due, then step until nothing is left."""
    delays: list[float] = []

    def note(claims: Sequence[Claim]) -> None:
        now_ms = time.time_ns() / 1e6
        delays.extend(now_ms - claim.due_ms for claim in claims)

    rig = EngineRig(Path(database), SystemClock(), seen=note, keeps=True)
    rig.engine.step()
    upcoming = rig.store.upcoming(("command",), limit=DUE)
    rig.engine._catalogue.load(upcoming)
    rig.engine.prepare()
    ready.wait(BOUND_S)
    while not start.value:
        time.sleep(0.05)
    time.sleep(max(0.0, start.value / 1000 - time.time()))
    while rig.engine.step().claimed or rig.store.find_due(
        ("command",), now_ms=SystemClock().now_ms(), limit=1
    ):
        pass
    out.put(delays)
    # None leaves before all is claimed: its runs would be taken over.
    ready.wait(BOUND_S)
    rig.close()


def _hammer_at_once(setting: Setting, wait: str, seconds: int) -> list[int]:
    """How many turns each process had."""
    with setting.place() as folder:
        path = folder / "hammer.db"
        database = Database(path)
        with database.transaction():
            database.change("CREATE TABLE turns (id INTEGER PRIMARY KEY, n INTEGER) STRICT")
            database.change("PRAGMA application_id = 1701078883")
        database.close()

        def release(start: Any) -> None:
            start.value = int(time.monotonic() * 1000) + 100

        return _together(HAMMERS, _hammer, (str(path), wait, seconds), release)


def _hammer(path: str, wait: str, seconds: int, ready: Any, start: Any, out: Any) -> None:
    """Take turns until the time is over: a conditional update whose row count is read."""
    database = Database(Path(path))
    if wait == "busy_timeout":
        database._connection.set_busy_timeout(60_000)
    with database.transaction():
        row = database.returning("INSERT INTO turns (n) VALUES (0) RETURNING id")
    assert row is not None
    ready.wait(BOUND_S)
    while not start.value:
        time.sleep(0.001)
    until = start.value / 1000 + seconds
    turns = 0
    while time.monotonic() < until:
        with database.transaction():
            changed = database.change(
                "UPDATE turns SET n = n + 1 WHERE id = :id AND n = :n", {"id": row[0], "n": turns}
            )
        assert changed == 1
        turns += 1
    out.put(turns)
    ready.wait(BOUND_S)
    database.close()


def _together(
    count: int,
    work: Callable[..., None],
    values: tuple[object, ...],
    release: Callable[[Any], None],
) -> list[Any]:
    """Run work in as many processes, released when all are ready; what each of them found."""
    context = multiprocessing.get_context("spawn")
    ready, start, out = context.Barrier(count + 1), context.Value("q", 0), context.Queue()
    workers = [
        context.Process(target=work, args=(*values, ready, start, out), daemon=True)
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    ready.wait(BOUND_S)
    release(start)
    found = [out.get(timeout=BOUND_S) for _ in workers]
    ready.wait(BOUND_S)
    for worker in workers:
        worker.join()
    return found
