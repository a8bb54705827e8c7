"""End runs: write the outcome, the output, the state and the statistics in one transaction.

What a run prints is one compressed value, so history takes no files. Its progress is here too.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from edgecron.base.units import from_ms
from edgecron.base.values import NamedTuple
from edgecron.model.choices import REPLACED_MARK, Cause, Hold, Reason, Status
from edgecron.model.run import (
    DURATION_STEPS_MS,
    LATE_STEPS_MS,
    STATE_REFUSED,
    Outcome,
    Output,
    Reported,
    error_code_of,
    fits_state,
    rows_affected_of,
)
from edgecron.store.contract import Claimant, ClaimBatch, Decided, Ended, FinishBatch, Requeued
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.follow_ups import follow_up
from edgecron.store.sql.manual_runs import KEPT_FLAGS, cancel_removed, withdraw
from edgecron.store.sql.queue import fill
from edgecron.store.sql.rows import CHUNK, chunks_of
from edgecron.store.sql.schedules import find_state, write_state

_END = f"""UPDATE executions SET status = :status, exit_code = :exit_code,
        reason = iif(:reason = 'request' AND flags LIKE '%"{REPLACED_MARK}"]', 'replaced', :reason),
        claimed_at = iif(:status = 'skipped', NULL, claimed_at),
        started_at = iif(:started IS NULL, NULL, max(:started, claimed_at)),
        finished_at = max(:finished, claimed_at), duration_ms = :duration,
        error_code = :error_code, error_msg = :error_msg, result = :result,
        flags = coalesce(rtrim({KEPT_FLAGS}, ']') || ',' || substr(:flags, 2), :flags,
            {KEPT_FLAGS}),
        rows_affected = :rows_affected,
        progress = coalesce(:progress, progress)
    WHERE id = :id AND lease_token = :token AND status = 'running'"""
# `RETURNING` takes a sixth longer, so many ends in one statement do without.
_END_ONE = f"""{_END}
    RETURNING schedule_id, claimed_at, iif(cause IN ('catch_up', 'backfill'), NULL, due_at)"""
# For `count` runs of a schedule that ended alike one after the other; the rest is of the last one.
_COUNT = """UPDATE schedules SET last_execution_id = :execution, last_status = :status,
        last_run_at = :ran, last_error = :error,
        last_success_at = iif(:status = 'success',
            max(coalesce(last_success_at, :finished), :finished), last_success_at),
        run_count = run_count + :count,
        success_count = success_count + iif(:status = 'success', :count, 0),
        failed_count = failed_count + iif(:status = 'failed', :count, 0),
        cancelled_count = cancelled_count + iif(:status = 'cancelled', :count, 0),
        interrupted_count = interrupted_count + iif(:status = 'interrupted', :count, 0),
        duration_counts = iif(:took IS NULL, duration_counts, json_set(
            duration_counts, :took,
            coalesce(CAST(duration_counts ->> :took AS BIGINT), 0) + :count)),
        duration_sum_ms = duration_sum_ms + coalesce(:duration, 0),
        late_counts = iif(:started IS NULL, late_counts, json_set(
            late_counts, :started,
            coalesce(CAST(late_counts ->> :started AS BIGINT), 0) + :count)),
        late_sum_ms = late_sum_ms + coalesce(:late, 0)
    WHERE id = :id"""
_alike = itemgetter("id", "status", "took", "started")  # of runs that one statement can count
# The paths of steps in a histogram; see `histogram_of`.
_TOOK = [f'$."{step}"' for step in (*DURATION_STEPS_MS, "more")]
_LATE = [f'$."{step}"' for step in (*LATE_STEPS_MS, "more")]
# A function that had nothing to do changes nothing else: its last run remains the one before.
_COUNT_DECLINED = """UPDATE schedules SET run_count = run_count + 1,
        skipped_count = skipped_count + 1, duration_sum_ms = duration_sum_ms + :duration
    WHERE id = :id"""

_PackedOutput = dict[str, Any]
_End = tuple[Outcome, _PackedOutput | None]


class _Unfollowed(NamedTuple):
    """A running row that has no followers, and no next time that counts from its end.

    `is_last`: the last attempt of its fire. `due_ms` None: a late start of this run is not counted.
    """

    token: str
    schedule_id: int
    is_last: bool
    claimed_ms: int
    due_ms: int | None


def finish(database: Connection, outcomes: Sequence[Outcome], *, now_ms: int) -> list[Ended | None]:
    """End running rows in one transaction; None for a row whose lease was lost.

    The same transaction writes what follows an end. If the run gets a retry, that is the retry.
    Otherwise its fire has ended: then these are the fires of followers, and the schedule's own next
    time after the end.
    """
    ends = _pack(outcomes)
    with database.transaction():
        return _write_ends(database, ends, now_ms)


def finish_and_fill(
    database: Connection,
    outcomes: Sequence[Outcome],
    *,
    unstarted: Sequence[Outcome] = (),
    claimant: Claimant | None,
    now_ms: int,
    is_synced: bool = True,
) -> FinishBatch:
    """End rows as `finish` does, queue `unstarted` again, and give free places to queued runs.

    Without `is_synced`, a power cut can take these ends. There must be no claimant then.
    """
    assert is_synced or claimant is None
    ends = _pack(outcomes)
    with database.transaction(is_synced=is_synced):
        written = _write_ends(database, ends, now_ms)
        requeued = [
            _requeue(database, one.execution_id, one.lease_token, now_ms) for one in unstarted
        ]
        batch = ClaimBatch()
        if claimant is not None:
            batch = fill(database, claimant=claimant, now_ms=now_ms, hold=Hold.NOTHING)
        return FinishBatch(written, requeued, batch)


def requeue(database: Connection, execution_id: int, token: str, *, now_ms: int) -> Requeued | None:
    """Queue a row that was claimed but never started; its token is void from now on.

    If its schedule was removed, or a person cancelled the run, the row is cancelled instead. None
    if the row has another state by now.
    """
    with database.transaction():
        return _requeue(database, execution_id, token, now_ms)


def _requeue(database: Connection, execution_id: int, token: str, now_ms: int) -> Requeued | None:
    reason, ended = None, None
    queued = database.returning(
        """UPDATE executions SET status = 'queued', queued_at = :now, claimed_at = NULL,
               heartbeat_at = NULL, stale_after = NULL, fence = NULL, started_at = NULL,
               engine_id = NULL, supervisor_id = NULL, lease_token = NULL
           WHERE id = :id AND lease_token = :token AND status = 'running'
           RETURNING schedule_id, cancel_requested_at,
               (SELECT deleted_at FROM schedules WHERE id = executions.schedule_id),
               revision, plan_at, due_at, cause, attempt, flags""",
        {"id": execution_id, "token": token, "now": now_ms},
    )
    if queued is None:
        return None
    if queued[1] is not None:
        is_replaced = (queued[8] or "").endswith(f'"{REPLACED_MARK}"]')
        reason = Reason.REPLACED if is_replaced else Reason.REQUEST
        ended = withdraw(database, execution_id, reason=reason, now_ms=now_ms)
    elif queued[2] is not None:
        cancel_removed(database, queued[0], now_ms=now_ms)
        reason = Reason.REMOVED
    decided = Decided(
        execution_id=execution_id,
        schedule_id=queued[0],
        revision=queued[3],
        plan_ms=queued[4],
        status=Status.QUEUED if reason is None else Status.CANCELLED,
        reason=reason,
        cause=Cause(queued[6]),
        due_ms=queued[5],
        attempt=queued[7],
    )
    return Requeued(decided, ended)


def _pack(outcomes: Sequence[Outcome]) -> list[_End]:
    """Compress the outputs, before the transaction takes the lock."""
    return [(outcome, pack_output(outcome.output)) for outcome in outcomes]


def _write_ends(database: Connection, ends: Sequence[_End], now_ms: int) -> list[Ended | None]:
    written: list[Ended | None] = []
    unfollowed = _find_unfollowed(database, [outcome for outcome, _ in ends])
    for is_simple, group in groupby(ends, key=lambda end: _is_simple(end[0], unfollowed)):
        # Checked for each group: followers of the group before might wait for a success.
        if is_simple and not _is_any_waiting(database):
            written += _finish_simple(database, list(group), unfollowed, now_ms)
        else:
            written += [_finish_one(database, outcome, output, now_ms) for outcome, output in group]
    return written


def _refuse_large_state(database: Connection, outcome: Outcome) -> Outcome:
    """Return the outcome, without its changes of state if they would make the state too large."""
    running = database.row(
        """SELECT schedule_id FROM executions
           WHERE id = :id AND lease_token = :token AND status = 'running'""",
        {"id": outcome.execution_id, "token": outcome.lease_token},
    )
    if running is None or outcome.state is None:
        return outcome
    before = find_state(database, running[0])
    after = {k: value for k, value in {**before, **outcome.state}.items() if value is not None}
    if fits_state(before, after):
        return outcome
    return outcome._replace(state=None, flags=(*outcome.flags, STATE_REFUSED))


def _find_unfollowed(database: Connection, outcomes: Sequence[Outcome]) -> dict[int, _Unfollowed]:
    """Find running executions without followers and without a next time after their end, by id.

    Ends of other runs in the same transaction change none of that.
    """
    rows = database.rows(
        """SELECT e.id, e.lease_token, e.schedule_id, e.attempt >= e.max_attempts, e.claimed_at,
               iif(e.cause IN ('catch_up', 'backfill'), NULL, e.due_at)
           FROM json_each(:ids) AS w CROSS JOIN executions AS e
               ON e.id = CAST(w.value AS BIGINT)
           JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.status = 'running' AND (s.after_end_ms IS NULL OR s.deleted_at IS NOT NULL)
               AND NOT EXISTS (SELECT 1 FROM schedule_upstreams WHERE upstream = s.name)""",
        {"ids": json.dumps([outcome.execution_id for outcome in outcomes])},
    )
    return {row[0]: _Unfollowed(*row[1:]) for row in rows}


def _is_simple(outcome: Outcome, unfollowed: Mapping[int, _Unfollowed]) -> bool:
    """Whether an end changes no state, and nothing follows it: no retry, follower or next time.

    A run that was ended on request might have been replaced by a fire of this transaction.
    """
    row = unfollowed.get(outcome.execution_id)
    if row is None or row.token != outcome.lease_token:
        return False
    if outcome.status is Status.SUCCESS:
        return not outcome.state
    return (
        row.is_last
        and outcome.status is not Status.SKIPPED
        and outcome.reason is not Reason.REQUEST
    )


def _changes_state(outcome: Outcome) -> bool:
    # An attempt that failed half-way must find what was there before it.
    return bool(outcome.state) and outcome.status is Status.SUCCESS


def _finish_simple(
    database: Connection,
    ends: Sequence[_End],
    unfollowed: dict[int, _Unfollowed],
    now_ms: int,
) -> list[Ended | None]:
    """Write ends that nothing follows, with one statement for all of them.

    Removes their rows from `unfollowed`: a second end of the same run changes nothing.
    """
    written: list[Ended | None] = []
    ended, outputs, counted = [], [], []
    for outcome, output in ends:
        row = unfollowed.pop(outcome.execution_id, None)
        if row is None:
            written.append(None)
            continue
        ended.append(_end_columns(outcome))
        if output is not None:
            outputs.append((outcome.execution_id, output))
        late_ms = _late_ms(outcome, row.claimed_ms, row.due_ms)
        counted.append(_count_columns(row.schedule_id, outcome, late_ms=late_ms, now_ms=now_ms))
        written.append(Ended(reason=outcome.reason))
    database.change_many(_END, ended)
    for execution_id, output in outputs:  # After the ends: a server locks rows in this order.
        insert_output(database, execution_id, output)
    database.change_many(_COUNT, _together(counted))
    return written


def _together(counted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count runs that ended alike one after the other in one statement."""
    found: list[dict[str, Any]] = []
    last = None
    for one in counted:
        alike = _alike(one)
        if alike != last:
            found.append(one)
            last = alike
            continue
        before = found[-1]
        found[-1] = {
            **one,
            "count": before["count"] + 1,
            "finished": max(before["finished"], one["finished"]),
            "duration": (before["duration"] or 0) + (one["duration"] or 0),
            "late": (before["late"] or 0) + (one["late"] or 0),
        }
    return found


