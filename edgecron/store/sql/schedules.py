"""Read schedules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from typing import Any, TypeVar

from edgecron.base.checks import suggest
from edgecron.base.errors import NotFound, Unreadable
from edgecron.base.units import to_ms
from edgecron.model.conditions import needs_of_fire
from edgecron.model.listing import Acknowledged, Choice, SchedulePage
from edgecron.model.schedule import Definition, Schedule
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.history import find_removals
from edgecron.store.sql.rows import (
    KEPT_COLUMNS,
    OF_QUEUE,
    POLICY_COLUMNS,
    SPEC_COLUMNS,
    definition_of,
    needs_of,
    schedule_of,
    unreadable,
)
from edgecron.store.sql.schedule_lists import IDLE_COLUMNS, page_where

_T = TypeVar("_T")
# Names of columns, each with its SQL, without those of policies.
_NOT_NAMED = {"compiled", *POLICY_COLUMNS}
_DEFINED = {
    **{name: name for name in ("id", *SPEC_COLUMNS, "enabled") if name not in _NOT_NAMED},
    "group_max_running": (
        "(SELECT g.max_running FROM groups AS g WHERE g.name = schedules.group_name)"
    ),
}
_ALL = {
    **_DEFINED,
    **{name: name for name in KEPT_COLUMNS},
    **dict(zip(("is_done", "is_active", "gone_upstreams"), IDLE_COLUMNS, strict=True)),
}
# The schedules that `doctor` must read, found by indexes alone.
_TO_CHECK = """
    SELECT id FROM schedules INDEXED BY schedules_broken
    WHERE trigger_error IS NOT NULL AND deleted_at IS NULL
    UNION SELECT id FROM schedules INDEXED BY schedules_vanished
    WHERE vanished_at IS NOT NULL AND deleted_at IS NULL
    UNION SELECT id FROM schedules INDEXED BY schedules_without_time
    WHERE next_run_at IS NULL AND enabled AND deleted_at IS NULL AND trigger_error IS NULL
        AND done_revision IS NOT revision
    UNION SELECT schedule_id FROM (
        SELECT schedule_id, upstream FROM schedule_upstreams LIMIT :most) AS u
    WHERE NOT EXISTS (
        SELECT 1 FROM schedules AS x WHERE x.name = u.upstream AND x.deleted_at IS NULL)
    UNION SELECT * FROM (SELECT id FROM schedules
        INDEXED BY schedules_of_programs
        WHERE queue != 'command' AND deleted_at IS NULL LIMIT :most) AS own"""
_FIRST_PAGE, _PAGE = 20, 500
_BEFORE_ALL_MS = -(1 << 62)


_ACKNOWLEDGED = "edgecron:acknowledged"  # a key of `state` that jobs do not see
_MOST_ACKNOWLEDGED = 100  # errors of a schedule


def find_upstreams(database: Connection) -> list[tuple[str, str]]:
    """(schedule, upstream) by name, of every schedule that follows another one."""
    return database.rows(
        """SELECT s.name, u.upstream FROM schedule_upstreams AS u
           JOIN schedules AS s ON s.id = u.schedule_id
           WHERE s.deleted_at IS NULL ORDER BY s.name, u.upstream"""
    )


def find_needs(database: Connection) -> list[tuple[str, tuple[str, ...]]]:
    """(schedule, texts of its conditions) by name, of every schedule that has conditions."""
    rows = database.rows(
        """SELECT name, needs, triggers FROM schedules
           WHERE deleted_at IS NULL AND (
               needs <> '[]' AND json_type(needs) = 'array' OR instr(triggers, '"once in ') > 0)
           ORDER BY name"""
    )
    found = [(row[0], needs_of_fire(needs_of(row[1]), *needs_of(row[2]))) for row in rows]
    return [(name, texts) for name, texts in found if texts]


def find_demands(database: Connection) -> list[tuple[str, bool, bool, bool, bool]]:
    """Find schedules that limit memory or processor time, keep the machine awake or wake it."""
    rows = database.rows(
        """SELECT name, memory_max IS NOT NULL, cpu_max IS NOT NULL, keep_awake, wake
           FROM schedules
           WHERE deleted_at IS NULL
               AND (memory_max IS NOT NULL OR cpu_max IS NOT NULL OR keep_awake OR wake)
           ORDER BY name"""
    )
    return [(row[0], bool(row[1]), bool(row[2]), bool(row[3]), bool(row[4])) for row in rows]


def find_schedule(database: Connection, name: str) -> Schedule | None:
    """The schedule of this name, or None."""
    found = _find(
        database, " WHERE name = :name AND deleted_at IS NULL", {"name": name}, read=_read_schedules
    )
    return found[0] if found else None


def get_schedule(database: Connection, name: str) -> Schedule:
    """The schedule of this name.

    Raises NotFound, which says if it was removed, or suggests a similar name.
    """
    found = find_schedule(database, name)
    if found is None:
        if find_removals(database, name):
            raise NotFound(
                f"schedule {name!r} was removed", hint=f"restore it: edgecron undo {name}"
            )
        close = suggest(name, find_names(database))
        raise NotFound(
            f"there is no schedule {name!r}",
            hint=f"did you mean {close!r}?" if close else "see: edgecron list",
        )
    return found


def find_id(database: Connection, name: str) -> int | None:
    """The id of the schedule of this name, even if its row can't be read; or None."""
    row = database.row(
        "SELECT id FROM schedules WHERE name = :name AND deleted_at IS NULL", {"name": name}
    )
    return None if row is None else int(row[0])


