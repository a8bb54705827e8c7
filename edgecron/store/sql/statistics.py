"""Read counts, durations and lateness of runs: of all time, or of a time span."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

from edgecron.base.units import DAY_MS, HOUR_MS
from edgecron.base.values import NamedTuple
from edgecron.model.listing import Recurrence
from edgecron.model.run import (
    DURATION_STEPS_MS,
    LATE_STEPS_MS,
    Active,
    EndedRun,
    Histogram,
    MeasuredSchedule,
    OfSchedule,
    histogram_of,
)
from edgecron.store.sql.connection import Connection

# The counts by step of all schedules, and of those that retention has removed.
_COUNTS = """SELECT j.key AS step, CAST(sum(CAST(j.value AS BIGINT)) AS BIGINT) AS count
    FROM (SELECT {of}_counts AS counts FROM schedules {where}
          UNION ALL SELECT {of}_counts FROM meta) AS s
    CROSS JOIN json_each(s.counts) AS j GROUP BY j.key"""


def find_measured(database: Connection, *, now_ms: int) -> list[MeasuredSchedule]:
    """Every schedule that was not removed."""
    rows = database.each(
        """SELECT name, success_count, failed_count, cancelled_count, interrupted_count,
               skipped_count, last_run_at, last_success_at, next_run_at, trigger_error IS NOT NULL,
               NOT enabled OR (paused_until IS NOT NULL AND paused_until > :now),
               vanished_at IS NOT NULL
           FROM schedules WHERE deleted_at IS NULL""",
        {"now": now_ms},
    )
    return [MeasuredSchedule._make(row) for row in rows]


def find_by_schedule(database: Connection) -> dict[str, OfSchedule]:
    """The histograms and lock failures of each schedule, by name."""
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


def find_durations(database: Connection) -> Histogram:
    """How long runs took, including those of removed schedules."""
    return _histogram(database, "duration", DURATION_STEPS_MS)


def find_lateness(database: Connection) -> Histogram:
    """How late runs started, including those of removed schedules."""
    return _histogram(database, "late", LATE_STEPS_MS)


def count_active(database: Connection) -> Active:
    """Count the runs that are running, wait for a place, and wait for a condition."""
    [(running, queued, owed)] = database.rows(
        """SELECT
               (SELECT count(*) FROM executions INDEXED BY executions_active
                WHERE status = 'running' AND status IN ('queued', 'running')),
               (SELECT count(*) FROM executions WHERE status = 'queued' AND waiting_for IS NULL),
               (SELECT count(*) FROM executions WHERE waiting_for IS NOT NULL)"""
    )
    return Active(running=running, queued=queued, owed=owed)


def find_lock_failures(database: Connection) -> int:
    """How many transactions found the database locked. Recorded by the next one that writes."""
    [(count,)] = database.rows("SELECT lock_failures FROM meta")
    return int(count)


def keep_measures(database: Connection, schedule_id: int) -> None:
    """Add the histograms of a schedule to those of removed schedules.

    Inside the caller's transaction, which then removes the schedule.
    """
    for of in ("duration", "late"):
        counts = _COUNTS.format(of=of, where="WHERE id = :id")
        database.change(
            f"""UPDATE meta SET
                    {of}_counts = (SELECT json_group_object(step, count) FROM ({counts}) AS c),
                    {of}_sum_ms = {of}_sum_ms
                        + (SELECT {of}_sum_ms FROM schedules WHERE id = :id)""",
            {"id": schedule_id},
        )


def _histogram(database: Connection, of: str, steps_ms: Sequence[int]) -> Histogram:
    rows = database.rows(_COUNTS.format(of=of, where=""))
    [(sum_ms,)] = database.rows(
        f"""SELECT (SELECT coalesce(sum({of}_sum_ms), 0) FROM schedules)
                + (SELECT {of}_sum_ms FROM meta)"""
    )
    return _counted(dict(rows), steps_ms, sum_ms)


def _counted(found: Mapping[str, object], steps_ms: Sequence[int], sum_ms: int) -> Histogram:
    # A person might have written something else there.
    counts = {step: max(0, count) for step, count in found.items() if isinstance(count, int)}
    return histogram_of(counts, steps_ms, sum_ms=sum_ms)


# Ids follow the time of writing, except where a clock was set back.
_WRITTEN_AT = "coalesce(queued_at, claimed_at, finished_at)"
# The time at which lists and spans show a run.
_BEGAN_AT = "coalesce(e.started_at, iif(e.status = 'queued', e.due_at, e.plan_at))"
_COLUMNS = """schedule_id, status, reason, cause, attempt, missed_count, duration_ms,
    started_at - due_at"""
# The last schedule of each name.
_LIVING = """SELECT name, id FROM schedules INDEXED BY schedules_by_name WHERE deleted_at IS NULL"""
_LAST_REMOVED = """SELECT name, id FROM (
        SELECT name, id, row_number() OVER (PARTITION BY name ORDER BY deleted_at DESC, id DESC)
            AS place
        FROM schedules INDEXED BY schedules_removed WHERE deleted_at IS NOT NULL) AS r
    WHERE place = 1 AND NOT EXISTS (
        SELECT 1 FROM schedules AS living INDEXED BY schedules_by_name
        WHERE living.deleted_at IS NULL AND living.name = r.name)"""
# Only a row of skipped times that was once the newest of its scope can have grown. A schedule has
# few scopes, so few of its older rows are read.
_MOST_GROWN = 100


def find_ended(
    database: Connection, schedule_ids: Sequence[int] | None, *, since_ms: int, limit: int
) -> tuple[list[EndedRun], int | None]:
    """Runs that have ended and were written since an instant, newest first for each schedule.

    Rows of skipped times that have grown since then follow. At most `limit` runs are counted, of
    all schedules (None) or of each of these. If there are more, the instant from which all runs
    are complete comes with them.
    """
    if schedule_ids is None:
        newest = "executions AS e WHERE e.id >= :first ORDER BY e.id DESC LIMIT :limit + 1"
        grown = """executions AS e WHERE status = 'skipped' AND id < :first
            ORDER BY id DESC LIMIT :limit"""
    else:
        newest = """json_each(:schedules) AS w CROSS JOIN executions AS e
            WHERE e.id IN (SELECT id FROM executions INDEXED BY executions_by_schedule
                WHERE schedule_id = CAST(w.value AS BIGINT) AND id >= :first
                ORDER BY id DESC LIMIT :limit + 1)"""
        grown = f"""json_each(:schedules) AS w CROSS JOIN executions AS e
            WHERE e.id IN (SELECT id FROM executions INDEXED BY executions_unwell_by_schedule
                WHERE schedule_id = CAST(w.value AS BIGINT) AND status = 'skipped' AND id < :first
                ORDER BY id DESC LIMIT {_MOST_GROWN})"""
    params = {
        "schedules": json.dumps(schedule_ids),
        "first": _first_id(database, since_ms=since_ms),
        "limit": limit,
    }
    found: list[EndedRun] = []
    counts: Counter[int | None] = Counter()
    oldest: dict[int | None, int] = {}
    cuts = []
    rows = database.rows(
        f"""SELECT {_COLUMNS}, {_WRITTEN_AT}, status NOT IN ('queued', 'running'), e.id
            FROM {newest}""",
        params,
    )
    for *row, written_ms, has_ended, _ in sorted(rows, key=itemgetter(-1), reverse=True):
        group = None if schedule_ids is None else row[0]
        counts[group] += 1
        if counts[group] > limit:
            cuts.append(oldest[group])
            continue
        oldest[group] = written_ms
        # Among them can be rows that were written before a clock was set back.
        if has_ended and written_ms >= since_ms:
            found.append(EndedRun._make((*row, written_ms)))
    for *row, missed_to_ms in database.rows(
        f"SELECT {_COLUMNS}, missed_to_at FROM {grown}", params
    ):
        if missed_to_ms is not None and missed_to_ms >= since_ms:
            found.append(EndedRun._make((*row, missed_to_ms)))
    return found, max(cuts, default=None)


def find_named_page(
    database: Connection, *, since_ms: int, after: str | None, limit: int
) -> dict[int, str]:
    """The first schedules by name with a row written or grown since then, as `find_names_of`.

    Returns their names by id.
    """
    params = {
        "first": _first_id(database, since_ms=since_ms),
        "since": since_ms,
        "after": after or "",
        "limit": limit,
    }
    pages = []
    for named in (_LIVING, _LAST_REMOVED):
        pages += database.rows(
            f"""SELECT name, id FROM ({named}) AS s WHERE name > :after AND (
                    SELECT e.id >= :first OR coalesce(e.missed_to_at >= :since, FALSE)
                    FROM executions AS e INDEXED BY executions_by_schedule
                    WHERE e.schedule_id = s.id ORDER BY e.id DESC LIMIT 1)
                ORDER BY name LIMIT :limit""",
            params,
        )
    return {schedule_id: name for name, schedule_id in sorted(pages)[:limit]}


def find_output_sizes(
    database: Connection, schedule_id: int, *, since_ms: int, limit: int
) -> list[int]:
    """The bytes printed by each of the newest runs of a schedule that printed anything."""
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


def find_pruned(database: Connection, schedule_ids: Collection[int]) -> dict[int, int]:
    """Up to which plan time retention has removed runs, by schedule; missing if it removed none."""
    return dict(
        database.rows(
            """SELECT id, pruned_until FROM schedules
               WHERE pruned_until IS NOT NULL
                   AND id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))""",
            {"ids": json.dumps(list(schedule_ids))},
        )
    )


def find_names_of(database: Connection, schedule_id: int | None) -> dict[int, str]:
    """The name of one schedule, or of the last schedule of each name, by its id.

    A removed schedule has its name until another one takes it.
    """
    if schedule_id is not None:
        return dict(
            database.rows("SELECT id, name FROM schedules WHERE id = :id", {"id": schedule_id})
        )
    return dict(
        database.rows(
            f"""SELECT id, name FROM ({_LIVING}) AS living
                UNION ALL SELECT id, name FROM ({_LAST_REMOVED}) AS removed"""
        )
    )


def _first_id(database: Connection, *, since_ms: int) -> int:
    """The id of the first execution written since an instant, by bisection.

    If there is none, the id after the last.
    """
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


_LONG_MS = 6 * HOUR_MS  # ended runs that began this long before a span are not read


class RunsByCell(NamedTuple):
    """Runs of schedules by cell, and the schedules with runs that were not read.

    Of each of these, `unread_ms` has the begin of the oldest run that was read.
    """

    rows: list[tuple[int, ...]]
    unread_ms: dict[int, int]


def count_by_cell(
    database: Connection,
    schedule_ids: Sequence[int],
    *,
    since_ms: int,
    until_ms: int,
    cell_ms: int,
    now_ms: int,
    limit: int,
) -> RunsByCell:
    """Count the runs of schedules by the cell of a span in which they began.

    Rows are (schedule id, and the fields of `RunCell` with instants in ms, 0 for none), ordered by
    schedule and cell. At most `limit` runs of each schedule are read, the newest ones of the span,
    and active runs of any age.
    """
    columns = f"""e.schedule_id, e.id, e.status, e.started_at,
        {_BEGAN_AT} AS began,
        iif(e.started_at IS NULL, {_BEGAN_AT}, coalesce(e.finished_at, :now)) AS ended"""
    rows = database.rows(
        f"""SELECT schedule_id, iif(began < :since, -1, (began - :since) / :cell) AS cell,
                count(*), sum(iif(status IN ('failed', 'interrupted'), 1, 0)),
                sum(iif(status IN ('skipped', 'cancelled'), 1, 0)),
                sum(iif(status IN ('queued', 'running'), 1, 0)),
                min(began), max(ended), coalesce(max(iif(status = 'running', started_at, 0)), 0),
                iif(max(iif(status IN ('failed', 'interrupted'), id, 0)) > 0,
                    max(iif(status IN ('failed', 'interrupted'), id, 0)), max(id)),
                sum(iif(id >= :first, 1, 0)), coalesce(min(iif(id >= :first, began, NULL)), 0)
            FROM (
                SELECT {columns} FROM json_each(:ids) AS w CROSS JOIN executions AS e
                WHERE e.id IN (SELECT e.id
                    FROM executions AS e INDEXED BY executions_by_schedule
                    WHERE e.schedule_id = CAST(w.value AS BIGINT) AND e.id >= :first
                        AND e.id < :end AND {_BEGAN_AT} < :until
                    ORDER BY e.id DESC LIMIT :limit)
                UNION ALL
                SELECT {columns} FROM json_each(:ids) AS w
                CROSS JOIN executions AS e INDEXED BY executions_active
                WHERE e.status IN ('queued', 'running') AND e.id < :first
                    AND e.schedule_id = CAST(w.value AS BIGINT)
            ) AS r
            WHERE began < :until
            GROUP BY schedule_id, cell ORDER BY schedule_id, cell""",
        {
            "ids": json.dumps(list(schedule_ids)),
            "first": _first_id(database, since_ms=since_ms - _LONG_MS),
            # A run can be recorded later than it began, such as a skipped one.
            "end": _first_id(database, since_ms=until_ms + DAY_MS),
            "since": since_ms,
            "until": until_ms,
            "cell": cell_ms,
            "now": now_ms,
            "limit": limit,
        },
    )
    counts: Counter[int] = Counter()
    oldest_ms: dict[int, int] = {}
    for schedule_id, *_, runs, first_ms in rows:
        if runs:  # Active runs from before the span say nothing about what was read.
            counts[schedule_id] += runs
            oldest_ms[schedule_id] = min(first_ms, oldest_ms.get(schedule_id, first_ms))
    unread_ms = {each: oldest_ms[each] for each, count in counts.items() if count >= limit}
    return RunsByCell([row[:-2] for row in rows], unread_ms)


_RECURRING = """SELECT id, compiled, next_plan_at, next_run_at, paused_until, until_at,
        max_runs - planned_count, after_end_ms, CAST(round(jitter_s * 1000) AS INTEGER),
        between_times, not_between_times, except_days, timezone
    FROM schedules"""
_RECURS = """deleted_at IS NULL AND enabled AND trigger_error IS NULL
    AND (next_run_at IS NOT NULL OR after_end_ms IS NOT NULL) AND vanished_at IS NULL"""


def find_recurring(
    database: Connection, *, after_id: int, limit: int
) -> tuple[list[Recurrence], int | None]:
    """A page of the schedules with times to come, and the id after which the next page begins.

    The id is None for the last page.
    """
    rows = database.rows(
        f"{_RECURRING} WHERE id > :after AND {_RECURS} ORDER BY id LIMIT :limit",
        {"after": after_id, "limit": limit},
    )
    following = rows[-1][0] if len(rows) == limit else None
    return [Recurrence._make(row[1:]) for row in rows], following


def find_recurring_of(database: Connection, schedule_ids: Sequence[int]) -> dict[int, Recurrence]:
    """Those of these schedules that have times to come, by id."""
    rows = database.rows(
        f"""{_RECURRING}
            WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) AND {_RECURS}""",
        {"ids": json.dumps(list(schedule_ids))},
    )
    return {row[0]: Recurrence._make(row[1:]) for row in rows}
