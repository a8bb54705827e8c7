"""Queue manual runs and backfills, and cancel queued runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from edgecron.base.errors import Conflict, KeyReused
from edgecron.base.units import format_instant, from_ms
from edgecron.model.choices import COVERS_MARK, MISSED_MARK, REPLACED_MARK, Reason
from edgecron.model.schedule import Schedule
from edgecron.planning.admission import most_attempts
from edgecron.planning.next_fire import Fire
from edgecron.store.contract import Decided, Ended
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.fires import FireWriter
from edgecron.store.sqlite.follow_ups import follow_up_replaced, follow_up_withdrawn
from edgecron.store.sqlite.limits import RunCounts
from edgecron.store.sqlite.schedules import is_unchanged


def enqueue_fire(
    database: Database, schedule: Schedule, fire: Fire, *, now_ms: int
) -> list[Decided] | None:
    """Queue a manual fire: a row for each scope; overlap can skip it.

    None, and nothing is queued, if the schedule was changed or removed since it was read.
    """
    with database.transaction():
        if not is_unchanged(database, schedule):
            return None
        return _write_fire(database, schedule, fire, now_ms)


def enqueue_once(
    database: Database,
    schedule: Schedule,
    fire: Fire,
    *,
    asked_ms: int,
    since_ms: int,
    now_ms: int,
) -> list[int] | None:
    """Queue a manual fire with an idempotency key once; the ids of its rows.

    If rows of this key exist since `since_ms`, their ids are returned and nothing is queued. None
    if the schedule was changed or removed since it was read. Raises KeyReused if those rows have
    another payload, and Conflict if no row exists and `asked_ms` is before `since_ms`.
    """
    with database.transaction():
        if not is_unchanged(database, schedule):
            return None
        return _write_once(
            database, schedule, fire, asked_ms=asked_ms, since_ms=since_ms, now_ms=now_ms
        )


def _write_once(
    database: Database,
    schedule: Schedule,
    fire: Fire,
    *,
    asked_ms: int,
    since_ms: int,
    now_ms: int,
) -> list[int]:
    spec = schedule.spec
    found = find_asked(
        database, schedule.id, spec.scopes, fire_key=fire.fire_key, since_ms=since_ms
    )
    if not all(_are_equal_json(payload, fire.payload) for _, payload in found):
        raise KeyReused(
            f"the key was already used for schedule {spec.name!r} with another payload",
            hint="give each request its own key",
        )
    if found:
        return sorted(execution_id for execution_id, _ in found)
    if asked_ms < since_ms:
        raise Conflict(
            f"a run of {spec.name!r} was asked for at {format_instant(from_ms(asked_ms))}, longer"
            " ago than its key is known",
            hint="check in history whether it was run, and then run it again",
        )
    return [one.execution_id for one in _write_fire(database, schedule, fire, now_ms)]


def _are_equal_json(payload: str | None, other: str | None) -> bool:
    """Whether two JSON texts have the same value, whatever the order of their keys."""
    if payload is None or other is None or payload == other:
        return payload == other
    # Compare texts: to Python, 1 and true are equal.
    return _sorted_text(payload) == _sorted_text(other)


def _sorted_text(payload: str) -> str:
    return json.dumps(json.loads(payload), sort_keys=True)


_NEWEST = 100  # rows that are searched by their order, in case the clock was set


def find_asked(
    database: Database,
    schedule_id: int,
    scopes: Sequence[tuple[str, str]],
    *,
    fire_key: str,
    since_ms: int,
) -> list[tuple[int, str | None]]:
    """Return (id, payload) of the first attempts of a manual fire with this key.

    Their plan times are not before `since_ms`, unless the clock was set since.
    """
    newest = database.row(
        """SELECT min(plan_at) FROM (SELECT plan_at, fire_key FROM executions
               WHERE schedule_id = :schedule ORDER BY id DESC LIMIT :newest)
           WHERE fire_key = :key""",
        {"schedule": schedule_id, "newest": _NEWEST, "key": fire_key},
    )
    plan_ms = None if newest is None else newest[0]
    return database.rows(
        """SELECT e.id, e.payload FROM json_each(:scopes) CROSS JOIN executions AS e
           WHERE e.schedule_id = :schedule AND e.scope_kind = json_each.value ->> 0
               AND e.scope_id = json_each.value ->> 1 AND e.plan_at >= :since
               AND e.fire_key = :key AND e.attempt = 1""",
        {
            "scopes": json.dumps(scopes),
            "schedule": schedule_id,
            "since": since_ms if plan_ms is None else plan_ms,
            "key": fire_key,
        },
    )


def _write_fire(database: Database, schedule: Schedule, fire: Fire, now_ms: int) -> list[Decided]:
    """Write a fire; return its rows, one for each scope, without those that it replaces."""
    writer = FireWriter(database, None, RunCounts(database, None), now_ms=now_ms, direct=False)
    writer.write(schedule.id, schedule.revision, schedule.spec, fires=(fire,))
    follow_up_replaced(database, writer, now_ms=now_ms)
    return [one for one in writer.decided if one.reason is not Reason.REPLACED]


# A row that ends keeps its flags (why its time was missed, or which range it covers), but not the
# mark of a replaced run: the reason says the same.
KEPT_FLAGS = f"""iif(flags LIKE '["{MISSED_MARK}%' OR flags LIKE '["{COVERS_MARK}%',
            replace(flags, ',"{REPLACED_MARK}"]', ']'), NULL)"""


def cancel_removed(database: Database, schedule_id: int, *, now_ms: int) -> None:
    """Cancel the queued runs of a removed schedule, inside the caller's transaction."""
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
    """Cancel a queued run for a person; False if it is no longer queued."""
    with database.transaction():
        return withdraw(database, execution_id, now_ms=now_ms) is not None


def withdraw(
    database: Database, execution_id: int, *, reason: Reason = Reason.REQUEST, now_ms: int
) -> Ended | None:
    """Cancel a queued run, inside the caller's transaction.

    Returns what follows its end; None if it is no longer queued.
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


Scope = tuple[str, str]


def find_covered(
    database: Database, schedule: Schedule, scope: Scope, *, from_ms: int, to_ms: int
) -> dict[int, bool]:
    """Return the plan times in [from, to] with a success (True) or an active row (False)."""
    rows = database.rows(
        """SELECT plan_at, max(status = 'success') FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND plan_at BETWEEN :from AND :to
               AND (fire_key = '' OR fire_key GLOB 'backfill:*')
               AND status IN ('success', 'queued', 'running')
           GROUP BY plan_at""",
        {
            "schedule": schedule.id,
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

    It skips times with a success or an active row, times that are not decided, and times whose rows
    retention has removed. None if the schedule was changed or removed since it was read: then
    nothing is queued.
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
