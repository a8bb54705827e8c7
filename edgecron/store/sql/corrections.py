"""Find and correct times that a wrong clock, a new time zone or SQL left wrong.

The times of a schedule only change if they are as they were read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.corrections import (
    FIRST_MS,
    LARGE_MS,
    ClockMarks,
    KeptTimes,
    Retimed,
    ZonedTimes,
)
from edgecron.planning.next_fire import Missed, NextFire
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.row_batches import record_missed

ALL_IDS: range = range(1, 2**62)

_SELECT = """SELECT id, revision, name, enabled = 1 AND trigger_error IS NULL, next_plan_at,
        next_run_at, next_source, decided_until, trusted_until, paused_until, planned_count,
        pruned_until, repeats_since, last_enqueued_at, NOT EXISTS (
            SELECT 1 FROM schedule_revisions AS r
            WHERE r.schedule_id = schedules.id AND r.revision = schedules.revision)
    FROM schedules WHERE deleted_at IS NULL """
# The longest time that a queued row waits for its due time: a manual run as long as a person said,
# a retry within its policy. A row that waits for a window waits for it again.
_MOST_DELAY_MS = """iif(cause = 'manual', 1152921504606846976,
    iif(cause != 'retry', 0, CAST(1100 * coalesce(
    (SELECT CAST(snapshot ->> 'retry_max_delay_s' AS DOUBLE PRECISION) FROM schedule_revisions AS r
     WHERE r.schedule_id = executions.schedule_id AND r.revision <= executions.revision
     ORDER BY r.revision DESC LIMIT 1),
    (SELECT retry_max_delay_s FROM schedules AS s WHERE s.id = executions.schedule_id))
    AS BIGINT)))"""
_HAS_WINDOWS = "(between_times != '[]' OR not_between_times != '[]' OR except_days != '[]')"
_CALENDAR = f"""({_HAS_WINDOWS} OR EXISTS (SELECT 1 FROM json_each(compiled)
    WHERE value ->> '$.kind' IN ('cron', 'at')))"""


def find_last_id(database: Connection) -> int:
    """The largest id of a schedule, 0 if there is none."""
    [(last_id,)] = database.rows("SELECT coalesce(max(id), 0) FROM schedules")
    return int(last_id)


def find_misdated(
    database: Connection, *, now_ms: int, ahead_ms: int, ids: range = ALL_IDS
) -> list[KeptTimes]:
    """The schedules whose times a wrong clock has moved.

    They are decided beyond `ahead_ms`, or up to a time before edgecron existed, or follow a clock
    that can't be trusted. A schedule is not among them if a person ran its next fire early.
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
        ids=ids,
    )


# A row this far ahead of the clock does not prove that the clock was set back: an engine claims
# functions up to 20 ms early, and a slewed clock differs by less.
_AHEAD_MS = 1_000


def find_set_back(
    database: Connection, *, read_now: Callable[[], int], ids: range = ALL_IDS
) -> list[KeptTimes]:
    """The schedules that were decided or changed by a clock that was since set back by a second.

    Schedules that already repeat the times since then are not among them.
    """
    written = database.rows(
        """SELECT id, at FROM (
               SELECT id, max(coalesce(last_enqueued_at, 0), coalesce(repeats_since, updated_at))
                   AS at
               FROM schedules WHERE next_plan_at IS NOT NULL AND
                   id BETWEEN :first AND :last) AS written
           WHERE at > :now""",
        {"now": read_now() + _AHEAD_MS, "first": ids.start, "last": ids.stop - 1},
    )
    # Read the clock again: another engine might have written after the first reading.
    now_ms = read_now()
    ahead = {schedule_id for schedule_id, at_ms in written if at_ms > now_ms + _AHEAD_MS}
    if not ahead:
        return []
    found = _kept(
        database,
        "AND next_plan_at IS NOT NULL AND decided_until > :now",
        {"now": now_ms},
        ids=ids,
    )
    return [kept for kept in found if kept.schedule_id in ahead]


def find_intervals(
    database: Connection, *, now_ms: int, has_stepped: bool, ids: range = ALL_IDS
) -> list[KeptTimes]:
    """The schedules without calendar times that do not follow the untrusted clock yet.

    With `has_stepped`, also those that followed it before it stepped.
    """
    return _kept(
        database,
        f"""AND next_plan_at IS NOT NULL AND paused_until IS NULL
            AND (trusted_until IS NULL OR decided_until > :now OR :stepped = 1)
            AND NOT {_CALENDAR}""",
        {"now": now_ms, "stepped": has_stepped},
        ids=ids,
    )


def find_zoned(database: Connection, *, ids: range = ALL_IDS) -> list[ZonedTimes]:
    """Return values that show if next times still hold, per schedule with cron or windows.

    This reads no more than it must: a database can have a million of them.
    """
    return [
        ZonedTimes(row[0], row[1], row[2], row[3], row[4] or "", bool(row[5]), bool(row[6]))
        for row in database.rows(
            f"""SELECT id, compiled, max(decided_until, coalesce(from_at, 0) - 1), next_plan_at,
                   next_source,
                   paused_until IS NULL AND after_end_ms IS NULL AND repeats_since IS NULL,
                   {_HAS_WINDOWS}
               FROM schedules
               WHERE deleted_at IS NULL AND next_plan_at IS NOT NULL
                   AND (compiled LIKE '%cron%' OR {_HAS_WINDOWS})
                   AND id BETWEEN :first_id AND :last_id""",
            {"first_id": ids.start, "last_id": ids.stop - 1},
        )
    ]