def find_last_removed(database: Connection, name: str | None) -> list[tuple[Schedule, str | None]]:
    """The schedules that were removed last, with their `removed_state`; several if together.

    With a name, the last removed schedule of this name.
    """
    rows = database.rows(
        """SELECT id, removed_state FROM schedules INDEXED BY schedules_removed
           WHERE deleted_at IS NOT NULL AND (:name IS NULL OR name = :name)
               AND deleted_at = (
                   SELECT max(deleted_at) FROM schedules INDEXED BY schedules_removed
                   WHERE deleted_at IS NOT NULL AND (:name IS NULL OR name = :name))
           ORDER BY id DESC""",
        {"name": name},
    )
    states = dict(rows if name is None else rows[:1])
    found = _find(
        database,
        " WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) ORDER BY name",
        {"ids": json.dumps(list(states))},
        read=_read_schedules,
    )
    return [(schedule, states[schedule.id]) for schedule in found]


def find_schedules(database: Connection) -> list[Schedule]:
    """Return all schedules, by name."""
    where, params = page_where(None, now_ms=0, after=None, limit=None)
    return _find(database, f" {where}", params, read=_read_schedules)


def find_definitions(database: Connection) -> list[Definition]:
    """Return schedules as documents define them, by name: in half the time of `find_schedules`."""
    # A scan of the table takes less time than reading it name by name.
    where = " NOT INDEXED WHERE deleted_at IS NULL"
    found = _find(database, where, {}, read=_read_definitions)
    return sorted(found, key=lambda definition: definition.spec.name)


def find_each_schedule(
    database: Connection, *, most: int | None = None
) -> tuple[list[Schedule], list[tuple[int, Unreadable]]]:
    """Every readable schedule, by name, and (id, error) of every unreadable one.

    If there are more than `most`: at most that number of each kind. The kinds are: broken,
    vanished, without their next time, following a removed schedule, belonging to a program.
    """
    where = "WHERE deleted_at IS NULL"
    if most is not None and _count(database) > most:
        where += f" AND id IN ({_TO_CHECK}) ORDER BY name LIMIT :most"
    found, bad = _find_readable(database, f" {where}", {"most": most}, read=_read_schedules)
    return sorted(found, key=lambda schedule: schedule.name), bad


def find_schedule_page(
    database: Connection,
    choice: Choice | None,
    *,
    now_ms: int,
    after: str | None,
    limit: int | None,
) -> SchedulePage:
    """A page of schedules as of `find_schedules`, with the names of the unreadable ones."""
    where, params = page_where(choice, now_ms=now_ms, after=after, limit=limit)
    found, bad = _find_readable(database, f" {where}", params, read=_read_schedules)
    ids = json.dumps([schedule_id for schedule_id, _ in bad])
    names = database.rows(
        """SELECT CAST(name AS BLOB) FROM schedules
           WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids)) ORDER BY name""",
        {"ids": ids},
    )
    return SchedulePage(found, [name.decode(errors="replace") for (name,) in names])


