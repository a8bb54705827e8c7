"""Write rows of fires and missed ranges, one statement each, and count them for `max_runs`."""

from __future__ import annotations

from typing import Any

from edgecron.base.errors import SENSELESS
from edgecron.model.choices import Cause, MissedBy, Reason
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Fire, Missed, missed_until, next_after_pause
from edgecron.planning.retry import most_attempts
from edgecron.store.contract import Broken
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.revisions import load_schedules, note_broken

MISSED_KEY = "missed"  # of the row of a range of times
INSERT = """INSERT INTO executions (schedule_id, revision, scope_kind, scope_id, plan_at, fire_key,
               cause, trigger_text, payload, due_at, max_attempts, queue, priority, status,
               reason, error_code, error_msg, queued_at, claimed_at, heartbeat_at, stale_after,
               started_at, fence, engine_id, supervisor_id, lease_token, waiting_for, wait_until,
               finished_at, missed_from_at, missed_to_at, missed_count, flags)
           VALUES (:schedule, :revision, :scope_kind, :scope_id, :plan, :fire_key, :cause,
               :source, :payload, :due, :max_attempts, :queue, :priority, :status, :reason,
               :missed_by, :error_msg, :queued, :claimed, :claimed, :stale, :claimed, :claimed,
               :engine, :supervisor, :token, :waiting_for, :wait_until, :finished, :missed_from,
               :missed_to, :missed_count, :flags)
           ON CONFLICT (schedule_id, scope_kind, scope_id, plan_at, fire_key, attempt) DO NOTHING
           RETURNING :place, id"""
GROW_NEWEST = """UPDATE executions
           SET missed_to_at = :to, missed_count = missed_count + :count
           WHERE id = (SELECT id FROM executions WHERE schedule_id = :schedule
                   AND scope_kind = :scope_kind AND scope_id = :scope_id
                   ORDER BY id DESC LIMIT 1)
               AND status = 'skipped' AND reason = :reason AND error_code IS :missed_by
               AND fire_key = :fire_key
               AND cause = :cause AND missed_to_at < :from
           RETURNING :place, id"""
COUNT_SKIPPED = "UPDATE schedules SET skipped_count = skipped_count + :count WHERE id = :id"
_OF_A_START: dict[str, Any] = dict.fromkeys(
    ("place", "queued", "claimed", "stale", "engine", "supervisor", "token", "waiting_for",
     "wait_until", "flags")
)  # fmt: skip


