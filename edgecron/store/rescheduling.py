"""Moving the next fire of a schedule to another time, by hand."""

from __future__ import annotations

from edgecron.base.units import to_ms
from edgecron.model.schedule import Schedule
from edgecron.store.connection import Database


def reschedule(database: Database, schedule: Schedule, *, run_ms: int, now_ms: int) -> bool:
    """Let the next fire of a schedule start at another time; its plan time stays what it is.

    False where the schedule was changed, or that fire decided, since it was read.
    """
    assert schedule.next_plan_at is not None
    with database.transaction():
        changed = database.change(
            """UPDATE schedules SET next_run_at = :run, revision = revision + 1, updated_at = :now
               WHERE id = :id AND revision = :revision AND next_plan_at = :plan
                   AND deleted_at IS NULL""",
            {
                "id": schedule.id,
                "revision": schedule.revision,
                "plan": to_ms(schedule.next_plan_at),
                "run": run_ms,
                "now": now_ms,
            },
        )
    return changed == 1
