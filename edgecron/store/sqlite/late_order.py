"""The order in which late runs get places: catch-ups and backfills.

To put a long backlog in order takes a while, in a transaction. Its order is kept for a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from edgecron.base.values import NamedTuple
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.limits import ScopeKey

LateKey = tuple[int, str, str, str]  # a schedule, a scope, and the cause of its late runs

_LONG = 256  # late runs: the order of more of them is found once a second
_KEPT_MS = 1000
_KEPT_ROWS = 512
_KEPT_TURNS = 64  # of one schedule and scope
_IS_LATE = """e.status = 'queued' AND e.cause IN ('catch_up', 'backfill')
    AND e.waiting_for IS NULL AND e.due_at <= :now
    AND s.enabled AND s.deleted_at IS NULL
    AND (s.paused_until IS NULL OR s.paused_until <= :now)"""


class _LateOrder(NamedTuple):
    """The order of late runs, as it was at a time: (id, key), those of a key in their turn."""

    queues: tuple[str, ...]
    at_ms: int
    rows: Sequence[tuple[int, LateKey]]


def find_next_late(
    database: Database,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    limit: int,
    full: set[ScopeKey],
    stuck: set[LateKey],
) -> dict[int, LateKey]:
    """The late runs that get the next places for late runs, by id, at most one per schedule and
    scope. None of a key that is `full`, and none of which an earlier one is `stuck`.

    By priority, then the shortest backlog first: the waiting late runs of a schedule times its
    mean duration, the unknown last. Of one schedule the newest goes first, but what runs in
    sequence (`catch_up=all`, a backfill) starts with the oldest. To put a long backlog in order
    takes a while: its order is up to a second old.
    """
    kept: _LateOrder | None = database.notes.get("late order")
    if kept is not None and kept.queues == queues and 0 <= now_ms - kept.at_ms < _KEPT_MS:
        rows = [row for row in kept.rows if row[1][:3] not in full and row[1] not in stuck]
        found = _first_of_each(_still_late(database, rows, now_ms=now_ms), limit)
        if len(found) >= limit:
            return found
    order = _find_late_order(database, queues, now_ms=now_ms, full=full, stuck=stuck)
    database.notes["late order"] = order if len(order.rows) > _LONG else None
    return _first_of_each(order.rows, limit)


def _first_of_each(rows: Iterable[tuple[int, LateKey]], limit: int) -> dict[int, LateKey]:
    """The first of each schedule and scope, in their order."""
    found: dict[int, LateKey] = {}
    seen: set[ScopeKey] = set()
    for id_, key in rows:
        if len(found) >= limit:
            break
        if key[:3] not in seen:
            seen.add(key[:3])
            found[id_] = key
    return found


def _still_late(
    database: Database, rows: Sequence[tuple[int, LateKey]], *, now_ms: int
) -> list[tuple[int, LateKey]]:
    """Those that still wait for nothing but a place."""
    still = {
        row[0]
        for row in database.rows(
            f"""SELECT e.id FROM json_each(:ids) AS j
                CROSS JOIN executions AS e ON e.id = j.value
                CROSS JOIN schedules AS s ON s.id = e.schedule_id WHERE {_IS_LATE}""",
            {"ids": json.dumps([id_ for id_, _ in rows]), "now": now_ms},
        )
    }
    return [row for row in rows if row[0] in still]


def _find_late_order(
    database: Database,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    full: set[ScopeKey],
    stuck: set[LateKey],
) -> _LateOrder:
    rows = database.rows(
        f"""SELECT id, schedule_id, scope_kind, scope_id, cause FROM (
               SELECT e.id, e.schedule_id, e.scope_kind, e.scope_id, e.cause,
                   count(*) OVER (PARTITION BY e.schedule_id) * coalesce(
                       1.0 * s.duration_sum_ms / nullif(s.run_count, 0), 1e15) AS backlog,
                   row_number() OVER in_turn AS turn,
                   first_value(e.priority) OVER in_turn AS first_priority,
                   first_value(e.due_at) OVER in_turn AS first_due_at,
                   first_value(e.id) OVER in_turn AS first_id
               FROM executions AS e INDEXED BY executions_active
               CROSS JOIN schedules AS s ON s.id = e.schedule_id
               WHERE {_IS_LATE} AND e.status IN ('queued', 'running')
                   AND e.queue IN (SELECT value FROM json_each(:queues))
                   AND (e.schedule_id, e.scope_kind, e.scope_id) NOT IN
                       (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:full))
                   AND (e.schedule_id, e.scope_kind, e.scope_id, e.cause) NOT IN
                       (SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3
                        FROM json_each(:stuck))
               WINDOW in_turn AS (
                   PARTITION BY e.schedule_id, e.scope_kind, e.scope_id
                   ORDER BY e.priority DESC, iif(s.catch_up = 'all' OR e.cause = 'backfill',
                       e.plan_at, -e.plan_at), e.id))
           WHERE turn <= :turns
           ORDER BY first_priority DESC, backlog, first_due_at DESC, first_id, turn LIMIT :limit""",
        {
            "now": now_ms,
            "queues": json.dumps(queues),
            "full": json.dumps(sorted(full)),
            "stuck": json.dumps(sorted(stuck)),
            "turns": _KEPT_TURNS,
            "limit": _KEPT_ROWS,
        },
    )
    order = [(id_, (schedule_id, *scope, cause)) for id_, schedule_id, *scope, cause in rows]
    return _LateOrder(queues, now_ms, order)
