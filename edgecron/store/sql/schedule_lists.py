"""Read lists of schedules: how each stands, and the orders and lines of the dashboard.

A schedule that can't be read does not hide the others: it is shown as broken, with the reason.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from heapq import nsmallest
from typing import Any

from edgecron.base.errors import SENSELESS, UnknownTimezone, Unreadable
from edgecron.base.units import from_ms
from edgecron.model.listing import (
    MOST_RECENT,
    Choice,
    Recent,
    ScheduleKeys,
    ScheduleLine,
    SortBy,
    Standing,
    Streak,
    Suspect,
    state_of,
)
from edgecron.store.sql.connection import Connection, Params
from edgecron.store.sql.rows import texts_of, unreadable, windows_in

_MOST_FAILED = 1_000  # newest runs of a schedule that are read to count its failures in a row
_MOST_WAITING = 10_000  # queued runs that are read
# Where the words of a choice are looked for. No word contains a newline.
_WORDS = "concat_ws(char(10), name, group_name, description, job)"
# Why a schedule has no next time: whether it is done, whether a run of it is active, and which of
# the schedules that it follows are gone.
IDLE_COLUMNS = (
    "next_run_at IS NULL AND done_revision IS revision",
    """next_run_at IS NULL AND EXISTS (
        SELECT 1 FROM executions AS e INDEXED BY executions_active
        WHERE e.schedule_id = schedules.id AND e.status IN ('queued', 'running'))""",
    """(SELECT group_concat(u.upstream, ' ') FROM schedule_upstreams AS u
        WHERE u.schedule_id = schedules.id AND NOT EXISTS (
            SELECT 1 FROM schedules AS x WHERE x.name = u.upstream AND x.deleted_at IS NULL))""",
)
# The windows and the next time of a schedule that has both.
_WINDOWS = """iif(
    next_plan_at IS NULL
        OR between_times = '[]' AND not_between_times = '[]' AND except_days = '[]',
    NULL, json_array(between_times, not_between_times, except_days, next_plan_at))"""
COLUMNS = (
    "name", "triggers", "enabled", "paused_until", "next_run_at", "trigger_error", "last_status",
    "last_run_at", "run_count", "planned_count", "max_runs", "until_at", "vanished_at",
    *IDLE_COLUMNS, "timezone", _WINDOWS,
)  # fmt: skip


def count_schedules(database: Connection) -> tuple[int, int, int]:
    """Count all schedules, those whose triggers can't be read, and those that have vanished.

    A schedule of a program has vanished if no engine of the program offers it.
    """
    [counts] = database.rows(
        """SELECT (SELECT count(*) FROM schedules WHERE deleted_at IS NULL),
               (SELECT count(*) FROM schedules INDEXED BY schedules_broken
                WHERE trigger_error IS NOT NULL AND deleted_at IS NULL),
               (SELECT count(*) FROM schedules INDEXED BY schedules_vanished
                WHERE vanished_at IS NOT NULL AND deleted_at IS NULL)"""
    )
    count, broken, vanished = counts
    return count, broken, vanished


def find_suspects(database: Connection, *, now_ms: int, late_ms: int) -> list[Suspect]:
    """Find enabled schedules that might not be healthy.

    Their last run failed, all of their times were skipped, or something is due since before
    `late_ms`. A run that waits for a condition is not overdue: its schedule says so. Schedules
    that are paused, broken or run by no program are not among them.
    """
    waiting: dict[int, tuple[int, int]] = {}  # the due time and id of its first run
    for schedule_id, due_ms, run_id in database.rows(
        f"""SELECT schedule_id, due_at, id FROM executions
            WHERE status = 'queued' AND due_at < :late AND waiting_for IS NULL
                AND cause NOT IN ('catch_up', 'backfill') LIMIT {_MOST_WAITING}""",
        {"late": late_ms},
    ):
        waiting[schedule_id] = min((due_ms, run_id), waiting.get(schedule_id, (due_ms, run_id)))
    found = []
    for row in database.rows(
        """SELECT id, name, queue, last_status, last_success_at, success_count > 0, skipped_count,
               success_count = 0 AND EXISTS (
                   SELECT 1 FROM executions AS e INDEXED BY executions_active
                   WHERE e.schedule_id = schedules.id AND e.status IN ('queued', 'running')),
               iif(next_run_at < :late, next_run_at, NULL), NULL
           FROM schedules
           WHERE deleted_at IS NULL AND enabled AND trigger_error IS NULL AND vanished_at IS NULL
               AND (paused_until IS NULL OR paused_until <= :now) AND (
                   last_status IN ('failed', 'interrupted')
                   OR success_count = 0 AND skipped_count > 0
                       AND run_count <= failed_count + cancelled_count + interrupted_count
                   OR next_run_at < :late
                   OR id IN (SELECT CAST(value AS BIGINT) FROM json_each(:waiting)))""",
        {"now": now_ms, "late": late_ms, "waiting": json.dumps(list(waiting))},
    ):
        one = Suspect._make(row)
        due_ms, run_id = waiting.get(one.id, (None, None))
        if due_ms is not None and (one.due_ms is None or due_ms < one.due_ms):
            one = one._replace(due_ms=due_ms, waiting_id=run_id)
        found.append(one)
    return found


def find_streak(database: Connection, schedule_id: int) -> Streak:
    """Count the fires that failed since the last success of a schedule. Retries belong to them."""
    [(last_success_ms, pruned_until_ms)] = database.rows(
        "SELECT coalesce(last_success_at, 0), coalesce(pruned_until, 0) FROM schedules"
        " WHERE id = :id",
        {"id": schedule_id},
    )
    [(count, since_ms, read, oldest_ms)] = database.rows(
        f"""SELECT count(DISTINCT iif(has_failed, fire, NULL)),
                min(iif(has_failed, finished_at, NULL)), count(*), min(finished_at)
            FROM (SELECT finished_at, status IN ('failed', 'interrupted')
                      AND finished_at > :success AS has_failed,
                      concat_ws(' ', scope_kind, scope_id, plan_at, fire_key) AS fire
                  FROM executions INDEXED BY executions_by_schedule
                  WHERE schedule_id = :id ORDER BY id DESC LIMIT {_MOST_FAILED}) AS runs""",
        {"id": schedule_id, "success": last_success_ms},
    )
    is_cut = read == _MOST_FAILED and (oldest_ms or 0) > last_success_ms
    return Streak(count, since_ms, is_cut or pruned_until_ms > last_success_ms)


def find_standings(
    database: Connection,
    choice: Choice | None = None,
    *,
    now_ms: int,
    after: str | None = None,
    limit: int | None = None,
) -> list[Standing]:
    """How schedules stand, by name: all, a choice of them, or a page of either."""
    where, params = page_where(choice, now_ms=now_ms, after=after, limit=limit)
    rows = read_rows(database, COLUMNS, f"FROM schedules {where}", params)
    return [shown_standing(row) for row in rows]


def page_where(
    choice: Choice | None, *, now_ms: int, after: str | None, limit: int | None
) -> tuple[str, dict[str, Any]]:
    """Return a WHERE clause that selects a page of schedules by name, and its parameters."""
    wheres = ["deleted_at IS NULL", "name > :after"]
    params: dict[str, Any] = {"after": after or "", "limit": 2**62 if limit is None else limit}
    if choice is not None:
        if choice.group is not None:
            wheres.append("group_name = :group")
            params["group"] = choice.group
        if choice.is_failed:
            wheres.append("last_status IN ('failed', 'interrupted')")
        if choice.is_paused:
            wheres.append("(NOT enabled OR paused_until > :now)")
            params["now"] = now_ms
        for number, word in enumerate(choice.words):
            # SQLite's own `lower` knows only ASCII.
            fold = "lower" if word.isascii() else "casefold"
            wheres.append(f"instr({fold}({_WORDS}), :word_{number}) > 0")
            params[f"word_{number}"] = word.casefold()
    return f"WHERE {' AND '.join(wheres)} ORDER BY name LIMIT :limit", params


def standing_of(row: tuple[Any, ...]) -> Standing:
    """How a schedule stands, from COLUMNS. Raises Unreadable."""
    try:
        return Standing(
            name=row[0],
            triggers=texts_of(json.loads(row[1])),
            enabled=bool(row[2]),
            paused_until=None if row[3] is None else from_ms(row[3]),
            next_run_at=None if row[4] is None else from_ms(row[4]),
            trigger_error=row[5],
            last_status=row[6],
            last_run_at=None if row[7] is None else from_ms(row[7]),
            run_count=row[8],
            planned_count=row[9],
            max_runs=row[10],
            until_at=None if row[11] is None else from_ms(row[11]),
            vanished_at=None if row[12] is None else from_ms(row[12]),
            is_done=bool(row[13]),
            is_active=bool(row[14]),
            gone_upstreams=tuple((row[15] or "").split()),
            timezone=row[16],
            is_excluded=row[17] is not None and _is_excluded(row[17], row[16]),
        )
    except SENSELESS as error:
        raise unreadable("schedule", error, name=row[0]) from error


def _is_excluded(column: str, timezone: str | None) -> bool:
    """Whether windows exclude the next time of a schedule, from _WINDOWS and its zone."""
    between, not_between, except_days, plan_ms = json.loads(column)
    with suppress(UnknownTimezone):
        windows = windows_in(between, not_between, except_days, timezone)
        return windows is not None and not windows.is_open(plan_ms)
    return False


def read_rows(
    database: Connection, columns: Sequence[str], rest: str, params: Params | None = None
) -> list[tuple[Any, ...]]:
    """Columns of schedules. If a text is not UTF-8, each wrong byte is shown as a mark."""
    with suppress(Unreadable):
        return database.rows(f"SELECT {', '.join(columns)} {rest}", params)
    raw = (database.as_bytes(one) for one in columns)
    return [
        tuple(
            value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row
        )
        for row in database.rows(f"SELECT {', '.join(raw)} {rest}", params)
    ]


def shown_standing(row: tuple[Any, ...]) -> Standing:
    """How a schedule stands, from COLUMNS; one that can't be read is broken."""
    try:
        return standing_of(row)
    except Unreadable as error:
        return Standing(
            name=row[0],
            triggers=(),
            enabled=True,
            paused_until=None,
            next_run_at=None,
            trigger_error=error.message,
            last_status=None,
            last_run_at=None,
            run_count=0,
            planned_count=0,
            max_runs=None,
            until_at=None,
            vanished_at=None,
        )


