"""Find and remove old runs, their output, and old definitions, for retention.

Runs come in the order of their ids, which is the order of age: an index of times would cost each
run. Each step of an iterator is one short query. Old definitions are those that no run needs, those
of removed schedules, and those to forget: a snapshot holds variables, payload and stdin. SQLite
also overwrites removed bytes in the file.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence

from edgecron.base.values import NamedTuple
from edgecron.planning.retention import Forgotten, batches_of, find_outdated
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.revisions import snapshot_of
from edgecron.store.sql.statistics import keep_measures

# The bytes of a row with its entries in indexes, and of an output row whose output was removed
# (measured over a million short runs).
_RUN_BYTES = 220
STUB_BYTES = 24
_RUNS = 250  # that one query returns
_IDS = 1_000  # of outputs, or of schedules, that one query covers
_COUNTED = 5_000  # runs that one query counts: 1 ms
_CHECKED = 1_000  # runs that one query checks for their definitions
MOST_ROWS = 250  # that one transaction deletes
_AT_ONCE = 20  # schedules of one query

# A range that grew has ended with its last time.
_ENDED = "max(e.finished_at, coalesce(e.missed_to_at, e.finished_at))"
# Whether an execution `e` can be removed. These stay:
# - active runs, and earlier attempts of an active run;
# - the first attempt of a fire while later ones exist: it proves that the fire was decided;
# - the newest row of all: its id would be given again.
# As long as the schedule exists, these stay too:
# - its last run and its last success;
# - the newest row of each scope: only this one can grow;
# - a row that proves that a time ahead of `decided_until` was decided;
# - the row of a boot that an engine is known of: after boots of other machines, only the row proves
#   that this one was decided.
# The newest row of a scope is first looked for by plan time, which is one step of an index.
_REMOVABLE = """e.status NOT IN ('queued', 'running')
    AND e.id < (SELECT max(id) FROM executions)
    AND NOT EXISTS (
        SELECT 1 FROM executions AS n
        WHERE n.schedule_id = e.schedule_id AND n.scope_kind = e.scope_kind
            AND n.scope_id = e.scope_id AND n.plan_at = e.plan_at AND n.fire_key = e.fire_key
            AND n.attempt > e.attempt AND (e.attempt = 1 OR n.status IN ('queued', 'running')))
    AND EXISTS (
        SELECT 1 FROM schedules AS s WHERE s.id = e.schedule_id AND (
            s.deleted_at IS NOT NULL
            OR (e.id IS NOT s.last_execution_id
                AND (e.status = 'success' AND e.finished_at
                    BETWEEN s.last_success_at AND max(:now, s.last_success_at)) IS NOT TRUE
                AND (e.cause != 'boot' OR NOT EXISTS (
                    SELECT 1 FROM engines AS n WHERE e.fire_key = 'boot:' || n.boot_id))
                AND (e.fire_key != '' OR e.plan_at <
                    min(s.decided_until, coalesce(s.trusted_until, s.decided_until), :now))
                AND (NOT EXISTS (SELECT 1 FROM schedule_scopes AS c
                        WHERE c.schedule_id = e.schedule_id AND c.scope_kind = e.scope_kind
                            AND c.scope_id = e.scope_id)
                    OR (SELECT n.id FROM executions AS n
                        WHERE n.schedule_id = e.schedule_id AND n.scope_kind = e.scope_kind
                            AND n.scope_id = e.scope_id
                        ORDER BY n.plan_at DESC, n.fire_key DESC, n.attempt DESC LIMIT 1) > e.id
                    OR EXISTS (SELECT 1 FROM executions AS n INDEXED BY executions_by_schedule
                        WHERE n.schedule_id = e.schedule_id AND n.id > e.id
                            AND n.scope_kind = e.scope_kind AND n.scope_id = e.scope_id)))))"""


class OldRun(NamedTuple):
    """A run that retention looks at. `size_bytes` includes its output, or is that of its output."""

    execution_id: int
    ended_ms: int | None
    plan_ms: int
    size_bytes: int
    is_removable: bool


def output_pages(database: Connection, schedule_id: int | None) -> Iterator[list[OldRun]]:
    """The runs, of one schedule or of all, whose output is still there, with its size, by id.

    `is_removable` is False for the last run of a schedule: `logs NAME` shows it, however old.
    """
    last_id = 0
    while True:
        [(first_id,)] = database.rows(
            "SELECT min(execution_id) FROM outputs WHERE execution_id > :last",
            {"last": last_id},
        )
        if first_id is None:
            return
        last_id = first_id + _IDS - 1
        rows = database.rows(
            f"""SELECT e.id, {_ENDED}, e.plan_at, length(o.chunks), NOT EXISTS (
                    SELECT 1 FROM schedules AS s WHERE s.id = e.schedule_id
                        AND s.last_execution_id = e.id AND s.deleted_at IS NULL)
                FROM outputs AS o CROSS JOIN executions AS e ON e.id = o.execution_id
                WHERE o.execution_id BETWEEN :first AND :last AND o.removed_at IS NULL
                    AND (:schedule IS NULL OR e.schedule_id = :schedule)
                ORDER BY o.execution_id""",
            {"first": first_id, "last": last_id, "schedule": schedule_id},
        )
        yield [OldRun(*row) for row in rows]


def run_pages(
    database: Connection,
    schedule_id: int | None,
    *,
    now_ms: int,
    before_id: int | None = None,
    ended_before_ms: int | None = None,
) -> Iterator[list[OldRun]]:
    """Runs by id, of one schedule or of all; `size_bytes` includes the output.

    With `ended_before_ms`, no later run is removable.
    """
    where = "" if schedule_id is None else "AND e.schedule_id = :schedule"
    after_id = 0
    while True:
        rows = database.rows(
            f"""SELECT e.id, {_ENDED}, e.plan_at, {_RUN_BYTES} + coalesce((
                    SELECT length(chunks) FROM outputs WHERE execution_id = e.id), 0),
                    (:ended_before IS NULL OR {_ENDED} < :ended_before) AND {_REMOVABLE}
                FROM executions AS e WHERE e.id > :after AND e.id < :before {where}
                ORDER BY e.id LIMIT {_RUNS}""",
            {
                "after": after_id,
                "before": 2**63 - 1 if before_id is None else before_id,
                "schedule": schedule_id,
                "ended_before": ended_before_ms,
                "now": now_ms,
            },
        )
        if not rows:
            return
        yield [OldRun(*row) for row in rows]
        after_id = rows[-1][0]


def find_oldest_kept(
    database: Connection, schedule_id: int, most: int
) -> Generator[None, None, int | None]:
    """Return the oldest of the newest `most` runs that have ended; None if there are fewer.

    Each step is one short query: due fires wait for it.
    """
    before_id = 2**63 - 1
    while True:
        ids = database.rows(
            """SELECT id FROM executions INDEXED BY executions_by_schedule
               WHERE schedule_id = :schedule AND id < :before AND id NOT IN (
                   SELECT id FROM executions INDEXED BY executions_active
                   WHERE schedule_id = :schedule AND status IN ('queued', 'running'))
               ORDER BY id DESC LIMIT :limit""",
            {"schedule": schedule_id, "before": before_id, "limit": min(most, _COUNTED)},
        )
        yield None
        most -= len(ids)
        if most == 0:
            return int(ids[-1][0])
        if len(ids) < _COUNTED:
            return None
        before_id = ids[-1][0]


def find_long_schedules(database: Connection, most: int) -> Iterator[list[int]]:
    """The ids of the schedules that might have more runs than this."""
    [(last_id,)] = database.rows("SELECT coalesce(max(id), 0) FROM schedules")
    for first_id in range(1, last_id + 1, _IDS):
        rows = database.rows(
            """SELECT id FROM schedules WHERE id BETWEEN :first AND :last
                   AND run_count + skipped_count + cancelled_count > :most""",
            {"first": first_id, "last": first_id + _IDS - 1, "most": most},
        )
        yield [row[0] for row in rows]


def remove_outputs(database: Connection, ids: Sequence[int], *, now_ms: int) -> list[int]:
    """Remove the output of these runs, inside the caller's transaction; whose output was there."""
    with database.without_overwriting():
        rows = database.returning_all(
            """UPDATE outputs SET encoding = 'raw', chunks = zeroblob(0), removed_at = :now
               WHERE execution_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
                   AND removed_at IS NULL RETURNING execution_id""",
            {"ids": json.dumps(list(ids)), "now": now_ms},
        )
    return [row[0] for row in rows]


def remove_runs(database: Connection, ids: Sequence[int], *, now_ms: int) -> list[int]:
    """Remove those of these runs that can be removed, inside the caller's transaction; their ids.

    `pruned_until` of their schedules then covers their plan times.
    """
    with database.without_overwriting():
        rows = database.rows(
            f"""DELETE FROM executions AS e
                WHERE e.id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) AND {_REMOVABLE}
                RETURNING id, schedule_id, plan_at,
                    fire_key = '' OR fire_key LIKE 'backfill:%'""",
            {"ids": json.dumps(list(ids)), "now": now_ms},
        )
    pruned: dict[int, int] = {}
    for _, schedule_id, plan_ms, is_planned in rows:
        if is_planned:
            pruned[schedule_id] = max(plan_ms, pruned.get(schedule_id, plan_ms))
    for schedule_id, plan_ms in pruned.items():
        database.change(
            """UPDATE schedules SET pruned_until = :plan
               WHERE id = :id AND coalesce(pruned_until, :plan - 1) < :plan""",
            {"id": schedule_id, "plan": plan_ms},
        )
    return [row[0] for row in rows]


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
                      WHERE schedule_id = :schedule AND id > :after
                      ORDER BY id LIMIT {_CHECKED}) AS e
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
