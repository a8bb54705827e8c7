"""Read due schedules and runs, and the next times, without a lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from edgecron.base.errors import Unreadable
from edgecron.model.choices import Hold
from edgecron.model.engine import CALL, IMPORTED, Offers, find_program
from edgecron.planning.next_fire import Due
from edgecron.store.contract import Subject
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.rows import PARTS_OF_QUEUE

_MOST_DELAYED = 10_000  # that are listed
# Queued rows that are due later than they were queued: delayed manual runs, and rows that wait for
# a window. After a clock was set back, other rows can also be due in the future.
IS_DELAYED = "due_at > :now AND due_at > queued_at"
MOST_UPCOMING = 1024  # schedules of one instant that are loaded before it: 1.4 KB each

# The condition on schedules for each hold.
_HELD = {
    Hold.NOTHING: "",
    Hold.CALENDAR: "AND trusted_until IS NOT NULL",
    Hold.ALL: "AND FALSE",
}


def find_due(
    database: Connection,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    limit: int,
    hold: Hold = Hold.NOTHING,
    offers: Offers | None = None,
) -> list[Due]:
    """Return schedules whose next fire can start, earliest first, at most `limit`."""
    found: list[Due] = []
    for queue in queues:
        offered, values = among(database, queue, offers)
        sql = f"""SELECT id, revision, next_plan_at, next_run_at, decided_until, paused_until,
                   planned_count, next_source, repeats_since
               FROM schedules
               WHERE queue = :queue AND next_run_at IS NOT NULL AND enabled
                   AND next_run_at <= :now
                   {_HELD[hold]} {offered}
               ORDER BY next_run_at LIMIT :limit"""
        params = {"queue": queue, "now": now_ms, "limit": limit, **values}
        try:
            rows = database.rows(sql, params)
        except Unreadable:
            # `next_source` is the only text of these columns, and the plan can do without it.
            rows = database.rows(sql.replace("next_source,", "NULL,"), params)
        found.extend(map(Due._make, rows))  # Their columns are the fields, in order.
    if len(queues) > 1:
        found.sort(key=lambda due: due.due_ms)
    return found[:limit]


def has_priority_due(database: Connection, queues: tuple[str, ...], *, now_ms: int) -> bool:
    """Whether a schedule that is due has another priority than the normal one."""
    return any(
        database.rows(
            """SELECT 1 FROM schedules INDEXED BY schedules_of_priority
               WHERE queue = :queue AND next_run_at <= :now AND enabled
                   AND priority <> 0 AND next_run_at IS NOT NULL LIMIT 1""",
            {"queue": queue, "now": now_ms},
        )
        for queue in queues
    )


# Whether an `on boot` schedule was one in this queue at the boot. Retention keeps no definition of
# long ago.
_WAS_SO = """coalesce(
    (SELECT r.snapshot ->> 'queue' = schedules.queue
         AND instr(r.snapshot ->> 'triggers', '"on boot"') > 0
     FROM schedule_revisions AS r
     WHERE r.schedule_id = schedules.id AND r.at <= :booted AND json_valid(r.snapshot)
     ORDER BY r.revision DESC LIMIT 1),
    created_at <= :booted)"""
# Whether it has been resumed or restored since the boot, a pause has ended by itself since, or a
# pause has skipped a boot since. A pause that continues is recorded for each boot.
_WAS_HELD = """(paused_until > :booted AND paused_until <= :now) IS TRUE
    OR EXISTS (SELECT 1 FROM schedule_changes AS c
        WHERE c.schedule_id = schedules.id AND c.at > :booted
            AND (instr(c.state, '"enabled":[false,true]') > 0
                OR c.state LIKE '%"paused_until":[%,null]%'
                OR instr(c.state, '"removed":[true,false]') > 0))
    OR EXISTS (SELECT 1 FROM executions AS e
        WHERE e.schedule_id = schedules.id AND e.status = 'skipped' AND e.reason = 'paused'
            AND e.missed_to_at >= :booted)"""


def find_boot_due(
    database: Connection,
    queues: tuple[str, ...],
    *,
    boot_id: str,
    booted_ms: int | None = None,
    now_ms: int | None = None,
    offers: Offers | None = None,
) -> list[tuple[int, int]]:
    """Return (id, revision) of enabled `on boot` schedules that this boot has not decided.

    With `booted_ms` and `now_ms`, only those that were `on boot` in this queue at the boot, and
    not paused since: another machine has added, edited or resumed the others.
    """
    found: list[tuple[int, int]] = []
    for queue in queues:
        offered, values = among(database, queue, offers)
        found += database.rows(
            f"""SELECT id, revision FROM schedules
               WHERE on_boot AND enabled AND deleted_at IS NULL AND boot_decided IS NOT :boot
                   AND queue = :queue AND trigger_error IS NULL
                   AND (:booted IS NULL OR {_WAS_SO} AND NOT ({_WAS_HELD})) {offered}""",
            {"boot": boot_id, "queue": queue, "booted": booted_ms, "now": now_ms, **values},
        )
    return sorted(found)


def is_used(database: Connection, queue: str) -> bool:
    """Whether a schedule of a queue will fire, fires on boot, or has a queued row.

    Placed schedules count, on whichever machine.
    """
    for which in PARTS_OF_QUEUE:  # Each by an index, which both together would not use.
        [(found,)] = database.rows(
            f"""SELECT EXISTS (SELECT 1 FROM schedules
                   WHERE {which} AND next_run_at IS NOT NULL AND enabled)
               OR EXISTS (SELECT 1 FROM schedules
                   WHERE {which} AND on_boot AND enabled AND deleted_at IS NULL)
               OR EXISTS (SELECT 1 FROM executions
                   WHERE {which} AND status = 'queued' AND waiting_for IS NULL)
               OR EXISTS (SELECT 1 FROM executions
                   WHERE {which} AND wait_until IS NOT NULL)""",
            {"queue": queue},
        )
        if found:
            return True
    return False


def find_placed(database: Connection, queues: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of these placed queues that have a schedule or a queued row."""
    rows = database.rows(
        """SELECT q.value FROM json_each(:queues) AS q
           WHERE EXISTS (SELECT 1 FROM schedules AS s
               WHERE s.queue = q.value AND s.queue != 'command' AND s.deleted_at IS NULL)
           OR (SELECT max(priority) FROM executions AS e WHERE e.queue = q.value
               AND e.status = 'queued' AND e.waiting_for IS NULL) IS NOT NULL
           OR (SELECT min(wait_until) FROM executions AS e WHERE e.queue = q.value
               AND e.wait_until IS NOT NULL) IS NOT NULL""",
        {"queues": json.dumps(queues)},
    )
    return tuple(queue for (queue,) in rows)


