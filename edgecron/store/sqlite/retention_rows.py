"""Find and remove the rows that retention removes, oldest first.

The order of age is the order of ids, so that no run pays for an index of times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edgecron.planning.retention import Candidate
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.statistics import keep_measures

OUTPUT_PAGE = 1_000  # ids that a look at outputs spans
COUNT_PAGE = 5_000
SCHEDULE_PAGE = 1_000
_RUN_PAGE = 250

# A range that grew has ended with its last time.
_ENDED = "max(e.finished_at, coalesce(e.missed_to_at, e.finished_at))"
_COLUMNS = f"e.id, e.schedule_id, {_ENDED}, e.plan_at"

# Whether an execution `e` may go. Never: one that is active, an earlier attempt of one that is, or
# the first of a fire before its others: by that one it is known where a clock that is wrong comes
# by its time again. Nor, while its schedule lives: its last run and its last success; the newest
# row of a scope, since only that may grow; what says that a time was decided which lies ahead of
# the mark. The newest row is asked for by plan time first, which is one step. The newest of all
# stays, or its number would be given again.
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


def find_size(database: Database) -> tuple[int, int]:
    """The bytes that the database holds, and the free bytes in its file."""
    return used_bytes(database), free_bytes(database)


def used_bytes(database: Database) -> int:
    """The size of what the file holds, without what is free in it."""
    [(count,)] = database.rows(
        """SELECT (page_count - freelist_count) * page_size
           FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
    )
    return int(count)


def free_bytes(database: Database) -> int:
    """What is free in the file, and is filled again before it grows."""
    [(count,)] = database.rows(
        "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
    )
    return int(count)


def find_next_prune(database: Database) -> int | None:
    """Before when no other engine begins to remove anything, or None."""
    [(next_ms,)] = database.rows("SELECT next_prune_at FROM meta")
    return None if next_ms is None else int(next_ms)


def note_next_prune(database: Database, next_ms: int) -> None:
    """Say likewise, inside the caller's transaction."""
    database.change("UPDATE meta SET next_prune_at = :next WHERE id = 1", {"next": next_ms})


def keep_turn(database: Database, next_ms: int, *, was_ms: int | None) -> bool:
    """Say likewise; False where somebody else has said something meanwhile."""
    changed = database.change(
        "UPDATE meta SET next_prune_at = :next WHERE id = 1 AND next_prune_at IS :was",
        {"next": next_ms, "was": was_ms},
    )
    return changed == 1


# Output.


def find_outputs(
    database: Database, *, after_id: int, schedule_id: int | None
) -> tuple[int, list[Candidate]] | None:
    """The next outputs in the order of birth, and the id up to which that goes; None: no more.

    Without those that are the last of their schedule, which have no place in `is_too_old`.
    """
    if schedule_id is not None:
        return _find_outputs_of(database, after_id, schedule_id)
    [(first,)] = database.rows(
        "SELECT min(execution_id) FROM outputs WHERE execution_id > :after", {"after": after_id}
    )
    if first is None:
        return None
    last = int(first) + OUTPUT_PAGE - 1
    rows = database.rows(
        f"""SELECT {_COLUMNS}, length(o.chunks)
            FROM outputs AS o CROSS JOIN executions AS e ON e.id = o.execution_id
            WHERE o.execution_id BETWEEN :first AND :last AND o.removed_at IS NULL
            ORDER BY o.execution_id""",
        {"first": first, "last": last},
    )
    return last, _candidates(rows)


def _find_outputs_of(
    database: Database, after_id: int, schedule_id: int
) -> tuple[int, list[Candidate]] | None:
    ids = database.rows(
        """SELECT id FROM executions WHERE schedule_id = :schedule AND id > :after
           ORDER BY id LIMIT :limit""",
        {"schedule": schedule_id, "after": after_id, "limit": OUTPUT_PAGE},
    )
    if not ids:
        return None
    rows = database.rows(
        f"""SELECT {_COLUMNS}, length(o.chunks)
            FROM json_each(:ids) AS w CROSS JOIN outputs AS o ON o.execution_id = w.value
            CROSS JOIN executions AS e ON e.id = w.value
            WHERE o.removed_at IS NULL""",
        {"ids": json.dumps([row[0] for row in ids])},
    )
    return ids[-1][0], _candidates(rows)


