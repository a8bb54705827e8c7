"""What happened, and open incidents, for notices.

Triggers record what happened in the transaction of the event. The process that sends notices then
applies the rules; only one such process works on a database. `outbox.py` has the notices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgecron.base.errors import SENSELESS
from edgecron.base.values import NamedTuple
from edgecron.model.notices import (
    STALLED,
    Happening,
    Incident,
    NewNotice,
    NoticeEvent,
    Watched,
)
from edgecron.model.run import Stall
from edgecron.planning.notices import Judged, Key
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.outbox import MOST_WAIT_MS, has_rules
from edgecron.store.sql.rows import texts_of

# Of a run `e`. One that has another attempt after it is not final, nor are times before a catch-up.
_IS_FINAL = """NOT EXISTS (SELECT 1 FROM executions AS later
                   WHERE later.schedule_id = e.schedule_id AND later.scope_kind = e.scope_kind
                       AND later.scope_id = e.scope_id AND later.plan_at = e.plan_at
                       AND later.fire_key = e.fire_key AND later.attempt > e.attempt)
                   AND NOT (e.status = 'skipped' AND EXISTS (
                       SELECT 1 FROM executions AS caught WHERE caught.schedule_id = e.schedule_id
                           AND caught.scope_kind = e.scope_kind AND caught.scope_id = e.scope_id
                           AND caught.plan_at > e.plan_at AND caught.cause = 'catch_up'))"""
_HAS_OUTPUT = """EXISTS (SELECT 1 FROM outputs WHERE execution_id = e.id
    AND stdout_bytes + stderr_bytes > 0)"""
_HAS_STALLED = f"""EXISTS (SELECT 1 FROM json_each(e.flags) WHERE value = '{STALLED}')"""


class PastRun(NamedTuple):
    """A run of the past, when it was due and when it was claimed."""

    happening: Happening
    due_ms: int | None
    claimed_ms: int | None


def next_notice_ms(database: Connection, *, now_ms: int) -> int | None:
    """When the next notice is to be sent or a reminder is due; None: nothing is to come.

    Happenings that no rule was applied to yet are due now: 0. So are notices whose time is too far
    ahead, because the clock was set back.
    """
    [times_ms] = database.rows(
        """SELECT (SELECT 0 FROM happenings LIMIT 1),
               (SELECT iif(min(due_at) > :latest, 0, min(due_at)) FROM notices),
               (SELECT min(remind_at) FROM incidents), (SELECT min(at) FROM watches)""",
        {"latest": now_ms + MOST_WAIT_MS},
    )
    return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)


def find_happenings(database: Connection, *, limit: int) -> list[Happening]:
    """Return happenings that no rule was applied to yet, oldest first.

    A run that has another attempt after it is not final, nor are missed times before a catch-up.
    """
    rows = database.rows(
        f"""SELECT h.id, h.at, h.status, h.schedule_id, s.name, s.group_name, h.execution_id,
               {_IS_FINAL}, {_HAS_OUTPUT},
               h.engine_id, e.started_at - e.due_at, e.duration_ms, s.notify, {_HAS_STALLED}
           FROM happenings AS h LEFT JOIN schedules AS s ON s.id = h.schedule_id
           LEFT JOIN executions AS e ON e.id = h.execution_id
           ORDER BY h.id LIMIT :limit""",
        {"limit": limit},
    )
    return [_happening_of(row) for row in rows]


def find_past(database: Connection, *, since_ms: int, limit: int) -> list[PastRun]:
    """The ended runs since an instant, as they would have been recorded for rules.

    At most the newest `limit` runs.
    """
    rows = database.rows(
        f"""SELECT e.id, coalesce(e.finished_at, e.claimed_at), e.status, e.schedule_id, s.name,
               s.group_name, e.id, {_IS_FINAL}, {_HAS_OUTPUT}, NULL, e.started_at - e.due_at,
               e.duration_ms, s.notify, {_HAS_STALLED}, e.due_at, e.claimed_at
           FROM (SELECT * FROM executions ORDER BY id DESC LIMIT :limit) AS e
           JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.finished_at >= :since
               AND (e.status <> 'skipped' OR e.reason IN ('misfire', 'condition'))
           ORDER BY e.finished_at, e.id""",
        {"since": since_ms, "limit": limit},
    )
    return [PastRun(_happening_of(row), row[14], row[15]) for row in rows]


def find_past_engine_ends(database: Connection, *, since_ms: int) -> list[Happening]:
    """The ends of engines since an instant, except of those that another one followed soon."""
    rows = database.rows(
        """SELECT id, stopped_at, died FROM engines AS e
           WHERE stopped_at >= :since AND (queues <> '[]' OR seen_at IS NOT NULL)
               AND (died OR NOT EXISTS (SELECT 1 FROM engines AS next
                   WHERE next.id <> e.id AND next.started_at < e.stopped_at + 60000
                       AND coalesce(next.stopped_at, e.stopped_at + 60000)
                           >= e.stopped_at + 60000))""",
        {"since": since_ms},
    )
    return [
        Happening(id=0, at_ms=row[1], status="died" if row[2] else "stopped", engine_id=row[0])
        for row in rows
    ]


def _happening_of(row: Sequence[Any]) -> Happening:
    return Happening(
        id=row[0],
        at_ms=row[1],
        status=row[2],
        schedule_id=row[3],
        schedule=row[4] or "",
        group=row[5],
        execution_id=row[6],
        is_final=bool(row[7]),
        has_output=bool(row[8]),
        engine_id=row[9],
        late_ms=row[10],
        took_ms=row[11],
        notify=_rules_in(row[12]),
        has_stalled=bool(row[13]),
    )


def find_watched(database: Connection, *, now_ms: int, limit: int) -> list[Watched]:
    """Return the runs that are due to be checked now."""
    rows = database.rows(
        """SELECT w.event, w.at, e.id, e.schedule_id, s.name, s.group_name,
               iif(w.event = 'late', e.due_at, e.claimed_at),
               iif(w.event = 'late', coalesce(e.claimed_at, e.finished_at), e.finished_at),
               s.notify
           FROM watches AS w JOIN executions AS e ON e.id = w.execution_id
           JOIN schedules AS s ON s.id = e.schedule_id
           WHERE w.at <= :now ORDER BY w.at LIMIT :limit""",
        {"now": now_ms, "limit": limit},
    )
    return [
        Watched(
            event=NoticeEvent(row[0]),
            at_ms=row[1],
            execution_id=row[2],
            schedule_id=row[3],
            schedule=row[4],
            group=row[5],
            from_ms=row[6],
            until_ms=row[7],
            notify=_rules_in(row[8]),
        )
        for row in rows
    ]


def _rules_in(column: str | None) -> tuple[str, ...]:
    """The names of rules in the column `notify` of a schedule; none for an engine."""
    if column is None or column == "[]":
        return ()
    try:
        return texts_of(json.loads(column))
    except SENSELESS:  # `doctor` names the schedule. Its failures are still told to other rules.
        return ()


def find_incidents(
    database: Connection, schedule_ids: Iterable[int], *, now_ms: int
) -> dict[Key, Incident]:
    """The open incidents of these schedules, and those whose reminder is due."""
    rows = database.rows(
        """SELECT i.rule, i.schedule_id, i.event, i.since_at, i.count, i.noticed_at, i.remind_at,
               i.execution_id, CASE i.event WHEN 'failed' THEN 1
                   WHEN 'missed' THEN iif(EXISTS (
                       SELECT 1 FROM executions AS now INDEXED BY executions_active
                       WHERE now.status IN ('queued', 'running') AND now.claimed_at IS NOT NULL
                           AND now.schedule_id = i.schedule_id), 0, 1)
                   WHEN 'late' THEN iif(e.status IS 'queued', 1, 0)
                   ELSE iif(e.status IS 'running', 1, 0) END
           FROM incidents AS i LEFT JOIN executions AS e ON e.id = i.execution_id
           WHERE i.schedule_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
               OR i.remind_at <= :now""",
        {"ids": json.dumps(sorted(set(schedule_ids))), "now": now_ms},
    )
    return {
        (row[0], row[1], NoticeEvent(row[2])): Incident(
            rule=row[0],
            schedule_id=row[1],
            event=NoticeEvent(row[2]),
            since_ms=row[3],
            count=row[4],
            noticed_ms=row[5],
            remind_ms=row[6],
            execution_id=row[7],
            is_lasting=bool(row[8]),
        )
        for row in rows
    }


def write_judged(
    database: Connection,
    judged: Judged,
    *,
    details: Sequence[Mapping[str, object]],
    due_ms: Sequence[int],
    until_id: int,
) -> None:
    """Write notices and incidents, and forget the happenings up to `until_id`: one transaction.

    `details` and `due_ms` belong to `judged.notices`. Incidents of removed schedules are forgotten.
    """
    with database.transaction():
        database.change_many(
            """INSERT INTO notices (rule, event, at, schedule_id, execution_id, engine_id,
                   is_reminder, detail, status, due_at)
               VALUES (:rule, :event, :at, :schedule, :execution, :engine, :reminder, :detail,
                   'waiting', :due)""",
            [
                _notice_columns(notice, detail, due)
                for notice, detail, due in zip(judged.notices, details, due_ms, strict=True)
            ],
        )
        database.change_many(
            "DELETE FROM incidents WHERE rule = :rule AND schedule_id = :schedule"
            " AND event = :event",
            [
                {"rule": rule, "schedule": schedule_id, "event": event.value}
                for (rule, schedule_id, event), incident in judged.incidents.items()
                if incident is None
            ],
        )
        database.change_many(
            """INSERT INTO incidents (schedule_id, rule, event, since_at, count, noticed_at,
                   remind_at, execution_id)
               VALUES (:schedule, :rule, :event, :since, :count, :noticed, :remind, :execution)
               ON CONFLICT (schedule_id, rule, event) DO UPDATE SET count = excluded.count,
                   noticed_at = excluded.noticed_at, remind_at = excluded.remind_at,
                   execution_id = excluded.execution_id""",
            [_incident_columns(one) for one in judged.incidents.values() if one is not None],
        )
        database.change_many(
            """UPDATE watches SET at = :at WHERE execution_id = :run AND event = :event""",
            [
                {"at": at_ms, "run": run_id, "event": event.value}
                for (run_id, event), at_ms in judged.watches.items()
                if at_ms is not None
            ],
        )
        database.change_many(
            "DELETE FROM watches WHERE execution_id = :run AND event = :event",
            [
                {"run": run_id, "event": event.value}
                for (run_id, event), at_ms in judged.watches.items()
                if at_ms is None
            ],
        )
        database.change("DELETE FROM happenings WHERE id <= :id", {"id": until_id})
        database.change(
            """DELETE FROM incidents WHERE NOT EXISTS (SELECT 1 FROM schedules
                   WHERE id = incidents.schedule_id AND deleted_at IS NULL)"""
        )


def _notice_columns(notice: NewNotice, detail: Mapping[str, object], due_ms: int) -> dict[str, Any]:
    return {
        "rule": notice.rule,
        "event": notice.event.value,
        "at": notice.at_ms,
        "schedule": notice.schedule_id,
        "execution": notice.execution_id,
        "engine": notice.engine_id,
        "reminder": int(notice.is_reminder),
        "detail": json.dumps(detail, ensure_ascii=False),
        "due": due_ms,
    }


def _incident_columns(incident: Incident) -> dict[str, Any]:
    return {
        "schedule": incident.schedule_id,
        "rule": incident.rule,
        "event": incident.event.value,
        "since": incident.since_ms,
        "count": incident.count,
        "noticed": incident.noticed_ms,
        "remind": incident.remind_ms,
        "execution": incident.execution_id,
    }


def find_engine_end(database: Connection, engine_id: int) -> tuple[str, int] | None:
    """How an engine ended (stopped or died), and its process id; None if it is forgotten."""
    row = database.row("SELECT died, pid FROM engines WHERE id = :id", {"id": engine_id})
    return None if row is None else ("died" if row[0] else "stopped", row[1])


def note_stalls(database: Connection, stalls: Sequence[Stall]) -> None:
    """Record for notices that running runs print nothing. Without a rule, record nothing."""
    if not has_rules(database):
        return
    with database.transaction():
        database.change_many(
            """INSERT INTO happenings (at, status, schedule_id, execution_id)
               SELECT :at, :status, schedule_id, id FROM executions
               WHERE id = :id AND status = 'running'""",
            [{"id": one.execution_id, "at": one.at_ms, "status": STALLED} for one in stalls],
        )


def note_stalled_engine(database: Connection, engine_id: int, *, now_ms: int) -> None:
    """Record for notices that an engine makes no progress."""
    with database.transaction():
        database.change(
            "INSERT INTO happenings (at, status, engine_id) VALUES (:now, :status, :id)",
            {"now": now_ms, "status": STALLED, "id": engine_id},
        )


def find_stalls_told(database: Connection, *, since_ms: int) -> set[int]:
    """The ids of engines whose stall was noted since an instant."""
    rows = database.rows(
        "SELECT engine_id FROM notices WHERE event = 'engine_stalled' AND at >= :since",
        {"since": since_ms},
    )
    return {row[0] for row in rows}
