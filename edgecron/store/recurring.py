"""What schedules' times depend on, in a few columns, page by page."""

from __future__ import annotations

from typing import Any

from edgecron.model.measures import Recurrence
from edgecron.store.connection import Database


def find_recurring(
    database: Database, *, after_id: int, limit: int
) -> tuple[list[Recurrence], int | None]:
    """The schedules after an id that have times to come, and the id after which the next page
    begins; None: this is the last one."""
    rows = database.rows(
        """SELECT id, compiled, next_plan_at, next_run_at, paused_until, until_at,
               max_runs - planned_count, after_end_ms, jitter_s
           FROM schedules
           WHERE id > :after AND deleted_at IS NULL AND enabled AND trigger_error IS NULL
               AND (next_run_at IS NOT NULL OR after_end_ms IS NOT NULL)
               AND vanished_at IS NULL
           ORDER BY id LIMIT :limit""",
        {"after": after_id, "limit": limit},
    )
    following = rows[-1][0] if len(rows) == limit else None
    return [_recurrence_of(row) for row in rows], following


def _recurrence_of(row: tuple[Any, ...]) -> Recurrence:
    return Recurrence(
        compiled=row[1],
        next_plan_ms=row[2],
        next_run_ms=row[3],
        paused_until_ms=row[4],
        until_ms=row[5],
        runs_left=row[6],
        after_end_ms=row[7],
        jitter_ms=round(row[8] * 1000),
    )
