"""What is written for one lone run that prints a line?

Two hundred schedules are due one after the other, each run claimed and ended by itself. What
engine, supervisor and guardian hand to write(), and what of it goes to the disk, until the log
was moved into the database, divided by the runs. The reference: the same rows by bare statements,
two transactions for each, in a database with pages of 4 KiB as SQLite makes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apsw

from edgecron.clock import SystemClock
from tests.bench.bare import BareLoop
from tests.bench.machine import Setting
from tests.bench.processes import daemon, io_of, wait_until, watchers_of
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.table import Row, at_most

APART_MS = 150
HOUR_MS = 3_600_000
LEAD_MS = 1_000


def rows(setting: Setting) -> Iterator[Row]:
    count = setting.pick(200, 30)
    with setting.place() as folder:
        ours = _measure_edgecron(folder / "ours.db", count)
        plain = _measure_bare(folder / "plain.db", count, page_bytes=4096)
        small = _measure_bare(folder / "small.db", count, page_bytes=1024)
    kb = {name: value / count / 1024 for name, value in ours.items()}
    plain_kb = plain["wchar"] / count / 1024
    yield Row(
        bench="written",
        what="bytes handed to write() per lone run that prints a line",
        measured=f"{kb['wchar']:.1f} KB",
        reference=f"two plain transactions, 4 KiB pages {plain_kb:.1f} KB",
        ratio=kb["wchar"] / plain_kb,
        reach=at_most(12, "KB"),
        value=kb["wchar"],
        figures={"ours": ours, "plain": plain, "small_pages": small, "runs": count},
        note=f"engine {kb['engine']:.1f}, supervisor {kb['supervisor']:.1f},"
        f" guardian {kb['guardian']:.1f} KB; to the disk (write_bytes) {kb['write_bytes']:.1f} KB,"
        f" plain {plain['write_bytes'] / count / 1024:.1f} KB;"
        f" two plain transactions with 1 KiB pages {small['wchar'] / count / 1024:.1f} KB",
    )


def _measure_edgecron(database: Path, count: int) -> dict[str, int]:
    make(database, [command_spec("s", "every 1h", "/bin/echo", "all is well")])
    multiply(database, "s", count - 1)
    with daemon(database) as engine:
        family = {"engine": engine}
        family["supervisor"], family["guardian"] = watchers_of(database)
        checkpoint(database)
        before = {name: io_of(pid) for name, pid in family.items()}
        own = io_of(os.getpid())
        set_due(database, SystemClock().now_ms() + LEAD_MS, every_ms=APART_MS)
        own_set = io_of(os.getpid())
        _ring(database)
        wait_until(lambda: _count_ended(database) == count, "all runs have ended")
        checkpoint(database)
        after = {name: io_of(pid) for name, pid in family.items()}
        own_end = io_of(os.getpid())
    found = {name: after[name]["wchar"] - before[name]["wchar"] for name in family}
    for kind in ("wchar", "write_bytes"):
        found[kind] = sum(after[name][kind] - before[name][kind] for name in family)
        # What we have moved into the database ourselves, at the end.
        found[kind] += own_end[kind] - own_set[kind]
    assert own_set["wchar"] >= own["wchar"]
    return found


def _measure_bare(database: Path, count: int, *, page_bytes: int) -> dict[str, int]:
    make(database, [command_spec("s", "every 1h", "/bin/echo", "all is well")])
    multiply(database, "s", count - 1)
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    connection.execute("VACUUM")
    connection.close()
    first_ms = SystemClock().now_ms()
    loop = BareLoop(database, lambda _, plan_ms: plan_ms + HOUR_MS)
    set_due(database, first_ms, every_ms=APART_MS)
    checkpoint(database)
    before = io_of(os.getpid())
    for number in range(count):
        now_ms = first_ms + number * APART_MS
        loop.end(loop.claim(now_ms, 1), now_ms)
    loop.close()
    after = io_of(os.getpid())
    return {name: after[name] - before[name] for name in ("wchar", "write_bytes")}


def checkpoint(database: Path) -> None:
    """Move what the log holds into the database."""
    connection = apsw.Connection(str(database))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    connection.close()


def _ring(database: Path) -> None:
    from edgecron.engine.wake import ring_engines
    from edgecron.paths import state_dir

    assert ring_engines(state_dir(database)) == 1


def _count_ended(database: Path) -> int:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    [(count,)] = connection.execute("SELECT count(*) FROM executions WHERE finished_at NOT NULL")
    connection.close()
    return int(count)
