"""Count the fires of a schedule that `max_runs` bounds, and take back those that did not run."""

from __future__ import annotations

from edgecron.base.errors import SENSELESS
from edgecron.model.choices import Reason
from edgecron.planning.next_fire import next_after_pause, passed_until
from edgecron.store.contract import Broken
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.revisions import load_schedules, note_broken
from edgecron.store.sqlite.row_batches import record_missed


def count_planned(database: Database, schedule_id: int) -> None:
    """Count a boot fire or follow-up for max_runs, inside the caller's transaction.

    After the last one, the schedule has no next time.
    """
    database.change(
        """UPDATE schedules SET planned_count = planned_count + 1,
               next_plan_at = iif(planned_count + 1 >= max_runs, NULL, next_plan_at),
               next_run_at = iif(planned_count + 1 >= max_runs, NULL, next_run_at),
               next_source = iif(planned_count + 1 >= max_runs, NULL, next_source),
               done_revision = iif(planned_count + 1 >= max_runs, revision, done_revision)
           WHERE id = :id""",
        {"id": schedule_id},
    )


def give_back_unmet(database: Database, execution_id: int, *, now_ms: int) -> tuple[Broken, ...]:
    """Give back a fire whose condition was never met, inside the caller's transaction.

    Only a fire that max_runs counts, and of which no other scope runs. Returns its schedule if that
    is found broken.
    """
    row = database.row(
        """SELECT e.schedule_id FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.id = :id AND s.max_runs IS NOT NULL AND e.cause NOT IN ('manual', 'backfill')
               AND NOT EXISTS (SELECT 1 FROM schedule_scopes AS c
                   CROSS JOIN executions AS o ON o.schedule_id = e.schedule_id
                       AND o.scope_kind = c.scope_kind AND o.scope_id = c.scope_id
                       AND o.plan_at = e.plan_at AND o.fire_key = e.fire_key
                   WHERE c.schedule_id = e.schedule_id AND o.status != 'skipped')""",
        {"id": execution_id},
    )
    if row is None:
        return ()
    return give_back_runs(database, row[0], count=1, now_ms=now_ms)


def give_back_runs(
    database: Database, schedule_id: int, *, count: int, now_ms: int
) -> tuple[Broken, ...]:
    """Uncount fires that did not run for max_runs, inside the caller's transaction.

    If the schedule was done with them, it continues after `now_ms`, and the times between are
    recorded as skipped. Returns the schedule if it is found broken.
    """
    row = database.returning(
        """UPDATE schedules SET planned_count = planned_count - :count
           WHERE id = :id AND max_runs IS NOT NULL
           RETURNING next_plan_at IS NULL AND planned_count + :count >= max_runs AND enabled
               AND deleted_at IS NULL AND trigger_error IS NULL,
               revision, decided_until, paused_until, planned_count, name""",
        {"id": schedule_id, "count": count},
    )
    if row is None or not row[0]:
        return ()
    # Few schedules get here, and to load the triggers takes 2 ms at each start.
    from edgecron.planning.times import load_timing

    _, revision, decided_until_ms, paused_until_ms, planned_count, name = row
    try:
        [stored] = load_schedules(database, [(schedule_id, revision)])
        timing = load_timing(stored.spec, stored.compiled, seed=database.seed)
        passed = passed_until(
            timing,
            decided_until_ms=decided_until_ms,
            until_ms=now_ms,
            reason=Reason.OVERLAP,
            planned_count=planned_count,
        )
        following = next_after_pause(
            timing,
            now_ms + 1 if paused_until_ms is None else paused_until_ms,
            decided_until_ms=max(now_ms, decided_until_ms),
            planned_count=planned_count,
        )
    except SENSELESS as error:  # The ends of other schedules must not fail with it.
        message = f"its next time can't be computed: {error}"
        note_broken(database, schedule_id, revision=revision, error=message, now_ms=now_ms)
        return (Broken(name, message),)
    for one in passed:
        scopes = stored.spec.scopes
        record_missed(
            database, schedule_id, revision, stored.spec, one, scopes=scopes, now_ms=now_ms
        )
    if following is not None:
        database.change(
            """UPDATE schedules SET next_plan_at = :plan, next_run_at = :run,
                   next_source = :source, done_revision = NULL,
                   decided_until = max(decided_until, :now)
               WHERE id = :id""",
            {
                "id": schedule_id,
                "plan": following.plan_ms,
                "run": following.due_ms,
                "source": following.source,
                "now": now_ms,
            },
        )
    return ()
