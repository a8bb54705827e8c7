"""Does it matter to `history` and `next` how much there is to look through?

Ten million runs of 100,000 schedules against a thousand of a thousand: the question inside one
process, and the whole command. The big database is made by SQL in minutes, and kept for next time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from edgecron.base.clock import SystemClock
from edgecron.client import Client
from tests.bench.machine import Setting, child_environment
from tests.bench.schedules import command_spec, make, multiply, set_due
from tests.bench.startup import compare
from tests.bench.table import Row, at_most
from tests.bench.timing import Pairs, interleave, seconds_of

SHOWN = 50
SMALL = 1000
SCHEDULES = 100_000
SAME = 1.25  # what counts as the same: two more levels of a tree, and the machine's noise
HOUR_MS = 3_600_000
APART_MS = 36  # 100,000 within the hour
_RUNS = """WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :runs)
    INSERT INTO executions (schedule_id, revision, plan_at, cause, trigger_text, due_at, queue,
        status, reason, queued_at, claimed_at, engine_id, supervisor_id, lease_token,
        heartbeat_at, started_at, finished_at, duration_ms, exit_code)
    SELECT 1 + i % :schedules, 1, at, 'schedule', 'every 1h', at, 'command',
        iif(i % 50, 'success', 'failed'), iif(i % 50, NULL, 'exit'), at, at, 1, 'bench',
        '0123456789abcdef', at, at, at + 20, 20, iif(i % 50, 0, 1)
    FROM (SELECT i, :first + i / :schedules * 3600000 AS at FROM n)"""
_TABLES = "SELECT name, sql FROM sqlite_schema WHERE name != 'bench_made' ORDER BY name"


def rows(setting: Setting) -> Iterator[Row]:
    runs = setting.pick(10_000_000, 1_000_000)
    big = setting.folder / f"history-{runs}.db"
    with setting.place() as folder:
        small = folder / "small.db"
        _make(small, runs=SMALL, schedules=SMALL)
        if not _is_made(big, runs, small):
            setting.say(f"  making {runs:,} runs in {big}, once ...")
            began = time.monotonic()
            _make(big, runs=runs, schedules=SCHEDULES)
            setting.say(f"  took {time.monotonic() - began:.0f} s")
        _make_next(big)
        yield from _asked(setting, big, small, runs)
        yield from _commanded(setting, big, small, runs)


def _asked(setting: Setting, big: Path, small: Path, runs: int) -> Iterator[Row]:
    with Client(big) as ours, Client(small) as theirs:
        asks: dict[str, Callable[[Client], object]] = {
            "history": lambda client: client.history(limit=SHOWN),
            "next": lambda client: list(_first(client)),
        }
        for verb, ask in asks.items():
            for client in (ours, theirs):
                ask(client)

            def mine(ask: Callable[[Client], object] = ask) -> float:
                return seconds_of(lambda: ask(ours))

            def others(ask: Callable[[Client], object] = ask) -> float:
                return seconds_of(lambda: ask(theirs))

            pairs = interleave(setting.pick(200, 40), mine, others, within_s=30)
            yield _row(f"{verb} -n {SHOWN} over {runs:,} runs, the question alone", pairs)


def _first(client: Client) -> Iterator[object]:
    fires = iter(client.next_fires())
    for _ in range(SHOWN):
        yield next(fires)


def _commanded(setting: Setting, big: Path, small: Path, runs: int) -> Iterator[Row]:
    for verb in ("history", "next"):
        ours, theirs = (
            [sys.executable, "-m", "edgecron", "--db", str(path), verb, "-n", str(SHOWN)]
            for path in (big, small)
        )
        pairs = compare(ours, theirs, child_environment(), rounds=setting.pick(30, 8))
        yield _row(f"{verb} -n {SHOWN} over {runs:,} runs, the whole command", pairs)


def _row(what: str, pairs: Pairs) -> Row:
    return Row(
        bench="history",
        what=what,
        measured=f"{pairs.our_median * 1000:.2f} ms",
        reference=f"over a thousand {pairs.their_median * 1000:.2f} ms",
        ratio=pairs.ratio,
        low=pairs.middle[0],
        high=pairs.middle[1],
        reach=at_most(SAME),
        figures=pairs.figures(),
    )


def _is_made(database: Path, runs: int, like: Path) -> bool:
    """Whether a kept database is whole, and has the tables that a new one has."""
    if not database.exists():
        return False
    with _opened(database) as connection:
        try:
            found = connection.execute("SELECT runs FROM bench_made").fetchall()
        except apsw.SQLError:
            return False
        tables = connection.execute(_TABLES).fetchall()
    with _opened(like) as connection:
        return found == [(runs,)] and tables == connection.execute(_TABLES).fetchall()


@contextmanager
def _opened(database: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(database))
    try:
        yield connection
    finally:
        connection.close()


def _make(database: Path, *, runs: int, schedules: int) -> None:
    """Make a database of schedules that are due within the hour, and of past runs."""
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
    make(database, [command_spec("s", "every 1h")])
    multiply(database, "s", schedules - 1)
    add_runs(database, runs=runs, schedules=schedules)
    _make_next(database)


def add_runs(database: Path, *, runs: int, schedules: int) -> None:
    """Make past runs of schedules, whose ids are 1 and so on."""
    connection = apsw.Connection(str(database))
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -1500000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    first_ms = SystemClock().now_ms() - (runs // schedules + 2) * HOUR_MS
    connection.execute("BEGIN")
    connection.execute(_RUNS, {"runs": runs, "schedules": schedules, "first": first_ms})
    connection.execute("CREATE TABLE bench_made (runs INTEGER) STRICT")
    connection.execute("INSERT INTO bench_made VALUES (?)", (runs,))
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.close()


def _make_next(database: Path) -> None:
    """Have all schedules due one after the other, from soon on."""
    set_due(database, SystemClock().now_ms() + HOUR_MS, every_ms=APART_MS)
