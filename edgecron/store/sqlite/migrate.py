"""Bring a database to this edgecron's schema, in one `BEGIN IMMEDIATE`.

A new database begins with `schema.sql`. A script that has landed never changes, because databases
have run it. To change the schema, add a script and change `schema.sql` too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache

import apsw

from edgecron.base.errors import DatabaseUnusable
from edgecron.base.files import package_text
from edgecron.store.sql.connection import too_new
from edgecron.store.sql.rows import SPEC_COLUMNS
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.database_file import APPLICATION_ID

SCRIPTS = (
    "0001_foundation.sql",
    "0002_needs_upstreams.sql",
    "0003_retention.sql",
    "0004_leaner_runs.sql",
    "0005_own_payloads.sql",
    "0006_measures.sql",
    "0007_offers.sql",
    "0008_revisions.sql",
    "0009_sql_edits.sql",
    "0010_next_times.sql",
    "0011_undo.sql",
    "0012_clock_sets.sql",
    "0013_pending_apply.sql",
    "0014_fences.sql",
    "0015_imports.sql",
    "0016_presence.sql",
    "0017_rare_states.sql",
    "0018_places.sql",
    "0019_lock_failures.sql",
    "0020_option_columns.sql",
    "0021_former_queues.sql",
    "0022_engine_zones.sql",
    "0023_nice.sql",
    "0024_engine_trust.sql",
    "0025_max_late.sql",
    "0026_priorities.sql",
    "0027_notices.sql",
    "0028_watches.sql",
    "0029_notify.sql",
    "0030_changes.sql",
    "0031_unwell_indexes.sql",
    "0032_silence.sql",
    "0033_run_limits.sql",
    "0034_windows.sql",
    "0035_while.sql",
    "0036_calendars.sql",
    "0037_noted_again.sql",
    "0038_whole_rules.sql",
    "0039_enqueued.sql",
    "0040_declined.sql",
    "0041_notices_by_rule.sql",
    "0042_delayed_runs.sql",
    "0043_placement.sql",
    "0044_drained_engines.sql",
)
SCHEMA_VERSION = len(SCRIPTS)


def _edited_trigger() -> str:
    """The trigger that gives an edit by SQL a revision, over all columns of a definition."""
    listed = ", ".join(SPEC_COLUMNS)
    snapshot = ", ".join(f"'{name}', {name}" for name in SPEC_COLUMNS)
    return f"""CREATE TRIGGER schedules_edited AFTER UPDATE OF {listed} ON schedules
WHEN NEW.revision = OLD.revision AND NEW.deleted_at IS NULL
BEGIN
    UPDATE schedules SET revision = revision + 1,
        updated_at = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)
    WHERE id = NEW.id;
    INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
    SELECT id, revision, updated_at, 'sql', json_object({snapshot})
    FROM schedules WHERE id = NEW.id;
    INSERT INTO schedule_changes (schedule_id, revision, at, act, origin)
    SELECT id, revision, updated_at, 'edit', 'sql' FROM schedules WHERE id = NEW.id;