_RUNS_READ = 100  # newest runs of a schedule that are read for its line
_ACTIVE = """(SELECT count(*) FROM executions AS e INDEXED BY executions_active
    WHERE e.schedule_id = schedules.id AND e.status IN ('queued', 'running'))"""
_RUNNING = """(SELECT count(*) FROM executions AS e INDEXED BY executions_active
    WHERE e.schedule_id = schedules.id AND e.status IN ('queued', 'running')
        AND e.status = 'running')"""
_LINE = ("id", "timezone", "group_name", _ACTIVE, _RUNNING, "compiled", *COLUMNS)
_KEYS = ("id", "name", "last_status", "group_name", "job", *COLUMNS)
_EXISTING = "FROM schedules INDEXED BY schedules_by_name WHERE deleted_at IS NULL"
_REMOVED = "FROM schedules INDEXED BY schedules_removed WHERE deleted_at IS NOT NULL"
_SORTED_BY = {
    SortBy.NEXT: "iif(vanished_at IS NULL, next_run_at, NULL)",
    SortBy.LAST: "last_run_at",
    SortBy.STATUS: """CASE last_status WHEN 'failed' THEN 1 WHEN 'interrupted' THEN 2
        WHEN 'cancelled' THEN 3 WHEN 'skipped' THEN 4 WHEN 'success' THEN 5 END""",
    SortBy.RUNS: "run_count",
}


