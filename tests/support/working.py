"""How much work a database does: counted, so that no busy machine changes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import apsw

from edgecron.store.sqlite.connection import Database


@dataclass(slots=True)
class Work:
    """`statements` that were run, and the `steps` that SQLite's machine took for them."""

    statements: int = 0
    steps: int = 0


@contextmanager
def work_of(database: Database) -> Iterator[Work]:
    """Count what a database does within."""
    work = Work()

    def note(event: dict[str, object]) -> None:
        status = event["stmt_status"]
        assert isinstance(status, dict)
        work.statements += 1
        work.steps += status["SQLITE_STMTSTATUS_VM_STEP"]

    with database.in_use:
        database.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    try:
        yield work
    finally:
        with database.in_use:
            database.connection.trace_v2(0, None)