def find_last_runs(database: Database, schedule_ids: Sequence[int]) -> set[int]:
    """The last runs of schedules."""
    rows = database.rows(
        """SELECT last_execution_id FROM json_each(:ids) AS w
           CROSS JOIN schedules AS s ON s.id = w.value
           WHERE s.last_execution_id IS NOT NULL AND s.deleted_at IS NULL""",
        {"ids": json.dumps(sorted(set(schedule_ids)))},
    )
    return {row[0] for row in rows}


def sum_outputs(database: Database, *, after_id: int) -> tuple[int, int] | None:
    """The bytes of the next outputs, and the id up to which that goes; None: no more."""
    [(first,)] = database.rows(
        "SELECT min(execution_id) FROM outputs WHERE execution_id > :after", {"after": after_id}
    )
    if first is None:
        return None
    last = int(first) + 10 * OUTPUT_PAGE - 1
    [(total,)] = database.rows(
        """SELECT coalesce(sum(length(chunks)), 0) FROM outputs
           WHERE execution_id BETWEEN :first AND :last""",
        {"first": first, "last": last},
    )
    return last, int(total)


def remove_outputs(database: Database, ids: Sequence[int], *, now_ms: int) -> int:
    """Take what runs printed off the record, inside the caller's transaction; of how many.

    How much it was stays.
    """
    with _sparing(database):
        return database.change(
            """UPDATE outputs SET encoding = 'raw', chunks = x'', removed_at = :now
               WHERE execution_id IN (SELECT value FROM json_each(:ids)) AND removed_at IS NULL""",
            {"ids": json.dumps(list(ids)), "now": now_ms},
        )


def find_orphaned_outputs(database: Database, *, after_id: int) -> list[Candidate]:
    """A page of outputs whose run is missing, in the order of birth."""
    rows = database.rows(
        """SELECT o.execution_id, 0, NULL, 0, length(o.chunks) FROM outputs AS o
           WHERE o.execution_id > :after
               AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = o.execution_id)
           ORDER BY o.execution_id LIMIT :limit""",
        {"after": after_id, "limit": OUTPUT_PAGE},
    )
    return _candidates(rows)


def remove_orphaned_outputs(database: Database, ids: Sequence[int]) -> int:
    """Remove those of these outputs whose run is missing, inside the caller's transaction; how
    many."""
    with _sparing(database):
        return database.change(
            """DELETE FROM outputs WHERE execution_id IN (SELECT value FROM json_each(:ids))
                   AND NOT EXISTS (
                       SELECT 1 FROM executions AS e WHERE e.id = outputs.execution_id)""",
            {"ids": json.dumps(list(ids))},
        )


@contextmanager
def _sparing(database: Database) -> Iterator[None]:
    """Leave the pages that become free as they are: to overwrite them would double what all output
    writes to the disk."""
    database.rows("PRAGMA secure_delete = FAST")
    try:
        yield
    finally:
        database.rows("PRAGMA secure_delete = ON")


# Runs.


def find_runs(
    database: Database,
    *,
    after_id: int,
    schedule_id: int | None,
    before_ms: int | None,
    now_ms: int,
) -> list[tuple[Candidate, bool]]:
    """A page of runs in the order of birth, with whether each may be removed.

    With `before_ms` only what ended before then is looked at so closely.
    """
    where = "" if schedule_id is None else "AND e.schedule_id = :schedule"
    rows = database.rows(
        f"""SELECT {_COLUMNS}, (SELECT length(chunks) FROM outputs WHERE execution_id = e.id),
                (:before IS NULL OR {_ENDED} < :before) AND {_REMOVABLE}
            FROM executions AS e WHERE e.id > :after {where} ORDER BY e.id LIMIT :limit""",
        {
            "after": after_id,
            "schedule": schedule_id,
            "before": before_ms,
            "now": now_ms,
            "limit": _RUN_PAGE,
        },
    )
    return list(zip(_candidates(rows), (bool(row[5]) for row in rows), strict=True))


def remove_runs(database: Database, ids: Sequence[int], *, now_ms: int) -> list[int]:
    """Remove those of these runs that may go, inside the caller's transaction; their ids.

    Their schedules are marked: what these rows said of plan times is not known any more.
    """
    with _sparing(database):
        rows = database.rows(
            f"""DELETE FROM executions AS e
                WHERE e.id IN (SELECT value FROM json_each(:ids)) AND {_REMOVABLE}
                RETURNING id, schedule_id, plan_at,
                    fire_key = '' OR fire_key GLOB 'backfill:*'""",
            {"ids": json.dumps(list(ids)), "now": now_ms},
        )
    marks: dict[int, int] = {}
    for _, schedule_id, plan_ms, is_planned in rows:
        if is_planned:
            marks[schedule_id] = max(plan_ms, marks.get(schedule_id, plan_ms))
    for schedule_id, plan_ms in marks.items():
        database.change(
            """UPDATE schedules SET pruned_until = :plan
               WHERE id = :id AND coalesce(pruned_until, :plan - 1) < :plan""",
            {"id": schedule_id, "plan": plan_ms},
        )
    return [row[0] for row in rows]


