"""Withdrawing what is queued: on request, with its schedule, or for a newer fire."""

from __future__ import annotations

from edgecron.model.choices import COVERS_MARK, MISSED_MARK, REPLACED_MARK, Reason
from edgecron.store.aftermath import follow_up_withdrawn
from edgecron.store.connection import Database
from edgecron.store.contract import Ended

# The flags that stay with a row when it ends: why its time was missed, or which range it covers.
# The mark of a run that is replaced goes: the reason says that.
KEPT_FLAGS = f"""iif(flags LIKE '["{MISSED_MARK}%' OR flags LIKE '["{COVERS_MARK}%',
            replace(flags, ',"{REPLACED_MARK}"]', ']'), NULL)"""


def cancel_removed(database: Database, schedule_id: int, *, now_ms: int) -> None:
    """Cancel what is queued of a removed schedule, inside the caller's transaction."""
    cancelled = database.change(
        """UPDATE executions INDEXED BY executions_active
           SET status = 'cancelled', reason = 'removed', finished_at = :now,
               waiting_for = NULL, wait_until = NULL
           WHERE schedule_id = :id AND status = 'queued' AND status IN ('queued', 'running')""",
        {"id": schedule_id, "now": now_ms},
    )
    database.change(
        "UPDATE schedules SET cancelled_count = cancelled_count + :count WHERE id = :id",
        {"id": schedule_id, "count": cancelled},
    )


def cancel_queued(database: Database, execution_id: int, *, now_ms: int) -> bool:
    """Withdraw a queued execution on request; False where it is no longer queued."""
    with database.transaction():
        return withdraw(database, execution_id, now_ms=now_ms) is not None


def withdraw(
    database: Database, execution_id: int, *, reason: Reason = Reason.REQUEST, now_ms: int
) -> Ended | None:
    """Cancel a queued execution on request, inside the caller's transaction.

    Its fire has ended with it: what follows is written as after any other end, and returned. None
    if it is no longer queued.
    """
    row = database.returning(
        f"""UPDATE executions SET status = 'cancelled', reason = :reason, flags = {KEPT_FLAGS},
               cancel_requested_at = coalesce(cancel_requested_at, :now), finished_at = :now,
               waiting_for = NULL, wait_until = NULL
           WHERE id = :id AND status = 'queued' RETURNING schedule_id""",
        {"id": execution_id, "reason": reason.value, "now": now_ms},
    )
    if row is None:
        return None
    database.change(
        "UPDATE schedules SET cancelled_count = cancelled_count + 1 WHERE id = :id",
        {"id": row[0]},
    )
    return follow_up_withdrawn(database, execution_id, now_ms=now_ms)
