"""End running rows, or queue them again if they never started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from edgecron.model.choices import REPLACED_MARK, Cause, Hold, Reason, Status
from edgecron.model.claim import Outcome, error_code_of, rows_affected_of
from edgecron.model.measures import DURATION_STEPS_MS, LATE_STEPS_MS, step_of
from edgecron.model.reports import STATE_REFUSED
from edgecron.store.contract import STALE_MS, ClaimBatch, Decided, Ended, Requeued, RunningRow, Seat
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.follow_ups import follow_up
from edgecron.store.sqlite.manual_runs import KEPT_FLAGS, cancel_removed, withdraw
from edgecron.store.sqlite.needs import is_any_waiting
from edgecron.store.sqlite.offers import take_after
from edgecron.store.sqlite.outputs import (
    find_fitting_states,
    insert_output,
    pack_output,
    write_state,
)
from edgecron.store.sqlite.queue import fill
from edgecron.store.sqlite.revisions import snapshot_of
from edgecron.store.sqlite.rows import ok_codes_of

_END = f"""UPDATE executions SET status = :status, exit_code = :exit_code,
        reason = iif(:reason = 'request' AND flags LIKE '%"{REPLACED_MARK}"]', 'replaced', :reason),
        started_at = iif(:started IS NULL, NULL, max(:started, claimed_at)),
        finished_at = max(:finished, claimed_at), duration_ms = :duration,
        error_code = :error_code, error_msg = :error_msg, result = :result,
        flags = coalesce(rtrim({KEPT_FLAGS}, ']') || ',' || substr(:flags, 2), :flags,
            {KEPT_FLAGS}),
        rows_affected = :rows_affected,
        progress = coalesce(:progress, progress)
    WHERE id = :id AND lease_token = :token AND status = 'running'
    RETURNING id, lease_token, schedule_id, reason,
        iif(cause IN ('catch_up', 'backfill'), NULL, max(0, started_at - due_at))"""
_COUNT = """UPDATE schedules SET last_execution_id = :execution, last_status = :status,
        last_run_at = :ran, last_error = :error,
        last_success_at = iif(:status = 'success',
            max(coalesce(last_success_at, :finished), :finished), last_success_at),
        run_count = run_count + 1,
        success_count = success_count + (:status = 'success'),
        failed_count = failed_count + (:status = 'failed'),
        cancelled_count = cancelled_count + (:status = 'cancelled'),
        interrupted_count = interrupted_count + (:status = 'interrupted'),
        duration_counts = iif(:took IS NULL, duration_counts, json_set(
            duration_counts, :took, coalesce(duration_counts ->> :took, 0) + 1)),
        duration_sum_ms = duration_sum_ms + coalesce(:duration, 0),
        late_counts = iif(:started IS NULL, late_counts, json_set(
            late_counts, :started, coalesce(late_counts ->> :started, 0) + 1)),
        late_sum_ms = late_sum_ms + coalesce(:late, 0)
    WHERE id = :id"""

_PackedOutput = dict[str, Any]
_End = tuple[Outcome, _PackedOutput | None]


def finish(database: Database, outcomes: Sequence[Outcome], *, now_ms: int) -> list[Ended | None]:
    """End running rows in one transaction; None where the lease was lost, changing nothing.

    What follows an end is written with it: its retry, or, where its fire has ended, the fires of
    schedules that come after it and its own next time after the end.
    """
    ends = _pack(outcomes)
    with database.transaction():
        return _write_ends(database, ends, now_ms)


def finish_and_fill(
    database: Database,
    outcomes: Sequence[Outcome],
    *,
    seat: Seat,
    now_ms: int,
    hold: Hold = Hold.NOTHING,
) -> tuple[list[Ended | None], ClaimBatch]:
    """As `finish`, and give the places that are free then to what is queued."""
    ends = _pack(outcomes)
    with database.transaction():
        written = _write_ends(database, ends, now_ms)
        return written, fill(database, seat=seat, now_ms=now_ms, hold=hold)


def find_running(database: Database) -> list[RunningRow]:
    """Every running execution, with the lock names of who is said to run it.

    Its kind is that of its revision: whatever its schedule is made meanwhile, the same has it.
    """
    rows = database.rows(
        f"""SELECT e.id, e.lease_token, e.engine_id,
               iif(n.stopped_at IS NULL, n.key, NULL), n.boot_id, e.supervisor_id, s.name,
               iif(json_valid(r.snapshot), coalesce(r.snapshot ->> 'kind', s.kind), s.kind),
               s.ok_codes, s.kill_grace_s, e.started_at
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
            kill_grace_s=row[9],
            started_ms=row[10],
        )
        for row in rows
    ]


