"""Read counts, durations and lateness of runs: all that ever ended, or those of a time span."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from edgecron.model.measures import (
    DURATION_STEPS_MS,
    LATE_STEPS_MS,
    Active,
    EndedRun,
    Histogram,
    MeasuredSchedule,
    OfSchedule,
    histogram_of,
)
from edgecron.store.sqlite.connection import Database

# The counts by step of all schedules, removed ones too, and of those that are gone.
_COUNTS = """SELECT j.key AS step, sum(j.value) AS count
    FROM (SELECT {of}_counts AS counts FROM schedules {where}
          UNION ALL SELECT {of}_counts FROM meta) AS s
    CROSS JOIN json_each(s.counts) AS j GROUP BY j.key"""


def find_measured(database: Database, *, now_ms: int) -> list[MeasuredSchedule]:
    """Every schedule that was not removed."""
    rows = database.each(
        """SELECT name, success_count, failed_count, cancelled_count, interrupted_count,
               skipped_count, last_run_at, last_success_at, next_run_at,
               trigger_error IS NOT NULL,
               NOT enabled OR (paused_until IS NOT NULL AND paused_until > :now),
               vanished_at IS NOT NULL
           FROM schedules WHERE deleted_at IS NULL""",
        {"now": now_ms},
    )
    return [MeasuredSchedule._make(row) for row in rows]


def find_by_schedule(database: Database) -> dict[str, OfSchedule]:
    """What only a request by schedule has, by name."""
    return {
        name: OfSchedule(
            duration=_counted(json.loads(durations), DURATION_STEPS_MS, duration_sum_ms),
            late=_counted(json.loads(late), LATE_STEPS_MS, late_sum_ms),
            lock_failures=lock_failures,
        )
        for name, durations, duration_sum_ms, late, late_sum_ms, lock_failures in database.each(
            """SELECT name, iif(json_valid(duration_counts), duration_counts, '{}'),
                   duration_sum_ms, iif(json_valid(late_counts), late_counts, '{}'), late_sum_ms,
                   lock_failures
               FROM schedules WHERE deleted_at IS NULL"""
        )
    }


def find_durations(database: Database) -> Histogram:
    """How long runs took, of removed schedules too."""
    return _histogram(database, "duration", DURATION_STEPS_MS)


def find_lateness(database: Database) -> Histogram:
    """How long after they were due runs started, of removed schedules too."""
    return _histogram(database, "late", LATE_STEPS_MS)


def count_active(database: Database) -> Active:
    """How many runs go on, wait for a place, and wait for a condition."""
    [(running, queued, owed)] = database.rows(
        """SELECT
               (SELECT count(*) FROM executions INDEXED BY executions_active
                WHERE status = 'running' AND status IN ('queued', 'running')),
               (SELECT count(*) FROM executions WHERE status = 'queued' AND waiting_for IS NULL),
               (SELECT count(*) FROM executions WHERE waiting_for IS NOT NULL)"""
    )
    return Active(running=running, queued=queued, owed=owed)


def find_lock_failures(database: Database) -> int:
    """How many transactions found another's lock, as far as a later one could put it down."""
    [(count,)] = database.rows("SELECT lock_failures FROM meta")
    return int(count)


def keep_measures(database: Database, schedule_id: int) -> None:
    """Add what was measured of a schedule to that of those that are gone, inside the caller's
    transaction, in which it goes."""
    for of in ("duration", "late"):
        counts = _COUNTS.format(of=of, where="WHERE id = :id")
        database.change(
            f"""UPDATE meta SET
                    {of}_counts = (SELECT json_group_object(step, count) FROM ({counts})),
                    {of}_sum_ms = {of}_sum_ms
                        + (SELECT {of}_sum_ms FROM schedules WHERE id = :id)""",
            {"id": schedule_id},
        )


def _histogram(database: Database, of: str, steps_ms: Sequence[int]) -> Histogram:
    rows = database.rows(_COUNTS.format(of=of, where=""))
    [(sum_ms,)] = database.rows(
        f"""SELECT (SELECT coalesce(sum({of}_sum_ms), 0) FROM schedules)
                + (SELECT {of}_sum_ms FROM meta)"""
    )
    return _counted(dict(rows), steps_ms, sum_ms)


def _counted(found: Mapping[str, object], steps_ms: Sequence[int], sum_ms: int) -> Histogram:
    # What somebody has written there by hand may be no number.
    counts = {step: max(0, count) for step, count in found.items() if isinstance(count, int)}
    return histogram_of(counts, steps_ms, sum_ms=sum_ms)


# An id is given in order of time, but where a clock was set: the time is looked for among them.
_WRITTEN_AT = "coalesce(queued_at, claimed_at, finished_at)"
_COLUMNS = """schedule_id, status, reason, cause, attempt, missed_count, duration_ms,
    started_at - due_at"""
# Of a schedule's older rows of skipped times: those of its scopes that were the newest once.
_MOST_GROWN = 100
_ENDED = "status NOT IN ('queued', 'running')"


def find_ended(
    database: Database, schedule_id: int | None, *, since_ms: int, limit: int
) -> tuple[list[EndedRun], int | None]:
    """Executions that have ended and were written since an instant, the newest first; then rows
    of what was left out that have grown since.

    Of one schedule, or of all. At most `limit` are looked at; where there are more, the instant
    of the oldest of them comes with them.
    """
    where = "" if schedule_id is None else "AND schedule_id = :schedule"
    params = {
        "schedule": schedule_id,
        "first": _first_id(database, since_ms=since_ms),
        "limit": limit + 1,
    }
    rows = database.rows(
        f"""SELECT {_COLUMNS}, {_WRITTEN_AT}, {_ENDED} FROM executions
            WHERE id >= :first {where} ORDER BY id DESC LIMIT :limit""",
        params,
    )
    cut_ms = None
    if len(rows) > limit:
        rows.pop()
        cut_ms = rows[-1][8]
    # What was written by a clock that was set since may lie among them.
    found = [EndedRun._make(row[:8]) for row in rows if row[9] and row[8] >= since_ms]
    return found + _find_grown(database, schedule_id, since_ms=since_ms, params=params), cut_ms


