"""Fires that a person asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence

from edgecron.base.errors import Conflict, KeyReused
from edgecron.base.units import format_instant, from_ms
from edgecron.model.choices import Reason
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.next_fire import Fire
from edgecron.store.aftermath import follow_up_replaced
from edgecron.store.connection import Database
from edgecron.store.contract import Decided
from edgecron.store.fires import FireWriter
from edgecron.store.ledger import Ledger


def enqueue_once(
    database: Database,
    schedule: Schedule,
    fire: Fire,
    *,
    asked_ms: int,
    since_ms: int,
    now_ms: int,
) -> list[int]:
    """The rows of a fire with a key, inside the caller's transaction: those that are there since
    `since_ms`, where it was asked for with that key before, else new ones.

    Raises KeyReused where those have another payload, and Conflict where none is there and it was
    asked for before that.
    """
    spec = schedule.spec
    found = find_asked(
        database, schedule.id, spec.scopes, fire_key=fire.fire_key, since_ms=since_ms
    )
    if not all(_say_the_same(payload, fire.payload) for _, payload in found):
        raise KeyReused(
            f"the key was given for schedule {spec.name!r} before, with another payload",
            hint="give each wish a key of its own",
        )
    if found:
        return sorted(execution_id for execution_id, _ in found)
    if asked_ms < since_ms:
        raise Conflict(
            f"a run of {spec.name!r} was asked for at {format_instant(from_ms(asked_ms))}, longer"
            " ago than its key is known",
            hint="look whether it was run, and then ask anew",
        )
    decided = enqueue_fire(database, schedule.id, schedule.revision, spec, fire=fire, now_ms=now_ms)
    return [one.execution_id for one in decided]


def _say_the_same(payload: str | None, other: str | None) -> bool:
    """Whether two texts of JSON do, in whatever order the keys of their objects are: who sends one
    again may write it anew."""
    if payload is None or other is None or payload == other:
        return payload == other
    # As texts again: to Python 1 and true are equal.
    return _sorted_text(payload) == _sorted_text(other)


def _sorted_text(payload: str) -> str:
    return json.dumps(json.loads(payload), sort_keys=True)


# However far a clock was set meanwhile: so many rows of a schedule are looked at by their order.
_NEWEST = 100


def find_asked(
    database: Database,
    schedule_id: int,
    scopes: Sequence[tuple[str, str]],
    *,
    fire_key: str,
    since_ms: int,
) -> list[tuple[int, str | None]]:
    """The first attempts of a fire that was asked for with this key, each with its own payload.

    Of plan times from `since_ms` on, or earlier ones by which its clock was set since.
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


def enqueue_fire(
    database: Database,
    schedule_id: int,
    revision: int,
    spec: ScheduleSpec,
    *,
    fire: Fire,
    now_ms: int,
) -> list[Decided]:
    """Queue a fire that a person asked for, inside the caller's transaction; overlap may skip it.

    The rows of this fire, one for each scope; not those that it replaces.
    """
    writer = FireWriter(database, None, Ledger(database, None), now_ms=now_ms, direct=False)
    writer.write(schedule_id, revision, spec, fires=(fire,))
    follow_up_replaced(database, writer, now_ms=now_ms)
    return [one for one in writer.decided if one.reason is not Reason.REPLACED]
