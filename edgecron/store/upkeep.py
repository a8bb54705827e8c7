"""What an engine keeps right: the trusted mark, the zones' versions, times that were stored wrong.

A schedule's times change only where they are still as they were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgecron.correcting import KeptTimes, Retimed
from edgecron.planning import NextFire
from edgecron.store.connection import Database
from edgecron.store.contract import ClockMarks
from edgecron.trust import FIRST_MS, LARGE_MS

_SELECT = """SELECT id, revision, name, enabled AND trigger_error IS NULL, next_plan_at,
        next_run_at, next_source, decided_until, trusted_until, paused_until, planned_count,
        pruned_until
    FROM schedules WHERE deleted_at IS NULL """
_HAS_KIND = """EXISTS (SELECT 1 FROM json_each(compiled)
    WHERE value ->> '$.kind' IN ({kinds}) {more})"""
_CRON = _HAS_KIND.format(kinds="'cron'", more="")
_LOCAL_CRON = _HAS_KIND.format(kinds="'cron'", more="AND value ->> '$.timezone' = 'local'")
# The longest that a queued row waits for its due time: only a retry has one to come.
_MOST_DELAY_MS = """iif(cause != 'retry', 0, 1100 * coalesce(
    (SELECT snapshot ->> 'retry_max_delay_s' FROM schedule_revisions AS r
     WHERE r.schedule_id = executions.schedule_id AND r.revision = executions.revision),
    (SELECT retry_max_delay_s FROM schedules AS s WHERE s.id = executions.schedule_id)))"""
_CALENDAR = _HAS_KIND.format(kinds="'cron', 'at'", more="")


def find_clock_marks(database: Database) -> ClockMarks:
    """What the database remembers of clock and zones."""
    row = database.row("SELECT trusted_high_at, tzdata_version, local_timezone FROM meta")
    assert row is not None
    return ClockMarks(trusted_high_ms=row[0], tzdata_version=row[1], local_timezone=row[2])


def note_trusted(database: Database, mark_ms: int, *, was_ms: int | None) -> bool:
    """Move the trusted mark; False where somebody else has meanwhile."""
    with database.transaction():
        changed = database.change(
            "UPDATE meta SET trusted_high_at = :mark WHERE trusted_high_at IS :was",
            {"mark": mark_ms, "was": was_ms},
        )
    return changed == 1


def find_misdated(database: Database, *, now_ms: int, ahead_ms: int) -> list[KeptTimes]:
    """The schedules whose times a wrong clock has moved.

    They are decided up to later than `ahead_ms`, or to when there was no edgecron, or go by a
    clock that can't be trusted. One that a person had run early is decided into the future as
    well, and is left out.
    """
    return _kept(
        database,
        """AND (trusted_until IS NOT NULL OR decided_until < :first
               OR min(next_plan_at, next_run_at)
                   > max(:now, coalesce(from_at, 0)) + after_end_ms + :large
               OR (decided_until > :ahead AND NOT EXISTS (
                   SELECT 1 FROM schedule_scopes AS c CROSS JOIN executions AS e
                       ON e.schedule_id = c.schedule_id AND e.scope_kind = c.scope_kind
                       AND e.scope_id = c.scope_id
                   WHERE c.schedule_id = schedules.id AND e.plan_at = schedules.decided_until
                       AND e.fire_key = '' AND coalesce(e.queued_at, e.finished_at) <= :now)))""",
        {"now": now_ms, "ahead": ahead_ms, "first": FIRST_MS, "large": LARGE_MS},
    )


def find_intervals(database: Database, *, now_ms: int, has_stepped: bool) -> list[KeptTimes]:
    """The schedules without calendar times that do not go by a clock that can't be trusted yet.

    Those that do already, too, where it has stepped since.
    """
    return _kept(
        database,
        f"""AND next_plan_at IS NOT NULL AND paused_until IS NULL
            AND (trusted_until IS NULL OR decided_until > :now OR :stepped)
            AND NOT {_CALENDAR}""",
        {"now": now_ms, "stepped": has_stepped},
    )


def find_zoned(database: Database, *, only_local: bool) -> list[KeptTimes]:
    """The schedules that have calendar times to come: all, or those in the machine's own zone."""
    return _kept(
        database,
        f"AND next_plan_at IS NOT NULL AND {_LOCAL_CRON if only_local else _CRON}",
        {},
    )