def requeue(database: Database, row: RunningRow, *, now_ms: int) -> Requeued | None:
    """Queue a row that was claimed but never started; its token is gone for good.

    Where its schedule was removed meanwhile, it is cancelled like all that was queued then; where
    its end was asked for, it has it. None if the row has moved on.
    """
    reason, revision, ended = None, 0, None
    with database.transaction():
        queued = database.returning(
            """UPDATE executions SET status = 'queued', queued_at = :now, claimed_at = NULL,
                   heartbeat_at = NULL, stale_after = NULL, fence = NULL, started_at = NULL,
                   engine_id = NULL, supervisor_id = NULL, lease_token = NULL
               WHERE id = :id AND lease_token = :token AND status = 'running'
               RETURNING schedule_id, cancel_requested_at,
                   (SELECT deleted_at FROM schedules WHERE id = executions.schedule_id),
                   revision, plan_at, due_at, cause, attempt, flags, queue""",
            {"id": row.execution_id, "token": row.lease_token, "now": now_ms},
        )
        if queued is not None:
            revision = take_after(database, row.execution_id, queued[9], revision=queued[3])
        if queued is not None and queued[1] is not None:
            is_replaced = (queued[8] or "").endswith(f'"{REPLACED_MARK}"]')
            reason = Reason.REPLACED if is_replaced else Reason.REQUEST
            ended = withdraw(database, row.execution_id, reason=reason, now_ms=now_ms)
        elif queued is not None and queued[2] is not None:
            cancel_removed(database, queued[0], now_ms=now_ms)
            reason = Reason.REMOVED
    if queued is None:
        return None
    decided = Decided(
        execution_id=row.execution_id,
        schedule_id=queued[0],
        revision=revision,
        plan_ms=queued[4],
        status=Status.QUEUED if reason is None else Status.CANCELLED,
        reason=reason,
        cause=Cause(queued[6]),
        due_ms=queued[5],
        attempt=queued[7],
    )
    return Requeued(decided, ended)


def find_cancelled(database: Database, engine_id: int) -> list[int]:
    """The running executions of an engine whose end was asked for."""
    rows = database.rows(
        """SELECT id FROM executions INDEXED BY executions_active
           WHERE status = 'running' AND status IN ('queued', 'running')
               AND engine_id = :engine AND cancel_requested_at IS NOT NULL""",
        {"engine": engine_id},
    )
    return [row[0] for row in rows]