def count_waiting(database: Connection) -> dict[str, int]:
    """By queue, count the schedules that need an engine: at their next time or the next boot, or
    for a run that is queued."""
    rows = database.rows(
        """SELECT queue, count(*) FROM schedules INDEXED BY schedules_due
           WHERE next_run_at IS NOT NULL AND enabled GROUP BY queue
           UNION ALL
           SELECT queue, count(*) FROM schedules INDEXED BY schedules_boot
           WHERE on_boot AND enabled AND deleted_at IS NULL AND next_run_at IS NULL GROUP BY queue
           UNION ALL
           SELECT s.queue, count(*)
           FROM (SELECT DISTINCT schedule_id FROM executions INDEXED BY executions_active
               WHERE status = 'queued' AND status IN ('queued', 'running')) AS e
           CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE s.next_run_at IS NULL AND NOT s.on_boot AND s.deleted_at IS NULL
               AND s.vanished_at IS NULL GROUP BY s.queue
           UNION ALL
           SELECT queue, -count(*) FROM schedules INDEXED BY schedules_vanished
           WHERE vanished_at IS NOT NULL AND deleted_at IS NULL
               AND enabled AND (next_run_at IS NOT NULL OR on_boot) GROUP BY queue"""
    )
    counts: Counter[str] = Counter()
    for queue, count in rows:
        counts[queue] += count
    return {queue: count for queue, count in counts.items() if count}


def _count(database: Connection) -> int:
    [(count,)] = database.rows("SELECT count(*) FROM schedules WHERE deleted_at IS NULL")
    return int(count)


def coming_schedules(
    database: Connection, *, matches: Callable[[str], bool] | None = None
) -> Iterator[Schedule]:
    """Every schedule with a next time, the earliest first, read page by page.

    With `matches`, only those whose names match. A schedule that changes meanwhile can be returned
    twice, or as it was before.
    """
    queues = database.rows(
        """WITH RECURSIVE each (queue) AS (
               SELECT min(queue) FROM schedules
               WHERE next_run_at IS NOT NULL AND enabled
               UNION ALL
               SELECT (SELECT min(queue) FROM schedules
                       WHERE queue > each.queue AND next_run_at IS NOT NULL AND enabled)
               FROM each WHERE each.queue IS NOT NULL)
           SELECT queue FROM each WHERE queue IS NOT NULL"""
    )
    return merge(
        *(_coming_of(database, queue, matches) for (queue,) in queues),
        key=lambda schedule: schedule.next_run_at or schedule.decided_until,
    )


def _coming_of(
    database: Connection, queue: str, matches: Callable[[str], bool] | None
) -> Iterator[Schedule]:
    run_ms, last_id, size = _BEFORE_ALL_MS, 0, _FIRST_PAGE
    while True:
        # Read whole schedules only if they match.
        page = database.rows(
            """SELECT id, name, next_run_at FROM schedules
               WHERE queue = :queue AND next_run_at IS NOT NULL AND enabled
                   AND (next_run_at, id) > (:run, :id)
               ORDER BY next_run_at, id LIMIT :size""",
            {"queue": queue, "run": run_ms, "id": last_id, "size": size},
        )
        wanted = [row[0] for row in page if matches is None or matches(row[1])]
        # An unreadable schedule must not hide the others: `list` shows it as broken.
        found, _ = _find_readable(
            database,
            """ WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
                AND next_run_at IS NOT NULL AND enabled""",
            {"ids": json.dumps(wanted)},
            read=_read_schedules,
        )
        yield from sorted(found, key=lambda schedule: (schedule.next_run_at, schedule.id))
        if len(page) < size:
            return
        (last_id, _, run_ms), size = page[-1], min(2 * size, _PAGE)


def find_names(database: Connection) -> list[str]:
    """The names of all schedules."""
    return [row[0] for row in database.rows("SELECT name FROM schedules WHERE deleted_at IS NULL")]