def _finish_one(
    database: Connection,
    outcome: Outcome,
    output: _PackedOutput | None,
    now_ms: int,
) -> Ended | None:
    if _changes_state(outcome):
        outcome = _refuse_large_state(database, outcome)
    row = database.returning(_END_ONE, _end_columns(outcome))
    if row is None:
        return None
    schedule_id, claimed_ms, due_ms = row
    if output is not None:
        insert_output(database, outcome.execution_id, output)
    if outcome.state and _changes_state(outcome):
        write_state(database, schedule_id, outcome.state)
    if outcome.status is Status.SKIPPED:
        columns = {"id": schedule_id, "duration": outcome.duration_ms or 0}
        database.change(_COUNT_DECLINED, columns)
    else:
        late_ms = _late_ms(outcome, claimed_ms, due_ms)
        columns = _count_columns(schedule_id, outcome, late_ms=late_ms, now_ms=now_ms)
        database.change(_COUNT, columns)
    return follow_up(database, outcome, now_ms=now_ms)


def _late_ms(outcome: Outcome, claimed_ms: int, due_ms: int | None) -> int | None:
    """How late a run started; None if that is not counted."""
    if outcome.started_ms is None or due_ms is None:
        return None
    return max(0, outcome.started_ms - due_ms, claimed_ms - due_ms)


