"""Read and write what a database records about the clock: the trusted mark and the last setting."""

from __future__ import annotations

from edgecron.planning.corrections import ClockMarks
from edgecron.store.sqlite.connection import Database


def find_clock_marks(database: Database) -> ClockMarks:
    """Return what the database has recorded about the clock and zones."""
    row = database.row(
        """SELECT trusted_high_at, tzdata_version, local_timezone, clock_set_at, clock_set_by_ms
           FROM meta"""
    )
    assert row is not None
    return ClockMarks(
        trusted_high_ms=row[0],
        tzdata_version=row[1],
        local_timezone=row[2],
        set_at_ms=row[3],
        set_by_ms=row[4],
    )


def note_clock_set(database: Database, *, at_ms: int, by_ms: int) -> None:
    """Record that the clock was set: when, by the new time, and by how much."""
    with database.transaction():
        database.change(
            "UPDATE meta SET clock_set_at = :at, clock_set_by_ms = :by",
            {"at": at_ms, "by": by_ms},
        )


def note_trusted(database: Database, mark_ms: int, *, was_ms: int | None) -> bool:
    """Move the trusted mark; False if another engine has moved it."""
    with database.transaction():
        changed = database.change(
            "UPDATE meta SET trusted_high_at = :mark WHERE trusted_high_at IS :was",
            {"mark": mark_ms, "was": was_ms},
        )
    return changed == 1