def find_names_in_queue(database: Connection, queue: str) -> list[str]:
    """The names of the schedules of a queue."""
    rows = database.rows(
        f"SELECT name FROM schedules WHERE {OF_QUEUE} AND deleted_at IS NULL", {"queue": queue}
    )
    return [row[0] for row in rows]


def find_ids_of_name(database: Connection, name: str) -> list[int]:
    """The ids of all schedules of a name, including removed ones."""
    rows = database.rows("SELECT id FROM schedules WHERE name = :name ORDER BY id", {"name": name})
    return [row[0] for row in rows]


def is_unchanged(database: Connection, schedule: Schedule) -> bool:
    """Whether a schedule still exists as it was read."""
    found = database.rows(
        """SELECT 1 FROM schedules
           WHERE id = :id AND revision = :revision AND deleted_at IS NULL""",
        {"id": schedule.id, "revision": schedule.revision},
    )
    return bool(found)


def is_decided_early(database: Connection, schedule: Schedule, *, now_ms: int) -> bool:
    """Whether the last decided time of a schedule was decided before it came.

    This happens if a person ran it early. A clock that was set back does not count.
    """
    found = database.rows(
        """SELECT 1 FROM schedule_scopes AS c CROSS JOIN executions AS e
               ON e.schedule_id = c.schedule_id AND e.scope_kind = c.scope_kind
               AND e.scope_id = c.scope_id
           WHERE c.schedule_id = :id AND e.plan_at = :decided AND e.plan_at > :now
               AND e.fire_key = '' AND coalesce(e.queued_at, e.finished_at) <= :now LIMIT 1""",
        {"id": schedule.id, "decided": to_ms(schedule.decided_until), "now": now_ms},
    )
    return bool(found)


def has_active(database: Connection, schedule: Schedule) -> bool:
    """Whether a schedule has queued or running runs."""
    found = database.rows(
        """SELECT 1 FROM executions INDEXED BY executions_active
           WHERE schedule_id = :id AND status IN ('queued', 'running') LIMIT 1""",
        {"id": schedule.id},
    )
    return bool(found)


def compiled_of(database: Connection, schedule: Schedule) -> str:
    """The expanded triggers of a schedule, a JSON array."""
    row = database.row("SELECT compiled FROM schedules WHERE id = :id", {"id": schedule.id})
    assert row is not None
    return str(row[0])


def find_state(database: Connection, schedule_id: int) -> dict[str, str]:
    """Return the state of a schedule: JSON texts by key, in the order of keys."""
    rows = database.rows(
        """SELECT key, value FROM state
           WHERE schedule_id = :schedule AND key != :own ORDER BY key""",
        {"schedule": schedule_id, "own": _ACKNOWLEDGED},
    )
    return dict(rows)


def write_state(database: Connection, schedule_id: int, changes: Mapping[str, str | None]) -> None:
    """Change the state of a schedule, inside the caller's transaction."""
    gone = [key for key, value in changes.items() if value is None]
    kept = [(key, value) for key, value in changes.items() if value is not None]
    if gone:
        database.change_many(
            "DELETE FROM state WHERE schedule_id = :schedule AND key = :key",
            [{"schedule": schedule_id, "key": key} for key in gone],
        )
    if kept:
        # An invalid value must not prevent the end that it comes with.
        database.change_many(
            """INSERT INTO state (schedule_id, key, value)
               SELECT :schedule, :key, :value WHERE json_valid(:value)
               ON CONFLICT (schedule_id, key) DO UPDATE SET value = excluded.value
                   WHERE state.value IS NOT excluded.value""",
            [{"schedule": schedule_id, "key": key, "value": value} for key, value in kept],
        )


def count_state(database: Connection, schedule_id: int) -> int:
    """Count the keys of a schedule's state."""
    [(count,)] = database.rows(
        "SELECT count(*) FROM state WHERE schedule_id = :schedule AND key != :own",
        {"schedule": schedule_id, "own": _ACKNOWLEDGED},
    )
    return int(count)