def find_lines(database: Connection, ids: Sequence[int]) -> list[ScheduleLine]:
    """Return the lines of these schedules, in this order. It skips removed schedules."""
    rest = """FROM schedules
        WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) AND deleted_at IS NULL"""
    lines = {line.id: line for line in _lines(database, rest, {"ids": json.dumps(list(ids))})}
    return [lines[each] for each in ids if each in lines]


def find_first_lines(
    database: Connection, *, limit: int, describes: bool = True
) -> list[ScheduleLine]:
    """Return the lines of the first schedules by name.

    Without `describes`, triggers stay as written: their descriptions need more modules.
    """
    rest = f"{_EXISTING} ORDER BY name LIMIT :limit"
    return _lines(database, rest, {"limit": limit}, describes=describes)


def find_order(database: Connection, sort: SortBy, *, is_descending: bool) -> array[int]:
    """The ids of all schedules, in order.

    Schedules without a value to sort by come last, in either direction; equal ones come by name.
    """
    if sort is SortBy.WHEN:
        return _find_order_by_when(database, is_descending=is_descending)
    direction = "DESC" if is_descending else "ASC"
    if sort is SortBy.NAME:  # The index of names is enough.
        rest = f"{_EXISTING} ORDER BY name {direction}"
    else:
        rest = f"""FROM schedules NOT INDEXED WHERE deleted_at IS NULL
            ORDER BY {_SORTED_BY[sort]} {direction} NULLS LAST, name"""
    return array("q", (row[0] for row in database.each(f"SELECT id {rest}")))


