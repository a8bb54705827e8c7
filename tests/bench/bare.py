"""The bare loop: the statements of claims and ends, and nothing around them.

The same tables and indexes, the same columns bound, written through to the disk alike, in
batches of the same size; nothing is decided, next times are known beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

_DUE = """SELECT id, revision, next_plan_at, next_run_at, decided_until, paused_until,
        planned_count, next_source
    FROM schedules WHERE queue = 'command' AND next_run_at IS NOT NULL AND enabled
        AND next_run_at <= :now
    ORDER BY next_run_at LIMIT :limit"""
_ADVANCE = """UPDATE schedules SET next_plan_at = :next_plan, next_run_at = :next_run,
        next_source = :next_source, decided_until = max(decided_until, :decided),
        planned_count = :planned, paused_until = NULL,
        last_enqueued_at = iif(:fires, :now, last_enqueued_at)
    WHERE id = :id AND next_plan_at = :plan AND next_run_at = :run
        AND revision = :revision AND enabled AND deleted_at IS NULL"""
_CLAIM = """INSERT INTO executions (schedule_id, revision, scope_kind, scope_id, plan_at, fire_key,
        cause, trigger_text, due_at, max_attempts, queue, priority, status, queued_at,
        claimed_at, heartbeat_at, started_at, engine_id, supervisor_id, lease_token,
        waiting_for, wait_until)
    VALUES (:schedule, :revision, :scope_kind, :scope_id, :plan, :fire_key, :cause,
        :source, :due, :max_attempts, :queue, :priority, :status, :now, :claimed, :claimed,
        :claimed, :engine, :supervisor, :token, :waiting_for, :wait_until)
    ON CONFLICT (schedule_id, scope_kind, scope_id, plan_at, fire_key, attempt) DO NOTHING
    RETURNING id"""
_END = """UPDATE executions SET status = :status, exit_code = :exit_code,
        reason = iif(:reason = 'request' AND flags = json_array(:mark), 'replaced', :reason),
        started_at = iif(:started IS NULL, NULL, max(:started, claimed_at)),
        finished_at = max(:finished, claimed_at), duration_ms = :duration,
        error_code = :error_code, error_msg = :error_msg, flags = :flags, result = :result
    WHERE id = :id AND lease_token = :token AND status = 'running' RETURNING schedule_id"""
_COUNT = """UPDATE schedules SET last_execution_id = :execution, last_status = :status,
        last_run_at = :ran, last_error = :error,
        last_success_at = iif(:status = 'success',
            max(coalesce(last_success_at, :finished), :finished), last_success_at),
        run_count = run_count + 1,
        success_count = success_count + (:status = 'success'),
        failed_count = failed_count + (:status = 'failed'),
        cancelled_count = cancelled_count + (:status = 'cancelled'),
        interrupted_count = interrupted_count + (:status = 'interrupted')
    WHERE id = :id"""

# (execution id, schedule id, token)
Claimed = tuple[int, int, str]


class BareLoop:
    """One connection. `next_of` gives a schedule's next time after one that is due."""

    def __init__(self, database: Path, next_of: Callable[[int, int], int]) -> None:
        self.connection = apsw.Connection(str(database))
        self.connection.set_busy_timeout(30_000)
        self.connection.execute("PRAGMA journal_mode = WAL").fetchall()
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("PRAGMA temp_store = MEMORY")
        self.connection.execute(
            """INSERT OR IGNORE INTO engines
                   (id, key, pid, boot_id, queues, version, started_at)
               VALUES (1, 'bare', 1, 'bare', '[]', 'bare', 0)"""
        )
        self._next_of = next_of

    def look(self, now_ms: int, limit: int) -> list[tuple[Any, ...]]:
        return self.connection.execute(_DUE, {"now": now_ms, "limit": limit}).fetchall()

    def claim(self, now_ms: int, limit: int) -> list[Claimed]:
        """Look, and claim what is due in one transaction."""
        due = self.look(now_ms, limit)
        if not due:
            return []
        self.connection.execute("BEGIN IMMEDIATE")
        return self._claim_all(due, now_ms)

    def claim_among_others(self, now_ms: int, limit: int) -> list[Claimed]:
        """The same beside others who claim: what is due is read in the transaction."""
        if not self.look(now_ms, 1):
            return []
        self.connection.execute("BEGIN IMMEDIATE")
        return self._claim_all(self.look(now_ms, limit), now_ms)

    def _claim_all(self, due: list[tuple[int, ...]], now_ms: int) -> list[Claimed]:
        execute = self.connection.execute
        claimed = []
        for schedule_id, revision, plan_ms, run_ms, decided_ms, _paused, planned, source in due:
            next_ms = self._next_of(schedule_id, plan_ms)
            execute(
                _ADVANCE,
                {
                    "id": schedule_id,
                    "plan": plan_ms,
                    "run": run_ms,
                    "revision": revision,
                    "next_plan": next_ms,
                    "next_run": next_ms,
                    "next_source": source,
                    "decided": max(decided_ms, plan_ms),
                    "planned": planned + 1,
                    "fires": 1,
                    "now": now_ms,
                },
            )
            assert self.connection.changes() == 1
            token = os.urandom(8).hex()
            row: Any = execute(
                _CLAIM,
                {
                    "schedule": schedule_id,
                    "revision": revision,
                    "scope_kind": "global",
                    "scope_id": "",
                    "plan": plan_ms,
                    "fire_key": "",
                    "cause": "schedule",
                    "source": source,
                    "due": run_ms,
                    "max_attempts": 1,
                    "queue": "command",
                    "priority": 0,
                    "now": now_ms,
                    "status": "running",
                    "claimed": now_ms,
                    "engine": 1,
                    "supervisor": "bare",
                    "token": token,
                    "waiting_for": None,
                    "wait_until": None,
                },
            ).fetchall()
            claimed.append((row[0][0], schedule_id, token))
        execute("COMMIT")
        return claimed

    def end(self, claimed: Sequence[Claimed], now_ms: int) -> None:
        """Write the ends of runs that went well, in one transaction."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        for execution_id, schedule_id, token in claimed:
            execute(
                _END,
                {
                    "id": execution_id,
                    "mark": "replaced",
                    "token": token,
                    "status": "success",
                    "reason": None,
                    "exit_code": 0,
                    "started": now_ms,
                    "finished": now_ms,
                    "duration": 0,
                    "error_code": None,
                    "error_msg": None,
                    "flags": None,
                    "result": None,
                },
            ).fetchall()
            execute(
                _COUNT,
                {
                    "id": schedule_id,
                    "execution": execution_id,
                    "status": "success",
                    "ran": now_ms,
                    "finished": now_ms,
                    "error": None,
                },
            )
        execute("COMMIT")

    def close(self) -> None:
        self.connection.close()