END"""


_DROP_EDITED = "DROP TRIGGER IF EXISTS schedules_edited"
_TRIGGER = re.compile(r"^CREATE TRIGGER .*?^END(?=;)", re.DOTALL | re.MULTILINE)


@cache
def own_triggers() -> list[str]:
    """Return the triggers of edgecron, with exactly the text that databases have."""
    return [*_TRIGGER.findall(read_sql("schema.sql")), _edited_trigger()]


# The additions of the second script. Databases of version 1 that an unreleased edgecron created
# have them already.
_ADDED_BY_2 = """
    SELECT 'meta.local_timezone', count(*) FROM pragma_table_info('meta')
    WHERE name = 'local_timezone' UNION ALL
    SELECT 'engines.supervisor_id', count(*) FROM pragma_table_info('engines')
    WHERE name = 'supervisor_id' UNION ALL
    SELECT 'schedules.after_end_ms', count(*) FROM pragma_table_info('schedules')
    WHERE name = 'after_end_ms' UNION ALL
    SELECT 'schedules.trusted_until', count(*) FROM pragma_table_info('schedules')
    WHERE name = 'trusted_until' UNION ALL
    SELECT 'schedule_upstreams', count(*) FROM sqlite_schema
    WHERE name = 'schedule_upstreams' UNION ALL
    SELECT 'executions_owed', count(*) FROM sqlite_schema WHERE name = 'executions_owed'"""


def migrate(database: Database, *, now_ms: int, seed: bytes | None = None) -> None:
    """Create the schema in an empty database, or bring an older one up to date.

    A new database gets `seed`, by default a random one. An older database is first copied to a file
    beside it. Raises SchemaTooNew for a database of a newer edgecron, and DatabaseUnusable if it
    can't be copied or brought up to date: then it has not changed.
    """
    if _version_of(database) != SCHEMA_VERSION:
        # Each command opens a database, but few bring one up to date.
        from edgecron.store.sqlite.whole_file import rebuilding

        with rebuilding(database), database.transaction():
            _bring_up(database, now_ms=now_ms, seed=seed)
    database.expect_version(SCHEMA_VERSION)


def refuse_planted(database: Database, *, scripts: Iterable[str] = ()) -> None:
    """Raise DatabaseUnusable for a trigger that is not edgecron's: our writes would run it.

    An older database has triggers of the scripts.
    """
    ours = own_triggers() + [
        trigger
        for script in scripts
        for trigger in _TRIGGER.findall(read_sql("migrations", script))
    ]
    planted = database.rows(
        """SELECT name FROM sqlite_schema WHERE type = 'trigger'
           AND (sql IS NULL OR sql NOT IN (SELECT value FROM json_each(:ours)))""",
        {"ours": json.dumps(ours)},
    )
    if planted:
        raise DatabaseUnusable(
            f"database {database.path} holds the trigger {planted[0][0]!r},"
            " which is not edgecron's",
            hint="find out which program created it, then drop it",
        )


def _bring_up(database: Database, *, now_ms: int, seed: bytes | None) -> None:
    # Read again under the lock: another process might have migrated the database.
    version = _version_of(database)
    if version == SCHEMA_VERSION:
        return
    if version > 0:
        # Its text depends on the columns of the version; it is created again below.
        database.change(_DROP_EDITED)
        refuse_planted(database, scripts=SCRIPTS)
        first_step = _first_step(database, version)
        from edgecron.store.sqlite.whole_file import keep_copy

        keep_copy(database, suffix=f".v{version}-backup")
    try:
        if version == 0:
            # To run all scripts would take 50 ms, this takes 4.
            database.change(read_sql("schema.sql"))
        else:
            for script in SCRIPTS[first_step - 1 :]:
                database.change(read_sql("migrations", script))
            database.change(_DROP_EDITED)
        database.change(_edited_trigger())
    except apsw.ConstraintError as error:
        raise _refused(database, str(error)) from error
    if version == 0:
        database.change(f"PRAGMA application_id = {APPLICATION_ID}")
        database.write_identity(now_ms=now_ms, seed=seed)
    _repair_orphans(database)
    database.change(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _repair_orphans(database: Database) -> None:
    """Repair rows that refer to missing ones, if that loses no history. The copy has them still."""
    from edgecron.store.sqlite.whole_file import find_orphans, is_repairable, orphan_words, repair

    orphans = find_orphans(database.rows)
    lasting = [one for one in orphans if not is_repairable(one)]
    if lasting:
        raise _refused(database, orphan_words(lasting[0]))
    for one in orphans:
        repair(database, one)


def _version_of(database: Database) -> int:
    """The schema version, 0 for an empty file."""
    [(version,)] = database.rows("PRAGMA user_version")
    if version > SCHEMA_VERSION:
        raise too_new(database.path, version, known=SCHEMA_VERSION)
    return int(version)


def _first_step(database: Database, version: int) -> int:
    """The number of the first script that an older database lacks.

    Raises DatabaseUnusable if the database has only some of the additions of a script.
    """
    if version != 1:
        return version + 1
    added = dict(database.rows(_ADDED_BY_2))
    if not any(added.values()):
        return 2
    lacking = [name for name, count in added.items() if not count]
    if lacking:
        raise _refused(database, f"it is between two versions, and lacks {', '.join(lacking)}")
    return 3


def _refused(database: Database, why: str) -> DatabaseUnusable:
    return DatabaseUnusable(
        f"database {database.path} can't be upgraded to version {SCHEMA_VERSION}: {why}",
        hint="it was left as it is; move it away and add the schedules again, or restore a backup",
    )


def read_sql(*path: str) -> str:
    return package_text("/".join(("store/sqlite", *path)))
