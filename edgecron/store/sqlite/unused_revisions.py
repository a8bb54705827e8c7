"""Remove former definitions: those that no run needs, and those that a person wants forgotten.

A snapshot holds variables, payload and stdin. SQLite also overwrites removed bytes in the file.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence

import apsw

from edgecron.planning.retention import Forgotten, batches_of, find_outdated
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.revisions import snapshot_of
from edgecron.store.sqlite.statements import translated_errors

_RUNS = 1_000  # that one query covers


def find_unused(
    database: Database, schedule_id: int, *, replaced_before_ms: int | None
) -> Generator[None, None, dict[int, int]]:
    """Return the snapshots of a schedule that neither a run nor `undo` needs, with their bytes.

    Each step is one short query. The newest snapshot is never among them. Nor is the first one of
    a schedule that an older version imported from a crontab: the next import knows it by that.
    """
    began = dict(
        database.rows(
            """SELECT revision, at FROM schedule_revisions WHERE schedule_id = :id
               ORDER BY revision""",
            {"id": schedule_id},
        )
    )
    outdated = set(find_outdated(began, replaced_before_ms=replaced_before_ms))
    if not outdated:
        return {}
    sizes = _find_sizes(database, schedule_id)
    unused = {revision: size for revision, size in sizes.items() if revision in outdated}
    kept = database.row(
        """SELECT revision FROM schedule_revisions AS r
           WHERE schedule_id = :id AND revision = 1 AND origin = 'crontab'
               AND NOT EXISTS (SELECT 1 FROM imported_entries AS i WHERE i.schedule_id = :id)""",
        {"id": schedule_id},
    )
    if kept is not None:
        unused.pop(kept[0], None)
    after_id = 0
    while unused:
        page = database.rows(
            f"""SELECT max(id), {snapshot_of(":schedule", "e.revision")}
                FROM (SELECT id, revision FROM executions
                      WHERE schedule_id = :schedule AND id > :after ORDER BY id LIMIT {_RUNS}) AS e
                GROUP BY e.revision""",
            {"schedule": schedule_id, "after": after_id},
        )
        if not page:
            break
        after_id = max(row[0] for row in page)
        for _, needed in page:
            unused.pop(needed, None)
        yield None
    return unused


def remove_revisions(database: Database, schedule_id: int, revisions: Sequence[int]) -> list[int]:
    """Remove snapshots, inside the caller's transaction; the revisions of those removed.

    The snapshot before each gap says in `known_until` when the first missing one began. The newest
    snapshot of a schedule that exists stays.
    """
    params = {"id": schedule_id, "revisions": json.dumps(list(revisions))}
    database.change(
        """UPDATE schedule_revisions AS r SET known_until = n.at
           FROM schedule_revisions AS n
           WHERE r.schedule_id = :id AND r.known_until IS NULL
               AND r.revision NOT IN (SELECT value FROM json_each(:revisions))
               AND n.schedule_id = :id
               AND n.revision IN (SELECT value FROM json_each(:revisions))
               AND n.revision = (
                   SELECT min(f.revision) FROM schedule_revisions AS f
                   WHERE f.schedule_id = :id AND f.revision > r.revision)""",
        params,
    )
    rows = database.returning_all(
        """DELETE FROM schedule_revisions AS r
           WHERE r.schedule_id = :id AND r.revision IN (SELECT value FROM json_each(:revisions))
               AND (EXISTS (SELECT 1 FROM schedule_revisions AS f
                       WHERE f.schedule_id = :id AND f.revision > r.revision)
                   OR (SELECT deleted_at FROM schedules WHERE id = :id) IS NOT NULL)
           RETURNING revision""",
        params,
    )
    return [row[0] for row in rows]


def forget(database: Database, schedule_id: int, *, is_trial: bool) -> Forgotten:
    """Remove a schedule's former definitions for good, and all of a removed schedule's.

    Definitions that an active run needs stay. So do the output and the payloads of past runs.
    """
    sizes = _find_sizes(database, schedule_id)
    [(is_removed,)] = database.rows(
        "SELECT deleted_at IS NOT NULL FROM schedules WHERE id = :id", {"id": schedule_id}
    )
    rows = database.rows(
        f"""SELECT DISTINCT {snapshot_of("e.schedule_id", "e.revision")}
            FROM executions AS e INDEXED BY executions_active
            WHERE e.schedule_id = :id AND e.status IN ('queued', 'running')""",
        {"id": schedule_id},
    )
    newest = max(sizes, default=0)
    needed = {row[0] for row in rows} - (set() if is_removed else {newest})
    if not is_removed:
        sizes.pop(newest, None)
    unused = {revision: size for revision, size in sizes.items() if revision not in needed}
    if is_trial:
        return Forgotten(removed=len(unused), kept=len(needed), is_log_empty=True)
    count = 0
    for batch in batches_of(unused):
        with database.transaction():
            count += len(remove_revisions(database, schedule_id, batch))
        database.let_others_write()
    with database.transaction():
        # A removed schedule can be restored only with a harmless job.
        database.change(
            """UPDATE schedules SET payload = NULL, stdin = NULL, env = '{}', env_file = NULL,
                   description = NULL, job = iif(kind = 'command', '["true"]', 'true'),
                   removed_state = 'forgotten'
               WHERE id = :id AND deleted_at IS NOT NULL""",
            {"id": schedule_id},
        )
    return Forgotten(removed=count, kept=len(needed), is_log_empty=_empty_log(database))


def _empty_log(database: Database) -> bool:
    """Move the whole log into the file and empty it; False if another process reads from it.

    Until then the log holds the pages as they were before.
    """
    with database.in_use, translated_errors(database.path):
        try:
            database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
    return True


def _find_sizes(database: Database, schedule_id: int) -> dict[int, int]:
    """The snapshots of a schedule by revision, with their sizes in bytes."""
    # `octet_length` reads no page of a long snapshot.
    return dict(
        database.rows(
            """SELECT revision, octet_length(snapshot) FROM schedule_revisions
               WHERE schedule_id = :id ORDER BY revision""",
            {"id": schedule_id},
        )
    )
