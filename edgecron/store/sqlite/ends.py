"""End runs: write the outcome, the output, the state and the statistics in one transaction.

The output of a run is one compressed value, so history takes no files.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from edgecron.base.units import from_ms
from edgecron.model.choices import REPLACED_MARK, Cause, Hold, Reason, Status
from edgecron.model.claim import (
    Outcome,
    Output,
    OutputChunk,
    Stream,
    error_code_of,
    rows_affected_of,
)
from edgecron.model.measures import DURATION_STEPS_MS, LATE_STEPS_MS, step_of
from edgecron.model.reports import STATE_REFUSED, Reported, fits_state
from edgecron.store.contract import ClaimBatch, Decided, Ended, Requeued, RunningRow, Seat
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.follow_ups import follow_up
from edgecron.store.sqlite.limits import is_any_waiting
from edgecron.store.sqlite.manual_runs import KEPT_FLAGS, cancel_removed, withdraw
from edgecron.store.sqlite.queue import fill

_CHUNK = struct.Struct(">BqI")  # stream, instant in milliseconds, length; then the bytes
_LEAST_COMPRESSED = 256  # below it the page is written whole anyway


def pack_output(output: Output | None) -> dict[str, Any] | None:
    """The columns of an output; None where nothing was printed, which leaves no row.

    Compressing takes milliseconds: before the transaction, not in it.
    """
    if output is None or not (output.chunks or output.dropped_bytes):
        return None
    packed = b"".join(
        _CHUNK.pack(chunk.stream, chunk.at_ms, len(chunk.content)) + chunk.content
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


def insert_output(database: Database, execution_id: int, columns: dict[str, Any]) -> None:
    """Keep what `pack_output` laid out, inside the caller's transaction."""
    database.change(
        """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes, stderr_bytes,
               dropped_bytes, dropped_after)
           VALUES (:id, :encoding, :chunks, :stdout, :stderr, :dropped, :dropped_after)""",
        columns | {"id": execution_id},
    )


def find_output(database: Database, execution_id: int) -> Output | None:
    """What a run printed, or None where it printed nothing or has not ended."""
    row = database.row(
        """SELECT encoding, chunks, stdout_bytes, stderr_bytes, dropped_bytes, dropped_after,
               removed_at
           FROM outputs WHERE execution_id = :id""",
        {"id": execution_id},
    )
    if row is None:
        return None
    packed = zlib.decompress(row[1]) if row[0] == "zlib" else row[1]
    return Output(
        chunks=_unpack(packed),
        stdout_bytes=row[2],
        stderr_bytes=row[3],
        dropped_bytes=row[4],
        dropped_after=row[5],
        removed_at=None if row[6] is None else from_ms(row[6]),
    )


def _unpack(packed: bytes) -> tuple[OutputChunk, ...]:
    chunks: list[OutputChunk] = []
    at = 0
    while at < len(packed):
        stream, at_ms, length = _CHUNK.unpack_from(packed, at)
        at += _CHUNK.size
        chunks.append(
            OutputChunk(stream=Stream(stream), at_ms=at_ms, content=packed[at : at + length])
        )
        at += length
    return tuple(chunks)


def note_progress(database: Database, reported: Sequence[Reported]) -> None:
    """Put progress on record, of what still runs by these tokens."""
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


def report_progress(database: Database, execution_id: int, progress: str) -> bool:
    """Put a progress on record; whether that is of a run that goes on."""
    with database.transaction():
        changed = database.change(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND status = 'running' AND progress IS NOT :progress""",
            {"id": execution_id, "progress": progress},
        )
        return changed == 1 or _runs(database, execution_id)


def _runs(database: Database, execution_id: int) -> bool:
    found = database.row(
        "SELECT 1 FROM executions WHERE id = :id AND status = 'running'", {"id": execution_id}
    )
    return found is not None


def write_state(database: Database, schedule_id: int, changes: Mapping[str, str | None]) -> None:
    """Change what a schedule remembers, inside the caller's transaction."""
    gone = [key for key, value in changes.items() if value is None]
    kept = [(key, value) for key, value in changes.items() if value is not None]
    if gone:
        database.change_many(
            "DELETE FROM state WHERE schedule_id = :schedule AND key = :key",
            [{"schedule": schedule_id, "key": key} for key in gone],
        )
    if kept:
        # What no edgecron would have let through must not hold up the end that it comes with.
        database.change_many(
            """INSERT INTO state (schedule_id, key, value)
               SELECT :schedule, :key, :value WHERE json_valid(:value)
               ON CONFLICT (schedule_id, key) DO UPDATE SET value = excluded.value
                   WHERE state.value IS NOT excluded.value""",
            [{"schedule": schedule_id, "key": key, "value": value} for key, value in kept],
        )


def find_fitting_states(
    database: Database, changes: Sequence[tuple[int, str, Mapping[str, str | None]]]
) -> list[bool]:
    """Whether the schedules of running executions stay within the limits of a state, with changes
    by execution and lease token; those that fit count for the ones after them."""
    states: dict[int, Mapping[str, str]] = {}
    fitting = []
    for execution_id, token, change in changes:
        found = database.row(
            """SELECT schedule_id FROM executions
               WHERE id = :id AND lease_token = :token AND status = 'running'""",
            {"id": execution_id, "token": token},
        )
        if found is None:
            fitting.append(True)  # It ends nothing, and so changes nothing.
            continue
        before = states.get(found[0])
        if before is None:
            before = find_state(database, found[0])
        after = {k: value for k, value in {**before, **change}.items() if value is not None}
        fits = fits_state(before, after)
        states[found[0]] = after if fits else before
        fitting.append(fits)
    return fitting


def find_state(database: Database, schedule_id: int) -> dict[str, str]:
    """What a schedule remembers: texts of JSON by key, in the order of keys."""
    rows = database.rows(
        "SELECT key, value FROM state WHERE schedule_id = :schedule ORDER BY key",
        {"schedule": schedule_id},
    )
    return dict(rows)


def count_state(database: Database, schedule_id: int) -> int:
    """How many keys that has."""
    [(count,)] = database.rows(
        "SELECT count(*) FROM state WHERE schedule_id = :schedule", {"schedule": schedule_id}
    )
    return int(count)


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


def requeue(database: Database, row: RunningRow, *, now_ms: int) -> Requeued | None:
    """Queue a row that was claimed but never started; its token is gone for good.

    Where its schedule was removed meanwhile, it is cancelled like all that was queued then; where
    its end was asked for, it has it. None if the row has moved on.
    """
    reason, ended = None, None
    with database.transaction():
        queued = database.returning(
            """UPDATE executions SET status = 'queued', queued_at = :now, claimed_at = NULL,
                   heartbeat_at = NULL, stale_after = NULL, fence = NULL, started_at = NULL,
                   engine_id = NULL, supervisor_id = NULL, lease_token = NULL
               WHERE id = :id AND lease_token = :token AND status = 'running'
               RETURNING schedule_id, cancel_requested_at,
                   (SELECT deleted_at FROM schedules WHERE id = executions.schedule_id),
                   revision, plan_at, due_at, cause, attempt, flags""",
            {"id": row.execution_id, "token": row.lease_token, "now": now_ms},
        )
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
