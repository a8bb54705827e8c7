"""Overlap `replace`: what is active makes room for a newer fire."""

from __future__ import annotations

from edgecron.model import REPLACED_MARK, Cause, Reason, Status
from edgecron.store.connection import Database
from edgecron.store.contract import Decided


def replace_oldest(
    database: Database, key: tuple[int, str, str], *, count: int, by: int, now_ms: int
) -> list[Decided]:
    """Withdraw the oldest active executions of a schedule and scope, but for the one they make
    room for, inside the caller's transaction; those that never ran, for the log.

    What is queued is cancelled at once. What runs is marked, and ended by whoever runs it: the
    newer one waits for that.
    """
    rows = database.rows(
        """SELECT id, status, revision, plan_at, cause, attempt FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status IN ('queued', 'running') AND id != :by
           ORDER BY status != 'queued', id LIMIT :count""",
        {
            "schedule": key[0],
            "kind": key[1],
            "scope": key[2],
            "by": by,
            "count": max(count, 0),
        },
    )
    withdrawn = []
    for execution_id, status, revision, plan_ms, cause, attempt in rows:
        if status == "queued":
            _cancel_queued(database, key[0], execution_id, now_ms)
            withdrawn.append(
                Decided(
                    execution_id=execution_id,
                    schedule_id=key[0],
                    revision=revision,
                    plan_ms=plan_ms,
                    status=Status.CANCELLED,
                    reason=Reason.REPLACED,
                    cause=Cause(cause),
                    attempt=attempt,
                )
            )
        else:
            _mark_running(database, execution_id, now_ms)
    return withdrawn


def _cancel_queued(database: Database, schedule_id: int, execution_id: int, now_ms: int) -> None:
    database.change(
        """UPDATE executions SET status = 'cancelled', reason = 'replaced', finished_at = :now
           WHERE id = :id AND status = 'queued'""",
        {"id": execution_id, "now": now_ms},
    )
    database.change(
        "UPDATE schedules SET cancelled_count = cancelled_count + 1 WHERE id = :id",
        {"id": schedule_id},
    )


def _mark_running(database: Database, execution_id: int, now_ms: int) -> None:
    database.change(
        """UPDATE executions SET flags = json_array(:mark),
               cancel_requested_at = coalesce(cancel_requested_at, :now)
           WHERE id = :id AND status = 'running'""",
        {"id": execution_id, "mark": REPLACED_MARK, "now": now_ms},
    )
