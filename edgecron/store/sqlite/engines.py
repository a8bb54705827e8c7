"""Record engines. Whether one is alive is what its kernel lock says, not these rows."""

from __future__ import annotations

import json

import edgecron
from edgecron.model.engine import EngineInfo, Offers, find_program
from edgecron.store.contract import EnginePresence
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.offers import note_vanished, offers_text
from edgecron.store.sqlite.rows import engine_of
from edgecron.store.sqlite.statements import seldom

_KEPT_STOPPED = 50  # of those that took a queue, and of those for a run of their own
# One that never looked at any queue, for a run of its own, is no presence.
_IS_PRESENCE = "(queues != '[]' OR seen_at IS NOT NULL)"


@seldom
def register_engine(
    database: Database,
    *,
    key: str,
    pid: int,
    boot_id: str,
    queues: tuple[str, ...],
    now_ms: int,
    offers: Offers | None = None,
    max_running: int | None = None,
    local_timezone: str | None = None,
) -> int:
    """Record an engine, and forget the oldest of those that stopped; its id.

    Safe to repeat where COMMIT raised: the key says that it is the same engine.
    """
    database.keep_little()
    with database.transaction():
        database.change(
            f"""DELETE FROM engines WHERE stopped_at IS NOT NULL AND id <= iif({_IS_PRESENCE},
                   (SELECT id FROM engines WHERE stopped_at IS NOT NULL AND {_IS_PRESENCE}
                    ORDER BY id DESC LIMIT 1 OFFSET :kept),
                   (SELECT id FROM engines WHERE stopped_at IS NOT NULL AND NOT {_IS_PRESENCE}
                    ORDER BY id DESC LIMIT 1 OFFSET :kept))""",
            {"kept": _KEPT_STOPPED},
        )
        row = database.returning(
            """INSERT INTO engines (key, pid, boot_id, queues, program, offers, version,
                   max_running, local_timezone, started_at)
               VALUES (:key, :pid, :boot, :queues, :program, :offers, :version,
                   :max_running, :zone, :now)
               ON CONFLICT (key) DO UPDATE SET stopped_at = NULL RETURNING id""",
            {
                "key": key,
                "pid": pid,
                "boot": boot_id,
                "queues": json.dumps(queues),
                "program": next((one for one in queues if find_program(one) is not None), None),
                "offers": offers_text(offers),
                "version": edgecron.__version__,
                "max_running": max_running,
                "zone": local_timezone,
                "now": now_ms,
            },
        )
        note_vanished(database, queues, now_ms=now_ms)
    assert row is not None
    return int(row[0])


def note_offers(database: Database, engine_id: int, offers: Offers, *, now_ms: int) -> None:
    """Record what an engine of a program offers from now on."""
    with database.transaction():
        database.change(
            "UPDATE engines SET offers = :offers WHERE id = :id",
            {"id": engine_id, "offers": offers_text(offers)},
        )
        _note_vanished(database, engine_id, now_ms)


def note_supervisor(database: Database, engine_id: int, supervisor_id: str) -> None:
    """Record which supervisor an engine claims for from now on."""
    with database.transaction():
        database.change(
            "UPDATE engines SET supervisor_id = :supervisor WHERE id = :id",
            {"id": engine_id, "supervisor": supervisor_id},
        )


def note_zone(database: Database, engine_id: int, local_timezone: str) -> None:
    """Record which zone `local` means for an engine from now on."""
    with database.transaction():
        database.change(
            "UPDATE engines SET local_timezone = :zone WHERE id = :id",
            {"id": engine_id, "zone": local_timezone},
        )


def close_queues(database: Database, engine_id: int, *, now_ms: int) -> None:
    """Record that an engine takes on nothing more, though it still looks after what it runs."""
    with database.transaction():
        database.change(
            f"""UPDATE engines SET queues = '[]', seen_at = iif({_IS_PRESENCE}, :now, NULL),
                    former_queues = iif(queues = '[]', former_queues, queues)
                WHERE id = :id""",
            {"id": engine_id, "now": now_ms},
        )
        _note_vanished(database, engine_id, now_ms)


def note_presence(database: Database, engine_id: int, *, now_ms: int) -> None:
    """Record that an engine is certainly running."""
    with database.transaction():
        database.change(
            "UPDATE engines SET seen_at = :now WHERE id = :id", {"id": engine_id, "now": now_ms}
        )


@seldom
def find_presence(database: Database, queues: tuple[str, ...], *, but: int) -> list[EnginePresence]:
    """When the engines that took one of these queues were there, newest first, but for one."""
    return [
        EnginePresence(row[0], row[1], row[2], row[3], row[4], row[5], bool(row[6]))
        for row in database.rows(
            """SELECT key, pid, boot_id, started_at, stopped_at, seen_at, died FROM engines AS e
               WHERE id != :but AND EXISTS (
                   SELECT 1 FROM json_each(coalesce(e.former_queues, e.queues)) AS q
                   JOIN json_each(:queues) AS w ON w.value = q.value)
               ORDER BY id DESC""",
            {"but": but, "queues": json.dumps(queues)},
        )
    ]


def retire_engine(
    database: Database, engine_id: int, *, now_ms: int, has_died: bool = False
) -> None:
    """Record that an engine has stopped, or died; harmless when that is recorded already."""
    with database.transaction():
        changed = database.change(
            """UPDATE engines SET stopped_at = :now, died = :died
               WHERE id = :id AND stopped_at IS NULL""",
            {"id": engine_id, "now": now_ms, "died": int(has_died)},
        )
        if changed:
            _note_vanished(database, engine_id, now_ms)


def find_engines(database: Database) -> list[EngineInfo]:
    """Every engine that has not been recorded as stopped, oldest first."""
    rows = database.rows(
        """SELECT id, key, pid, boot_id, queues, offers, version, supervisor_id, started_at,
               stopped_at, max_running, local_timezone
           FROM engines WHERE stopped_at IS NULL ORDER BY id"""
    )
    return [engine_of(row) for row in rows]


def _note_vanished(database: Database, engine_id: int, now_ms: int) -> None:
    """Put down what has vanished with an engine, or come back, inside the transaction."""
    row = database.row("SELECT program FROM engines WHERE id = :id", {"id": engine_id})
    if row is not None and row[0] is not None:
        note_vanished(database, row[:1], now_ms=now_ms)
