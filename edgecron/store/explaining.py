"""What is on record of a time of a schedule: the rows that decided it, and what it said then."""

from __future__ import annotations

from typing import Any

from edgecron.base.units import from_ms as from_instant
from edgecron.base.values import NamedTuple
from edgecron.model.run import Execution
from edgecron.store.connection import Database
from edgecron.store.revisions import columns_of
from edgecron.store.rows import EXECUTION_COLUMNS, execution_of

_NEAR = 100  # rows on either side among which a range that covers a time is looked for
_LATE_MS = 86_400_000  # so long after its plan time a run that was started then is looked for
_COLUMNS = ", ".join(f"e.{column}" for column in EXECUTION_COLUMNS)
_FROM = f"""SELECT {_COLUMNS}, s.name
    FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id
    WHERE e.schedule_id = :schedule AND e.scope_kind = :kind AND e.scope_id = :scope"""


class StoredRevision(NamedTuple):
    """What a schedule said from an instant on, as columns of its specification.

    `is_newest`: it says that still. `is_removed`: retention has removed what it said then.
    """

    revision: int
    at_ms: int
    columns: dict[str, Any]
    is_newest: bool
    is_removed: bool = False


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
    params = {"schedule": schedule_id, "kind": scope[0], "scope": scope[1], "to": to_ms}
    limit = {"near": _NEAR}
    before = _read(
        database, "AND e.plan_at <= :to ORDER BY e.plan_at DESC LIMIT :near", params | limit
    )
    # A range may be called by its end.
    after = _read(database, "AND e.plan_at > :to ORDER BY e.plan_at LIMIT :near", params | limit)
    since, until = from_instant(from_ms), from_instant(to_ms)
    found = [
        run
        for run in before
        if run.plan_at >= since or (run.missed_to_at is not None and run.missed_to_at >= since)
    ]
    found += [
        run for run in after if run.missed_from_at is not None and run.missed_from_at <= until
    ]
    if not found:
        # Late, or moved by jitter or by hand: planned for an earlier time, and started then.
        early = from_instant(from_ms - _LATE_MS)
        found = [
            run
            for run in before
            if run.plan_at >= early
            and any(at is not None and since <= at <= until for at in (run.started_at, run.due_at))
        ]
    return sorted(found, key=lambda run: run.id)


def _read(database: Database, more: str, params: dict[str, Any]) -> list[Execution]:
    return [execution_of(row) for row in database.rows(f"{_FROM} {more}", params)]


def find_revision(database: Database, schedule_id: int, *, at_ms: int) -> StoredRevision | None:
    """What a schedule said at an instant; before it was made, what it said first.

    None if nothing that it said was kept.
    """
    select = """SELECT revision, at, snapshot, known_until FROM schedule_revisions
        WHERE schedule_id = :id"""
    params = {"id": schedule_id}
    newest = database.row(f"{select} ORDER BY revision DESC LIMIT 1", params)
    row = database.row(
        f"{select} AND at <= :at ORDER BY revision DESC LIMIT 1", params | {"at": at_ms}
    )
    if newest is None:
        return None
    if row is None:
        row = database.row(f"{select} AND revision = 1", params)
    if row is None or (row[3] is not None and at_ms >= row[3]):
        return StoredRevision(0, at_ms, {}, is_newest=False, is_removed=True)
    return StoredRevision(row[0], row[1], columns_of(row[2]), is_newest=row[0] == newest[0])
