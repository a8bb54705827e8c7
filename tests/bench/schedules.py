"""Databases with many schedules, made fast: one by the program, its likes by SQL."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from edgecron.base.clock import Clock, SystemClock
from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec

TRUE = shutil.which("true") or "/bin/true"


def command_spec(name: str, trigger: str, *argv: str) -> ScheduleSpec:
    """A schedule of a command, `true` by default; the default policies."""
    job = Job(kind=JobKind.COMMAND, argv=argv or (TRUE,))
    return ScheduleSpec(name=name, triggers=(trigger,), job=job)


def make(database: Path, specs: Sequence[ScheduleSpec], *, clock: Clock | None = None) -> None:
    with Client(database, clock=clock or SystemClock()) as client:
        client.add_all(specs)


def multiply(database: Path, name: str, count: int) -> None:
    """Make `count` schedules like one that is there: `NAME-1` and so on, due at its times."""
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA synchronous = OFF")
    columns = [
        row[0]
        for row in connection.execute("SELECT name FROM pragma_table_info('schedules')")
        if row[0] not in ("id", "name")
    ]
    [(source, first)] = connection.execute(
        "SELECT (SELECT id FROM schedules WHERE name = ?), max(id) FROM schedules", (name,)
    )
    values = {"source": source, "first": first, "count": count, "name": name}
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        f"""{numbers} INSERT INTO schedules (id, name, {", ".join(columns)})
            SELECT :first + i, :name || '-' || i, {", ".join(columns)}
            FROM n, schedules WHERE schedules.id = :source""",
        values,
    )
    connection.execute(
        f"""{numbers} INSERT INTO schedule_scopes
            SELECT :first + i, scope_kind, scope_id FROM n, schedule_scopes
            WHERE schedule_id = :source""",
        values,
    )
    connection.execute(
        f"""{numbers} INSERT INTO schedule_revisions
                (schedule_id, revision, at, origin, snapshot)
            SELECT :first + i, revision, at, origin,
                json_set(snapshot, '$.name', :name || '-' || i)
            FROM n, schedule_revisions WHERE schedule_id = :source""",
        values,
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def make_times_of_day(database: Path, name: str, *, count: int, times: int) -> None:
    """Make `count` schedules at so many times of day, the first four hours from now.

    The first one has the name itself, the others have it and a number.
    """
    now = time.gmtime()
    names = [name + (f"-at-{n:03}" if n else "") for n in range(times)]
    minutes = [now.tm_hour * 60 + now.tm_min + 240 + n * 1080 // times for n in range(times)]
    make(
        database,
        [
            command_spec(each, f"{minute % 60} {minute // 60 % 24} * * *")
            for each, minute in zip(names, minutes, strict=True)
        ],
    )
    for each in names:
        multiply(database, each, count // times - 1)


def set_due(database: Path, due_ms: int, *, every_ms: int = 0, last: int | None = None) -> None:
    """Have the schedules up to the id `last`, or all, due at one instant, or one after another."""
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(30_000)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(
        """UPDATE schedules SET next_plan_at = :due + (id - 1) * :every,
               next_run_at = :due + (id - 1) * :every, decided_until = :due - 1
           WHERE id <= coalesce(:last, id)""",
        {"due": due_ms, "every": every_ms, "last": last},
    )
    connection.close()


def count_ended(database: Path) -> int:
    """How many runs have ended."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    [(count,)] = connection.execute("SELECT count(*) FROM executions WHERE finished_at NOT NULL")
    connection.close()
    return int(count)


def checkpoint(database: Path) -> None:
    """Move what the log holds into the database."""
    connection = apsw.Connection(str(database))
    # One that has read nothing yet knows of no log.
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    pages, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    assert pages >= 0, f"the log of {database} can't be moved"
    connection.close()
