"""Schedules that hold what can't be read: kept with the reason, while the others run."""

from __future__ import annotations

from edgecron.store.connection import Database


def mark_broken(
    database: Database, schedule_id: int, *, revision: int, error: str, now_ms: int
) -> bool:
    """Stop a schedule whose stored trigger can't be read, and keep the reason with it."""
    with database.transaction():
        return note_broken(database, schedule_id, revision=revision, error=error, now_ms=now_ms)


def note_broken(
    database: Database, schedule_id: int, *, revision: int, error: str, now_ms: int
) -> bool:
    """The same inside the caller's transaction; False where it is another revision by now."""
    changed = database.change(
        """UPDATE schedules SET trigger_error = :error, next_plan_at = NULL,
               next_run_at = NULL, next_source = NULL, updated_at = :now
           WHERE id = :id AND revision = :revision""",
        {"id": schedule_id, "revision": revision, "error": error, "now": now_ms},
    )
    return changed == 1