def count_planned(database: Database, schedule_id: int) -> None:
    """Count a fire that no time gave among those that max_runs bounds, inside the caller's
    transaction; with the last one nothing follows."""
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
    """Give back the run of a fire that waited in vain for what it needs, inside the caller's
    transaction. Only if it is a fire that max_runs counts, and no other scope of it runs.

    Its schedule if that is found broken.
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
    """Take back fires that max_runs counted and that did not run, inside the caller's transaction.

    If the schedule was done with them, it continues after `now_ms`. The times between were skipped:
    the last run was still waiting for its start. The schedule if it is found broken.
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
    # Nearly no schedule gets here, and the triggers take 2 ms of every start to load.
    from edgecron.planning.times import load_timing

    _, revision, decided_until_ms, paused_until_ms, planned_count, name = row
    try:
        [stored] = load_schedules(database, [(schedule_id, revision)])
        timing = load_timing(stored.spec, stored.compiled, seed=database.seed)
        passed = missed_until(
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
    except SENSELESS as error:  # The ends of others must not wait for it.
        message = f"its next time can't be computed: {error}"
        note_broken(database, schedule_id, revision=revision, error=message, now_ms=now_ms)
        return (Broken(name, message),)
    if passed is not None:
        for scope in stored.spec.scopes:
            record_missed(database, schedule_id, revision, stored.spec, scope, passed, now_ms)
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


def record_missed(
    database: Database,
    schedule_id: int,
    revision: int,
    spec: ScheduleSpec,
    scope: tuple[str, str],
    missed: Missed,
    now_ms: int,
) -> int | None:
    """Write a range that did not run, or let the newest row grow by it; the row's id.

    None where a row of this range exists already.
    """
    row = database.returning(
        GROW_NEWEST,
        growth_columns((schedule_id, *scope), missed, fire_key=MISSED_KEY, cause=Cause.SCHEDULE),
    )
    grown = None if row is None else int(row[1])
    if grown is None:
        grown = _insert_range(database, (schedule_id, revision), spec, scope, missed, now_ms)
    if grown is None:
        grown = record_by_end(database, schedule_id, revision, spec, scope, missed, now_ms)
    if grown is not None:
        _count_skipped(database, schedule_id, missed.count)
    return grown


def record_by_end(
    database: Database,
    schedule_id: int,
    revision: int,
    spec: ScheduleSpec,
    scope: tuple[str, str],
    missed: Missed,
    now_ms: int,
) -> int | None:
    """Write a range that begins as an earlier one did and ends later, as after a clock was set
    back: its end names it. The row's id; None if a row of this range exists."""
    if _is_recorded(database, schedule_id, scope, missed):
        return None
    schedule = (schedule_id, revision)
    return _insert_range(database, schedule, spec, scope, missed, now_ms, plan_ms=missed.to_ms)


def missed_fire(missed: Missed) -> Fire:
    """The row of a range is that of a fire by its first time, with a key of its own."""
    first_ms = missed.from_ms
    return Fire(plan_ms=first_ms, due_ms=first_ms, cause=Cause.SCHEDULE, fire_key=MISSED_KEY)


def _insert_range(
    database: Database,
    schedule: tuple[int, int],
    spec: ScheduleSpec,
    scope: tuple[str, str],
    missed: Missed,
    now_ms: int,
    *,
    plan_ms: int | None = None,
) -> int | None:
    """The row of a range, named by its first time or by `plan_ms`; None where that is taken."""
    fire = missed_fire(missed)
    if plan_ms is not None:
        fire = fire._replace(plan_ms=plan_ms, due_ms=plan_ms)
    columns = fire_columns(*schedule, spec, scope, fire, now_ms)
    return _insert_skipped(database, columns | missed_columns(missed))


def _is_recorded(
    database: Database, schedule_id: int, scope: tuple[str, str], missed: Missed
) -> bool:
    """Whether a row that begins where a range does ends no earlier."""
    row = database.row(
        """SELECT 1 FROM executions
           WHERE schedule_id = :schedule AND scope_kind = :scope_kind AND scope_id = :scope_id
               AND plan_at = :from AND fire_key = 'missed' AND missed_to_at >= :to""",
        {
            "schedule": schedule_id,
            "scope_kind": scope[0],
            "scope_id": scope[1],
            "from": missed.from_ms,
            "to": missed.to_ms,
        },
    )
    return row is not None


def record_held(database: Database, columns: dict[str, Any], held: Missed) -> int | None:
    """Write that a pause held a fire, in a row of its own; its id, None where it is there."""
    found = _insert_skipped(database, columns | missed_columns(held))
    if found is not None:
        _count_skipped(database, columns["schedule"], held.count)
    return found


def is_of_slow_engine(span: Missed, fire: Fire) -> bool:
    """Whether an engine was running while a range passed, and did not get to it in time.

    Then overlap skips the range with the fire that follows. Such a fire is not late itself, or it
    is more than a minute late and the range says that the engine was stalled.
    """
    was_running = fire.cause is Cause.SCHEDULE or span.missed_by is MissedBy.STALLED
    is_next = not fire.in_sequence and span.to_ms < fire.plan_ms
    return was_running and is_next and span.reason is Reason.MISFIRE


def overlapped(fire: Fire, before: Missed | None) -> Missed:
    """A fire that overlap skips, with the range before it, as one range."""
    first_ms, source, count = fire.plan_ms, fire.source, 1
    if before is not None:
        first_ms, source, count = before.from_ms, before.source, 1 + before.count
    return Missed(
        from_ms=first_ms, to_ms=fire.plan_ms, count=count, reason=Reason.OVERLAP, source=source
    )


def _insert_skipped(database: Database, columns: dict[str, Any]) -> int | None:
    row = database.returning(INSERT, columns)
    return None if row is None else int(row[1])


def growth_columns(
    key: tuple[int, str, str], missed: Missed, *, fire_key: str, cause: Cause, place: int = 0
) -> dict[str, Any]:
    """The values of GROW_NEWEST: the schedule and scope, and the range that the row grows by."""
    return {
        "place": place,
        "schedule": key[0],
        "scope_kind": key[1],
        "scope_id": key[2],
        "reason": missed.reason.value,
        "missed_by": None if missed.missed_by is None else missed.missed_by.value,
        "fire_key": fire_key,
        "cause": cause.value,
        "from": missed.from_ms,
        "to": missed.to_ms,
        "count": missed.count,
    }


def _count_skipped(database: Database, schedule_id: int, count: int) -> None:
    database.change(COUNT_SKIPPED, {"id": schedule_id, "count": count})


def fire_columns(
    schedule_id: int,
    revision: int,
    spec: ScheduleSpec,
    scope: tuple[str, str],
    fire: Fire,
    now_ms: int,
) -> dict[str, Any]:
    """What the row of a fire that does not run has, but for why."""
    policies = spec.policies
    return {
        "schedule": schedule_id,
        "revision": revision,
        "scope_kind": scope[0],
        "scope_id": scope[1],
        "plan": fire.plan_ms,
        "fire_key": fire.fire_key,
        "cause": fire.cause.value,
        "source": fire.source,
        "payload": fire.payload,
        "due": fire.due_ms,
        "max_attempts": most_attempts(policies.retries, policies.on_interrupt),
        "queue": spec.queue,
        "priority": int(policies.priority),
        "status": "skipped",
        "finished": now_ms,
        **_OF_A_START,
    }


def missed_columns(missed: Missed) -> dict[str, Any]:
    """What the row of a range has besides: why it did not run."""
    return {
        "reason": missed.reason.value,
        "missed_by": None if missed.missed_by is None else missed.missed_by.value,
        "error_msg": missed.error_msg,
        "missed_from": missed.from_ms,
        "missed_to": missed.to_ms,
        "missed_count": missed.count,
    }
