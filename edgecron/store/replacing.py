"""Overlap `replace`: what is active makes room for a newer fire."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.model import REPLACED_MARK, Cause, Reason, Status
from edgecron.store.connection import Database
from edgecron.store.contract import Decided

# id, status, revision, plan_at, cause, attempt, cancel_requested_at, due_at
_Row = tuple[int, str, int, int, str, int, int | None, int]


def replace_oldest(
    database: Database,
    key: tuple[int, str, str],
    *,
    count: int,
    by: int,
    spares_late: bool = False,
    now_ms: int,
) -> list[Decided]:
    """Withdraw the oldest active executions of a schedule and scope, but for the one they make
    room for, inside the caller's transaction; those that never ran, for the log.

    With `spares_late`, not what is caught up. What is queued is cancelled at once. What runs is
    marked, and ended by whoever runs it: the newer one waits for that.
    """
    withdrawn = []
    found = _find_oldest(database, key, by, spares_late=spares_late)
    for row in found[: max(count, 0)]:
        if row[1] == "queued":
            withdrawn.append(_withdraw(database, key[0], row, now_ms))
        else:
            _mark_running(database, row[0], now_ms)
    return withdrawn


def replace_waiting(
    database: Database,
    key: tuple[int, str, str],
    *,
    count: int,
    by: int,
    spares_late: bool = False,
    now_ms: int,
) -> list[Decided]:
    """As `replace_oldest`, but only what has not begun."""
    found = _find_oldest(database, key, by, spares_late=spares_late)
    waiting = [row for row in found if row[1] == "queued" and row[4] != "retry"]
    return [_withdraw(database, key[0], row, now_ms) for row in waiting[: max(count, 0)]]


def keep_turn(database: Database, execution_id: int, withdrawn: Sequence[Decided]) -> None:
    """Give a fire the turn of those that it has replaced while they waited.

    At the end of the line it would itself be replaced before it is there: on an engine that is
    always full none of them would ever run.
    """
    dues = [one.due_ms for one in withdrawn if one.due_ms is not None and one.cause != Cause.RETRY]
    if dues:
        database.change(
            "UPDATE executions SET due_at = min(due_at, :due) WHERE id = :id AND status = 'queued'",
            {"id": execution_id, "due": min(dues)},
        )


def ask_for_place(
    database: Database, key: tuple[int, str, str], *, by: int, limit: int, now_ms: int
) -> bool:
    """Ask for the end of the oldest that run, so that one more can start; False: it was before.

    For one that had to wait for a condition, which has come true.
    """
    running = [row for row in _find_oldest(database, key, by) if row[1] == "running"]
    leaving = sum(row[6] is not None for row in running)
    staying = [row for row in running if row[6] is None]
    wanted = staying[: max(0, len(running) - leaving + 1 - limit)]
    for row in wanted:
        _mark_running(database, row[0], now_ms)
    return bool(wanted)


def count_late(database: Database, key: tuple[int, str, str]) -> int:
    """How many that are caught up in sequence are active of a schedule and scope."""
    [(count,)] = database.rows(
        """SELECT count(*) FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status IN ('queued', 'running') AND cause = 'catch_up'""",
        {"schedule": key[0], "kind": key[1], "scope": key[2]},
    )
    return int(count)


def _find_oldest(
    database: Database, key: tuple[int, str, str], by: int, *, spares_late: bool = False
) -> list[_Row]:
    """What is active but for one, and for backfills: what is queued first, the oldest first."""
    return database.rows(
        """SELECT id, status, revision, plan_at, cause, attempt, cancel_requested_at, due_at
           FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND status IN ('queued', 'running') AND id != :by
               AND fire_key NOT GLOB 'backfill:*'
               AND NOT (:spares_late AND cause = 'catch_up')
           ORDER BY status != 'queued', id""",
        {
            "schedule": key[0],
            "kind": key[1],
            "scope": key[2],
            "by": by,
            "spares_late": spares_late,
        },
    )


def _withdraw(
    database: Database,
    schedule_id: int,
    row: _Row,
    now_ms: int,
) -> Decided:
    execution_id, _, revision, plan_ms, cause, attempt, _, due_ms = row
    _cancel_queued(database, schedule_id, execution_id, now_ms)
    return Decided(
        execution_id=execution_id,
        schedule_id=schedule_id,
        revision=revision,
        plan_ms=plan_ms,
        status=Status.CANCELLED,
        reason=Reason.REPLACED,
        cause=Cause(cause),
        attempt=attempt,
        due_ms=due_ms,
    )


def _cancel_queued(database: Database, schedule_id: int, execution_id: int, now_ms: int) -> None:
    database.change(
        """UPDATE executions SET status = 'cancelled', reason = 'replaced', finished_at = :now,
               waiting_for = NULL, wait_until = NULL
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
