"""Queue manual runs and backfills, and cancel queued runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from operator import itemgetter

from edgecron.base.errors import Conflict, EdgecronError, KeyReused
from edgecron.base.units import DAY_MS, format_instant, from_ms
from edgecron.base.values import NamedTuple
from edgecron.model.choices import (
    COVERS_MARK,
    MISSED_MARK,
    REPLACED_MARK,
    Cause,
    Durability,
    Overlap,
    Reason,
)
from edgecron.model.schedule import Schedule
from edgecron.planning.admission import most_attempts
from edgecron.planning.next_fire import Fire
from edgecron.store.contract import Decided, Ended
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.fires import FireWriter
from edgecron.store.sql.follow_ups import follow_up_replaced, follow_up_withdrawn
from edgecron.store.sql.limits import RunCounts
from edgecron.store.sql.schedules import is_unchanged

# A request that is repeated so long after the first one is refused if no run has its key: retention
# could have removed that run.
KEY_MS = DAY_MS


class Enqueued(NamedTuple):
    """Manual fires of a schedule to queue together.

    The schedule can have fewer scopes than the stored one. With `is_keyed`, each fire is queued
    once for its `fire_key`: at most one run of each schedule, scope and key is in the history.
    `asked_ms` is when the first request for it was made.
    """

    schedule: Schedule
    fires: Sequence[Fire]
    is_keyed: bool = False
    asked_ms: int | None = None


def enqueue_together(
    database: Connection, wanted: Sequence[Enqueued], *, now_ms: int
) -> list[list[int] | EdgecronError | None]:
    """Queue the runs of several callers in one transaction.

    Returns for each caller the ids of its rows, in the order of its fires. If its schedule was
    changed or removed since it was read, a caller gets None and no run. If its key was used with
    another payload, it gets KeyReused. If its first request is so old that retention can have
    removed the run of its key, it gets Conflict.
    """
    is_synced = any(_must_sync(one.schedule) for one in wanted)
    with database.transaction(is_synced=is_synced):
        return [_enqueue(database, one, now_ms) for one in wanted]


def _must_sync(schedule: Schedule) -> bool:
    """Whether a power cut must not take a run that a caller knows of."""
    return schedule.spec.policies.durability is Durability.FULL


def _enqueue(
    database: Connection, wanted: Enqueued, now_ms: int
) -> list[int] | EdgecronError | None:
    schedule = wanted.schedule
    if not wanted.fires:
        return []
    if not wanted.is_keyed and all(_always_waits(schedule, one, now_ms) for one in wanted.fires):
        return _queue(database, schedule, wanted.fires, now_ms) or None
    if not is_unchanged(database, schedule):
        return None
    ids: list[int] = []
    for fire in wanted.fires:
        found = _find_keyed(database, schedule, fire.fire_key) if wanted.is_keyed else []
        if not all(_are_equal_json(payload, fire.payload) for _, payload in found):
            return KeyReused(
                f"the key was already used for schedule {schedule.name!r} with another payload",
                hint="give each request its own key",
            )
        if found:
            ids += [execution_id for execution_id, _ in found]
        elif wanted.asked_ms is not None and wanted.asked_ms < now_ms - KEY_MS:
            return Conflict(
                f"a run of {schedule.name!r} was asked for at"
                f" {format_instant(from_ms(wanted.asked_ms))}, longer ago than its key is known",
                hint="check in history whether it was run, and then run it again",
            )
        elif _always_waits(schedule, fire, now_ms):
            ids += _queue(database, schedule, (fire,), now_ms)
        else:
            ids += [one.execution_id for one in _write_fire(database, schedule, fire, now_ms)]
    return ids


def _always_waits(schedule: Schedule, fire: Fire, now_ms: int) -> bool:
    """Whether a manual fire is queued whatever else is active: nothing has to be counted."""
    is_allowed = schedule.spec.policies.overlap is Overlap.ALLOW
    return fire.cause is Cause.MANUAL and (is_allowed or fire.due_ms > now_ms)


def _queue(
    database: Connection, schedule: Schedule, fires: Sequence[Fire], now_ms: int
) -> list[int]:
    """Queue fires in each scope of a schedule; the ids of their rows in order.

    None is queued if the schedule was changed or removed since it was read.
    """
    spec, policies = schedule.spec, schedule.spec.policies
    common = {
        "schedule": schedule.id,
        "revision": schedule.revision,
        "max_attempts": most_attempts(policies.retries, policies.on_interrupt),
        "now": now_ms,
    }
    found = database.returning_each(
        """INSERT INTO executions (schedule_id, revision, scope_kind, scope_id, plan_at, fire_key,
               cause, payload, due_at, max_attempts, queue, priority, timeout_s, status, queued_at)
           SELECT id, revision, :kind, :scope, :plan, :fire_key, 'manual', :payload, :due,
               :max_attempts, :queue, :priority, :timeout, 'queued', :now
           FROM schedules WHERE id = :schedule AND revision = :revision AND deleted_at IS NULL
           RETURNING :place, id""",
        [
            {
                **common,
                "place": place,
                "kind": kind,
                "scope": scope,
                "queue": spec.queue_in((kind, scope)),
                "plan": fire.plan_ms,
                "fire_key": fire.fire_key,
                "payload": fire.payload,
                "due": fire.due_ms,
                "priority": int(policies.priority if fire.priority is None else fire.priority),
                "timeout": fire.timeout_s,
            }
            for place, (fire, (kind, scope)) in enumerate(product(fires, spec.scopes))
        ],
    )
    return [execution_id for _, execution_id in sorted(found)]


def _are_equal_json(payload: str | None, other: str | None) -> bool:
    """Whether two JSON texts have the same value, whatever the order of their keys."""
    if payload is None or other is None or payload == other:
        return payload == other
    # Compare texts: to Python, 1 and true are equal.
    return _sorted_text(payload) == _sorted_text(other)


def _sorted_text(payload: str) -> str:
    return json.dumps(json.loads(payload), sort_keys=True)


def _find_keyed(
    database: Connection, schedule: Schedule, fire_key: str
) -> list[tuple[int, str | None]]:
    """Return (id, payload) of the manual fire with a key, in the scopes of a schedule."""
    found: list[tuple[int, str | None]] = database.rows(
        """SELECT id, payload FROM executions INDEXED BY executions_keyed
           WHERE schedule_id = :schedule AND fire_key = :key
               AND cause = 'manual' AND length(fire_key) = 39
               AND (scope_kind, scope_id) IN (
                   SELECT value ->> 0, value ->> 1 FROM json_each(:scopes))""",
        {
            "schedule": schedule.id,
            "key": fire_key,
            "scopes": json.dumps(schedule.spec.scopes),
        },
    )
    return sorted(found, key=itemgetter(0))


def _write_fire(database: Connection, schedule: Schedule, fire: Fire, now_ms: int) -> list[Decided]:
    """Write a fire; return its rows, one for each scope, without the ends of earlier runs."""
    counts = RunCounts(database, None, now_ms=now_ms)
    writer = FireWriter(database, None, counts, now_ms=now_ms, direct=False)
    writer.write(schedule.id, schedule.revision, schedule.spec, fires=(fire,))
    follow_up_replaced(database, writer, now_ms=now_ms)
    earlier = (Reason.REPLACED, Reason.EXCLUDED)
    return [one for one in writer.decided if one.reason not in earlier]


# A row that ends keeps its flags (why its time was missed, or which range it covers), but not the
# mark of a replaced run: the reason says the same.
KEPT_FLAGS = f"""iif(flags LIKE '["{MISSED_MARK}%' OR flags LIKE '["{COVERS_MARK}%',
            replace(flags, ',"{REPLACED_MARK}"]', ']'), NULL)"""


def cancel_removed(database: Connection, schedule_id: int, *, now_ms: int) -> None:
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


def cancel_queued(database: Connection, execution_id: int, *, now_ms: int) -> bool:
    """Cancel a queued run for a person; False if it is no longer queued."""
    with database.transaction():
        return withdraw(database, execution_id, now_ms=now_ms) is not None


def withdraw(
    database: Connection, execution_id: int, *, reason: Reason = Reason.REQUEST, now_ms: int
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
    database: Connection, schedule: Schedule, scope: Scope, *, from_ms: int, to_ms: int
) -> dict[int, bool]:
    """Return the plan times in [from, to] with a success (True) or an active row (False)."""
    rows = database.rows(
        """SELECT plan_at, max(iif(status = 'success', 1, 0)) FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND plan_at BETWEEN :from AND :to
               AND (fire_key = '' OR fire_key LIKE 'backfill:%')
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
    database: Connection,
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
    database: Connection,
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
                   FILTER (WHERE fire_key LIKE 'backfill:%'), 0)),
               'backfill', :source, :now, :max_attempts, :queue, :priority, 'queued', :now
           FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND plan_at = :plan AND (fire_key = '' OR fire_key LIKE 'backfill:%')
           HAVING coalesce(max(iif(status IN ('success', 'queued', 'running'), 1, 0)), 0) = 0
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
            "queue": schedule.spec.queue_in(scope),
            "priority": priority,
        },
    )
    return None if row is None else int(row[0])