def find_ended_of(
    database: Database, schedule_ids: Sequence[int], *, since_ms: int, limit: int
) -> tuple[list[EndedRun], int | None]:
    """The same of some schedules, at most `limit` runs of each.

    If a schedule has more, the instant from which the runs of all are complete comes with them.
    """
    params = {
        "schedules": json.dumps(list(schedule_ids)),
        "first": _first_id(database, since_ms=since_ms),
        "since": since_ms,
        "limit": limit,
    }
    rows = database.rows(
        f"""SELECT {_COLUMNS}, {_WRITTEN_AT}, {_ENDED}
            FROM json_each(:schedules) AS j CROSS JOIN executions AS e
            WHERE e.id IN (SELECT id FROM executions INDEXED BY executions_by_schedule
                WHERE schedule_id = j.value AND id >= :first ORDER BY id DESC LIMIT :limit)
            ORDER BY j.value, e.id DESC""",
        params,
    )
    found = [EndedRun._make(row[:8]) for row in rows if row[9] and row[8] >= since_ms]
    grown = database.rows(
        f"""SELECT {_COLUMNS}
            FROM json_each(:schedules) AS j CROSS JOIN executions AS e
            WHERE e.id IN (SELECT id FROM executions INDEXED BY executions_unwell_by_schedule
                WHERE schedule_id = j.value AND status = 'skipped' AND id < :first
                    AND status IN ('failed', 'skipped', 'cancelled', 'interrupted')
                ORDER BY id DESC LIMIT {_MOST_GROWN}) AND missed_to_at >= :since""",
        params,
    )
    counts = Counter(row[0] for row in rows)
    oldest = {row[0]: row[8] for row in rows}
    cuts = [oldest[schedule_id] for schedule_id, count in counts.items() if count == limit]
    return found + [EndedRun._make(row) for row in grown], max(cuts, default=None)


def find_named_page(
    database: Database, *, since_ms: int, after: str | None, limit: int
) -> dict[int, str]:
    """The first schedules by name, removed ones included, whose newest row is from an instant on
    or has grown since: their names by id."""
    params = {
        "first": _first_id(database, since_ms=since_ms),
        "since": since_ms,
        "after": after or "",
        "limit": limit,
    }
    pages = []
    for living in (
        "INDEXED BY schedules_by_name WHERE deleted_at IS NULL",
        "INDEXED BY schedules_removed WHERE deleted_at IS NOT NULL",
    ):
        pages += database.rows(
            f"""SELECT name, id FROM schedules {living} AND name > :after AND (
                    SELECT e.id >= :first OR coalesce(e.missed_to_at >= :since, FALSE)
                    FROM executions AS e INDEXED BY executions_by_schedule
                    WHERE e.schedule_id = schedules.id ORDER BY e.id DESC LIMIT 1)
                ORDER BY name LIMIT :limit""",
            params,
        )
    names = sorted({name for name, _ in pages})[:limit]
    return {schedule_id: name for name, schedule_id in pages if name in names}


def _find_grown(
    database: Database, schedule_id: int | None, *, since_ms: int, params: Mapping[str, object]
) -> list[EndedRun]:
    """What was left out in rows that were written before an instant, and have grown since.

    A schedule whose run is stuck may have one such row and nothing else for weeks.
    """
    where = "" if schedule_id is None else "AND schedule_id = :schedule"
    rows = database.rows(
        f"""SELECT {_COLUMNS}, missed_to_at FROM executions
            WHERE status = 'skipped' AND id < :first {where} ORDER BY id DESC LIMIT :limit""",
        params,
    )
    return [EndedRun._make(row[:8]) for row in rows if row[8] is not None and row[8] >= since_ms]


def find_output_sizes(
    database: Database, schedule_id: int, *, since_ms: int, limit: int
) -> list[int]:
    """How many bytes the newest runs of a schedule have printed, of those that printed any."""
    rows = database.rows(
        """SELECT o.stdout_bytes + o.stderr_bytes
           FROM executions AS e CROSS JOIN outputs AS o ON o.execution_id = e.id
           WHERE e.schedule_id = :schedule AND e.id >= :first ORDER BY e.id DESC LIMIT :limit""",
        {
            "schedule": schedule_id,
            "first": _first_id(database, since_ms=since_ms),
            "limit": limit,
        },
    )
    return [row[0] for row in rows]


def find_names_of(database: Database, schedule_id: int | None) -> dict[int, str]:
    """The name of one schedule, or of each, removed ones included, by its id."""
    where = "" if schedule_id is None else "WHERE id = :id"
    return dict(database.rows(f"SELECT id, name FROM schedules {where}", {"id": schedule_id}))


def _first_id(database: Database, *, since_ms: int) -> int:
    """The id of the first execution written since an instant, by halves; one past the last."""
    [(least,)] = database.rows("SELECT min(id) FROM executions")
    [(most,)] = database.rows("SELECT max(id) FROM executions")
    if least is None:
        return 1
    low, high = int(least), int(most) + 1
    while low < high:
        middle = (low + high) // 2
        row = database.row(
            f"SELECT {_WRITTEN_AT} FROM executions WHERE id >= :id ORDER BY id LIMIT 1",
            {"id": middle},
        )
        if row is None or row[0] >= since_ms:
            high = middle
        else:
            low = middle + 1
    return low