def find_acknowledged(database: Connection, schedule_ids: Sequence[int]) -> list[Acknowledged]:
    """Return the acknowledged failures of schedules: the newest run of each error."""
    return [
        Acknowledged(schedule_id, error, execution_id)
        for schedule_id in schedule_ids
        for error, execution_id in _acknowledged_of(database, schedule_id).items()
    ]


def acknowledge(database: Connection, schedule_id: int, error: str, execution_id: int) -> None:
    """Acknowledge failures of a schedule with an error, up to a run of it. Raises NotFound."""
    with database.transaction():
        run = database.row(
            "SELECT 1 FROM executions WHERE id = :id AND schedule_id = :schedule",
            {"id": execution_id, "schedule": schedule_id},
        )
        if run is None:
            raise NotFound(f"schedule number {schedule_id} has no run {execution_id}")
        known = _acknowledged_of(database, schedule_id)
        known[error] = max(execution_id, known.get(error, 0))
        newest = sorted(known.items(), key=lambda one: -one[1])[:_MOST_ACKNOWLEDGED]
        value = json.dumps(dict(newest), separators=(",", ":"))
        write_state(database, schedule_id, {_ACKNOWLEDGED: value})


def _acknowledged_of(database: Connection, schedule_id: int) -> dict[str, int]:
    row = database.row(
        "SELECT value FROM state WHERE schedule_id = :schedule AND key = :own",
        {"schedule": schedule_id, "own": _ACKNOWLEDGED},
    )
    return {} if row is None else dict(json.loads(row[0]))


_Reader = Callable[[Connection, str, dict[str, Any]], list[_T]]


def _find(
    database: Connection, where: str, params: dict[str, Any], *, read: _Reader[_T]
) -> list[_T]:
    """Find schedules. Raises Unreadable with the name of the first unreadable one."""
    found, bad = _find_readable(database, where, params, read=read)
    if bad:
        raise bad[0][1]
    return found


def _find_readable(
    database: Connection, where: str, params: dict[str, Any], *, read: _Reader[_T]
) -> tuple[list[_T], list[tuple[int, Unreadable]]]:
    """The readable schedules, and (id, error) of each unreadable one."""
    with suppress(Unreadable):
        return read(database, where, params), []
    found: list[_T] = []
    bad: list[tuple[int, Unreadable]] = []
    for schedule_id, name in database.rows(
        f"SELECT id, CAST(name AS BLOB) FROM schedules{where}", params
    ):
        try:
            found += read(database, " WHERE id = :id", {"id": schedule_id})
        except Unreadable as error:
            named = unreadable("schedule", error, name=name.decode(errors="replace"))
            bad.append((schedule_id, named))
    return found, bad


def _read_schedules(database: Connection, where: str, params: dict[str, Any]) -> list[Schedule]:
    """Read schedules. Raises Unreadable if one of them can't be read."""
    return [schedule_of(*each) for each in _rows(database, _ALL, where, params)]


def _read_definitions(database: Connection, where: str, params: dict[str, Any]) -> list[Definition]:
    """Read definitions of schedules. Raises Unreadable if one of them can't be read."""
    return [definition_of(*each) for each in _rows(database, _DEFINED, where, params)]


def _rows(
    database: Connection, columns: Mapping[str, str], where: str, params: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], tuple[tuple[str, str], ...], tuple[Any, ...]]]:
    """Yield the columns of schedules by name, an `id` among them, their scopes and policies.

    The policies are most of the columns: to name each of them takes as long as to read it.
    """
    wanted = ", ".join((*columns.values(), *POLICY_COLUMNS))
    rows = database.rows(f"SELECT {wanted} FROM schedules{where}", params)
    count = len(columns)
    place = list(columns).index("id")
    scopes: dict[int, list[tuple[str, str]]] = {row[place]: [] for row in rows}
    for schedule_id, kind, scope_id in database.rows(
        """SELECT schedule_id, scope_kind, scope_id FROM schedule_scopes
           WHERE schedule_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
           ORDER BY schedule_id, scope_kind, scope_id""",
        {"ids": json.dumps(list(scopes))},
    ):
        scopes[schedule_id].append((kind, scope_id))
    for row in rows:
        named = dict(zip(columns, row, strict=False))
        yield named, tuple(scopes[row[place]]), row[count:]
