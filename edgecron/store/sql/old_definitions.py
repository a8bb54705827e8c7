"""Remove old definitions: those that no run needs, those of removed schedules, those to forget.

A snapshot holds variables, payload and stdin. SQLite also overwrites removed bytes in the file.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence

from edgecron.base.values import NamedTuple
from edgecron.planning.retention import Forgotten, batches_of, find_outdated
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.revisions import snapshot_of
from edgecron.store.sql.statistics import keep_measures

_RUNS = 1_000  # that one query covers
MOST_ROWS = 250  # that one transaction deletes
_AT_ONCE = 20  # schedules of one query
# The tables whose rows belong to a schedule, with the rest of their keys.
_OWNED = {
    "schedule_scopes": "scope_kind, scope_id",
    "schedule_upstreams": "upstream",
    "schedule_revisions": "revision",
    "schedule_changes": "revision",
    "state": "key",
}
_OWNED_COUNT = " + ".join(
    f"(SELECT count(*) FROM {table} WHERE schedule_id = s.id)" for table in _OWNED
)
# The schedule with the highest id stays: its id would be given again.
_FORGETTABLE = """s.deleted_at IS NOT NULL AND s.id < (SELECT max(id) FROM schedules)
    AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.schedule_id = s.id)"""


def find_unused(
    database: Connection, schedule_id: int, *, replaced_before_ms: int | None
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


def remove_revisions(database: Connection, schedule_id: int, revisions: Sequence[int]) -> list[int]:
    """Remove snapshots, inside the caller's transaction; the revisions of those removed.

    The snapshot before each gap says in `known_until` when the first missing one began. The newest
    snapshot of a schedule that exists stays.
    """
    params = {"id": schedule_id, "revisions": json.dumps(list(revisions))}
    database.change(
        """UPDATE schedule_revisions AS r SET known_until = n.at
           FROM schedule_revisions AS n
           WHERE r.schedule_id = :id AND r.known_until IS NULL
               AND r.revision NOT IN (SELECT CAST(value AS BIGINT) FROM json_each(:revisions))
               AND n.schedule_id = :id
               AND n.revision IN (SELECT CAST(value AS BIGINT) FROM json_each(:revisions))
               AND n.revision = (
                   SELECT min(f.revision) FROM schedule_revisions AS f
                   WHERE f.schedule_id = :id AND f.revision > r.revision)""",
        params,
    )
    rows = database.returning_all(
        """DELETE FROM schedule_revisions AS r
           WHERE r.schedule_id = :id
               AND r.revision IN (SELECT CAST(value AS BIGINT) FROM json_each(:revisions))
               AND (EXISTS (SELECT 1 FROM schedule_revisions AS f
                       WHERE f.schedule_id = :id AND f.revision > r.revision)
                   OR (SELECT deleted_at FROM schedules WHERE id = :id) IS NOT NULL)
           RETURNING revision""",
        params,
    )
    return [row[0] for row in rows]


def forget(database: Connection, schedule_id: int, *, is_trial: bool) -> Forgotten:
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
    return Forgotten(removed=count, kept=len(needed), is_log_empty=database.empty_log())


def _find_sizes(database: Connection, schedule_id: int) -> dict[int, int]:
    """The snapshots of a schedule by revision, with their sizes in bytes."""
    # `octet_length` reads no page of a long snapshot.
    return dict(
        database.rows(
            """SELECT revision, octet_length(snapshot) FROM schedule_revisions
               WHERE schedule_id = :id ORDER BY revision""",
            {"id": schedule_id},
        )
    )


class Forgettable(NamedTuple):
    """A schedule that can be deleted, and how many rows that deletes."""

    schedule_id: int
    rows: int


def find_forgettable(database: Connection, *, before_ms: int) -> Iterator[list[Forgettable]]:
    """The schedules that were removed before an instant and have no runs left, by id."""
    after_id = 0
    while found := database.rows(
        f"""SELECT s.id, 1 + {_OWNED_COUNT} FROM schedules AS s INDEXED BY schedules_removed
            WHERE {_FORGETTABLE} AND s.deleted_at < :before AND s.id > :after
            ORDER BY s.id LIMIT {_AT_ONCE}""",
        {"before": before_ms, "after": after_id},
    ):
        after_id = found[-1][0]
        yield [Forgettable(*row) for row in found]


def delete_schedules(database: Connection, ids: Sequence[int]) -> list[int]:
    """Delete those of these schedules that still can be, in a transaction; their ids.

    The statistics of a schedule stay.
    """
    gone = database.rows(
        f"""SELECT s.id FROM json_each(:ids) AS w CROSS JOIN schedules AS s
                ON s.id = CAST(w.value AS BIGINT) WHERE {_FORGETTABLE}""",
        {"ids": json.dumps(list(ids))},
    )
    for (schedule_id,) in gone:
        keep_measures(database, schedule_id)
        database.change("DELETE FROM schedules WHERE id = :id", {"id": schedule_id})
    return [row[0] for row in gone]


def delete_owned(database: Connection, schedule_id: int) -> bool:
    """Delete some rows that belong to a schedule, in a transaction; whether more can be left.

    From then on, the schedule counts as forgotten: it can't be restored as it was.
    """
    params = {"id": schedule_id, "limit": MOST_ROWS - 1}
    is_forgettable = database.change(
        f"""UPDATE schedules AS s SET removed_state = 'forgotten'
            WHERE s.id = :id AND {_FORGETTABLE}""",
        {"id": schedule_id},
    )
    if not is_forgettable:
        return False
    for table, key in _OWNED.items():
        deleted = database.change(
            f"""DELETE FROM {table} WHERE schedule_id = :id AND ({key}) IN (
                    SELECT {key} FROM {table} WHERE schedule_id = :id LIMIT :limit)""",
            params,
        )
        if deleted:
            return True
    return False
