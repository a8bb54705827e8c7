"""200 starts a second for ten minutes: how late are they, and does anything grow?

The real daemon with its default limits; 200 schedules of every second. In one load each starts five
milliseconds after the one before, in the other all of them start together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from edgecron.base.clock import SystemClock
from tests.bench.machine import Setting
from tests.bench.processes import cpu_s_of, daemon, memory_kb_of, stolen_s, watchers_of
from tests.bench.schedules import command_spec, make
from tests.bench.table import Row, at_least, at_most
from tests.bench.timing import percentile

A_SECOND = 200
KEPT = 100  # runs of each schedule: after two minutes of the load, all of them are 20,000
SETTLE_S = 3.0  # until the load runs evenly
STARTED_MS = 2_000  # by then a run has started, or it counts as one that did not


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Lateness of each start in ms; every ten seconds, its p99, and the size of the database and
    the memory in MB; processor time in ms of each start, and in s what the host took meanwhile."""

    late_ms: list[float]
    p99s: list[float]
    sizes: list[float]
    memory: list[float]
    engine_ms: float
    watchers_ms: float
    stolen_s: float


def rows(setting: Setting) -> Iterator[Row]:
    seconds = setting.pick(600, 20)
    seen = _measure(setting, seconds, apart_ms=1000 // A_SECOND)
    yield from _rows_of_even_load(f"{A_SECOND} starts a second for {seconds} s", seen, seconds)
    short_s = setting.pick(30, 10)
    together = _measure(setting, short_s, apart_ms=0)
    yield Row(
        bench="steady",
        what=f"{A_SECOND} due at once, each second for {short_s} s: due to started, p99",
        measured=_words(together.late_ms),
        value=percentile(together.late_ms, 0.99),
        note=_costs(together),
    )


def _rows_of_even_load(what: str, seen: Seen, seconds: int) -> Iterator[Row]:
    yield Row(
        bench="steady",
        what=f"{what}: due to started, p99",
        measured=_words(seen.late_ms),
        reach=at_most(50, "ms"),
        value=percentile(seen.late_ms, 0.99),
        note=_costs(seen),
    )
    share = 100 * len(seen.late_ms) / (A_SECOND * seconds)
    yield Row(
        bench="steady",
        what=f"{what}: runs that started",
        measured=f"{len(seen.late_ms):,}, {share:.1f} %",
        reach=at_least(99, "%"),
        value=share,
    )
    half = len(seen.sizes) // 2
    for name, values, unit, most in (
        ("memory of engine, supervisor and guardian", seen.memory, "MB", 4),
        ("database and its log", seen.sizes, "MB", 8),
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


def _words(late_ms: list[float]) -> str:
    return f"{percentile(late_ms, 0.99):.0f} ms, median {percentile(late_ms, 0.5):.0f}"


def _costs(seen: Seen) -> str:
    return (
        f"processor time of a start: engine {seen.engine_ms:.2f} ms,"
        f" supervisor and guardian {seen.watchers_ms:.2f} ms;"
        f" p99 of each ten seconds: median {percentile(seen.p99s, 0.5):.0f} ms,"
        f" largest {max(seen.p99s):.0f} ms; the host took {seen.stolen_s:.1f} s of the processors"
    )


def _measure(setting: Setting, seconds: int, *, apart_ms: int) -> Seen:
    """Run the daemon for so long. The schedules start so far apart within each second."""
    with setting.place() as folder:
        database = folder / "steady.db"
        config = folder / "config.toml"
        config.write_text(f"[retention]\nhistory_count = {KEPT}\n", encoding="utf-8")
        make(
            database,
            [
                command_spec(f"s{n}", f"every 1s from 2026-01-01T00:00:00.{n * apart_ms:03}Z")
                for n in range(A_SECOND)
            ],
        )
        with daemon(database, "--config", str(config)) as engine:
            time.sleep(SETTLE_S)
            return _watch(database, engine, seconds)


def _watch(database: Path, engine: int, seconds: int) -> Seen:
    late_ms: list[float] = []
    p99s: list[float] = []
    sizes: list[float] = []
    memory: list[float] = []
    family = [engine, *watchers_of(database)]
    began_s, before = time.monotonic(), [cpu_s_of(pid) for pid in family]
    stolen_before_s = stolen_s()
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(30_000)
    seen_ms = SystemClock().now_ms()
    end_ms = seen_ms + seconds * 1000
    while seen_ms < end_ms:
        left_ms = end_ms + STARTED_MS - SystemClock().now_ms()
        time.sleep(max(0.0, min(10_000, left_ms)) / 1000)
        until_ms = min(end_ms, SystemClock().now_ms() - STARTED_MS)
        found = connection.execute(
            """SELECT started_at - due_at FROM executions
               WHERE due_at >= ? AND due_at < ? AND started_at IS NOT NULL""",
            (seen_ms, until_ms),
        )
        some_ms = [float(str(row[0])) for row in found]
        late_ms += some_ms
        if some_ms:
            p99s.append(percentile(some_ms, 0.99))
        seen_ms = until_ms
        files = (database, database.with_name(database.name + "-wal"))
        sizes.append(sum(file.stat().st_size for file in files if file.exists()) / 1e6)
        memory.append(sum(memory_kb_of(pid)["Pss"] for pid in family) / 1024)
    connection.close()
    starts = A_SECOND * (time.monotonic() - began_s)
    used_ms = [
        1000 * (cpu_s_of(pid) - then) / starts for pid, then in zip(family, before, strict=True)
    ]
    return Seen(
        late_ms=late_ms,
        p99s=p99s,
        sizes=sizes,
        memory=memory,
        engine_ms=used_ms[0],
        watchers_ms=sum(used_ms[1:]),
        stolen_s=stolen_s() - stolen_before_s,
    )
