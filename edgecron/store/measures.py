"""What is counted over all that ever ended: written with the ends, and read by a scrape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from edgecron.model.measures import (
    DURATION_STEPS_MS,
    LATE_STEPS_MS,
    Active,
    Histogram,
    MeasuredSchedule,
    OfSchedule,
    histogram_of,
)
from edgecron.store.connection import Database

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