def _end_columns(outcome: Outcome) -> dict[str, Any]:
    # A run that its function skipped has no start, like other skipped runs.
    started_ms = None if outcome.status is Status.SKIPPED else outcome.started_ms
    return {
        "id": outcome.execution_id,
        "token": outcome.lease_token,
        "status": outcome.status.value,
        "reason": outcome.reason.value if outcome.reason else None,
        "exit_code": outcome.exit_code,
        "started": started_ms,
        "finished": outcome.finished_ms,
        "duration": outcome.duration_ms,
        "error_code": None if outcome.status is Status.SUCCESS else error_code_of(outcome),
        "error_msg": outcome.error_msg,
        "flags": json.dumps(outcome.flags) if outcome.flags else None,
        "result": outcome.result,
        "rows_affected": None if outcome.result is None else rows_affected_of(outcome.result),
        "progress": outcome.progress,
    }


def _count_columns(
    schedule_id: int, outcome: Outcome, *, late_ms: int | None, now_ms: int
) -> dict[str, Any]:
    took_ms = outcome.duration_ms
    return {
        "count": 1,
        "took": None if took_ms is None else _TOOK[bisect_left(DURATION_STEPS_MS, took_ms)],
        "duration": took_ms,
        "started": None if late_ms is None else _LATE[bisect_left(LATE_STEPS_MS, late_ms)],
        "late": late_ms,
        "id": schedule_id,
        "execution": outcome.execution_id,
        "status": outcome.status.value,
        "ran": outcome.started_ms if outcome.started_ms is not None else now_ms,
        "finished": outcome.finished_ms,
        "error": None
        if outcome.status is Status.SUCCESS
        else outcome.error_msg or outcome.reason or outcome.status,
    }