def count_ids(database: Database) -> int:
    """How many runs there are, at most."""
    [(count,)] = database.rows(
        """SELECT coalesce((SELECT max(id) FROM executions) - (SELECT min(id) FROM executions)
               + 1, 0)"""
    )
    return int(count)


def find_long(
    database: Database, *, after_id: int, most: int, schedule_id: int | None
) -> tuple[int, list[int]] | None:
    """The next schedules that may have more than `most` runs, and the id up to which that goes;
    None: no more."""
    if schedule_id is not None:
        return None if after_id >= schedule_id else (schedule_id, [schedule_id])
    [(first,)] = database.rows(
        "SELECT min(id) FROM schedules WHERE id > :after", {"after": after_id}
    )
    if first is None:
        return None
    last = int(first) + SCHEDULE_PAGE - 1
    rows = database.rows(
        """SELECT id FROM schedules WHERE id BETWEEN :first AND :last
               AND run_count + skipped_count + cancelled_count > :most""",
        {"first": first, "last": last, "most": most},
    )
    return last, [row[0] for row in rows]


def find_newer(database: Database, schedule_id: int, *, before_id: int | None) -> list[int]:
    """A page of the ids of a schedule's runs, newest first."""
    rows = database.rows(
        """SELECT id FROM executions WHERE schedule_id = :schedule AND id < :before
           ORDER BY id DESC LIMIT :limit""",
        {"schedule": schedule_id, "before": before_id or 2**63 - 1, "limit": COUNT_PAGE},
    )
    return [row[0] for row in rows]


def find_active(database: Database, schedule_id: int) -> set[int]:
    """The runs of a schedule that have not ended."""
    rows = database.rows(
        """SELECT id FROM executions INDEXED BY executions_active
           WHERE schedule_id = :schedule AND status IN ('queued', 'running')""",
        {"schedule": schedule_id},
    )
    return {row[0] for row in rows}


# Schedules that a person removed.


def find_forgotten(database: Database, *, before_ms: int, after_id: int) -> list[tuple[int, int]]:
    """(id, revisions) of schedules that were removed before, and have no runs left.

    Never the one with the highest id: its id would be given again.
    """
    return database.rows(
        """SELECT s.id, (SELECT count(*) FROM schedule_revisions AS r WHERE r.schedule_id = s.id)
           FROM schedules AS s INDEXED BY schedules_removed
           WHERE s.deleted_at IS NOT NULL AND s.deleted_at < :before AND s.id > :after
               AND s.id < (SELECT max(id) FROM schedules)
               AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.schedule_id = s.id)
           ORDER BY s.id LIMIT 100""",
        {"before": before_ms, "after": after_id},
    )


def remove_revisions(database: Database, schedule_id: int, *, limit: int) -> int:
    """Remove what a removed schedule once said, oldest first; how many revisions."""
    return database.change(
        """DELETE FROM schedule_revisions WHERE schedule_id = :id AND revision IN (
               SELECT revision FROM schedule_revisions WHERE schedule_id = :id
               ORDER BY revision LIMIT :limit)""",
        {"id": schedule_id, "limit": limit},
    )


def remove_schedule(database: Database, schedule_id: int) -> int:
    """Remove a removed schedule that has no runs; 1, or 0 where it is not so.

    What was measured of it stays.
    """
    found = database.row(
        """SELECT 1 FROM schedules WHERE id = :id AND deleted_at IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM executions WHERE schedule_id = :id)
               AND id < (SELECT max(id) FROM schedules)""",
        {"id": schedule_id},
    )
    if found is None:
        return 0
    keep_measures(database, schedule_id)
    return database.change("DELETE FROM schedules WHERE id = :id", {"id": schedule_id})


def _candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    return [
        Candidate(
            execution_id=row[0],
            schedule_id=row[1],
            ended_ms=row[2],
            plan_ms=row[3],
            output_bytes=row[4],
        )
        for row in rows
    ]
