"""Create the schema `edgecron` in a database of a server, or bring an older one up to date."""

from __future__ import annotations

from pathlib import Path

from edgecron.base.errors import NotFound
from edgecron.store.postgres.connection import ServerDatabase
from edgecron.store.postgres.refusals import too_new
from edgecron.store.sql.rows import SPEC_COLUMNS

# A script that has landed never changes, because databases have run it.
SCRIPTS = (
    "0001_foundation.sql",
    "0002_leases.sql",
    "0003_search_path.sql",
    "0004_placement.sql",
    "0005_foreign_writes.sql",
    "0006_drained_engines.sql",
    "0007_polling.sql",
)
SCHEMA_VERSION = len(SCRIPTS)
_FOLDER = Path(__file__).parent


def migrate(
    database: ServerDatabase, *, now_ms: int, must_exist: bool = False, seed: bytes | None = None
) -> None:
    """Bring a database to this edgecron's schema, in one transaction.

    A new database gets `seed`, by default a random one. Raises SchemaTooNew for a database of a
    newer edgecron; with `must_exist`, NotFound for a new one.
    """
    version = _version_of(database)
    if version == 0 and must_exist:
        raise NotFound(
            f"database {database.place} has no tables of edgecron",
            hint="check the URL, or add a first schedule: edgecron add --help",
        )
    if version != SCHEMA_VERSION:
        with database.transaction():
            _bring_up(database, now_ms=now_ms, seed=seed)
    database.expect_version(SCHEMA_VERSION)


def _bring_up(database: ServerDatabase, *, now_ms: int, seed: bytes | None) -> None:
    # Read again under the lock: another process might have migrated the database.
    version = _version_of(database)
    if version == SCHEMA_VERSION:
        return
    database.run_script("CREATE SCHEMA IF NOT EXISTS edgecron")
    database.run_script((_FOLDER / "functions.sql").read_text(encoding="utf-8"))
    for script in SCRIPTS[version:]:
        database.run_script((_FOLDER / "migrations" / script).read_text(encoding="utf-8"))
    database.run_script(_edited_trigger())
    if version == 0:
        database.is_new = True
        database.change("INSERT INTO versions (id, schema) VALUES (1, 0)")
        database.write_identity(now_ms=now_ms, seed=seed)
    database.change("UPDATE versions SET schema = :version", {"version": SCHEMA_VERSION})


def _version_of(database: ServerDatabase) -> int:
    """The schema version, 0 without a schema."""
    if database.row("SELECT to_regclass('edgecron.versions')::text") == (None,):
        return 0
    [(version,)] = database.rows("SELECT schema FROM versions")
    if version > SCHEMA_VERSION:
        raise too_new(database.place, version, known=SCHEMA_VERSION)
    return int(version)


def _edited_trigger() -> str:
    """The trigger that gives an edit by SQL a revision, over all columns of a definition."""
    columns = ", ".join('"user"' if name == "user" else name for name in SPEC_COLUMNS)
    listed = ", ".join(f"'{name}'" for name in SPEC_COLUMNS)
    return f"""CREATE OR REPLACE FUNCTION note_edit() RETURNS trigger LANGUAGE plpgsql
SET search_path = edgecron, pg_catalog AS $$
BEGIN
    UPDATE schedules SET revision = revision + 1, updated_at = server_ms() WHERE id = NEW.id;
    INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
    SELECT id, revision, updated_at, 'sql', (
        SELECT json_object_agg(key, value) FROM json_each(row_to_json(s)) AS c
        WHERE key IN ({listed}))::text
    FROM schedules AS s WHERE id = NEW.id;
    INSERT INTO schedule_changes (schedule_id, revision, at, act, origin)
    SELECT id, revision, updated_at, 'edit', 'sql' FROM schedules WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER schedules_edited AFTER UPDATE OF {columns} ON schedules FOR EACH ROW
WHEN (NEW.revision = OLD.revision AND NEW.deleted_at IS NULL)
EXECUTE FUNCTION note_edit();"""
