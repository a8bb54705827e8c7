"""200 starts a second for ten minutes: how late are they, and does anything grow?

The real daemon with its default limits; 200 schedules of every second, five milliseconds apart.
Retention keeps the newest 50,000 runs, so the database has its size after half of the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.engine.state_folder import ring_engines
from tests.bench.machine import Setting
from tests.bench.processes import daemon, memory_kb_of, watchers_of
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.table import Row, at_least, at_most
from tests.bench.timing import percentile

A_SECOND, APART_MS = 200, 5
LEAD_MS = 2_000
STARTED_MS = 2_000  # by then a run has started, or it counts as one that did not


def rows(setting: Setting) -> Iterator[Row]:
    seconds = setting.pick(600, 20)
    with setting.place() as folder:
        database = folder / "steady.db"
        make(database, [command_spec("s", "every 1s")])
        multiply(database, "s", A_SECOND - 1)
        with daemon(database) as engine:
            set_due(database, SystemClock().now_ms() + LEAD_MS, every_ms=APART_MS)
            ring_engines(state_dir(database))
            late_ms, sizes, memory = _watch(database, engine, seconds)
    what = f"{A_SECOND} starts a second for {seconds} s"
    yield Row(
        bench="steady",
        what=f"{what}: due to started, p99",
        measured=f"{percentile(late_ms, 0.99):.0f} ms, median {percentile(late_ms, 0.5):.0f}",
        reach=at_most(50, "ms"),
        value=percentile(late_ms, 0.99),
    )
    share = 100 * len(late_ms) / (A_SECOND * seconds)
    yield Row(
        bench="steady",
        what=f"{what}: runs that started",
        measured=f"{len(late_ms):,}, {share:.1f} %",
        reach=at_least(99, "%"),
        value=share,
    )
    half = len(sizes) // 2
    for name, values, unit, most in (
        ("memory of engine, supervisor and guardian", memory, "MB", 4),
        ("database and its log", sizes, "MB", 8),
    ):
        yield Row(
            bench="steady",
            what=f"{what}: {name}, growth in the second half",
            measured=f"{values[-1] - values[half]:.1f} {unit}",
            reference=f"half-way {values[half]:.1f} {unit}",
            reach=at_most(most, unit),
            value=values[-1] - values[half],
            figures={"values": values},
        )


def _watch(
    database: Path, engine: int, seconds: int
) -> tuple[list[float], list[float], list[float]]:
    """Lateness of each start in ms; every ten seconds, size and memory in MB."""
    late_ms: list[float] = []
    sizes: list[float] = []
    memory: list[float] = []
    seen_ms = 0
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    until = time.monotonic() + (LEAD_MS + STARTED_MS) / 1000 + seconds
    while time.monotonic() < until:
        time.sleep(min(10.0, max(0.1, until - time.monotonic())))
        before_ms = SystemClock().now_ms() - STARTED_MS
        found = connection.execute(
            """SELECT started_at - due_at FROM executions
               WHERE due_at >= ? AND due_at < ? AND started_at IS NOT NULL""",
            (seen_ms, before_ms),
        )
        late_ms += [float(str(row[0])) for row in found]
        seen_ms = before_ms
        files = (database, database.with_name(database.name + "-wal"))
        sizes.append(sum(file.stat().st_size for file in files if file.exists()) / 1e6)
        family = [engine, *watchers_of(database)]
        memory.append(sum(memory_kb_of(pid)["Pss"] for pid in family) / 1024)
    connection.close()
    return late_ms, sizes, memory
