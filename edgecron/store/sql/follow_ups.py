"""Write what follows the end of an attempt, in the same transaction.

If the run gets a retry, that is the retry. If its fire has ended too, these are the fires of the
schedules that come after it, and its own schedule's next time after the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgecron.base.errors import SENSELESS, InvalidInput
from edgecron.base.units import MAX_DURATION_MS, format_duration_ms, from_ms
from edgecron.base.values import dataclass
from edgecron.model.choices import GAVE_UP_MARK, Cause, OnInterrupt, Reason, Status
from edgecron.model.engine import EACH, MACHINE
from edgecron.model.run import Outcome
from edgecron.planning.admission import EndedAttempt, RetryPolicy, plan_retry
from edgecron.planning.next_fire import Fire, jitter_of
from edgecron.store.contract import Broken, Decided, Ended
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.engines import find_taken_queues
from edgecron.store.sql.fires import FireWriter, count_planned
from edgecron.store.sql.limits import RunCounts, is_unlimited
from edgecron.store.sql.revisions import columns_of, find_compiled, note_broken
from edgecron.store.sql.rows import spec_of, windows_in
from edgecron.store.sql.waiting_rows import wake_for_success

# The WHAT of `after NAME:WHAT` that each end matches.
_ENDS = {
    Status.SUCCESS: ("success", "any"),
    Status.FAILED: ("failure", "any"),
    Status.INTERRUPTED: ("failure", "any"),
    Status.CANCELLED: ("any",),
    Status.SKIPPED: ("any",),  # a run that was given up after it had waited
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndedRow:
    """An attempt that has just ended, with its schedule as it is now."""

    execution_id: int
    schedule_id: int
    schedule: str
    revision: int
    scope: tuple[str, str]
    plan_ms: int
    fire_key: str
    attempt: int
    max_attempts: int
    status: Status
    finished_ms: int
    is_removed: bool
    after_end_ms: int | None
    reason: Reason | None
    is_unwanted: bool  # a person cancelled it
    has_started: bool


def follow_up(database: Connection, outcome: Outcome, *, now_ms: int) -> Ended:
    """Write what follows an end that was just written, and return both."""
    row = _read(database, outcome.execution_id, now_ms)
    if row.status is Status.SUCCESS and not row.is_removed:
        wake_for_success(database, row.schedule)
    retry = None if row.is_removed else _retry(database, row, outcome, now_ms)
    if retry is not None:
        return Ended(reason=row.reason, decided=(retry,))
    return _end_fire(database, row, now_ms)


def follow_up_withdrawn(database: Connection, execution_id: int, *, now_ms: int) -> Ended:
    """Write what follows the end of a fire that was cancelled or given up before it started."""
    return _end_fire(database, _read(database, execution_id, now_ms), now_ms)


def follow_up_replaced(database: Connection, writer: FireWriter, *, now_ms: int) -> Ended:
    """Write what follows the ends of fires that others have replaced before they started."""
    writer.flush()
    ends = []
    while writer.withdrawn:
        ends.append(follow_up_withdrawn(database, writer.withdrawn.pop(0), now_ms=now_ms))
    return Ended(
        reason=Reason.REPLACED,
        decided=tuple(one for ended in ends for one in ended.decided),
        has_replaced=any(ended.has_replaced for ended in ends),
        broken=tuple(one for ended in ends for one in ended.broken),
    )


def _end_fire(database: Connection, row: _EndedRow, now_ms: int) -> Ended:
    decided, has_replaced, broken = _start_downstream(database, row, now_ms)
    if row.after_end_ms is not None and not row.is_removed:
        _set_after_end(database, row, row.after_end_ms)
    return Ended(
        reason=row.reason, decided=tuple(decided), has_replaced=has_replaced, broken=tuple(broken)
    )


def _read(database: Connection, execution_id: int, now_ms: int) -> _EndedRow:
    [row] = database.rows(
        """SELECT e.id, e.schedule_id, s.name, e.revision, e.scope_kind, e.scope_id, e.plan_at,
               e.fire_key, e.attempt, e.max_attempts, e.status, e.finished_at,
               s.deleted_at IS NOT NULL, s.after_end_ms, e.reason,
               e.cancel_requested_at IS NOT NULL, e.started_at IS NOT NULL
           FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id WHERE e.id = :id""",
        {"id": execution_id},
    )
    # If the clock was set back since, followers must not wait for a distant time.
    finished_ms = min(row[11], now_ms)
    return _EndedRow(
        execution_id=row[0],
        schedule_id=row[1],
        schedule=row[2],
        revision=row[3],
        scope=(row[4], row[5]),
        plan_ms=row[6],
        fire_key=row[7],
        attempt=row[8],
        max_attempts=row[9],
        status=Status(row[10]),
        finished_ms=finished_ms,
        is_removed=bool(row[12]),
        after_end_ms=row[13],
        reason=None if row[14] is None else Reason(row[14]),
        is_unwanted=bool(row[15]),
        has_started=bool(row[16]),
    )


def _retry(database: Connection, row: _EndedRow, outcome: Outcome, now_ms: int) -> Decided | None:
    """Queue the next attempt, if there is one, with the revision of its fire."""
    if row.attempt >= row.max_attempts or row.status not in (Status.FAILED, Status.INTERRUPTED):
        return None
    if row.is_unwanted:
        return None  # It failed or died while it was being cancelled.
    ended = EndedAttempt(
        schedule=row.schedule,
        plan_ms=row.plan_ms,
        fire_key=row.fire_key,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        interrupted_before=_count_interrupted(database, row),
        status=row.status,
        finished_ms=row.finished_ms,
        gave_up=GAVE_UP_MARK in outcome.flags,
        retry_after_ms=outcome.retry_after_ms,
    )
    due_ms = _plan_retry(database, row, ended)
    if due_ms is None:
        return None
    queued = database.returning(
        """INSERT INTO executions (schedule_id, revision, scope_kind, scope_id, plan_at, fire_key,
               cause, trigger_text, payload, timeout_s, due_at, attempt, max_attempts, queue,
               priority, status, queued_at)
           SELECT schedule_id, revision, scope_kind, scope_id, plan_at, fire_key, 'retry',
               trigger_text, payload, timeout_s, :due, attempt + 1, max_attempts, queue, priority,
               'queued', :now
           FROM executions WHERE id = :id RETURNING id""",
        {"id": row.execution_id, "due": due_ms, "now": now_ms},
    )
    assert queued is not None
    return Decided(
        execution_id=queued[0],
        schedule_id=row.schedule_id,
        revision=row.revision,
        plan_ms=row.plan_ms,
        status=Status.QUEUED,
        cause=Cause.RETRY,
        due_ms=due_ms,
        attempt=row.attempt + 1,
    )


def _count_interrupted(database: Connection, row: _EndedRow) -> int:
    [(count,)] = database.rows(
        """SELECT count(*) FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :kind AND scope_id = :scope
               AND plan_at = :plan AND fire_key = :fire_key AND attempt < :attempt
               AND status = 'interrupted'""",
        {
            "schedule": row.schedule_id,
            "kind": row.scope[0],
            "scope": row.scope[1],
            "plan": row.plan_ms,
            "fire_key": row.fire_key,
            "attempt": row.attempt,
        },
    )
    return int(count)


def _plan_retry(database: Connection, row: _EndedRow, ended: EndedAttempt) -> int | None:
    """Return when the next attempt is due; None if there is none.

    The policy is that of the revision, or of the current schedule if the revision is unreadable.
    """
    for find in (_find_snapshot, _find_columns):
        try:
            due_ms = plan_retry(_policy_of(find(database, row)), ended, seed=database.seed)
            if due_ms is not None:
                from_ms(due_ms)  # Raises if there is no such instant.
        except SENSELESS:  # The ends of other runs must not fail with this one.
            continue
        return due_ms
    return None


def _policy_of(columns: Mapping[str, Any]) -> RetryPolicy:
    return RetryPolicy(
        retries=int(columns["retries"]),
        delay_s=float(columns["retry_delay_s"]),
        factor=float(columns["retry_factor"]),
        max_delay_s=float(columns["retry_max_delay_s"]),
        on_interrupt=OnInterrupt(columns["on_interrupt"]),
    )


def _find_snapshot(database: Connection, row: _EndedRow) -> dict[str, Any]:
    [(snapshot,)] = database.rows(
        """SELECT snapshot FROM schedule_revisions
           WHERE schedule_id = :id AND revision <= :revision
           ORDER BY revision DESC LIMIT 1""",
        {"id": row.schedule_id, "revision": row.revision},
    )
    return columns_of(snapshot)


def _find_columns(database: Connection, row: _EndedRow) -> dict[str, Any]:
    names = ("retries", "retry_delay_s", "retry_factor", "retry_max_delay_s", "on_interrupt")
    [found] = database.rows(
        """SELECT retries, retry_delay_s, retry_factor, retry_max_delay_s, on_interrupt
           FROM schedules WHERE id = :id""",
        {"id": row.schedule_id},
    )
    return dict(zip(names, found, strict=True))


def _start_downstream(
    database: Connection, row: _EndedRow, now_ms: int
) -> tuple[list[Decided], bool, list[Broken]]:
    """Fire the schedules that come after this one.

    Returns the decisions, whether one replaces a running run, and the unreadable followers.
    """
    followers = database.rows(
        """SELECT s.id, s.revision, u.ends,
               NOT s.enabled OR (s.paused_until IS NOT NULL AND s.paused_until > :now),
               (s.from_at > :now OR s.until_at < :now OR s.planned_count >= s.max_runs) IS TRUE
           FROM schedule_upstreams AS u JOIN schedules AS s ON s.id = u.schedule_id
           WHERE u.upstream = :name AND s.deleted_at IS NULL
               AND u.ends IN (SELECT value FROM json_each(:ends))
           ORDER BY u.schedule_id""",
        {"name": row.schedule, "now": now_ms, "ends": json.dumps(_ends_of(row))},
    )
    # By id, followers within from, until and max_runs: (revision, ends, whether it is paused).
    wanted = {row[0]: row[1:4] for row in followers if not row[4]}
    decided: list[Decided] = []
    has_replaced = False
    broken: list[Broken] = []
    for schedule_id, revision, columns, scopes in find_compiled(
        database, [(id_, follower[0]) for id_, follower in wanted.items()]
    ):
        _, ends, is_held = wanted[schedule_id]
        # In the same scope if the follower has it, otherwise in all of its scopes.
        try:
            spec = spec_of(columns, (row.scope,) if row.scope in scopes else scopes)
        except InvalidInput as error:
            # Mark it as broken, and continue with the other followers.
            note_broken(
                database, schedule_id, revision=revision, error=error.message, now_ms=now_ms
            )
            broken.append(Broken(_name_of(database, schedule_id), error.message))
            continue
        fire = Fire(
            plan_ms=row.plan_ms,
            due_ms=now_ms,
            cause=Cause.AFTER,
            source=f"after {row.schedule}" + ("" if ends == "success" else f":{ends}"),
            fire_key=f"after:{row.execution_id}",
        )
        writer = FireWriter(
            database,
            None,
            RunCounts(database, None, [] if is_unlimited(spec) else [schedule_id], now_ms=now_ms),
            now_ms=now_ms,
            direct=False,
        )
        if is_held:
            writer.write_held(schedule_id, revision, spec, fire)
        elif writer.write(schedule_id, revision, spec, fires=(fire,)):
            count_planned(database, schedule_id)
        replaced = follow_up_replaced(database, writer, now_ms=now_ms)
        decided += [*writer.decided, *replaced.decided]
        broken += [*writer.broken, *replaced.broken]
        has_replaced = has_replaced or writer.has_replaced or replaced.has_replaced
    return decided, has_replaced, broken


def _name_of(database: Connection, schedule_id: int) -> str:
    [(name,)] = database.rows("SELECT name FROM schedules WHERE id = :id", {"id": schedule_id})
    return str(name)


def _ends_of(row: _EndedRow) -> tuple[str, ...]:
    """Return what followers match; a retry that never started counts as the failure before it."""
    if row.status is Status.CANCELLED and row.attempt > 1 and not row.has_started:
        return _ENDS[Status.FAILED]
    return _ENDS[row.status]


def _set_after_end(database: Connection, row: _EndedRow, after_end_ms: int) -> None:
    """Set the schedule's next time after its end, unless another trigger comes earlier.

    While another of its fires is active, nothing is set: the last end sets it. A run that waits for
    a machine that is away does not count: that can take months. A newer end moves the time, unless
    it is that of a backfill. The plan time is later than all decided ones, even
    if a fire was moved and ran before its time.
    """
    [(name, jitter_s, decided_until_ms, *columns)] = database.rows(
        """SELECT name, jitter_s, decided_until,
               between_times, not_between_times, except_days, timezone
           FROM schedules WHERE id = :id""",
        {"id": row.schedule_id},
    )
    at_ms = row.finished_ms + min(after_end_ms, MAX_DURATION_MS)
    jitter_ms = round(jitter_s * 1000)
    windows = windows_in(*columns)
    if windows is not None:
        opens_ms = windows.next_open_ms(at_ms)
        if opens_ms is None:
            return
        at_ms = opens_ms
        jitter_ms = windows.last_due_ms(at_ms, at_ms + jitter_ms) - at_ms
    plan_ms = max(at_ms, decided_until_ms + 1)
    database.change(
        """UPDATE schedules SET next_plan_at = :plan, next_run_at = :run, next_source = :source
           WHERE id = :id AND enabled AND trigger_error IS NULL
               AND (next_plan_at IS NULL OR next_run_at > :at
                    OR (next_source = :source AND :is_backfill = 0))
               AND (paused_until IS NULL OR paused_until <= :at)
               AND (until_at IS NULL OR until_at >= :at)
               AND (max_runs IS NULL OR planned_count < max_runs)
               AND NOT EXISTS (SELECT 1 FROM executions AS e INDEXED BY executions_active
                   WHERE e.schedule_id = :id AND e.status IN ('queued', 'running')
                   AND (e.status = 'running' OR e.cause != 'backfill')
                   AND (e.status = 'running'
                       OR e.queue NOT IN (SELECT value FROM json_each(:away))))""",
        {
            "id": row.schedule_id,
            "at": at_ms,
            "is_backfill": row.fire_key.startswith("backfill:"),
            "away": json.dumps(_find_away(database, row)),
            "plan": plan_ms,
            "run": at_ms + jitter_of(name, plan_ms, seed=database.seed, most_ms=jitter_ms),
            "source": f"every {format_duration_ms(after_end_ms)} after end",
        },
    )


def _find_away(database: Connection, row: _EndedRow) -> list[str]:
    """The queues of machines of a schedule on each machine that no running engine takes."""
    if row.scope[0] != MACHINE:
        return []
    waiting = database.rows(
        """SELECT DISTINCT e.queue FROM executions AS e INDEXED BY executions_active
           JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.schedule_id = :id AND e.status = 'queued' AND e.status IN ('queued', 'running')
               AND e.scope_kind = :kind AND s.placed_on = :each""",
        {"id": row.schedule_id, "kind": MACHINE, "each": EACH},
    )
    if not waiting:
        return []
    taken = find_taken_queues(database)
    return [queue for (queue,) in waiting if queue not in taken]
