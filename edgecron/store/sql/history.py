"""Read runs in pages, the newest first, including those of removed schedules.

Pages are keyset pages, never OFFSET. If no index fits, a query walks back through all runs and
takes longer the rarer the wanted runs are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from edgecron.base.errors import Unreadable
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Status
from edgecron.model.listing import RunBounds, RunPage, RunSort
from edgecron.model.run import Execution
from edgecron.store.sql.connection import Connection, Params
from edgecron.store.sql.rows import EXECUTION_COLUMNS, execution_of, unreadable

COLUMNS = f"{', '.join(f'e.{column}' for column in EXECUTION_COLUMNS)}, s.name"
# CROSS fixes the order of the tables: with statistics, SQLite might begin with schedules and sort.
FROM = "FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id"
_UNWELL = (Status.FAILED, Status.SKIPPED, Status.CANCELLED, Status.INTERRUPTED)
_ACTIVE = (Status.QUEUED, Status.RUNNING)
_NEWEST = 2**63 - 1
_LAST_RUNS = 50  # whose durations say what is usual
# The runs of up to this many schedules are found schedule by schedule. Those of more schedules are
# seldom rare.
MOST_SEPARATE = 100


# No index has this time. To walk through 200,000 runs takes a fifth of a second.
_SHOWN_AT = "coalesce(e.started_at, iif(e.status = 'queued', e.due_at, e.plan_at))"


class Wanted(NamedTuple):
    """Which runs are wanted. An empty field, or None, admits every run.

    A reason of None is a run without a reason. Without schedules, `()`, there are no runs. Runs are
    wanted from `since_ms` on and before `until_ms`: by their start, or by their plan time if they
    have not started. They took at least `least_ms` and at most `most_ms`.
    """

    schedule_ids: Sequence[int] | None = None
    statuses: tuple[Status, ...] = ()
    causes: tuple[str, ...] = ()
    reasons: tuple[str | None, ...] = ()
    before_id: int | None = None
    after_id: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    least_ms: int | None = None
    most_ms: int | None = None


def find_page(database: Connection, wanted: Wanted, *, limit: int) -> RunPage:
    """A page of the wanted runs, newest first: the first ones after `after_id`, else the newest.

    The page names runs that can't be read, and has other runs in their place.
    """
    with suppress(Unreadable):
        rows = _rows_of(database, find_page_ids(database, wanted, limit=limit))
        return RunPage(_newest_first(execution_of(row) for row in rows), [])
    is_upwards = wanted.after_id is not None
    found: list[Execution] = []
    unreadable: list[int] = []
    while len(found) < limit:
        ids = find_page_ids(database, wanted, limit=limit)
        for each in reversed(ids) if is_upwards else ids:
            try:
                found += map(execution_of, _rows_of(database, [each]))
            except Unreadable:
                unreadable.append(each)
            if len(found) == limit:
                break
        if len(ids) < limit:
            break
        if is_upwards:
            wanted = wanted._replace(after_id=ids[0])
        else:
            wanted = wanted._replace(before_id=ids[-1])
    return RunPage(_newest_first(found), unreadable)


def find_page_ids(database: Connection, wanted: Wanted, *, limit: int) -> list[int]:
    """The ids of the runs of a page, newest first."""
    ids: list[int] = []
    for statuses in _status_groups(wanted):
        for part in _by_schedule(wanted):
            ids += _walk(database, statuses, part, limit=limit)
    # The page has the ids that are nearest to its beginning.
    ids.sort(reverse=wanted.after_id is None)
    return sorted(ids[:limit], reverse=True)


_SORTED_BY = {
    RunSort.RUN: "e.id",
    RunSort.DURATION: "e.duration_ms",
    RunSort.SCHEDULE: "s.name",
    RunSort.STATUS: """CASE e.status WHEN 'running' THEN 1 WHEN 'queued' THEN 2 WHEN 'failed' THEN 3
        WHEN 'interrupted' THEN 4 WHEN 'cancelled' THEN 5 WHEN 'skipped' THEN 6 ELSE 7 END""",
    RunSort.STARTED: _SHOWN_AT,
    RunSort.NOTE: "e.reason",
}


def find_sorted(
    database: Connection, wanted: Wanted, sort: RunSort, *, is_descending: bool, limit: int
) -> RunPage:
    """The first of the wanted runs in an order; equal ones newest first.

    Those without a value to sort by come last. This reads every wanted run: no index has the order.
    """
    wheres, params = _wheres(wanted.statuses, wanted)
    if wanted.schedule_ids is not None:
        wheres.append("e.schedule_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:schedules))")
        params["schedules"] = json.dumps(list(wanted.schedule_ids))
    where = f"WHERE {' AND '.join(wheres)}" if wheres else ""
    direction = "DESC" if is_descending else "ASC"
    source = FROM if sort is RunSort.SCHEDULE else "FROM executions AS e"
    rows = database.rows(
        f"""SELECT e.id {source} {where}
            ORDER BY {_SORTED_BY[sort]} {direction} NULLS LAST, e.id DESC LIMIT :limit""",
        {**params, "limit": limit},
    )
    found: dict[int, Execution] = {}
    unreadable: list[int] = []
    ids = [row[0] for row in rows]
    try:
        found = {run.id: run for run in map(execution_of, _rows_of(database, ids))}
    except Unreadable:
        for each in ids:
            try:
                found |= {run.id: run for run in map(execution_of, _rows_of(database, [each]))}
            except Unreadable:
                unreadable.append(each)
    return RunPage([found[each] for each in ids if each in found], unreadable)


def find_bounds(database: Connection) -> RunBounds:
    """The first and the last id of all runs."""
    [(first, last)] = database.rows(
        """SELECT coalesce((SELECT min(id) FROM executions), 0),
               coalesce((SELECT max(id) FROM executions), 0)"""
    )
    return RunBounds(first, last)


def _rows_of(database: Connection, ids: list[int]) -> list[tuple[Any, ...]]:
    return database.rows(
        f"""SELECT {COLUMNS} {FROM}
            WHERE e.id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))""",
        {"ids": json.dumps(ids)},
    )


def _newest_first(executions: Iterable[Execution]) -> list[Execution]:
    return sorted(executions, key=lambda execution: -execution.id)


def _status_groups(wanted: Wanted) -> list[tuple[Status, ...]]:
    """Split the wanted statuses into groups, one for each query; `()` is every status.

    Indexes find active runs and runs that did not succeed, status by status. Successes need a walk
    back through all runs, which also finds the other wanted statuses.
    """
    statuses = tuple(dict.fromkeys(wanted.statuses))
    if wanted.reasons and None not in wanted.reasons:
        # Other statuses have no reason.
        statuses = tuple(status for status in statuses or _UNWELL if status in _UNWELL)
    elif not statuses or Status.SUCCESS in statuses:
        return [statuses]
    return [(status,) for status in statuses]


def _by_schedule(wanted: Wanted) -> list[Wanted]:
    """Split what is wanted into one question for each schedule, if they are few."""
    ids = wanted.schedule_ids
    if ids is None or len(ids) > MOST_SEPARATE or not ids:
        return [wanted]
    return [wanted._replace(schedule_ids=(one,)) for one in ids]


def _walk(
    database: Connection, statuses: tuple[Status, ...], wanted: Wanted, *, limit: int
) -> list[int]:
    """The ids of a page: of all schedules, of one, or of many."""
    wheres, params = _wheres(statuses, wanted)
    ids = wanted.schedule_ids
    if ids is not None and len(ids) == 1:
        wheres.append("e.schedule_id = :schedule")
        params["schedule"] = ids[0]
    elif ids is not None:
        # The plus keeps SQLite from sorting all their runs.
        wheres.append("+e.schedule_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:schedules))")
        params["schedules"] = json.dumps(list(ids))
    where = f"WHERE {' AND '.join(wheres)}" if wheres else ""
    index = _index(statuses, is_by_schedule="schedule" in params)
    direction = "DESC" if wanted.after_id is None else ""
    rows = database.rows(
        f"""SELECT e.id FROM executions AS e {index} {where}
            ORDER BY e.id {direction} LIMIT :limit""",
        {**params, "limit": limit},
    )
    return [row[0] for row in rows]


def _wheres(statuses: tuple[Status, ...], wanted: Wanted) -> tuple[list[str], dict[str, Any]]:
    """The conditions, except those of schedules, and their parameters."""
    wheres: list[str] = []
    params: dict[str, Any] = {}
    if len(statuses) == 1:
        wheres.append(f"e.status = {_listed(statuses)}")
        if statuses[0] in _ACTIVE:
            # Repeat the condition of the partial index, so that SQLite can use it.
            wheres.append(f"e.status IN ({_listed(_ACTIVE)})")
    elif statuses:
        wheres.append(f"e.status IN ({_listed(statuses)})")
    for column, values in (("cause", wanted.causes), ("reason", wanted.reasons)):
        if values:
            named = {f"{column}_{at}": value for at, value in enumerate(values)}
            among = f"e.{column} IN ({', '.join(f':{name}' for name in named)})"
            wheres.append(f"({among} OR e.{column} IS NULL)" if None in values else among)
            params |= named
    for bound, compared, value in (
        ("before", "e.id <", wanted.before_id),
        ("after", "e.id >", wanted.after_id),
        ("since", f"{_SHOWN_AT} >=", wanted.since_ms),
        ("until", f"{_SHOWN_AT} <", wanted.until_ms),
        ("least", "e.duration_ms >=", wanted.least_ms),
        ("most", "e.duration_ms <=", wanted.most_ms),
    ):
        if value is not None:
            wheres.append(f"{compared} :{bound}")
            params[bound] = value
    return wheres, params


def _index(statuses: tuple[Status, ...], *, is_by_schedule: bool) -> str:
    """The index to use if SQLite might otherwise walk through all runs or sort them."""
    if len(statuses) == 1 and statuses[0] is Status.QUEUED:
        name = "executions_active" if is_by_schedule else "executions_queued"
    elif len(statuses) == 1 and statuses[0] is Status.RUNNING:
        name = "executions_active"
    elif len(statuses) == 1 and statuses[0] in _UNWELL:
        name = "executions_unwell_by_schedule" if is_by_schedule else "executions_unwell"
    elif is_by_schedule:
        name = "executions_by_schedule"
    else:
        return ""
    return f"INDEXED BY {name}"


def _listed(statuses: tuple[Status, ...]) -> str:
    return ", ".join(repr(status.value) for status in statuses)


def find_execution(database: Connection, execution_id: int) -> Execution | None:
    """One run, or None. Raises Unreadable."""
    return _find_one(database, f"{FROM} WHERE e.id = :id", {"id": execution_id})


def find_executions(
    database: Connection,
    *,
    schedule_id: int | None = None,
    statuses: tuple[Status, ...] = (),
    before_id: int | None = None,
    limit: int = 20,
) -> RunPage:
    """A page of runs, newest first. The next page is before the last id of this one."""
    schedule_ids = None if schedule_id is None else (schedule_id,)
    wanted = Wanted(schedule_ids=schedule_ids, statuses=statuses, before_id=before_id)
    return find_page(database, wanted, limit=limit)


def find_waiting(database: Connection, *, limit: int) -> list[Execution]:
    """Runs that wait for a condition, those with the earliest deadline first."""
    return _find_readable(
        database,
        """FROM executions AS e INDEXED BY executions_owed
           CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.waiting_for IS NOT NULL ORDER BY e.wait_until, e.id LIMIT :limit""",
        {"limit": limit},
    )


def find_runs_by_id(database: Connection, ids: Sequence[int]) -> list[Execution]:
    """The readable runs of these ids, oldest first."""
    if not ids:
        return []
    return _find_readable(
        database,
        f"{FROM} WHERE e.id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) ORDER BY e.id",
        {"ids": json.dumps(list(ids))},
    )


def last_execution_of(database: Connection, schedule_id: int) -> Execution | None:
    """The newest run of a schedule that was started, or None. Raises Unreadable."""
    return _find_one(
        database,
        f"""{FROM} WHERE e.schedule_id = :schedule AND e.claimed_at IS NOT NULL
            ORDER BY e.id DESC LIMIT 1""",
        {"schedule": schedule_id},
    )


def find_next_attempt(database: Connection, execution: Execution) -> Execution | None:
    """The next attempt of the same fire, or None. Raises Unreadable."""
    return _find_one(
        database,
        f"""{FROM} WHERE e.schedule_id = :schedule AND e.scope_kind = :scope_kind
                AND e.scope_id = :scope_id AND e.plan_at = :plan AND e.fire_key = :fire_key
                AND e.attempt = :attempt""",
        {
            "schedule": execution.schedule_id,
            "scope_kind": execution.scope_kind,
            "scope_id": execution.scope_id,
            "plan": to_ms(execution.plan_at),
            "fire_key": execution.fire_key,
            "attempt": execution.attempt + 1,
        },
    )


def find_later(
    database: Connection, schedule_id: int, *, after_id: int, limit: int
) -> list[Execution]:
    """The readable runs of a schedule after an id, oldest first."""
    wanted = Wanted(schedule_ids=(schedule_id,), after_id=after_id)
    return find_page(database, wanted, limit=limit).runs[::-1]


def find_removals(database: Connection, name: str) -> list[tuple[int, int]]:
    """(id, deleted_at) of every removed schedule of this name, the newest first."""
    return database.rows(
        """SELECT id, deleted_at FROM schedules INDEXED BY schedules_removed
           WHERE deleted_at IS NOT NULL AND name = :name ORDER BY deleted_at DESC, id DESC""",
        {"name": name},
    )


def is_removed(database: Connection, execution_id: int) -> bool:
    """Whether retention removed the run of this id. No id is given twice."""
    row = database.row(
        """SELECT 1 WHERE :id BETWEEN 1 AND (SELECT max(id) FROM executions)
               AND NOT EXISTS (SELECT 1 FROM executions WHERE id = :id)""",
        {"id": execution_id},
    )
    return row is not None


def count_active(database: Connection) -> dict[Status, int]:
    """Count the queued and the running runs."""
    rows = database.rows(
        """SELECT status, count(*) FROM executions
           WHERE status IN ('queued', 'running') GROUP BY status"""
    )
    return {Status(status): count for status, count in rows}


def _find_one(database: Connection, rest: str, params: Params) -> Execution | None:
    """The run that the rest of a statement finds, or None. Raises Unreadable with its id."""
    try:
        row = database.row(f"SELECT {COLUMNS} {rest}", params)
    except Unreadable as error:
        found = database.row(f"SELECT e.id {rest}", params)
        assert found is not None
        raise unreadable(f"run {found[0]}", error) from error
    return None if row is None else execution_of(row)


def _find_readable(database: Connection, rest: str, params: Params) -> list[Execution]:
    """The readable runs among those that the rest of a statement finds, in its order."""
    with suppress(Unreadable):
        rows = database.rows(f"SELECT {COLUMNS} {rest}", params)
        return [execution_of(row) for row in rows]
    found: list[Execution] = []
    for (execution_id,) in database.rows(f"SELECT e.id {rest}", params):
        with suppress(Unreadable):
            one = find_execution(database, execution_id)
            found += [] if one is None else [one]
    return found


def find_durations_ms(
    database: Connection, schedule_id: int, *, before_id: int, limit: int
) -> list[int]:
    """How long the last successful runs of a schedule took before a run, the newest first."""
    rows = database.rows(
        """SELECT duration_ms FROM executions
           WHERE schedule_id = :id AND id < :before AND status = 'success'
               AND duration_ms IS NOT NULL
           ORDER BY id DESC LIMIT :limit""",
        {"id": schedule_id, "before": before_id, "limit": limit},
    )
    return [row[0] for row in rows]


def find_usual_ms(database: Connection, schedule_id: int) -> int | None:
    """The median of how long the last successful runs of a schedule took; None without any."""
    found = find_durations_ms(database, schedule_id, before_id=_NEWEST, limit=_LAST_RUNS)
    return sorted(found)[(len(found) - 1) // 2] if found else None


class ActiveIds(NamedTuple):
    """The active runs at one time, by what they do. `owed` ones are queued and await a condition.

    All runs with ids up to `top` are active or have ended.
    """

    top: int
    queued: frozenset[int]
    running: frozenset[int]
    owed: frozenset[int]


def find_active_ids(database: Connection) -> ActiveIds:
    """The active runs. Costs one walk through their index."""
    # First: a run that is added after this is younger.
    top = find_bounds(database).last_id
    # One text per status: 100,000 rows of their own would take twice as long (measured).
    found = dict(
        database.rows(
            """SELECT status, json_group_array(id) FROM executions INDEXED BY executions_active
               WHERE status IN ('queued', 'running') GROUP BY status"""
        )
    )
    owed = database.rows(
        """SELECT json_group_array(id) FROM executions INDEXED BY executions_owed
           WHERE waiting_for IS NOT NULL"""
    )
    return ActiveIds(
        top,
        queued=frozenset(json.loads(found.get("queued", "[]"))),
        running=frozenset(json.loads(found.get("running", "[]"))),
        owed=frozenset(json.loads(owed[0][0])),
    )


def find_ended_ids(database: Connection, *, after_id: int, until_id: int, limit: int) -> list[int]:
    """Ids of runs that have ended, oldest first, after one id and up to another."""
    rows = database.rows(
        """SELECT id FROM executions
           WHERE id > :after AND id <= :until AND status NOT IN ('queued', 'running')
           ORDER BY id LIMIT :limit""",
        {"after": after_id, "until": until_id, "limit": limit},
    )
    return [row[0] for row in rows]
