"""Backfill: runs for plan times of the past that were decided and have no success."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.model.schedule import Schedule
from edgecron.planning.retry import most_attempts
from edgecron.store.connection import Database

Scope = tuple[str, str]


def find_covered(
    database: Database, schedule_id: int, scope: Scope, *, from_ms: int, to_ms: int
) -> dict[int, bool]:
    """The plan times in [from, to] that have a success or an active row: whether a success."""
    rows = database.rows(
        """SELECT plan_at, max(status = 'success') FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND plan_at BETWEEN :from AND :to
               AND (fire_key = '' OR fire_key GLOB 'backfill:*')
               AND status IN ('success', 'queued', 'running')
           GROUP BY plan_at""",
        {
            "schedule": schedule_id,
            "kind": scope[0],
            "scope": scope[1],
            "from": from_ms,
            "to": to_ms,
        },
    )
    return {plan_ms: bool(has_succeeded) for plan_ms, has_succeeded in rows}


def queue_backfill(
    database: Database,
    schedule: Schedule,
    wanted: Sequence[tuple[int, str, Scope]],
    *,
    priority: int,
    now_ms: int,
) -> list[int] | None:
    """Queue a run for each (plan time, trigger text, scope); the ids of those that were queued.

    What has a success or an active row by now, or is not decided any more, is left out, and so is
    what retention has removed rows of. None where the schedule was changed or removed since it was
    read: nothing is queued.
    """
    with database.transaction():
        found = database.rows(
            """SELECT decided_until, coalesce(pruned_until, -(1 << 62)) FROM schedules
               WHERE id = :id AND revision = :revision AND deleted_at IS NULL""",
            {"id": schedule.id, "revision": schedule.revision},
        )
        if not found:
            return None
        ids = [
            _queue_one(database, schedule, time, priority, now_ms)
            for time in wanted
            if found[0][1] < time[0] <= found[0][0]
        ]
    return [execution_id for execution_id in ids if execution_id is not None]


def _queue_one(
    database: Database,
    schedule: Schedule,
    time: tuple[int, str, Scope],
    priority: int,
    now_ms: int,
) -> int | None:
    plan_ms, source, scope = time
    row = database.returning(
        """INSERT INTO executions (schedule_id, revision, scope_kind, scope_id, plan_at, fire_key,
               cause, trigger_text, due_at, max_attempts, queue, priority, status, queued_at)
           SELECT :schedule, :revision, :kind, :scope, :plan,
               'backfill:' || (1 + coalesce(max(CAST(substr(fire_key, 10) AS INTEGER))
                   FILTER (WHERE fire_key GLOB 'backfill:*'), 0)),
               'backfill', :source, :now, :max_attempts, :queue, :priority, 'queued', :now
           FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND plan_at = :plan AND (fire_key = '' OR fire_key GLOB 'backfill:*')
           HAVING coalesce(max(status IN ('success', 'queued', 'running')), 0) = 0
           RETURNING id""",
        {
            "schedule": schedule.id,
            "revision": schedule.revision,
            "kind": scope[0],
            "scope": scope[1],
            "plan": plan_ms,
            "source": source,
            "now": now_ms,
            "max_attempts": most_attempts(
                schedule.spec.policies.retries, schedule.spec.policies.on_interrupt
            ),
            "queue": schedule.spec.queue,
            "priority": priority,
        },
    )
    return None if row is None else int(row[0])