def retime(
    database: Database, changes: Sequence[Retimed], *, marks: ClockMarks | None
) -> list[bool]:
    """Give schedules other times, in one transaction; False for one that has moved on meanwhile.

    `marks` are written where none has.
    """
    with database.transaction():
        done = [_retime_one(database, change) for change in changes]
        if marks is not None and all(done):
            database.change(
                "UPDATE meta SET tzdata_version = :tzdata, local_timezone = :local",
                {"tzdata": marks.tzdata_version, "local": marks.local_timezone},
            )
    return done


def bring_back_queued(database: Database, *, now_ms: int, ahead_ms: int) -> int:
    """Let what was queued by a clock that was ahead wait from now on; how many rows.

    That is what was queued later than `ahead_ms`, or waits beyond it for longer than its retries
    ever do.
    """
    delay_ms = f"min(max(0, due_at - queued_at), {_MOST_DELAY_MS})"
    with database.transaction():
        return database.change(
            f"""UPDATE executions INDEXED BY executions_queued
               SET due_at = :now + {delay_ms}, queued_at = :now,
                   wait_until = wait_until - due_at + :now + {delay_ms}
               WHERE status = 'queued' AND (queued_at > :ahead OR (
                   due_at > :ahead AND due_at > :ahead + {_MOST_DELAY_MS}))""",
            {"now": now_ms, "ahead": ahead_ms},
        )


def bring_back_successes(database: Database, *, now_ms: int) -> int:
    """Let the last successes of a clock that was ahead have ended now; how many."""
    with database.transaction():
        return database.change(
            "UPDATE schedules SET last_success_at = :now WHERE last_success_at > :now",
            {"now": now_ms},
        )


def _retime_one(database: Database, change: Retimed) -> bool:
    kept, following = change.kept, change.next
    changed = database.change(
        """UPDATE schedules SET next_plan_at = :next_plan, next_run_at = :next_run,
               next_source = :next_source, decided_until = :decided, trusted_until = :trusted
           WHERE id = :id AND revision = :revision AND next_plan_at IS :plan
               AND next_run_at IS :run AND decided_until = :was AND trusted_until IS :was_trusted
               AND (enabled AND trigger_error IS NULL) = :active AND deleted_at IS NULL""",
        {
            "id": kept.schedule_id,
            "revision": kept.revision,
            "plan": kept.next.plan_ms if kept.next else None,
            "run": kept.next.due_ms if kept.next else None,
            "was": kept.decided_until_ms,
            "was_trusted": kept.trusted_until_ms,
            "active": not kept.is_idle,
            "next_plan": following.plan_ms if following else None,
            "next_run": following.due_ms if following else None,
            "next_source": following.source if following else None,
            "decided": change.decided_until_ms,
            "trusted": change.trusted_until_ms,
        },
    )
    return changed == 1


def _kept(database: Database, where: str, params: dict[str, Any]) -> list[KeptTimes]:
    return [
        KeptTimes(
            schedule_id=row[0],
            revision=row[1],
            name=row[2],
            is_idle=not row[3],
            next=(
                None
                if row[4] is None
                else NextFire(plan_ms=row[4], due_ms=row[5], source=row[6] or "")
            ),
            decided_until_ms=row[7],
            trusted_until_ms=row[8],
            paused_until_ms=row[9],
            planned_count=row[10],
            pruned_until_ms=row[11],
        )
        for row in database.rows(f"{_SELECT} {where} ORDER BY id", params)
    ]
