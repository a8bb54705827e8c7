"""Whether a database says what the plain model says: every row, every schedule, every column.

Where the model does not know more (which of two triggers gave a time that both have), what is
there must at least be one of the answers.
"""

from __future__ import annotations

import json
from typing import Any

from tests.machine.plainbook import Book
from tests.machine.plainrows import Row, Schedule, Scope
from tests.simulation.world import World

_ROWS = """SELECT id, schedule_id, revision, scope_kind, scope_id, plan_at, fire_key, cause,
        trigger_text, due_at, attempt, max_attempts, priority, status, reason, queued_at,
        claimed_at, started_at, finished_at, exit_code, cancel_requested_at, flags,
        missed_from_at, missed_to_at, missed_count, error_code
    FROM executions ORDER BY id"""
_SCHEDULES = """SELECT id, name, enabled, paused_until, revision, next_plan_at, next_run_at,
        decided_until, planned_count, last_execution_id, last_status, deleted_at IS NOT NULL,
        run_count, success_count, failed_count, skipped_count, cancelled_count,
        interrupted_count, trigger_error
    FROM schedules ORDER BY id"""
_COUNTS = ("run", "success", "failed", "skipped", "cancelled", "interrupted")

Columns = dict[str, Any]


def check_agreement(world: World, book: Book) -> None:
    """Raise AssertionError where the database and the model differ."""
    rows = [_columns_of_row(row) for row in world.look(_ROWS)]
    wanted = [_wanted_row(row) for row in book.rows.values()]
    for there, expected in zip(rows, wanted, strict=False):
        # Which of two triggers gave a time is not told by the model.
        source = there.pop("source")
        sources = expected.pop("sources") or {source}
        wish = book.schedules[there["schedule"]].wishes[there["revision"]]
        if sources == {"its own"}:
            sources = wish.sources(expected["plan"]) or {source}
        assert there == expected, _difference(there, expected)
        assert source in sources, f"row {there['id']} comes of {source}, expected {sources}"
    assert len(rows) == len(wanted), f"extra {rows[len(wanted) :]}, lacking {wanted[len(rows) :]}"
    schedules = [_columns_of_schedule(row) for row in world.look(_SCHEDULES)]
    expected_all = [_wanted_schedule(one) for one in book.schedules.values()]
    assert [one["id"] for one in schedules] == [one["id"] for one in expected_all]
    for there, expected in zip(schedules, expected_all, strict=True):
        assert there == expected, _difference(there, expected)


def find_missed_by(world: World, schedule_id: int, scope: Scope, from_ms: int) -> str | None:
    """What the database says of why a time was missed, be it skipped or caught up; None if it
    says nothing, as of a time that overlap skipped."""
    [(found,)] = world.look(
        """SELECT max(coalesce(error_code, substr(flags ->> 0, 8))) FROM executions
           WHERE schedule_id = :schedule AND (scope_kind, scope_id) = (:kind, :scope)
               AND (reason = 'misfire' AND :from BETWEEN missed_from_at AND missed_to_at
                   OR cause = 'catch_up' AND plan_at = :from AND attempt = 1
                       AND flags LIKE '["missed:%')""",
        {"schedule": schedule_id, "kind": scope[0], "scope": scope[1], "from": from_ms},
    )
    assert found in {None, "asleep", "off", "stopped", "stalled", "clock", "database"}, found
    return None if found is None else str(found)


def _difference(there: Columns, expected: Columns) -> str:
    parts = [
        f"{name} is {there[name]!r}, expected {value!r}"
        for name, value in expected.items()
        if there[name] != value
    ]
    return f"{there.get('name', 'row')} {there['id']}: {'; '.join(parts)}; all: {there}"


def _columns_of_row(row: tuple[Any, ...]) -> Columns:
    names = ("id", "schedule", "revision", "scope_kind", "scope_id", "plan", "key", "cause",
             "source", "due", "attempt", "most_attempts", "priority", "status", "reason",
             "queued", "claimed", "started", "finished", "exit_code", "cancel", "flags",
             "missed_from", "missed_to", "missed_count", "error_code")  # fmt: skip
    return dict(zip(names, row, strict=True))


def _wanted_row(row: Row) -> Columns:
    missed = row.missed or (None, None, None)
    flags = [*row.flags, *(["replaced"] if row.is_replaced else [])]
    has_own_source = row.key in ("", "missed") or row.is_backfill or row.key.startswith("again:")
    return {
        "id": row.id,
        "schedule": row.schedule_id,
        "revision": row.revision,
        "scope_kind": row.scope[0],
        "scope_id": row.scope[1],
        "plan": row.plan_ms,
        "key": row.key,
        "cause": row.cause,
        "sources": {"its own"} if has_own_source else {row.source},
        "due": row.due_ms,
        "attempt": row.attempt,
        "most_attempts": row.most_attempts,
        "priority": row.priority,
        "status": row.status,
        "reason": row.reason,
        "queued": row.queued_ms,
        "claimed": row.started_ms,
        "started": row.started_ms,
        "finished": row.finished_ms,
        "exit_code": row.exit_code,
        "cancel": row.cancel_ms,
        "flags": json.dumps(flags, separators=(",", ":")) if flags else None,
        "missed_from": missed[0],
        "missed_to": missed[1],
        "missed_count": missed[2],
        "error_code": row.missed_by if row.status == "skipped" else _error_code(row),
    }


def _error_code(row: Row) -> str | None:
    return f"exit_{row.exit_code}" if row.status == "failed" else None


def _columns_of_schedule(row: tuple[Any, ...]) -> Columns:
    names = ("id", "name", "enabled", "paused", "revision", "next_plan", "next_run", "decided",
             "planned", "last_row", "last_status", "removed", *_COUNTS, "error")  # fmt: skip
    return dict(zip(names, row, strict=True))


def _wanted_schedule(schedule: Schedule) -> Columns:
    plan_ms, run_ms = schedule.next_ms or (None, None)
    return {
        "id": schedule.id,
        "name": schedule.name,
        "enabled": int(schedule.enabled),
        "paused": schedule.paused_ms,
        "revision": schedule.revision,
        "next_plan": plan_ms,
        "next_run": run_ms,
        "decided": schedule.decided_ms,
        "planned": schedule.planned,
        "last_row": schedule.last_row,
        "last_status": schedule.last_status,
        "removed": int(schedule.is_removed),
        **{name: schedule.counts.get(name, 0) for name in _COUNTS},
        "error": None,
    }
