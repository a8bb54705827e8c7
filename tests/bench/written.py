"""What is written for a single run that prints a line?

Each run is claimed and ended by itself: sixty of one schedule, then one each of two hundred. What
engine, supervisor and guardian hand to write(), and what of it goes to the disk, until the log
was moved into the database, divided by the runs. The reference: the same rows by bare statements,
two transactions for each, in a database with pages of 4 KiB as SQLite makes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apsw

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.engine.state_folder import ring_engines
from tests.bench.bare import BareLoop
from tests.bench.machine import Setting
from tests.bench.processes import daemon, io_of, wait_until, watchers_of
from tests.bench.schedules import checkpoint, command_spec, count_ended, make, multiply, set_due
from tests.bench.table import Row, at_most

APART_MS = 150
HOUR_MS = 3_600_000
LEAD_MS = 1_000


def rows(setting: Setting) -> Iterator[Row]:
    cases = (("of one schedule", 1, setting.pick(60, 10)),
             ("of 200 schedules", 200, setting.pick(200, 40)))  # fmt: skip
    for what, schedules, runs in cases:
        with setting.place() as folder:
            ours = _measure_edgecron(folder / "ours.db", schedules, runs)
            plain = _measure_bare(folder / "plain.db", schedules, runs, page_bytes=4096)
            small = _measure_bare(folder / "small.db", schedules, runs, page_bytes=1024)
        kb = {name: value / runs / 1024 for name, value in ours.items()}
        plain_kb, small_kb = (one["wchar"] / runs / 1024 for one in (plain, small))
        yield Row(
            bench="written",
            what=f"bytes handed to write() per single run, {what}",
            measured=f"{kb['wchar']:.1f} KB",
            reference=f"two plain transactions, 4 KiB pages {plain_kb:.1f} KB",
            ratio=kb["wchar"] / plain_kb,
            reach=at_most(12, "KB"),
            value=kb["wchar"],
            figures={"ours": ours, "plain": plain, "small_pages": small, "runs": runs},
            note=f"engine {kb['engine']:.1f}, supervisor {kb['supervisor']:.1f},"
            f" guardian {kb['guardian']:.1f} KB, moving the rest of the log at the end"
            f" {kb['rest']:.1f} KB; to the disk (write_bytes) {kb['write_bytes']:.1f} KB,"
            f" plain {plain['write_bytes'] / runs / 1024:.1f} KB;"
            f" two plain transactions with 1 KiB pages {small_kb:.1f} KB",
        )


def _prepare(database: Path, schedules: int) -> None:
    trigger = "* * * * * *" if schedules == 1 else "every 1h"
    make(database, [command_spec("s", trigger, "/bin/echo", "all is well")])
    if schedules > 1:
        multiply(database, "s", schedules - 1)


def _measure_edgecron(database: Path, schedules: int, runs: int) -> dict[str, int]:
    _prepare(database, schedules)
    with daemon(database) as engine:
        family = {"engine": engine}
        family["supervisor"], family["guardian"] = watchers_of(database)
        if schedules > 1:
            set_due(database, SystemClock().now_ms() + LEAD_MS, every_ms=APART_MS)
            ring_engines(state_dir(database))
        checkpoint(database)
        first = count_ended(database)
        before = {name: io_of(pid) for name, pid in family.items()}
        wait_until(lambda: count_ended(database) >= first + runs, "all runs have ended")
        after = {name: io_of(pid) for name, pid in family.items()}
        ended = count_ended(database) - first
        rest = io_of(os.getpid())
        checkpoint(database)
        rest = {name: value - rest[name] for name, value in io_of(os.getpid()).items()}
    found = {name: after[name]["wchar"] - before[name]["wchar"] for name in family}
    found["rest"] = rest["wchar"]
    for kind in ("wchar", "write_bytes"):
        found[kind] = sum(after[name][kind] - before[name][kind] for name in family) + rest[kind]
    assert ended == runs, f"{ended} runs have ended, not {runs}"
    return found


def _measure_bare(database: Path, schedules: int, runs: int, *, page_bytes: int) -> dict[str, int]:
    _prepare(database, schedules)
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.execute(f"PRAGMA page_size = {page_bytes}")
    connection.execute("VACUUM")
    connection.close()
    first_ms = SystemClock().now_ms()
    loop = BareLoop(database, lambda _, plan_ms: plan_ms + schedules * APART_MS)
    set_due(database, first_ms, every_ms=APART_MS)
    checkpoint(database)
    before = io_of(os.getpid())
    for number in range(runs):
        now_ms = first_ms + number * APART_MS
        loop.end(loop.claim(now_ms, 1), now_ms)
    loop.close()
    after = io_of(os.getpid())
    return {name: after[name] - before[name] for name in ("wchar", "write_bytes")}