def find_delayed(
    database: Connection, *, now_ms: int, schedule_id: int | None = None
) -> list[tuple[str, int, int]]:
    """Return (schedule, plan time, due time) of manual runs that are due later, the next first."""
    found: list[tuple[str, int, int]] = database.rows(
        f"""SELECT s.name, e.plan_at, e.due_at
           FROM executions AS e INDEXED BY executions_active
           CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status = 'queued' AND e.status IN ('queued', 'running')
               AND e.schedule_id = coalesce(:schedule, e.schedule_id)
               AND e.cause = 'manual' AND {IS_DELAYED} LIMIT :most""",
        {"schedule": schedule_id, "now": now_ms, "most": _MOST_DELAYED},
    )
    return sorted(found, key=itemgetter(2))


def next_wake_ms(database: Connection) -> int | None:
    """Return the next time for which the sleeping machine is to wake; None if there is none."""
    row = database.row(
        "SELECT min(next_run_at) FROM schedules WHERE wake AND next_run_at IS NOT NULL"
    )
    return None if row is None else row[0]


# Of schedules that except a calendar: its days follow it.
_WITH_CALENDARS = """FROM schedules INDEXED BY schedules_with_calendars
    WHERE instr(except_days, ' = ') AND deleted_at IS NULL"""


def has_calendars(database: Connection) -> bool:
    """Whether any schedule excepts the days of a calendar."""
    return bool(database.rows(f"SELECT 1 {_WITH_CALENDARS} LIMIT 1"))


def find_calendar_users(database: Connection) -> list[str]:
    """The names of the schedules that except the days of a calendar."""
    return [row[0] for row in database.rows(f"SELECT name {_WITH_CALENDARS} ORDER BY id")]


def next_due_ms(
    database: Connection,
    queues: tuple[str, ...],
    *,
    now_ms: int,
    hold: Hold = Hold.NOTHING,
    offers: Offers | None = None,
) -> int | None:
    """Return the next time that an engine of these queues has something to do.

    That is the earliest of: a schedule is due, a queued row is due, a pause ends, the wait for a
    condition ends. Rows that are due already wait for a place, and do not count.
    """
    times: list[int] = []
    for queue in queues:
        offered, values = among(database, queue, offers)
        times.extend(
            row[0]
            for row in database.rows(
                f"""SELECT min(next_run_at) FROM schedules
                   WHERE queue = :queue AND next_run_at IS NOT NULL AND enabled
                       {_HELD[hold]} {offered}
                   UNION ALL
                   SELECT min(paused_until) FROM schedules
                   WHERE queue = :queue AND paused_until > :now""",
                {"queue": queue, "now": now_ms, **values},
            )
            if row[0] is not None
        )
        times.extend(_queued_due_ms(database, queue, now_ms))
        if hold is Hold.NOTHING:
            times.extend(_deadline_ms(database, queue))
    return min(times, default=None)


