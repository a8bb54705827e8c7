"""Record engines, what they offer and what they run.

On one machine, the kernel's lock shows whether an engine is running. On a server, the lease in its
row shows it for engines of other machines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import edgecron
from edgecron.model.choices import SUSPENDED_MARK, Cause, WhileLost
from edgecron.model.engine import EngineInfo, Offers, base_of, find_program
from edgecron.store.contract import (
    STALE_MS,
    EngineLoad,
    EnginePresence,
    RunningRow,
    Watched,
)
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.due import OFFER, offers_text
from edgecron.store.sql.revisions import snapshot_of
from edgecron.store.sql.rows import OF_QUEUE, engine_of, needs_of, ok_codes_of

_KEPT_STOPPED = 50  # stopped engines of each kind: with a queue, and for one run only
# An engine for one run only never takes a queue, so it proves no presence.
_IS_PRESENCE = "(queues != '[]' OR seen_at IS NOT NULL)"
# The lowest id that a run claimed or ended from now on can have.
_RUNS_FROM = """coalesce(
    (SELECT min(id) FROM executions INDEXED BY executions_active
     WHERE status IN ('queued', 'running')),
    (SELECT max(id) FROM executions), 0)"""


def register_engine(
    database: Connection,
    *,
    key: str,
    pid: int,
    boot_id: str,
    queues: tuple[str, ...],
    now_ms: int,
    offers: Offers | None = None,
    max_running: int | None = None,
    local_timezone: str | None = None,
    boottime_ms: int | None = None,
) -> int:
    """Record an engine and forget the oldest stopped ones; its id.

    Safe to repeat after COMMIT raised: the key identifies the engine.
    """
    with database.transaction():
        database.change(
            f"""DELETE FROM engines WHERE stopped_at IS NOT NULL AND NOT EXISTS (
                   SELECT 1 FROM executions AS e INDEXED BY executions_active
                   WHERE e.status = 'running' AND e.status IN ('queued', 'running')
                       AND e.engine_id = engines.id)
               AND id <= iif({_IS_PRESENCE},
                   (SELECT id FROM engines WHERE stopped_at IS NOT NULL AND {_IS_PRESENCE}
                    ORDER BY id DESC LIMIT 1 OFFSET :kept),
                   (SELECT id FROM engines WHERE stopped_at IS NOT NULL AND NOT {_IS_PRESENCE}
                    ORDER BY id DESC LIMIT 1 OFFSET :kept))""",
            {"kept": _KEPT_STOPPED},
        )
        # An engine that others took for dead gets a new id: they might still be at work on the old.
        database.change(
            "UPDATE engines SET key = key || ' of ' || id WHERE key = :key AND died = 1",
            {"key": key},
        )
        row = database.returning(
            f"""INSERT INTO engines (key, pid, boot_id, queues, program, offers, version,
                   max_running, local_timezone, started_at, began_boottime_ms, runs_from_id)
               VALUES (:key, :pid, :boot, :queues, :program, :offers, :version,
                   :max_running, :zone, :now, :boottime, {_RUNS_FROM})
               ON CONFLICT (key) DO UPDATE SET stopped_at = NULL RETURNING id""",
            {
                "key": key,
                "pid": pid,
                "boot": boot_id,
                "queues": json.dumps(queues),
                "program": next((one for one in queues if find_program(one) is not None), None),
                "offers": offers_text(offers),
                "version": edgecron.__version__,
                "max_running": max_running,
                "zone": local_timezone,
                "now": now_ms,
                "boottime": boottime_ms,
            },
        )
        for queue in queues:
            if find_program(queue) is not None and queue == base_of(queue):
                _note_vanished(database, queue, now_ms)
    assert row is not None
    return int(row[0])


def note_offers(database: Connection, engine_id: int, offers: Offers, *, now_ms: int) -> None:
    """Record which jobs an engine of a program offers from now on."""
    with database.transaction():
        _set(database, engine_id, "offers = :offers", offers=offers_text(offers))
        _note_vanished_with(database, engine_id, now_ms)


def note_supervisor(database: Connection, engine_id: int, supervisor_id: str) -> None:
    """Record which supervisor an engine claims for from now on."""
    with database.transaction():
        _set(database, engine_id, "supervisor_id = :supervisor", supervisor=supervisor_id)


def note_zone(database: Connection, engine_id: int, local_timezone: str) -> None:
    """Record which zone `local` means for an engine from now on."""
    with database.transaction():
        _set(database, engine_id, "local_timezone = :zone", zone=local_timezone)


def close_queues(
    database: Connection, engine_id: int, *, now_ms: int, boottime_ms: int | None = None
) -> None:
    """Record that an engine starts nothing more, although its runs are still running."""
    with database.transaction():
        # It can't be resumed any more, if it is drained.
        changes = f"""queues = '[]', seen_at = iif({_IS_PRESENCE}, :now, NULL),
            former_queues = iif(queues = '[]', former_queues, queues), drained_at = NULL"""
        _set(database, engine_id, changes, now=now_ms)
        _end_distrust(database, engine_id, boottime_ms)
        _note_vanished_with(database, engine_id, now_ms)


def drain_engine(database: Connection, engine_id: int, *, now_ms: int) -> bool:
    """Let an engine take nothing new until it is resumed; False if it has stopped or is drained."""
    with database.transaction():
        changed = database.change(
            f"""UPDATE engines SET queues = '[]', seen_at = iif({_IS_PRESENCE}, :now, NULL),
                    former_queues = iif(queues = '[]', former_queues, queues), drained_at = :now
                WHERE id = :id AND stopped_at IS NULL AND drained_at IS NULL""",
            {"id": engine_id, "now": now_ms},
        )
        _note_vanished_with(database, engine_id, now_ms)
    return changed > 0


def resume_engine(database: Connection, engine_id: int, *, now_ms: int) -> bool:
    """Let a drained engine take runs again; False if it has stopped or is not drained."""
    with database.transaction():
        changed = database.change(
            """UPDATE engines SET queues = coalesce(former_queues, queues), drained_at = NULL
               WHERE id = :id AND stopped_at IS NULL AND drained_at IS NOT NULL""",
            {"id": engine_id},
        )
        _note_vanished_with(database, engine_id, now_ms)
    return changed > 0


def is_drained(database: Connection, engine_id: int) -> bool:
    """Whether an engine is to take nothing new."""
    return bool(
        database.rows(
            "SELECT 1 FROM engines WHERE id = :id AND drained_at IS NOT NULL", {"id": engine_id}
        )
    )


def note_presence(
    database: Connection, engine_id: int, *, now_ms: int, written_bytes: int | None = None
) -> None:
    """Record that an engine is certainly running, and what it has written to the disk so far."""
    with database.transaction():
        changes = f"""seen_at = :now, runs_from_id = {_RUNS_FROM}, written_bytes = :written,
            written_at = :now"""
        _set(database, engine_id, changes, now=now_ms, written=written_bytes)


def note_distrust(database: Connection, engine_id: int, *, since_ms: int) -> None:
    """Record since when an engine does not trust its clock, by the time since the boot."""
    with database.transaction():
        changes = "untrusted_since_ms = :since, untrusted_until_ms = NULL"
        _set(database, engine_id, changes, since=since_ms)


def note_trust(database: Connection, engine_id: int, *, started_ms: int) -> None:
    """Record that an engine trusts its clock again, by which it started at `started_ms`."""
    with database.transaction():
        changes = """untrusted_since_ms = NULL, untrusted_until_ms = NULL,
            started_at = :started"""
        _set(database, engine_id, changes, started=started_ms)


def _set(database: Connection, engine_id: int, changes: str, **values: object) -> None:
    database.change(f"UPDATE engines SET {changes} WHERE id = :id", {"id": engine_id, **values})


def note_death(database: Connection, engine_id: int, *, by_lease: bool = False) -> bool:
    """Record that an engine ended without being stopped, and when it last wrote about a run.

    With `by_lease`, only if its lease has ended. Return False if it has not. Call this before the
    ends of its runs are recorded: they can be later.
    """
    is_over = database.lease_is_over if by_lease else "1 = 1"
    with database.transaction():
        row = database.row(
            f"SELECT died = 1 OR {is_over} FROM engines WHERE id = :id", {"id": engine_id}
        )
        is_dead = row is None or bool(row[0])  # An engine that is forgotten had stopped.
        if is_dead:
            _note_death(database, engine_id)
    return is_dead


def _note_death(database: Connection, engine_id: int) -> None:
    database.change(
        f"""UPDATE engines AS n SET died = 1, seen_at = iif({_IS_PRESENCE}, (
                SELECT max(coalesce(n.seen_at, n.started_at), coalesce(max(max(
                    e.claimed_at, coalesce(e.heartbeat_at, 0), coalesce(e.finished_at, 0))), 0))
                FROM executions AS e WHERE e.id >= n.runs_from_id AND e.engine_id = n.id), NULL)
            WHERE id = :id AND stopped_at IS NULL AND died = 0""",
        {"id": engine_id},
    )


def _end_distrust(database: Connection, engine_id: int, boottime_ms: int | None) -> None:
    """Record until when an engine that is being stopped did not trust its clock."""
    database.change(
        """UPDATE engines SET untrusted_until_ms = :boottime
           WHERE id = :id AND untrusted_since_ms IS NOT NULL AND untrusted_until_ms IS NULL""",
        {"id": engine_id, "boottime": boottime_ms},
    )


def find_presence(
    database: Connection, queues: tuple[str, ...], *, but: int
) -> list[EnginePresence]:
    """The presence of the engines that took one of these queues, except `but`; newest first."""
    return [
        EnginePresence(*row)._replace(queues=tuple(json.loads(row[-1])))
        for row in database.rows(
            """SELECT key, pid, boot_id, started_at, stopped_at, seen_at, died = 1,
                   began_boottime_ms, untrusted_since_ms, untrusted_until_ms,
                   coalesce(former_queues, queues)
               FROM engines AS e
               WHERE id != :but AND EXISTS (
                   SELECT 1 FROM json_each(coalesce(e.former_queues, e.queues)) AS q
                   JOIN json_each(:queues) AS w ON w.value = q.value)
               ORDER BY id DESC""",
            {"but": but, "queues": json.dumps(queues)},
        )
    ]


def retire_engine(
    database: Connection,
    engine_id: int,
    *,
    now_ms: int,
    has_died: bool = False,
    boottime_ms: int | None = None,
) -> None:
    """Record that an engine has stopped or died, unless that is recorded already."""
    with database.transaction():
        if has_died:
            _note_death(database, engine_id)
        else:
            _end_distrust(database, engine_id, boottime_ms)
        changed = database.change(
            """UPDATE engines SET stopped_at = :now, died = :died
               WHERE id = :id AND stopped_at IS NULL""",
            {"id": engine_id, "now": now_ms, "died": int(has_died)},
        )
        if changed:
            _note_vanished_with(database, engine_id, now_ms)


def find_engines(database: Connection) -> list[EngineInfo]:
    """Every engine that is not recorded as stopped, oldest first."""
    rows = database.rows(
        f"""SELECT id, key, pid, boot_id, queues, offers, version, supervisor_id, started_at,
               stopped_at, max_running, local_timezone, written_bytes, written_at,
               {database.lease_columns}, former_queues, drained_at
           FROM engines AS n WHERE stopped_at IS NULL ORDER BY id"""
    )
    return [engine_of(row) for row in rows]


def find_taken_queues(database: Connection) -> frozenset[str]:
    """Return the queues that engines take, except engines whose leases have ended."""
    alive = (one for one in find_engines(database) if not one.is_stale)
    return frozenset(queue for one in alive for queue in one.queues)


def find_loads(database: Connection) -> dict[int, EngineLoad]:
    """Find the load of each living engine."""
    rows = database.rows(
        f"""SELECT n.id, count(e.id), {database.load_columns}
            FROM engines AS n LEFT JOIN executions AS e
                ON e.status = 'running' AND e.status IN ('queued', 'running')
                    AND e.engine_id = n.id
            WHERE n.stopped_at IS NULL GROUP BY n.id"""
    )
    return {engine_id: EngineLoad(*rest) for engine_id, *rest in rows}


def _note_vanished_with(database: Connection, engine_id: int, now_ms: int) -> None:
    """As `_note_vanished`, for the program of an engine, if it has one."""
    row = database.row("SELECT program FROM engines WHERE id = :id", {"id": engine_id})
    if row is not None and row[0] is not None:
        _note_vanished(database, row[0], now_ms)


def _note_vanished(database: Connection, queue: str, now_ms: int) -> None:
    """Record which schedules of a program's queue have vanished or come back, in a transaction.

    A schedule has vanished if no running engine of the program offers it and the engine that
    started last did not either.
    """
    database.change(
        f"""WITH counting (offers) AS (
               SELECT offers FROM engines WHERE program = :queue
                   AND (stopped_at IS NULL AND queues != '[]'
                       OR id = (SELECT max(id) FROM engines WHERE program = :queue))),
           offered (offer) AS (
               SELECT o.value FROM counting AS c, json_each(c.offers) AS o)
           UPDATE schedules SET vanished_at = iif(vanished_at IS NULL, :now, NULL)
           WHERE {OF_QUEUE} AND queue != 'command' AND deleted_at IS NULL
               AND (vanished_at IS NULL) != ({OFFER.format(of="")} IN (SELECT offer FROM offered)
                   OR EXISTS (SELECT 1 FROM counting AS c WHERE c.offers IS NULL))""",
        {"queue": queue, "now": now_ms},
    )


def find_running(database: Connection) -> list[RunningRow]:
    """Every running run, with the engine and supervisor that are recorded for it.

    Its kind is that of its revision: the schedule might have changed since.
    """
    rows = database.rows(
        f"""SELECT e.id, e.lease_token, e.engine_id,
               iif(n.stopped_at IS NULL, n.key, NULL), n.boot_id, e.supervisor_id, s.name,
               iif(json_valid(r.snapshot), coalesce(r.snapshot ->> 'kind', s.kind), s.kind),
               s.ok_codes, s.kill_grace_s, e.started_at, s.id, e.revision, s.while_needs,
               s.while_lost, e.cause, e.flags, {database.lease_columns}
           FROM executions AS e INDEXED BY executions_active
           JOIN schedules AS s ON s.id = e.schedule_id
           LEFT JOIN schedule_revisions AS r
               ON r.schedule_id = e.schedule_id
                   AND r.revision = {snapshot_of("e.schedule_id", "e.revision")}
           LEFT JOIN engines AS n ON n.id = e.engine_id
           WHERE e.status = 'running' AND e.status IN ('queued', 'running')"""
    )
    rows.sort(key=lambda row: (row[2], row[0]))
    return [
        RunningRow(
            execution_id=row[0],
            lease_token=row[1],
            engine_id=row[2],
            engine_key=row[3],
            boot_id=row[4],
            supervisor_id=row[5],
            schedule=row[6],
            kind=row[7],
            ok_codes=ok_codes_of(row[8]),
            grace_ms=round(row[9] * 1000),
            started_ms=row[10],
            watched=_watched_of(*row[11:17]),
            machine=row[17],
            is_stale=bool(row[18]),
        )
        for row in rows
    ]


def _watched_of(
    schedule_id: int, revision: int, needs: str, lost: str, cause: str, flags: str | None
) -> Watched | None:
    """The conditions of a running run; None if it has none, as a manual run."""
    if needs == "[]" or cause == Cause.MANUAL:
        return None
    return Watched(
        schedule_id=schedule_id,
        revision=revision,
        needs=needs_of(needs),
        lost=WhileLost(lost),
        is_suspended=SUSPENDED_MARK in (flags or ""),
    )


def note_suspension(database: Connection, execution_id: int, token: str, note: str | None) -> bool:
    """Record that a running run is suspended, and why; None: it continues."""
    with database.transaction():
        changed = database.change(
            f"""UPDATE executions SET error_msg = :note, flags = (
                   SELECT iif(count(*), json_group_array(value), NULL) FROM (
                       SELECT value FROM json_each(coalesce(flags, '[]'))
                       WHERE value != '{SUSPENDED_MARK}'
                       UNION ALL SELECT '{SUSPENDED_MARK}' WHERE :note IS NOT NULL) AS marks)
               WHERE id = :id AND lease_token = :token AND status = 'running'
                   AND (:note IS NULL OR cancel_requested_at IS NULL)""",
            {"id": execution_id, "token": token, "note": note},
        )
    return changed > 0


def find_cancelled(database: Connection, engine_id: int) -> list[int]:
    """The running runs of an engine that someone cancelled."""
    rows = database.rows(
        """SELECT id FROM executions INDEXED BY executions_active
           WHERE status = 'running' AND status IN ('queued', 'running')
               AND engine_id = :engine AND cancel_requested_at IS NOT NULL""",
        {"engine": engine_id},
    )
    return [row[0] for row in rows]


def adopt(
    database: Connection, rows: Sequence[RunningRow], *, engine_id: int, now_ms: int
) -> list[bool]:
    """Record runs as those of another engine; False for a row that has changed.

    The lease token stays: the supervisor identifies the run by it.
    """
    with database.transaction():
        return [
            database.change(
                """UPDATE executions SET engine_id = :new, heartbeat_at = :now,
                       stale_after = :stale
                   WHERE id = :id AND lease_token = :token AND status = 'running'
                       AND engine_id = :old""",
                {
                    "id": row.execution_id,
                    "token": row.lease_token,
                    "old": row.engine_id,
                    "new": engine_id,
                    "now": now_ms,
                    "stale": now_ms + STALE_MS,
                },
            )
            == 1
            for row in rows
        ]


def beat(database: Connection, engine_id: int, *, now_ms: int) -> None:
    """Renew the heartbeat of an engine's runs."""
    with database.transaction():
        database.change(
            """UPDATE executions INDEXED BY executions_active
               SET heartbeat_at = :now, stale_after = :stale
               WHERE engine_id = :engine AND status = 'running'
                   AND status IN ('queued', 'running')""",
            {"engine": engine_id, "now": now_ms, "stale": now_ms + STALE_MS},
        )


def request_cancel(database: Connection, execution_id: int, *, now_ms: int) -> RunningRow | None:
    """Record that a run is to be cancelled; return its row, or None if it is not running."""
    with database.transaction():
        database.change(
            """UPDATE executions SET cancel_requested_at = :now
               WHERE id = :id AND status = 'running' AND cancel_requested_at IS NULL""",
            {"id": execution_id, "now": now_ms},
        )
    return find_running_row(database, execution_id)


def find_running_row(database: Connection, execution_id: int) -> RunningRow | None:
    """The row of a run, or None if it is not running."""
    return next((row for row in find_running(database) if row.execution_id == execution_id), None)