def find_times(database: Connection, schedule_ids: Sequence[int]) -> list[KeptTimes]:
    """The times of these schedules, if they have times to come."""
    if not schedule_ids:
        return []
    return _kept(
        database,
        """AND next_plan_at IS NOT NULL
           AND id IN (SELECT CAST(w.value AS BIGINT) FROM json_each(:wanted) AS w)""",
        {"wanted": json.dumps(list(schedule_ids))},
    )


def find_timeless(database: Connection, *, limit: int) -> list[KeptTimes]:
    """Return enabled schedules that have no next time and are not recorded as done.

    Not those whose next time counts from the end of an active run.
    """
    return _kept(
        database,
        """AND next_run_at IS NULL AND enabled AND trigger_error IS NULL
           AND done_revision IS NOT revision
           AND NOT (after_end_ms IS NOT NULL AND EXISTS (
               SELECT 1 FROM executions AS e INDEXED BY executions_active
               WHERE e.schedule_id = schedules.id AND e.status IN ('queued', 'running')))""",
        {"limit": limit},
        limit="LIMIT :limit",
    )


def settle_timeless(
    database: Connection,
    settled: Sequence[tuple[Retimed, tuple[Missed, ...], ScheduleSpec]],
    *,
    boot_id: str,
    booted_ms: int,
    now_ms: int,
) -> list[bool]:
    """Give schedules their missing next times, or record that they are done, in one transaction.

    Times that they missed become a skipped row. A boot at `booted_ms`, during a pause, counts as
    decided. False for a schedule that has changed.
    """
    done = []
    with database.transaction():
        for change, missed, spec in settled:
            kept = change.kept
            is_ours = _retime_one(database, change)
            done.append(is_ours)
            if not is_ours:
                continue
            if change.next is None:
                database.change(
                    "UPDATE schedules SET done_revision = revision WHERE id = :id",
                    {"id": kept.schedule_id},
                )
            if kept.is_switched:
                database.change(
                    """UPDATE schedules SET boot_decided = :boot
                       WHERE id = :id AND on_boot AND updated_at >= :booted""",
                    {"id": kept.schedule_id, "boot": boot_id, "booted": booted_ms},
                )
            for one in missed:
                record_missed(
                    database, kept.schedule_id, kept.revision, spec, one,
                    scopes=spec.scopes, now_ms=now_ms,
                )  # fmt: skip
    return done


def retime(
    database: Connection, changes: Sequence[Retimed], *, marks: ClockMarks | None
) -> list[bool]:
    """Give schedules other times, in one transaction; False for one that has changed.

    `marks` are written if none has changed.
    """
    with database.transaction():
        done = [_retime_one(database, change) for change in changes]
        if marks is not None and all(done):
            database.change(
                "UPDATE meta SET tzdata_version = :tzdata, local_timezone = :local",
                {"tzdata": marks.tzdata_version, "local": marks.local_timezone},
            )
    return done


def bring_back_queued(database: Connection, *, now_ms: int, ahead_ms: int) -> int:
    """Let rows that a clock queued that was ahead wait from now on; how many.

    They were queued later than `ahead_ms`, or are due longer after it than a run of their cause
    waits.
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


def bring_back_successes(database: Connection, *, now_ms: int, ids: range = ALL_IDS) -> int:
    """Set last successes in the future to now; how many."""
    span = {"now": now_ms, "first": ids.start, "last": ids.stop - 1}
    # Nearly always there is none, which takes no lock.
    found = database.rows(
        """SELECT 1 FROM schedules
           WHERE last_success_at > :now AND id BETWEEN :first AND :last LIMIT 1""",
        span,
    )
    if not found:
        return 0
    with database.transaction():
        return database.change(
            """UPDATE schedules SET last_success_at = :now
               WHERE last_success_at > :now AND id BETWEEN :first AND :last""",
            span,
        )


def _retime_one(database: Connection, change: Retimed) -> bool:
    kept, following = change.kept, change.next
    changed = database.change(
        """UPDATE schedules SET next_plan_at = :next_plan, next_run_at = :next_run,
               next_source = :next_source, decided_until = :decided, trusted_until = :trusted,
               done_revision = iif(:next_plan IS NULL, done_revision, NULL),
               repeats_since = :repeats,
               last_enqueued_at = iif(:fired IS NULL, last_enqueued_at,
                   min(last_enqueued_at, :fired))
           WHERE id = :id AND revision = :revision AND next_plan_at IS :plan
               AND next_run_at IS :run AND decided_until = :was AND trusted_until IS :was_trusted
               AND (enabled = 1 AND trigger_error IS NULL) = :active AND deleted_at IS NULL""",
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
            "repeats": change.repeats_since_ms,
            "fired": change.last_fired_ms,
        },
    )
    return changed == 1


def _kept(
    database: Connection,
    where: str,
    params: dict[str, Any],
    *,
    ids: range | None = None,
    limit: str = "",
) -> list[KeptTimes]:
    if ids is not None:
        where = f"AND id BETWEEN :first_id AND :last_id {where}"
        params = {**params, "first_id": ids.start, "last_id": ids.stop - 1}
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
            repeats_since_ms=row[12],
            last_fired_ms=row[13],
            is_switched=bool(row[14]),
        )
        for row in database.rows(f"{_SELECT} {where} ORDER BY id {limit}", params)
    ]
