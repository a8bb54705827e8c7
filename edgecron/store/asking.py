"""Fires that a person asks for."""

from __future__ import annotations

from edgecron.model import Reason, ScheduleSpec
from edgecron.planning import Fire
from edgecron.store.aftermath import follow_up_replaced
from edgecron.store.connection import Database
from edgecron.store.contract import Decided
from edgecron.store.fires import FireWriter
from edgecron.store.ledger import Ledger


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
    writer = FireWriter(
        database, None, Ledger(database, None, [schedule_id]), now_ms=now_ms, direct=False
    )
    writer.write(schedule_id, revision, spec, fires=(fire,))
    follow_up_replaced(database, writer, now_ms=now_ms)
    return [one for one in writer.decided if one.reason is not Reason.REPLACED]
