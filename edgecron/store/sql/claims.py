"""Claim due schedules: write their rows, decide each plan time once, and number the claims.

A claim's fence is larger than every earlier one of its schedule. It is at least the time of the
claim in milliseconds, so it also grows if the last number is lost. That happens if a backup is
restored, or if the schedule is removed and created again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from edgecron.model.choices import Hold, Reason
from edgecron.planning.admission import LATE_CAUSES
from edgecron.planning.next_fire import Fire, Missed
from edgecron.store.contract import BootDecision, Claimant, ClaimBatch, Decision
from edgecron.store.sql.connection import Connection
from edgecron.store.sql.due import has_priority_due
from edgecron.store.sql.fires import FireWriter, count_planned, give_back_runs
from edgecron.store.sql.follow_ups import follow_up_replaced
from edgecron.store.sql.limits import RunCounts, is_unlimited
from edgecron.store.sql.queue import fill
from edgecron.store.sql.queue_order import has_waiting


def claim_due(
    database: Connection, decisions: Sequence[Decision], *, claimant: Claimant, now_ms: int
) -> ClaimBatch:
    """Carry out plans inside one transaction; see `Store.claim_due`."""
    with database.transaction():
        # First: an engine that was too late finds nothing, and releases the lock soon.
        fences = _advance_all(database, decisions, now_ms)
        ours = [one for one in decisions if one.plan.due.schedule_id in fences]
        if not ours:
            return ClaimBatch()
        limited = (
            one.plan.due.schedule_id
            for one in ours
            if not is_unlimited(one.spec) or any(fire.in_sequence for fire in one.plan.fires)
        )
        counts = RunCounts(database, claimant, limited, now_ms=now_ms)
        wanted = [fire for one in ours for fire in one.plan.fires for _ in one.spec.scopes]
        direct = _may_start_at_once(database, wanted, counts, claimant, now_ms)
        writer = FireWriter(database, claimant, counts, now_ms=now_ms, direct=direct, fences=fences)
        for decision in ours:
            plan = decision.plan
            will_run = writer.write(
                plan.due.schedule_id,
                plan.due.revision,
                decision.spec,
                fires=plan.fires,
                missed=plan.missed,
            )
            if plan.fires and not will_run and decision.spec.max_runs is not None:
                writer.flush()
                writer.broken += give_back_runs(
                    database, plan.due.schedule_id, count=len(plan.fires), now_ms=now_ms
                )
        batch = _batch_of(database, writer, len(ours), now_ms)
        if direct or not _may_fill(database, wanted, counts, claimant, now_ms):
            return batch
        return _fill_places(database, batch, claimant=claimant, now_ms=now_ms)


def claim_boot(
    database: Connection,
    decisions: Sequence[BootDecision],
    *,
    boot_id: str,
    claimant: Claimant,
    now_ms: int,
) -> ClaimBatch:
    """Carry out boot fires inside one transaction; see `Store.claim_boot`."""
    with database.transaction():
        counts = RunCounts(database, claimant, (d.schedule_id for d in decisions), now_ms=now_ms)
        wanted = [decision.fire for decision in decisions for _ in decision.spec.scopes]
        direct = _may_start_at_once(database, wanted, counts, claimant, now_ms)
        fences: dict[int, int] = {}
        writer = FireWriter(database, claimant, counts, now_ms=now_ms, direct=direct, fences=fences)
        advanced = 0
        for decision in decisions:
            found = _decide_boot(database, decision, boot_id, now_ms)
            if found is None:
                continue
            advanced += 1
            is_paused, is_bounded, fences[decision.schedule_id] = found
            if is_bounded:
                continue
            will_run = writer.write(
                decision.schedule_id,
                decision.revision,
                decision.spec,
                fires=() if is_paused else (decision.fire,),
                missed=(_paused(decision.fire),) if is_paused else (),
            )
            if will_run:
                count_planned(database, decision.schedule_id)
        return _batch_of(database, writer, advanced, now_ms)


def _batch_of(database: Connection, writer: FireWriter, advanced: int, now_ms: int) -> ClaimBatch:
    """Return the result of a claim, with the follow-ups of fires that were replaced."""
    granted = tuple(writer.granted)
    decided = tuple(writer.decided)
    batch = ClaimBatch(granted, decided, advanced, writer.has_replaced, tuple(writer.broken))
    if not writer.withdrawn:
        return batch
    replaced = follow_up_replaced(database, writer, now_ms=now_ms)
    return batch._replace(
        decided=(*decided, *replaced.decided),
        has_replaced=batch.has_replaced or replaced.has_replaced,
        broken=(*writer.broken, *replaced.broken),
    )


def _may_start_at_once(
    database: Connection, wanted: Sequence[Fire], counts: RunCounts, claimant: Claimant, now_ms: int
) -> bool:
    """Whether all fires get a place; otherwise all are queued, and their order decides."""
    late = sum(fire.cause in LATE_CAUSES for fire in wanted)
    has_places = len(wanted) <= counts.places and late <= counts.late_places
    return has_places and not has_waiting(database, claimant, now_ms)


def _may_fill(
    database: Connection, wanted: Sequence[Fire], counts: RunCounts, claimant: Claimant, now_ms: int
) -> bool:
    """Whether some of these fires can start now, although others are not decided yet.

    Late runs have an order of their own, and a due schedule of a higher priority goes first.
    """
    if not wanted or counts.places <= 0 or any(fire.cause in LATE_CAUSES for fire in wanted):
        return False
    return not has_priority_due(database, claimant.queues, now_ms=now_ms)


def _fill_places(
    database: Connection, batch: ClaimBatch, *, claimant: Claimant, now_ms: int
) -> ClaimBatch:
    """Start as many queued runs as there are places, in their order."""
    filled = fill(database, claimant=claimant, now_ms=now_ms, hold=Hold.ALL)
    started = {grant.execution_id for grant in filled.granted}
    decided = {one.execution_id: one for one in batch.decided}
    return batch._replace(
        granted=tuple(
            one._replace(is_new=True) if one.execution_id in decided else one
            for one in filled.granted
        ),
        decided=(
            *(one for one in batch.decided if one.execution_id not in started),
            *filled.decided,
        ),
        has_replaced=batch.has_replaced or filled.has_replaced,
        broken=(*batch.broken, *filled.broken),
    )


def _advance_all(
    database: Connection, decisions: Sequence[Decision], now_ms: int
) -> dict[int, int]:
    """Move schedules to their next fires; the first fence of each, by its id.

    Schedules that another engine has moved, or that have changed, are not among them.
    """
    # Not by `RETURNING`, which takes half as long again; the transaction has the lock.
    found = {
        row[:4]: row[4]
        for row in database.rows(
            """SELECT s.id, s.revision, s.next_plan_at, s.next_run_at, max(s.fence, :now - 1) + 1
               FROM json_each(:ids) AS w CROSS JOIN schedules AS s
                   ON s.id = CAST(w.value AS BIGINT)
               WHERE s.enabled AND s.deleted_at IS NULL""",
            {"ids": json.dumps([one.plan.due.schedule_id for one in decisions]), "now": now_ms},
        )
    }
    fences: dict[int, int] = {}
    advanced = []
    is_locked = int(database.was_locked)
    for one in decisions:
        due = one.plan.due
        fence = found.get((due.schedule_id, due.revision, due.plan_ms, due.due_ms))
        if fence is not None:
            fences[due.schedule_id] = fence
            advanced.append(_advance_columns(one, fence, now_ms=now_ms, is_locked=is_locked))
    database.change_many(
        """UPDATE schedules SET next_plan_at = :next_plan, next_run_at = :next_run,
               next_source = :next_source, decided_until = max(decided_until, :decided),
               planned_count = planned_count + :fires, paused_until = NULL,
               last_enqueued_at = iif(:fires, :now, last_enqueued_at),
               done_revision = iif(:next_plan IS NULL AND after_end_ms IS NULL, revision, NULL),
               repeats_since = iif(:next_plan > max(decided_until, :decided), NULL, repeats_since),
               fence = :fence, lock_failures = lock_failures + :locked
           WHERE id = :id""",
        advanced,
    )
    return fences


def _advance_columns(
    decision: Decision, first_fence: int, *, now_ms: int, is_locked: int
) -> dict[str, object]:
    plan = decision.plan
    following = plan.next
    return {
        "id": plan.due.schedule_id,
        "next_plan": following.plan_ms if following else None,
        "next_run": following.due_ms if following else None,
        "next_source": following.source if following else None,
        "decided": plan.decided_until_ms,
        "fires": len(plan.fires),
        "fence": first_fence - 1 + len(plan.fires) * len(decision.spec.scopes),
        "locked": is_locked,
        "now": now_ms,
    }


def _paused(fire: Fire) -> Missed:
    at_ms = fire.plan_ms
    return Missed(from_ms=at_ms, to_ms=at_ms, count=1, reason=Reason.PAUSED, source=fire.source)


def _decide_boot(
    database: Connection, decision: BootDecision, boot_id: str, now_ms: int
) -> tuple[bool, bool, int] | None:
    """Note that this boot is decided; None if it was already, also before another machine's boot.

    Returns whether a pause holds the fire, whether it lies outside of from, until and max_runs,
    and its first fence.
    """
    row = database.returning(
        """UPDATE schedules SET boot_decided = :boot, last_enqueued_at = :now,
               fence = max(fence, :now - 1) + :runs
           WHERE id = :id AND revision = :revision AND boot_decided IS NOT :boot
               AND on_boot AND enabled AND deleted_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM executions AS e
                   WHERE e.schedule_id = schedules.id AND e.fire_key = :key)
           RETURNING paused_until IS NOT NULL AND paused_until > :now,
               (from_at > :now OR until_at < :now OR planned_count >= max_runs) IS TRUE,
               fence - :runs + 1""",
        {
            "id": decision.schedule_id,
            "revision": decision.revision,
            "boot": boot_id,
            "key": decision.fire.fire_key,
            "now": now_ms,
            "runs": len(decision.spec.scopes),
        },
    )
    return None if row is None else (bool(row[0]), bool(row[1]), row[2])
