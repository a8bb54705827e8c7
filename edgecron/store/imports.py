"""Which crontab line each imported schedule came from."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.errors import Unreadable
from edgecron.model.choices import GLOBAL_SCOPE
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.connection import Database
from edgecron.store.revisions import columns_of
from edgecron.store.rows import spec_of


def find_imported(database: Database) -> list[tuple[int, str, str]]:
    """(schedule, source, imprint) of every import, those of removed schedules as well."""
    return database.rows(
        "SELECT schedule_id, source, imprint FROM imported_entries ORDER BY schedule_id"
    )


def find_imported_before(database: Database) -> list[tuple[int, ScheduleSpec]]:
    """The schedules that an older version imported, as their crontab lines said then."""
    rows = database.rows(
        """SELECT r.schedule_id, r.snapshot FROM schedule_revisions AS r
           WHERE r.revision = 1 AND r.origin = 'crontab'
               AND r.schedule_id NOT IN (SELECT schedule_id FROM imported_entries)
           ORDER BY r.schedule_id"""
    )
    found = []
    for schedule_id, snapshot in rows:
        try:
            found.append((schedule_id, spec_of(columns_of(snapshot), (GLOBAL_SCOPE,))))
        except Unreadable:
            continue  # Its line is taken for a new one.
    return found


def is_noted(database: Database, schedule_id: int) -> bool:
    """Whether it is noted which line a schedule came from; else its first definition says so."""
    row = database.row(
        "SELECT 1 FROM imported_entries WHERE schedule_id = :id", {"id": schedule_id}
    )
    return row is not None


def note_imported(database: Database, rows: Sequence[tuple[int, str, str]]) -> None:
    """Keep the source and imprint of imported schedules; what was known of them is replaced."""
    with database.transaction():
        database.change_many(
            """INSERT INTO imported_entries (schedule_id, source, imprint)
               VALUES (:id, :source, :imprint)
               ON CONFLICT (schedule_id) DO UPDATE
                   SET source = excluded.source, imprint = excluded.imprint""",
            [
                {"id": schedule_id, "source": source, "imprint": imprint}
                for schedule_id, source, imprint in rows
            ],
        )
