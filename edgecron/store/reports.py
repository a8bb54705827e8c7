"""What runs report: their progress, and what their schedules remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgecron.reporting import Reported, fits_state
from edgecron.store.connection import Database


def note_progress(database: Database, reported: Sequence[Reported]) -> None:
    """Put progress on record, of what still runs by these tokens."""
    with database.transaction():
        database.change_many(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND lease_token = :token AND status = 'running'
                   AND progress IS NOT :progress""",
            [
                {"id": one.execution_id, "token": one.lease_token, "progress": one.progress}
                for one in reported
            ],
        )


def report_progress(database: Database, execution_id: int, progress: str) -> bool:
    """Put a progress on record; whether that is of a run that goes on."""
    with database.transaction():
        changed = database.change(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND status = 'running' AND progress IS NOT :progress""",
            {"id": execution_id, "progress": progress},
        )
        return changed == 1 or _runs(database, execution_id)


def _runs(database: Database, execution_id: int) -> bool:
    found = database.row(
        "SELECT 1 FROM executions WHERE id = :id AND status = 'running'", {"id": execution_id}
    )
    return found is not None


def write_state(database: Database, schedule_id: int, changes: Mapping[str, str | None]) -> None:
    """Change what a schedule remembers, inside the caller's transaction."""
    gone = [key for key, value in changes.items() if value is None]
    kept = [(key, value) for key, value in changes.items() if value is not None]
    if gone:
        database.change_many(
            "DELETE FROM state WHERE schedule_id = :schedule AND key = :key",
            [{"schedule": schedule_id, "key": key} for key in gone],
        )
    if kept:
        # What no edgecron would have let through must not hold up the end that it comes with.
        database.change_many(
            """INSERT INTO state (schedule_id, key, value)
               SELECT :schedule, :key, :value WHERE json_valid(:value)
               ON CONFLICT (schedule_id, key) DO UPDATE SET value = excluded.value
                   WHERE state.value IS NOT excluded.value""",
            [{"schedule": schedule_id, "key": key, "value": value} for key, value in kept],
        )


def can_change_state(
    database: Database, execution_id: int, changes: Mapping[str, str | None]
) -> bool:
    """Whether what the schedule of a run remembers stays within its limits with these changes."""
    found = database.row("SELECT schedule_id FROM executions WHERE id = :id", {"id": execution_id})
    if found is None:
        return True
    before = find_state(database, found[0])
    after = {key: value for key, value in (before | dict(changes)).items() if value is not None}
    return fits_state(before, after)


def find_state(database: Database, schedule_id: int) -> dict[str, str]:
    """What a schedule remembers: texts of JSON by key, in the order of keys."""
    rows = database.rows(
        "SELECT key, value FROM state WHERE schedule_id = :schedule ORDER BY key",
        {"schedule": schedule_id},
    )
    return dict(rows)


def count_state(database: Database, schedule_id: int) -> int:
    """How many keys that has."""
    [(count,)] = database.rows(
        "SELECT count(*) FROM state WHERE schedule_id = :schedule", {"schedule": schedule_id}
    )
    return int(count)
