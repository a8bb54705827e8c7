"""What is on record of a time of a schedule: the rows that decided it, and what it said then."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from edgecron.model import Execution
from edgecron.store.connection import Database
from edgecron.store.rows import EXECUTION_COLUMNS, execution_of

_NEAR = 100  # rows on either side among which a range that covers a time is looked for
_LATE_MS = 86_400_000  # so long after its plan time a run that was started then is looked for
_COLUMNS = ", ".join(f"e.{column}" for column in EXECUTION_COLUMNS)
_FROM = f"""SELECT {_COLUMNS}, s.name
    FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id
    WHERE e.schedule_id = :schedule AND e.scope_kind = :kind AND e.scope_id = :scope"""


class StoredRevision(NamedTuple):
    """What a schedule said from an instant on, as columns of its specification."""

    revision: int
    at_ms: int
    columns: dict[str, Any]


def find_deciding(
    database: Database,
    schedule_id: int,
    scope: tuple[str, str],
    *,
    from_ms: int,
    to_ms: int,
) -> list[Execution]:
    """The executions planned or started from an instant to another, oldest first, and the ranges
    that cover one of them."""
    params = {
        "schedule": schedule_id,
        "kind": scope[0],
        "scope": scope[1],
        "from": from_ms,
        "to": to_ms,
        "early": from_ms - _LATE_MS,
        "near": _NEAR,
    }
    found = database.rows(
        f"""SELECT * FROM ({_FROM} AND e.plan_at <= :to ORDER BY e.plan_at DESC LIMIT :near)
            WHERE plan_at >= :from OR missed_to_at >= :from""",
        params,
    )
    # A range may be called by its end.
    found += database.rows(
        f"""SELECT * FROM ({_FROM} AND e.plan_at > :to ORDER BY e.plan_at LIMIT :near)
            WHERE missed_from_at <= :to""",
        params,
    )
    if not found:
        # Late, or moved by jitter or by hand: started then, and planned for an earlier time.
        found = database.rows(
            f"""SELECT * FROM ({_FROM} AND e.plan_at BETWEEN :early AND :to
                    ORDER BY e.plan_at DESC LIMIT :near)
                WHERE started_at BETWEEN :from AND :to OR due_at BETWEEN :from AND :to""",
            params,
        )
    return sorted((execution_of(row) for row in found), key=lambda run: run.id)


def find_revision(database: Database, schedule_id: int, *, at_ms: int) -> StoredRevision | None:
    """What a schedule said at an instant; before it was made, what it said first."""
    row = database.row(
        """SELECT revision, at, snapshot FROM schedule_revisions WHERE schedule_id = :id
           ORDER BY at > :at, iif(at > :at, revision, -revision) LIMIT 1""",
        {"id": schedule_id, "at": at_ms},
    )
    return None if row is None else StoredRevision(row[0], row[1], json.loads(row[2]))
