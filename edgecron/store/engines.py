"""The engines that this database has seen; whether one lives is what its kernel lock says."""

from __future__ import annotations

import json

import edgecron
from edgecron.model import EngineInfo
from edgecron.store.connection import Database
from edgecron.store.rows import engine_of

_KEPT_STOPPED = 50


def register_engine(
    database: Database,
    *,
    key: str,
    pid: int,
    boot_id: str,
    queues: tuple[str, ...],
    now_ms: int,
) -> int:
    """Record an engine, and forget the oldest of those that stopped; its id.

    Safe to repeat where COMMIT raised: the key says that it is the same engine.
    """
    with database.transaction():
        database.change(
            """DELETE FROM engines WHERE stopped_at IS NOT NULL AND id <= (
                   SELECT id FROM engines WHERE stopped_at IS NOT NULL
                   ORDER BY id DESC LIMIT 1 OFFSET :kept)""",
            {"kept": _KEPT_STOPPED},
        )
        row = database.returning(
            """INSERT INTO engines (key, pid, boot_id, queues, version, started_at)
               VALUES (:key, :pid, :boot, :queues, :version, :now)
               ON CONFLICT (key) DO UPDATE SET stopped_at = NULL RETURNING id""",
            {
                "key": key,
                "pid": pid,
                "boot": boot_id,
                "queues": json.dumps(queues),
                "version": edgecron.__version__,
                "now": now_ms,
            },
        )
    assert row is not None
    return int(row[0])


def note_supervisor(database: Database, engine_id: int, supervisor_id: str) -> None:
    """Record which supervisor an engine claims for from now on."""
    with database.transaction():
        database.change(
            "UPDATE engines SET supervisor_id = :supervisor WHERE id = :id",
            {"id": engine_id, "supervisor": supervisor_id},
        )


def close_queues(database: Database, engine_id: int) -> None:
    """Record that an engine takes on nothing more, though it still looks after what it runs."""
    with database.transaction():
        database.change("UPDATE engines SET queues = '[]' WHERE id = :id", {"id": engine_id})


def retire_engine(database: Database, engine_id: int, *, now_ms: int) -> None:
    """Record that an engine has stopped; harmless when that is recorded already."""
    with database.transaction():
        database.change(
            "UPDATE engines SET stopped_at = :now WHERE id = :id AND stopped_at IS NULL",
            {"id": engine_id, "now": now_ms},
        )


def find_engines(database: Database) -> list[EngineInfo]:
    """Every engine that has not been recorded as stopped, oldest first."""
    rows = database.rows(
        """SELECT id, key, pid, boot_id, queues, version, supervisor_id, started_at, stopped_at
           FROM engines WHERE stopped_at IS NULL ORDER BY id"""
    )
    return [engine_of(row) for row in rows]
