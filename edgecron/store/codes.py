"""Which code had the last say on the schedules of a program, as a hash of what it declares."""

from __future__ import annotations

from edgecron.store.connection import Database


def find_code(database: Database, queue: str) -> str | None:
    """The code that had the last say on a program's schedules; None where none has said so."""
    row = database.row("SELECT code FROM programs WHERE queue = :queue", {"queue": queue})
    return None if row is None else str(row[0])


def note_code(database: Database, queue: str, code: str, *, was: str | None) -> bool:
    """Put down whose say it is now; False where it was another's than that meanwhile."""
    with database.transaction():
        changed = database.change(
            """INSERT INTO programs (queue, code) SELECT :queue, :code
               WHERE :was IS (SELECT code FROM programs WHERE queue = :queue)
               ON CONFLICT (queue) DO UPDATE SET code = excluded.code""",
            {"queue": queue, "code": code, "was": was},
        )
    return changed == 1
