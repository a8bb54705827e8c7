"""Reading executions: one, or pages of them, newest first. Keyset pages, never OFFSET.

Those of removed schedules as well.
"""

from __future__ import annotations

from typing import Any

from edgecron.model import Execution, Status
from edgecron.store.connection import Database
from edgecron.store.rows import EXECUTION_COLUMNS, execution_of
from edgecron.timetext import to_ms

_COLUMNS = f"{', '.join(f'e.{column}' for column in EXECUTION_COLUMNS)}, s.name"
# CROSS keeps the order of the tables: with statistics SQLite may begin with schedules, and sort.
_SELECT = f"""SELECT {_COLUMNS}
    FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id"""
_UNWELL = (Status.FAILED, Status.SKIPPED, Status.CANCELLED, Status.INTERRUPTED)
_ACTIVE_INDEXES = {
    Status.QUEUED: "executions_queued",
    Status.RUNNING: "executions_active",
}


def find_execution(database: Database, execution_id: int) -> Execution | None:
    """One execution, or None."""
    row = database.row(f"{_SELECT} WHERE e.id = :id", {"id": execution_id})
    return None if row is None else execution_of(row)


def find_executions(
    database: Database,
    *,
    schedule_id: int | None = None,
    statuses: tuple[Status, ...] = (),
    before_id: int | None = None,
    limit: int = 20,
) -> list[Execution]:
    """A page of executions, newest first; the next page is asked for before its last id."""
    if statuses:
        found = [
            execution
            for status in dict.fromkeys(statuses)
            for execution in _page(database, schedule_id, status, before_id, limit)
        ]
        return sorted(found, key=lambda execution: -execution.id)[:limit]
    return _page(database, schedule_id, None, before_id, limit)


def find_waiting(database: Database, *, limit: int) -> list[Execution]:
    """Executions that wait for a condition, those whose deadline comes first before the others."""
    rows = database.rows(
        f"""SELECT {_COLUMNS}
            FROM executions AS e INDEXED BY executions_owed
            CROSS JOIN schedules AS s ON s.id = e.schedule_id
            WHERE e.waiting_for IS NOT NULL ORDER BY e.wait_until, e.id LIMIT :limit""",
        {"limit": limit},
    )
    return [execution_of(row) for row in rows]


def last_execution_of(database: Database, schedule_id: int) -> Execution | None:
    """The newest execution of a schedule that was to run and did, or failed to; None: none."""
    row = database.row(
        f"""{_SELECT} WHERE e.schedule_id = :schedule AND e.claimed_at IS NOT NULL
            ORDER BY e.id DESC LIMIT 1""",
        {"schedule": schedule_id},
    )
    return None if row is None else execution_of(row)


def find_next_attempt(database: Database, execution: Execution) -> Execution | None:
    """The attempt of the same fire that follows an execution, or None where there is none."""
    row = database.row(
        f"""{_SELECT} WHERE e.schedule_id = :schedule AND e.scope_kind = :scope_kind
                AND e.scope_id = :scope_id AND e.plan_at = :plan AND e.fire_key = :fire_key
                AND e.attempt = :attempt""",
        {
            "schedule": execution.schedule_id,
            "scope_kind": execution.scope_kind,
            "scope_id": execution.scope_id,
            "plan": to_ms(execution.plan_at),
            "fire_key": execution.fire_key,
            "attempt": execution.attempt + 1,
        },
    )
    return None if row is None else execution_of(row)


def find_later(
    database: Database, schedule_id: int, *, after_id: int, limit: int
) -> list[Execution]:
    """The executions of a schedule after an id, oldest first."""
    rows = database.rows(
        f"""{_SELECT} WHERE e.schedule_id = :schedule AND e.id > :after
            ORDER BY e.id LIMIT :limit""",
        {"schedule": schedule_id, "after": after_id, "limit": limit},
    )
    return [execution_of(row) for row in rows]


def find_removed(database: Database, name: str) -> tuple[int, int] | None:
    """(id, deleted_at) of the newest removed schedule of this name, or None."""
    row = database.row(
        """SELECT id, deleted_at FROM schedules WHERE name = :name AND deleted_at IS NOT NULL
           ORDER BY id DESC LIMIT 1""",
        {"name": name},
    )
    return None if row is None else (row[0], row[1])


def count_active(database: Database) -> dict[Status, int]:
    """How many executions are queued and running."""
    rows = database.rows(
        """SELECT status, count(*) FROM executions
           WHERE status IN ('queued', 'running') GROUP BY status"""
    )
    return {Status(status): count for status, count in rows}


def _page(
    database: Database,
    schedule_id: int | None,
    status: Status | None,
    before_id: int | None,
    limit: int,
) -> list[Execution]:
    wheres: list[str] = []
    params: dict[str, Any] = {"limit": limit}
    if schedule_id is not None:
        wheres.append("e.schedule_id = :schedule")
        params["schedule"] = schedule_id
    if status is not None:
        wheres.append(f"e.status = '{status.value}'")
    if before_id is not None:
        wheres.append("e.id < :before")
        params["before"] = before_id
    select = _SELECT
    if status in _ACTIVE_INDEXES:
        # What is active, or went otherwise than well, is little, and the past that SQLite would
        # walk back through is not.
        index = _ACTIVE_INDEXES[status] if schedule_id is None else "executions_active"
        wheres.append("e.status IN ('queued', 'running')")
        select = _SELECT.replace(" AS e ", f" AS e INDEXED BY {index} ", 1)
    elif status in _UNWELL:
        index = "executions_unwell" if schedule_id is None else "executions_unwell_by_schedule"
        wheres.append(f"e.status IN ({', '.join(repr(one.value) for one in _UNWELL)})")
        select = _SELECT.replace(" AS e ", f" AS e INDEXED BY {index} ", 1)
    where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
    rows = database.rows(f"{select}{where} ORDER BY e.id DESC LIMIT :limit", params)
    return [execution_of(row) for row in rows]
