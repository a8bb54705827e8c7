"""Bringing a database to the schema this edgecron knows, inside one `BEGIN IMMEDIATE`."""

from __future__ import annotations

import os
import uuid
from importlib import resources

import edgecron
from edgecron.errors import DatabaseUnusable, SchemaTooNew
from edgecron.store.connection import APPLICATION_ID, Database

SCHEMA_VERSION = 1


def migrate(database: Database, *, now_ms: int) -> None:
    """Create the schema in an empty database, or bring an older one up to date.

    Raises SchemaTooNew where a newer edgecron wrote it.
    """
    if _version_of(database) == SCHEMA_VERSION:
        return
    with database.transaction():
        # Read again under the lock: another process may have migrated it meanwhile.
        version = _version_of(database)
        for step in range(version + 1, SCHEMA_VERSION + 1):
            database.change(_script(step))
        if version == 0:
            database.change(f"PRAGMA application_id = {APPLICATION_ID}")
            database.change(
                """INSERT INTO meta (id, uuid, seed, created_at, created_by)
                   VALUES (1, :uuid, :seed, :now, :version)""",
                {
                    "uuid": str(uuid.uuid4()),
                    "seed": os.urandom(16),
                    "now": now_ms,
                    "version": edgecron.__version__,
                },
            )
        database.change(f"PRAGMA user_version = {SCHEMA_VERSION}")


def refuse_planted(database: Database) -> None:
    """Raise DatabaseUnusable where somebody added a trigger, which our own writes would run."""
    planted = database.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name != 'executions_final'"
    )
    if planted:
        raise DatabaseUnusable(
            f"database {database.path} holds the trigger {planted[0][0]!r},"
            " which is not edgecron's",
            hint="look at who made it, and drop it",
        )


def _version_of(database: Database) -> int:
    """The schema version, 0 for an empty file."""
    [(version,)] = database.rows("PRAGMA user_version")
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"database {database.path} is version {version},"
            f" this edgecron knows up to {SCHEMA_VERSION}",
            hint="upgrade edgecron",
        )
    return int(version)


def _script(step: int) -> str:
    folder = resources.files("edgecron.store") / "migrations"
    [script] = [file for file in folder.iterdir() if file.name.startswith(f"{step:04d}_")]
    return script.read_text(encoding="utf-8")
