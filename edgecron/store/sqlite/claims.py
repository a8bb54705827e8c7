"""Claim due schedules: write their rows, decide each plan time once, and number the claims.

A claim's fence is larger than every earlier one of its schedule. It is at least the time of the
claim in milliseconds, so it also grows if the number before it is lost: in a restored backup, or if
the schedule is removed and created again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence

from edgecron.model.choices import Reason
from edgecron.planning.next_fire import Fire, FirePlan, Missed
from edgecron.planning.overlap import LATE_CAUSES
from edgecron.store.contract import BootDecision, ClaimBatch, Decision, Granted, Seat
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.fires import FireWriter
from edgecron.store.sqlite.follow_ups import follow_up_replaced
from edgecron.store.sqlite.limits import RunCounts
from edgecron.store.sqlite.max_runs import count_planned, give_back_runs
from edgecron.store.sqlite.queue_order import has_waiting


def give_fences(
    database: Database,
    granted: Sequence[Granted],
    *,
    now_ms: int,
    fenced: Collection[int] = (),
) -> tuple[Granted, ...]:
    """Give these claims their fences, inside the claiming transaction.

    Their rows have the time of the claim. It is right for the first claim of each schedule in
    `fenced`, whose row has it too: these cost no statement of their own.
    """
    unused = set(fenced)
    late = []
    for place, grant in enumerate(granted):
        if grant.schedule_id in unused:
            unused.remove(grant.schedule_id)
        else:
            late.append(place)
    if not late:
        return tuple(granted)
    counts = Counter(granted[place].schedule_id for place in late)
    following = {
        schedule_id: fence - counts[schedule_id]
        for schedule_id, fence in database.returning_all(
            """UPDATE schedules
               SET fence = max(schedules.fence, :now - 1) + (:counts ->> CAST(id AS TEXT))
               WHERE id IN (SELECT key FROM json_each(:counts)) RETURNING id, fence""",
            {"now": now_ms, "counts": json.dumps(counts)},
        )
    }
    found = list(granted)
    changed = []
    for place in late:
        grant = found[place]
        following[grant.schedule_id] += 1
        fence = following[grant.schedule_id]
        if fence != grant.fence:
            found[place] = grant._replace(fence=fence)
            changed.append({"id": grant.execution_id, "fence": fence})
    if changed:
        database.change_many("UPDATE executions SET fence = :fence WHERE id = :id", changed)
    return tuple(found)


def claim_due(
    database: Database, decisions: Sequence[Decision], *, seat: Seat, now_ms: int
) -> ClaimBatch:
    """Carry out plans inside one transaction; see `Store.claim_due`."""
    with database.transaction():
        # First: who was late finds nothing, and holds the lock no longer than that takes.
        advanced = _advance_all(database, [decision.plan for decision in decisions], now_ms)
        ours = [one for one in decisions if one.plan.due.schedule_id in advanced]
        fenced = {id_ for id_, fence in advanced.items() if fence == now_ms}
        if not ours:
            return ClaimBatch()
        counts = RunCounts(database, seat, (one.plan.due.schedule_id for one in ours))
        wanted = [fire for one in ours for fire in one.plan.fires for _ in one.spec.scopes]
        direct = _may_start_at_once(database, wanted, counts, seat, now_ms)
        writer = FireWriter(database, seat, counts, now_ms=now_ms, direct=direct)
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
        return _batch_of(database, writer, len(ours), now_ms, fenced=fenced)


def claim_boot(
    database: Database,
    decisions: Sequence[BootDecision],
    *,
    boot_id: str,
    seat: Seat,
    now_ms: int,
) -> ClaimBatch:
    """Carry out boot fires inside one transaction; see `Store.claim_boot`."""
    with database.transaction():
        counts = RunCounts(database, seat, (d.schedule_id for d in decisions))
        wanted = [decision.fire for decision in decisions for _ in decision.spec.scopes]
        direct = _may_start_at_once(database, wanted, counts, seat, now_ms)
        writer = FireWriter(database, seat, counts, now_ms=now_ms, direct=direct)
        advanced = 0
        for decision in decisions:
            found = _decide_boot(database, decision, boot_id, now_ms)
            if found is None:
                continue
            advanced += 1
            is_paused, is_bounded = found
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


def _batch_of(
    database: Database,
    writer: FireWriter,
    advanced: int,
    now_ms: int,
    *,
    fenced: Collection[int] = (),
) -> ClaimBatch:
    """What a claim did, with what follows the ends of fires that others have replaced."""
    granted = give_fences(database, writer.granted, fenced=fenced, now_ms=now_ms)
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
    database: Database, wanted: Sequence[Fire], counts: RunCounts, seat: Seat, now_ms: int
) -> bool:
    """Whether there are places for all; else all wait: priority decides then, and not arrival."""
    late = sum(fire.cause in LATE_CAUSES for fire in wanted)
    has_places = len(wanted) <= counts.places and late <= counts.late_places
    return has_places and not has_waiting(database, seat, now_ms)


def _advance_all(database: Database, plans: Sequence[FirePlan], now_ms: int) -> dict[int, int]:
    """Move schedules on to their next fires; the ids of those that were, with their fences.

    Not those that somebody else has moved, or changed.
    """
    locked = {"locked": int(database.was_locked)}
    return dict(
        database.returning_each(
            """UPDATE schedules SET next_plan_at = :next_plan, next_run_at = :next_run,
               next_source = :next_source, decided_until = max(decided_until, :decided),
               planned_count = planned_count + :fires, paused_until = NULL,
               last_enqueued_at = iif(:fires, :now, last_enqueued_at),
               done_revision = iif(:next_plan IS NULL AND after_end_ms IS NULL, revision, NULL),
               repeats_since = iif(:next_plan > max(decided_until, :decided), NULL, repeats_since),
               fence = max(fence + 1, :now), lock_failures = lock_failures + :locked
           WHERE id = :id AND next_plan_at = :plan AND next_run_at = :run
               AND revision = :revision AND enabled AND deleted_at IS NULL
           RETURNING id, fence""",
            [_advance_columns(plan, now_ms) | locked for plan in plans],
        )
    )


def _advance_columns(plan: FirePlan, now_ms: int) -> dict[str, object]:
    due, following = plan.due, plan.next
    return {
        "id": due.schedule_id,
        "plan": due.plan_ms,
        "run": due.due_ms,
        "revision": due.revision,
        "next_plan": following.plan_ms if following else None,
        "next_run": following.due_ms if following else None,
        "next_source": following.source if following else None,
        "decided": plan.decided_until_ms,
        "fires": len(plan.fires),
        "now": now_ms,
    }


def _paused(fire: Fire) -> Missed:
    return Missed(from_ms=fire.plan_ms, to_ms=fire.plan_ms, count=1, reason=Reason.PAUSED)


def _decide_boot(
    database: Database, decision: BootDecision, boot_id: str, now_ms: int
) -> tuple[bool, bool] | None:
    """Note that this boot is decided. None: somebody else was first.

    Whether a pause holds it, and whether it lies outside of from, until and max_runs.
    """
    row = database.returning(
        """UPDATE schedules SET boot_decided = :boot, last_enqueued_at = :now
           WHERE id = :id AND revision = :revision AND boot_decided IS NOT :boot
               AND on_boot AND enabled AND deleted_at IS NULL
           RETURNING paused_until IS NOT NULL AND paused_until > :now,
               (from_at > :now OR until_at < :now OR planned_count >= max_runs) IS TRUE""",
        {
            "id": decision.schedule_id,
            "revision": decision.revision,
            "boot": boot_id,
            "now": now_ms,
        },
    )
    return None if row is None else (bool(row[0]), bool(row[1]))