def adopt(
    database: Database, rows: Sequence[RunningRow], *, engine_id: int, now_ms: int
) -> list[bool]:
    """Put running rows down as another engine's; their supervisor answers to it already.

    The token stays: it is what the supervisor knows them by.
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


def beat(database: Database, engine_id: int, *, now_ms: int) -> None:
    """Note that what an engine runs is alive."""
    with database.transaction():
        database.change(
            """UPDATE executions INDEXED BY executions_active
               SET heartbeat_at = :now, stale_after = :stale
               WHERE engine_id = :engine AND status = 'running'
                   AND status IN ('queued', 'running')""",
            {"engine": engine_id, "now": now_ms, "stale": now_ms + STALE_MS},
        )


def request_cancel(database: Database, execution_id: int, *, now_ms: int) -> RunningRow | None:
    """Note that a running execution is to end, and say who runs it; None where none runs."""
    with database.transaction():
        database.change(
            """UPDATE executions SET cancel_requested_at = :now
               WHERE id = :id AND status = 'running' AND cancel_requested_at IS NULL""",
            {"id": execution_id, "now": now_ms},
        )
    return find_running_row(database, execution_id)


def find_running_row(database: Database, execution_id: int) -> RunningRow | None:
    """A running execution and who runs it, or None where it is not running."""
    return next((row for row in find_running(database) if row.execution_id == execution_id), None)


def _pack(outcomes: Sequence[Outcome]) -> list[_End]:
    """Compress what was printed, before the lock is taken."""
    return [(outcome, pack_output(outcome.output)) for outcome in outcomes]


def _write_ends(database: Database, ends: Sequence[_End], now_ms: int) -> list[Ended | None]:
    written: list[Ended | None] = []
    ends = _with_fitting_states(database, ends)
    unfollowed = _find_unfollowed(database, [outcome for outcome, _ in ends])
    for is_simple, group in groupby(ends, key=lambda end: _is_simple(end[0], unfollowed)):
        # Nothing waits for a success: looked at anew, for what follows an end may come to.
        if is_simple and not is_any_waiting(database):
            written += _finish_simple(database, list(group), now_ms)
        else:
            written += [_finish_one(database, outcome, output, now_ms) for outcome, output in group]
    return written


def _with_fitting_states(database: Database, ends: Sequence[_End]) -> list[_End]:
    """The ends, each without its changes of state if these would make the state too large."""
    changing = [
        (at, outcome, outcome.state)
        for at, (outcome, _) in enumerate(ends)
        if outcome.state and outcome.status is Status.SUCCESS
    ]
    fitting = find_fitting_states(
        database, [(one.execution_id, one.lease_token, state) for _, one, state in changing]
    )
    kept = list(ends)
    for (at, outcome, _), fits in zip(changing, fitting, strict=True):
        if not fits:
            flags = (*outcome.flags, STATE_REFUSED)
            kept[at] = outcome._replace(state=None, flags=flags), ends[at][1]
    return kept


def _find_unfollowed(database: Database, outcomes: Sequence[Outcome]) -> dict[int, bool]:
    """Those of the executions whose end no follower and no next time waits for; whether each is
    its fire's last attempt.

    What is decided with the ends before them makes none of them otherwise.
    """
    return dict(
        database.rows(
            """SELECT e.id, e.attempt >= e.max_attempts
               FROM json_each(:ids) AS w CROSS JOIN executions AS e ON e.id = w.value
               JOIN schedules AS s ON s.id = e.schedule_id
               WHERE (s.after_end_ms IS NULL OR s.deleted_at IS NOT NULL)
                   AND NOT EXISTS (SELECT 1 FROM schedule_upstreams WHERE upstream = s.name)""",
            {"ids": json.dumps([outcome.execution_id for outcome in outcomes])},
        )
    )


def _is_simple(outcome: Outcome, unfollowed: Mapping[int, bool]) -> bool:
    """Whether nothing can follow an end: no retry, no follower, no next time.

    Asked of each end: of two of one execution, the one whose lease was lost says nothing.
    """
    is_last = unfollowed.get(outcome.execution_id)
    return is_last is not None and (outcome.status is Status.SUCCESS or bool(is_last))


def _finish_simple(database: Database, ends: Sequence[_End], now_ms: int) -> list[Ended | None]:
    """Write ends that nothing follows, a statement for all of them at once."""
    rows = database.returning_each(_END, [_end_columns(outcome) for outcome, _ in ends])
    found = {row[:2]: row[2:] for row in rows}
    written: list[Ended | None] = []
    counted = []
    for outcome, output in ends:
        row = found.pop((outcome.execution_id, outcome.lease_token), None)
        if row is None:
            written.append(None)
            continue
        _write_more(database, outcome, output, schedule_id=row[0])
        counted.append(_count_columns(row[0], outcome, late_ms=row[2], now_ms=now_ms))
        written.append(Ended(reason=None if row[1] is None else Reason(row[1])))
    database.change_many(_COUNT, counted)
    return written


def _finish_one(
    database: Database,
    outcome: Outcome,
    output: _PackedOutput | None,
    now_ms: int,
) -> Ended | None:
    row = database.returning(_END, _end_columns(outcome))
    if row is None:
        return None
    _write_more(database, outcome, output, schedule_id=row[2])
    database.change(_COUNT, _count_columns(row[2], outcome, late_ms=row[4], now_ms=now_ms))
    return follow_up(database, outcome, now_ms=now_ms)


def _write_more(
    database: Database, outcome: Outcome, output: _PackedOutput | None, *, schedule_id: int
) -> None:
    """Write what a run printed, and what its schedule is to remember.

    That only of a success: an attempt that failed half-way is to find what was there before it.
    """
    if output is not None:
        insert_output(database, outcome.execution_id, output)
    if outcome.state and outcome.status is Status.SUCCESS:
        write_state(database, schedule_id, outcome.state)


def _end_columns(outcome: Outcome) -> dict[str, Any]:
    return {
        "id": outcome.execution_id,
        "token": outcome.lease_token,
        "status": outcome.status.value,
        "reason": outcome.reason.value if outcome.reason else None,
        "exit_code": outcome.exit_code,
        "started": outcome.started_ms,
        "finished": outcome.finished_ms,
        "duration": outcome.duration_ms,
        "error_code": error_code_of(outcome),
        "error_msg": outcome.error_msg,
        "flags": json.dumps(outcome.flags) if outcome.flags else None,
        "result": outcome.result,
        "rows_affected": rows_affected_of(outcome.result),
        "progress": outcome.progress,
    }


def _count_columns(
    schedule_id: int, outcome: Outcome, *, late_ms: int | None, now_ms: int
) -> dict[str, Any]:
    took_ms = outcome.duration_ms
    return {
        "took": None if took_ms is None else _path_of(took_ms, DURATION_STEPS_MS),
        "duration": took_ms,
        "started": None if late_ms is None else _path_of(late_ms, LATE_STEPS_MS),
        "late": late_ms,
        "id": schedule_id,
        "execution": outcome.execution_id,
        "status": outcome.status.value,
        "ran": outcome.started_ms if outcome.started_ms is not None else now_ms,
        "finished": outcome.finished_ms,
        "error": None if outcome.status is Status.SUCCESS else _error_of(outcome),
    }


def _path_of(value_ms: int, steps_ms: Sequence[int]) -> str:
    return f'$."{step_of(value_ms, steps_ms)}"'


def _error_of(outcome: Outcome) -> str:
    return outcome.error_msg or outcome.reason or outcome.status