def _is_any_waiting(database: Connection) -> bool:
    """Whether any row waits for a condition."""
    row = database.row("SELECT min(waiting_for) FROM executions WHERE waiting_for IS NOT NULL")
    return row is not None and row[0] is not None


_LEAST_COMPRESSED = 256  # below it the page is written whole anyway


def pack_output(output: Output | None) -> dict[str, Any] | None:
    """Return the columns of an output; None if the run printed nothing.

    Call it before the transaction: to compress an output takes milliseconds.
    """
    if output is None or not (output.chunks or output.dropped_bytes):
        return None
    packed = b"".join(
        CHUNK.pack(chunk.stream, chunk.at_ms, len(chunk.content)) + chunk.content
        for chunk in output.chunks
    )
    encoding = "raw"
    if len(packed) >= _LEAST_COMPRESSED:
        encoding, packed = "zlib", zlib.compress(packed, 6)
    return {
        "encoding": encoding,
        "chunks": packed,
        "stdout": output.stdout_bytes,
        "stderr": output.stderr_bytes,
        "dropped": output.dropped_bytes,
        "dropped_after": output.dropped_after,
    }


def insert_output(database: Connection, execution_id: int, columns: dict[str, Any]) -> None:
    """Write the columns that `pack_output` made, inside the caller's transaction.

    They replace those that were stored for a machine that followed the run.
    """
    database.change(
        """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes, stderr_bytes,
               dropped_bytes, dropped_after)
           VALUES (:id, :encoding, :chunks, :stdout, :stderr, :dropped, :dropped_after)
           ON CONFLICT (execution_id) DO UPDATE SET encoding = excluded.encoding,
               chunks = excluded.chunks, stdout_bytes = excluded.stdout_bytes,
               stderr_bytes = excluded.stderr_bytes, dropped_bytes = excluded.dropped_bytes,
               dropped_after = excluded.dropped_after""",
        columns | {"id": execution_id},
    )


def find_output(database: Connection, execution_id: int) -> Output | None:
    """Return the output of a run; None if it printed nothing or has not ended.

    Of a running run that another machine follows, what it has printed so far. Raises Unreadable.
    """
    row = database.row(
        """SELECT encoding, chunks, stdout_bytes, stderr_bytes, dropped_bytes, dropped_after,
               removed_at
           FROM outputs WHERE execution_id = :id""",
        {"id": execution_id},
    )
    if row is None:
        return None
    return Output(
        chunks=chunks_of(execution_id, row[0], row[1]),
        stdout_bytes=row[2],
        stderr_bytes=row[3],
        dropped_bytes=row[4],
        dropped_after=row[5],
        removed_at=None if row[6] is None else from_ms(row[6]),
    )


def note_progress(database: Connection, reported: Sequence[Reported]) -> None:
    """Record the progress of runs that are still running with these tokens."""
    with database.transaction():
        database.change_many(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND lease_token = :token AND status = 'running'
                   AND progress IS NOT :progress""",
            [
                {"id": one.execution_id, "token": one.lease_token, "progress": one.progress}
                for one in reported
            ],
        )


def report_progress(database: Connection, execution_id: int, progress: str) -> bool:
    """Record the progress of a run; whether the run is still running."""
    with database.transaction():
        changed = database.change(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND status = 'running' AND progress IS NOT :progress""",
            {"id": execution_id, "progress": progress},
        )
        return changed == 1 or _runs(database, execution_id)


def _runs(database: Connection, execution_id: int) -> bool:
    found = database.row(
        "SELECT 1 FROM executions WHERE id = :id AND status = 'running'", {"id": execution_id}
    )
    return found is not None
