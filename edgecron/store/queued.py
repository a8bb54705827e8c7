"""Queued rows: given free places by priority, then due time, then id."""

from __future__ import annotations

import os
from collections.abc import Iterable

from edgecron.admission import may_start_queued
from edgecron.model import Cause, Overlap
from edgecron.store.connection import Database
from edgecron.store.contract import ClaimBatch, Granted, QueuedRow, Seat
from edgecron.store.ledger import Ledger

_QUEUED_PAGE = 256


def claim_queued(database: Database, *, seat: Seat, now_ms: int) -> ClaimBatch:
    """Give free places to queued rows; see `Store.claim_queued`."""
    if not has_waiting(database, seat, now_ms):
        return ClaimBatch()
    granted: list[Granted] = []
    with database.transaction():
        ledger = Ledger(database, seat)
        for row in _queued_in_order(database, seat.queues, now_ms):
            key = (row.schedule_id, row.scope_kind, row.scope_id)
            if seat.only is not None and row.execution_id != seat.only:
                continue
            if ledger.places <= 0:
                break
            if ledger.has_place(row.group) and may_start_queued(
                overlap=row.overlap,
                max_running=row.max_running,
                cause=row.cause,
                occupancy=ledger.occupancy(key),
            ):
                grant = _start_queued(database, row, seat, now_ms)
                if grant is not None:
                    ledger.count_start(key, row.group, row.cause)
                    granted.append(grant)
    return ClaimBatch(granted=tuple(granted))


def has_queued(database: Database) -> bool:
    """Whether any execution waits, for a place or for its time."""
    return bool(database.rows("SELECT 1 FROM executions WHERE status = 'queued' LIMIT 1"))


def has_waiting(database: Database, seat: Seat, now_ms: int) -> bool:
    """Whether a queued row that is due waits for a place of this engine's queues."""
    return any(_find_queued(database, queue, None, now_ms, limit=1) for queue in seat.queues)


def _queued_in_order(
    database: Database, queues: tuple[str, ...], now_ms: int
) -> Iterable[QueuedRow]:
    """All queued rows that are due, by priority, due time and id, read page by page."""
    pages: list[QueuedRow] = []
    for queue in queues:
        after: QueuedRow | None = None
        while True:
            page = _find_queued(database, queue, after, now_ms, limit=_QUEUED_PAGE)
            if len(queues) == 1:
                yield from page
            else:
                pages.extend(page)
            if len(page) < _QUEUED_PAGE:
                break
            after = page[-1]
    pages.sort(key=lambda row: (-row.priority, row.due_ms, row.execution_id))
    yield from pages


def _find_queued(
    database: Database, queue: str, after: QueuedRow | None, now_ms: int, *, limit: int
) -> list[QueuedRow]:
    rows = database.rows(
        """SELECT e.id, e.schedule_id, e.revision, e.scope_kind, e.scope_id, e.cause, e.priority,
               e.due_at, s.overlap, s.max_running, s.group_name
           FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status = 'queued' AND e.queue = :queue AND e.due_at <= :now
               AND (-e.priority, e.due_at, e.id) > (:priority, :due, :id)
               AND (e.cause = 'manual' OR (s.enabled AND s.deleted_at IS NULL
                    AND (s.paused_until IS NULL OR s.paused_until <= :now)))
           ORDER BY e.priority DESC, e.due_at, e.id LIMIT :limit""",
        {
            "queue": queue,
            "now": now_ms,
            "priority": -after.priority if after else -(2**62),
            "due": after.due_ms if after else -(2**62),
            "id": after.execution_id if after else 0,
            "limit": limit,
        },
    )
    return [
        QueuedRow(
            execution_id=row[0],
            schedule_id=row[1],
            revision=row[2],
            scope_kind=row[3],
            scope_id=row[4],
            cause=Cause(row[5]),
            priority=row[6],
            due_ms=row[7],
            overlap=Overlap(row[8]),
            max_running=row[9],
            group=row[10],
        )
        for row in rows
    ]


def _start_queued(database: Database, row: QueuedRow, seat: Seat, now_ms: int) -> Granted | None:
    token = os.urandom(8).hex()
    found = database.returning(
        """UPDATE executions SET status = 'running', claimed_at = :now, heartbeat_at = :now,
               started_at = :now, engine_id = :engine, supervisor_id = :supervisor,
               lease_token = :token
           WHERE id = :id AND status = 'queued'
           RETURNING plan_at, due_at, fire_key, cause, attempt, max_attempts""",
        {
            "id": row.execution_id,
            "now": now_ms,
            "engine": seat.engine_id,
            "supervisor": seat.supervisor_id,
            "token": token,
        },
    )
    if found is None:
        return None
    return Granted(
        execution_id=row.execution_id,
        lease_token=token,
        schedule_id=row.schedule_id,
        revision=row.revision,
        plan_ms=found[0],
        due_ms=found[1],
        fire_key=found[2],
        cause=Cause(found[3]),
        attempt=found[4],
        max_attempts=found[5],
        scope_kind=row.scope_kind,
        scope_id=row.scope_id,
    )
