"""Find and remove old runs and their output, for retention.

Runs come in the order of their ids, which is the order of age: an index of times would cost each
run. Each step of an iterator is one short query.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence

from edgecron.base.values import NamedTuple
from edgecron.store.sql.connection import Connection

# The bytes of a row with its entries in indexes, and of an output row whose output was removed
# (measured over a million short runs).
_RUN_BYTES = 220
STUB_BYTES = 24
_RUNS = 250  # that one query returns
_IDS = 1_000  # of outputs, or of schedules, that one query covers
_COUNTED = 5_000  # runs that one query counts: 1 ms

# A range that grew has ended with its last time.
_ENDED = "max(e.finished_at, coalesce(e.missed_to_at, e.finished_at))"
# Whether an execution `e` can be removed. These stay:
# - active runs, and earlier attempts of an active run;
# - the first attempt of a fire while later ones exist: it proves that the fire was decided;
# - the newest row of all: its id would be given again.
# As long as the schedule exists, these stay too:
# - its last run and its last success;
# - the newest row of each scope: only this one can grow;
# - a row that proves that a time ahead of `decided_until` was decided.
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
