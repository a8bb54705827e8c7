"""Many processes on one database: how long until all that is due is claimed, and how fairly.

Fifty engines sleep in their loops until one instant, at which a thousand schedules are due; each
writes down when its claims were committed. The reference is the floor of the machine: fifty bare
processes that take turns with the statements alone, 32 claims at a time. And eight processes claim
as fast as they can, with edgecron's own waiting for the write lock and with SQLite's busy timeout.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.engine.state_folder import ring_engines
from edgecron.model.run import Claim
from edgecron.store.sqlite.connection import BusyWait, Database
from tests.bench.bare import BareLoop
from tests.bench.enginerig import EngineRig
from tests.bench.machine import Setting
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.table import Row, at_least, at_most
from tests.bench.timing import interleave, percentile

CLAIMERS, DUE = 50, 1000
LEAD_MS = 4_000  # from the moment that all are ready until the schedules are due
HAMMERS = 8
BOUND_S = 300.0
ENOUGH_S = 5.0  # after the instant: all is claimed by then
SHARE = 32
HOUR_MS = 3_600_000


def rows(setting: Setting) -> Iterator[Row]:
    yield _crowd_row(setting)
    yield _fairness_row(setting)


def _crowd_row(setting: Setting) -> Row:
    ours: list[list[float]] = []
    theirs: list[list[float]] = []

    def worst_of(rounds: list[list[float]], work: Callable[..., None]) -> float:
        rounds.append(_claim_at_once(setting, work))
        return percentile(rounds[-1], 0.99)

    found = interleave(
        setting.pick(5, 1), lambda: worst_of(ours, _claim), lambda: worst_of(theirs, _claim_barely)
    )
    everything = [delay for delays in ours for delay in delays]
    mine, others = (
        ", ".join(f"{one:.0f}" for one in sorted(of)) for of in (found.ours, found.theirs)
    )
    return Row(
        bench="crowd",
        what="1,000 due schedules, 50 claiming processes: due to claimed, p99",
        measured=f"{found.our_median:.0f} ms",
        reference=f"50 bare processes {found.their_median:.0f} ms",
        ratio=found.ratio,
        low=found.middle[0],
        high=found.middle[1],
        reach=at_most(100, "ms"),
        value=found.our_median,
        figures={**found.figures(), "median_ms": percentile(everything, 0.5)},
        note=f"p99 of {len(ours)} rounds {mine} ms, bare {others} ms;"
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


def _claim_at_once(setting: Setting, work: Callable[..., None]) -> list[float]:
    """Milliseconds from due to committed, of each claim."""
    with setting.place() as folder:
        database = folder / "crowd.db"
        make(database, [command_spec("s", "every 1h")])
        multiply(database, "s", DUE - 1)

        def release(start: Any) -> None:
            due_ms = SystemClock().now_ms() + LEAD_MS
            set_due(database, due_ms)
            start.value = due_ms
            ring_engines(state_dir(database))

        found = run_together(CLAIMERS, work, (str(database),), release)
    delays = [delay for one in found for delay in one]
    assert len(delays) == DUE, f"{len(delays)} claims of {DUE} schedules"
    return delays


def _claim(database: str, ready: Any, start: Any, out: Any) -> None:
    """One claiming process: an engine in its loop, until all is claimed."""
    delays: list[float] = []

    def note(claims: Sequence[Claim]) -> None:
        now_ms = time.time_ns() / 1e6
        delays.extend(now_ms - claim.due_ms for claim in claims)

    rig = EngineRig(Path(database), SystemClock(), seen=note)
    serve_until_claimed(rig, delays, ready, start, out)


def serve_until_claimed(
    rig: EngineRig, delays: list[float], ready: Any, start: Any, out: Any
) -> None:
    """Run an engine in its loop, until all is claimed; then tell its delays."""
    rig.holds_ends = True

    def stop_in_the_end() -> None:
        while not start.value:
            time.sleep(0.05)
        time.sleep(max(0.0, start.value / 1000 - time.time()) + ENOUGH_S)
        out.put(delays)
        # None leaves before all is claimed: its runs would be taken over.
        ready.wait(BOUND_S)
        rig.holds_ends = False
        rig.loop.stop()

    rig.engine.step()
    ready.wait(BOUND_S)
    stopper = threading.Thread(target=stop_in_the_end, name="stopper")
    stopper.start()
    rig.loop.run()
    stopper.join()
    rig.close()


def _claim_barely(database: str, ready: Any, start: Any, out: Any) -> None:
    """One bare process: it takes turns at a claim of a share, until nothing is left."""
    delays: list[float] = []
    bare = BareLoop(Path(database), lambda _schedule_id, plan_ms: plan_ms + HOUR_MS)
    bare.connection.wal_autocheckpoint(0)
    bare.connection.set_busy_handler(BusyWait(Path(database), most_s=BOUND_S).nap)
    bare.look(0, 1)
    ready.wait(BOUND_S)
    while not start.value:
        time.sleep(0.05)
    due_ms = start.value
    time.sleep(max(0.0, due_ms / 1000 - time.time()))
    while claimed := bare.claim_among_others(time.time_ns() // 1_000_000, SHARE):
        delays += [time.time_ns() / 1e6 - due_ms] * len(claimed)
    out.put(delays)
    ready.wait(BOUND_S)
    bare.close()


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

        return run_together(HAMMERS, _hammer, (str(path), wait, seconds), release)


def _hammer(path: str, wait: str, seconds: int, ready: Any, start: Any, out: Any) -> None:
    """Take turns until the time is over: a conditional update whose row count is read."""
    database = Database(Path(path))
    if wait == "busy_timeout":
        database.connection.set_busy_timeout(60_000)
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


def run_together(
    count: int,
    work: Callable[..., None],
    values: tuple[object, ...],
    release: Callable[[Any], None],
    *,
    lost: int = 0,
) -> list[Any]:
    """Run work in as many processes, released when all are ready; what each of them found.

    `release` may kill `lost` of them.
    """
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
    found = [out.get(timeout=BOUND_S) for _ in workers[lost:]]
    for _ in range(lost):
        threading.Thread(target=ready.wait, args=(BOUND_S,), daemon=True).start()
    ready.wait(BOUND_S)
    for worker in workers:
        worker.join()
    return found