def _deadline_ms(database: Connection, queue: str) -> list[int]:
    """Return when the first row of a queue stops waiting for a condition."""
    row = database.row(
        """SELECT min(wait_until) FROM executions
           WHERE queue = :queue AND wait_until IS NOT NULL""",
        {"queue": queue},
    )
    return [] if row is None or row[0] is None else [row[0]]


def _queued_due_ms(database: Connection, queue: str, now_ms: int) -> Iterator[int]:
    """Yield for each priority when the next queued row will be due."""
    for priority in priorities(database, queue):
        row = database.row(
            """SELECT min(due_at) FROM executions
               WHERE status = 'queued' AND queue = :queue AND waiting_for IS NULL
                   AND priority = :priority AND due_at > :now""",
            {"queue": queue, "priority": priority, "now": now_ms},
        )
        if row is not None and row[0] is not None:
            yield row[0]


def find_next(database: Connection, queues: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the name of the schedule that fires next, and when; None if none will fire."""
    found = [
        (at_ms, name)
        for queue in queues
        for name, at_ms in database.rows(
            """SELECT name, next_run_at FROM schedules
               WHERE queue = :queue AND next_run_at IS NOT NULL AND enabled
                   AND vanished_at IS NULL
               ORDER BY next_run_at LIMIT 1""",
            {"queue": queue},
        )
    ]
    if not found:
        return None
    at_ms, name = min(found)
    return name, at_ms


def find_subject(
    database: Connection, execution_id: int | None, schedule: str | None
) -> Subject | None:
    """Find the schedule of a run, or of a name if there is no run id."""
    if execution_id is not None:
        row = database.row(
            """SELECT s.id, e.priority, iif(s.enabled, s.next_run_at, NULL)
               FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id
               WHERE e.id = :id""",
            {"id": execution_id},
        )
    else:
        row = database.row(
            """SELECT id, priority, iif(enabled, next_run_at, NULL)
               FROM schedules WHERE name = :name AND deleted_at IS NULL""",
            {"name": schedule},
        )
    return None if row is None else Subject(*row)


def upcoming(
    database: Connection, queues: tuple[str, ...], *, limit: int, offers: Offers | None = None
) -> list[tuple[int, int]]:
    """Return (id, revision) of the schedules that fire next, `limit` per queue.

    If more than that are due at one instant, return those of that instant, up to MOST_UPCOMING.
    """
    found: list[tuple[int, int]] = []
    for queue in queues:
        rows = _next_of(database, queue, limit, offers)
        if len(rows) == limit and rows[0][2] == rows[-1][2]:
            more = _next_of(database, queue, MOST_UPCOMING, offers)
            rows = [row for row in more if row[2] == rows[0][2]]
        found.extend((row[0], row[1]) for row in rows)
    return found


def _next_of(
    database: Connection, queue: str, limit: int, offers: Offers | None
) -> list[tuple[int, int, int]]:
    offered, values = among(database, queue, offers)
    return database.rows(
        f"""SELECT id, revision, next_run_at FROM schedules
           WHERE queue = :queue AND next_run_at IS NOT NULL AND enabled {offered}
           ORDER BY next_run_at LIMIT :limit""",
        {"queue": queue, "limit": limit, **values},
    )


# `offer_of`, as an SQL expression.
OFFER = f"""iif({{of}}kind != 'callable',
    iif(instr({{of}}job, '["{CALL}"') = 1, '{IMPORTED}', {{of}}kind || ' ' || {{of}}name),
    iif(instr({{of}}job, ':') > 0, '{IMPORTED}', 'callable ' || {{of}}job))"""


def among(
    database: Connection, queue: str, offers: Offers | None, *, of: str = ""
) -> tuple[str, dict[str, Any]]:
    """Return an SQL condition that schedules are offered, and its values; `of` is their prefix.

    Both are empty if the engine takes every job of the queue.
    """
    if offers is None or find_program(queue) is None:
        return "", {}
    # The set itself: as JSON, each statement of a pass would cost as much as there are jobs.
    return f"AND is_offered(:offers, {OFFER.format(of=of)})", {"offers": database.as_value(offers)}


def offers_text(offers: Offers | None) -> str | None:
    """Return the offers of an engine as its row stores them."""
    return None if offers is None else json.dumps(sorted(offers), ensure_ascii=False)


def priorities(database: Connection, queue: str) -> Iterator[int]:
    """Yield the priorities of queued rows that wait for no condition, highest first."""
    below = 2**62
    while True:
        row = database.row(
            """SELECT priority FROM executions
               WHERE status = 'queued' AND queue = :queue AND waiting_for IS NULL
                   AND priority < :below
               ORDER BY priority DESC LIMIT 1""",
            {"queue": queue, "below": below},
        )
        if row is None:
            return
        below = int(row[0])
        yield below