def _find_order_by_when(database: Connection, *, is_descending: bool) -> array[int]:
    from edgecron.planning.times import when_order  # Other orders load no triggers.

    rows = read_rows(database, ("id", "compiled"), f"{_EXISTING} ORDER BY name")
    found = ((compiled, when_order(compiled)) for compiled in {row[1] for row in rows})
    orders = {compiled: order for compiled, order in found if order is not None}
    known = [row for row in rows if row[1] in orders]
    known.sort(key=lambda row: orders[row[1]], reverse=is_descending)
    return array("q", (row[0] for row in known + [row for row in rows if row[1] not in orders]))


def find_order_of(
    database: Connection,
    sort: SortBy,
    *,
    is_descending: bool,
    matches: Callable[[ScheduleKeys], bool],
    now: datetime,
) -> array[int]:
    """The ids of the schedules that match, in the order of `find_order`."""
    # A scan of the table takes a third less time than reading it name by name.
    rest = "FROM schedules NOT INDEXED WHERE deleted_at IS NULL"
    every = (_keys_of(row, now) for row in read_rows(database, _KEYS, rest))
    wanted = {keys.id for keys in every if matches(keys)}
    order = find_order(database, sort, is_descending=is_descending)
    return array("q", (each for each in order if each in wanted))


def find_names(database: Connection) -> list[tuple[int, str]]:
    """(id, name) of every schedule, removed ones included."""
    found = read_rows(database, ("id", "name"), _EXISTING)
    return [(row[0], row[1]) for row in found + read_rows(database, ("id", "name"), _REMOVED)]


def find_jobs(database: Connection) -> dict[int, str]:
    """The stored job of every schedule by its id, removed ones included."""
    return dict(read_rows(database, ("id", "job"), "FROM schedules"))


def find_nearest_names(
    database: Connection, rank: Callable[[str], int | None], *, limit: int
) -> list[str]:
    """The names of the schedules of least rank, equal ones by name; None leaves a name out."""
    names = read_rows(database, ("name",), _EXISTING)
    ranked = ((found, name) for (name,) in names if (found := rank(name)) is not None)
    return [name for _, name in nsmallest(limit, ranked)]


def _lines(
    database: Connection, rest: str, params: Params, *, describes: bool = True
) -> list[ScheduleLine]:
    rows = read_rows(database, _LINE, rest, params)
    return [_line_of(database, row, describes=describes) for row in rows]


def _line_of(database: Connection, row: tuple[Any, ...], *, describes: bool) -> ScheduleLine:
    standing, words = shown_standing(row[6:]), ""
    if describes:
        from edgecron.planning.times import when_words  # A list without these loads no triggers.

        words = when_words(row[5])
    return ScheduleLine(
        id=row[0],
        standing=standing,
        when=words or ", ".join(standing.triggers),
        timezone=row[1],
        group=row[2],
        recent=_find_recent(database, row[0]),
        active=row[3],
        running=row[4],
    )


def _find_recent(database: Connection, schedule_id: int) -> tuple[Recent, ...]:
    rows = database.rows(
        """SELECT status, duration_ms FROM (
               SELECT status, duration_ms, started_at
               FROM executions INDEXED BY executions_by_schedule
               WHERE schedule_id = :schedule ORDER BY id DESC LIMIT :looked_at) AS runs
           WHERE started_at IS NOT NULL AND status NOT IN ('queued', 'running') LIMIT :most""",
        {"schedule": schedule_id, "looked_at": _RUNS_READ, "most": MOST_RECENT},
    )
    return tuple(Recent(*row) for row in reversed(rows))


def _keys_of(row: tuple[Any, ...], now: datetime) -> ScheduleKeys:
    schedule_id, name, last_status, group, job, *standing = row
    state = state_of(shown_standing(tuple(standing)), now=now)
    return ScheduleKeys(schedule_id, name, state, last_status, group, job)
