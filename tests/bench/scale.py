"""Does what holds with a thousand schedules hold with a million?

A database for each decade, in the same rounds: how long until a daemon is ready, and its memory;
`add`, `edit`, the first page of `list`, and `next`; the dashboard's first paint; and how late runs
start, every half a second, while retention deletes old runs. The database of a million schedules
takes minutes to make.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.engine.state_folder import ring_engines
from tests.bench.history import add_runs
from tests.bench.machine import Setting, child_environment
from tests.bench.processes import daemon, memory_kb_of, wait_until
from tests.bench.schedules import make_times_of_day
from tests.bench.screens import on_screen
from tests.bench.startup import took_s
from tests.bench.table import Reach, Row, at_most

DECADES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_DECADES = (1_000, 10_000)
UNIT = 10_000  # the others are compared with it
TIMES = 100  # of day, at which as many schedules each are due
NAME = "backup"
FIRES, APART_MS = 40, 500
OLD_RUNS = 200_000
SETTLE_S = 8  # for what a daemon checks when it starts: three seconds with a million schedules


def rows(setting: Setting) -> Iterator[Row]:
    decades = QUICK_DECADES if setting.is_quick else DECADES
    with setting.place() as folder:
        databases = {}
        for count in decades:
            setting.say(f"  making {count:,} schedules ...")
            databases[count] = folder / f"scale-{count}.db"
            make_times_of_day(databases[count], NAME, count=count, times=TIMES)
        rounds = setting.pick(5, 2)
        measures: dict[str, tuple[Callable[[Path, int], float], Reach | None]] = {
            "daemon ready": (_ready_ms, at_most(3)),
            "add": (_add_ms, None),
            "edit": (_edit_ms, None),
            "list, a page": (_command_ms("list", "-n", "50"), None),
            "next, a page": (_command_ms("next", "-n", "50"), None),
            "dashboard, first paint": (_paint_ms, None),
        }
        for what, (measure, reach) in measures.items():
            found: dict[int, list[float]] = {count: [] for count in decades}
            for number in range(rounds):
                for count in decades:
                    found[count].append(measure(databases[count], number))
            yield from _compare(what, "ms", found, reach)
        memory = {count: [_memory_mb(databases[count])] for count in decades}
        yield from _compare("daemon's memory", "MB", memory, at_most(20, "MB more"))
        late = {count: [_most_late_ms(databases[count], count)] for count in decades}
        yield from _compare("latest of 40 starts while old runs are deleted", "ms", late, None)


def _compare(
    what: str, unit: str, found: dict[int, list[float]], reach: Reach | None
) -> Iterator[Row]:
    """A row for each decade, beside that of 10,000 schedules."""
    middle = {count: statistics.median(values) for count, values in found.items()}
    is_difference = reach is not None and reach.unit != ""
    for count, value in middle.items():
        yield Row(
            bench="scale",
            what=f"{what}, {count:,} schedules",
            measured=f"{value:.1f} {unit}",
            reference=f"{UNIT:,} schedules {middle[UNIT]:.1f} {unit}",
            ratio=value / middle[UNIT],
            reach=reach if count > UNIT else None,
            value=value - middle[UNIT] if is_difference else None,
            figures={"values": found[count]},
        )


def _edgecron(database: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "edgecron", "--db", str(database), *words]


def _command_ms(*words: str) -> Callable[[Path, int], float]:
    def measure(database: Path, _number: int) -> float:
        return took_s(_edgecron(database, *words), child_environment()) * 1000

    return measure


def _add_ms(database: Path, number: int) -> float:
    return _command_ms("add", f"added-{number}", "--every", "30d", "--", "true")(database, 0)


def _edit_ms(database: Path, number: int) -> float:
    return _command_ms("edit", NAME, "--description", f"edited {number}")(database, 0)


def _paint_ms(database: Path, _number: int) -> float:
    with on_screen(_edgecron(database, "tui"), size=(120, 36)) as screen:
        took = screen.show(NAME.encode())
        screen.rest()
    return took * 1000


def _ready_ms(database: Path, _number: int) -> float:
    began = time.perf_counter()
    process = subprocess.Popen(
        _edgecron(database, "daemon"),
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if b"engine_started" in line:
                return (time.perf_counter() - began) * 1000
    finally:
        process.terminate()
        process.communicate()
    raise AssertionError("the daemon has ended")


def _memory_mb(database: Path) -> float:
    with daemon(database) as engine:
        time.sleep(SETTLE_S)
        return memory_kb_of(engine)["Rss"] / 1024


def _most_late_ms(database: Path, count: int) -> float:
    """How late the latest run of a schedule starts while retention deletes old runs."""
    add_runs(database, runs=OLD_RUNS, schedules=min(count, OLD_RUNS))
    os.sync()  # Else the first commit waits for the disk.
    number = 0
    prune = _edgecron(database, "prune", "--history-age", "1h")
    with daemon(database):
        time.sleep(SETTLE_S)
        pruning = subprocess.Popen(prune, stdout=subprocess.DEVNULL, env=child_environment())
        due_ms = SystemClock().now_ms() + 1_000
        _execute(
            database,
            """UPDATE schedules SET next_plan_at = :due + (id - 1) * :apart,
                   next_run_at = :due + (id - 1) * :apart, decided_until = :due - 1
               WHERE id <= :fires""",
            {"due": due_ms, "apart": APART_MS, "fires": FIRES},
        )
        ring_engines(state_dir(database))
        lateness = """SELECT started_at - due_at FROM executions
            WHERE due_at >= :due AND finished_at IS NOT NULL"""

        def has_all() -> bool:
            nonlocal number
            number = len(_execute(database, lateness, {"due": due_ms}))
            return number == FIRES

        wait_until(has_all, f"{FIRES} runs have ended, not {number}")
        assert pruning.wait() == 0
    return float(max(row[0] for row in _execute(database, lateness, {"due": due_ms})))


def _execute(database: Path, sql: str, params: dict[str, int]) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(30_000)
    found = connection.execute(sql, params).fetchall()
    connection.close()
    return found
