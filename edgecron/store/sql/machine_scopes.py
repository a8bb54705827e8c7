"""Add machines to schedules with `on = each`, and remove them: each machine is a scope.

Until the first machine joins, such a schedule has the global scope.
"""

from __future__ import annotations

import json

from edgecron.model.choices import GLOBAL_SCOPE
from edgecron.model.engine import EACH, MACHINE, base_of, place
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.manual_runs import withdraw

_OF_QUEUES = "queue IN (SELECT value FROM json_each(:queues)) AND deleted_at IS NULL"
_HAS_JOINED = """EXISTS (SELECT 1 FROM schedule_scopes AS c WHERE c.schedule_id = schedules.id
    AND c.scope_kind = :kind AND c.scope_id = :machine)"""


def join_machine(database: Connection, queues: tuple[str, ...], machine: str) -> None:
    """Add this machine to the schedules of these queues, which have `on = each`.

    Runs that were queued before any machine joined go to this machine. If this machine already has
    the same run, from before an edit, the queued run goes to the first engine with a place.
    """
    wanted = {"queues": json.dumps(queues), "kind": MACHINE, "machine": machine}
    is_new = f"{_OF_QUEUES} AND NOT {_HAS_JOINED}"
    if database.row(f"SELECT 1 FROM schedules WHERE {is_new} LIMIT 1", wanted) is None:
        return
    kind, scope_id = GLOBAL_SCOPE
    before = {"queues": wanted["queues"], "global": kind, "none": scope_id}
    with database.transaction():
        database.change(
            f"""INSERT INTO schedule_scopes (schedule_id, scope_kind, scope_id)
                SELECT id, :kind, :machine FROM schedules WHERE {is_new}""",
            wanted,
        )
        database.change(
            f"""DELETE FROM schedule_scopes WHERE scope_kind = :global AND scope_id = :none
                AND schedule_id IN (SELECT id FROM schedules WHERE {_OF_QUEUES})""",
            before,
        )
        for queue in queues:
            database.change(
                """UPDATE executions SET scope_kind = :kind, scope_id = :machine, queue = :own
                   WHERE queue = :queue AND status = 'queued' AND status IN ('queued', 'running')
                       AND scope_kind = :global
                       AND NOT EXISTS (SELECT 1 FROM executions AS o
                           WHERE o.schedule_id = executions.schedule_id
                               AND o.scope_kind = :kind AND o.scope_id = :machine
                               AND o.fire_key = executions.fire_key
                               AND (o.plan_at = executions.plan_at
                                   OR length(o.fire_key) = 39))""",
                {
                    "kind": MACHINE,
                    "machine": machine,
                    "own": place(base_of(queue), machine),
                    "queue": queue,
                    "global": kind,
                },
            )


def find_absent_machines(database: Connection, *, since_ms: int) -> list[tuple[str, int]]:
    """Find machines without an engine since then, and how many schedules with `on = each` each has.

    A machine whose engine claimed a run since then counts as present: old engines are forgotten.
    """
    rows = database.rows(
        """SELECT c.scope_id, count(*) FROM schedule_scopes AS c
           JOIN schedules AS s ON s.id = c.schedule_id
           WHERE c.scope_kind = :kind AND s.placed_on = :on AND s.deleted_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM engines AS n
                   WHERE coalesce(n.former_queues, n.queues) LIKE '% on ' || c.scope_id || '"%'
                       AND coalesce(n.stopped_at, :since) >= :since)
               AND NOT EXISTS (SELECT 1 FROM executions AS e
                   WHERE e.schedule_id = c.schedule_id AND e.scope_kind = c.scope_kind
                       AND e.scope_id = c.scope_id AND e.plan_at >= :since
                       AND e.claimed_at IS NOT NULL)
           GROUP BY c.scope_id ORDER BY c.scope_id""",
        {"kind": MACHINE, "on": EACH, "since": since_ms},
    )
    return [(str(machine), int(count)) for machine, count in rows]


def forget_machine(database: Connection, machine: str, *, now_ms: int) -> int:
    """Remove a machine from schedules with `on = each`, and cancel its queued runs of them.

    Returns the number of these schedules.
    """
    wanted = {"kind": MACHINE, "machine": machine, "on": EACH}
    with database.transaction():
        ids = [
            schedule_id
            for (schedule_id,) in database.rows(
                f"SELECT id FROM schedules WHERE placed_on = :on AND {_HAS_JOINED}", wanted
            )
        ]
        for _ in ids:  # What comes after a cancelled run is queued there, too.
            queued = database.rows(
                """SELECT id FROM executions WHERE status = 'queued'
                       AND status IN ('queued', 'running') AND scope_kind = :kind
                       AND scope_id = :machine
                       AND schedule_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))""",
                {"kind": MACHINE, "machine": machine, "ids": json.dumps(ids)},
            )
            for (execution_id,) in queued:
                withdraw(database, execution_id, now_ms=now_ms)
            if not queued:
                break
        database.change_many(
            """DELETE FROM schedule_scopes WHERE schedule_id = :id AND scope_kind = :kind
                   AND scope_id = :machine""",
            [{"id": one, "kind": MACHINE, "machine": machine} for one in ids],
        )
        kind, scope_id = GLOBAL_SCOPE
        database.change_many(
            """INSERT INTO schedule_scopes (schedule_id, scope_kind, scope_id)
               SELECT id, :kind, :scope FROM schedules WHERE id = :id AND NOT EXISTS (
                   SELECT 1 FROM schedule_scopes WHERE schedule_id = :id)""",
            [{"id": one, "kind": kind, "scope": scope_id} for one in ids],
        )
    return len(ids)
