"""Compute what a schedule missed and what comes next, when a person changes it."""

from __future__ import annotations

from edgecron.base.errors import InvalidInput
from edgecron.base.units import to_ms
from edgecron.base.values import replace
from edgecron.model.choices import Reason
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.next_fire import (
    Missed,
    NextFire,
    Timing,
    next_after_pause,
    next_fire,
    passed_until,
)
from edgecron.planning.times import (
    CompiledSpec,
    has_events,
    is_on_boot,
    load_timing,
    load_triggers,
    timing_of,
    upstreams_of,
)
from edgecron.store.sql.schedule_changes import Retiming
from edgecron.store.sql.writes import Writes


def timing_of_stored(store: Writes, schedule: Schedule) -> Timing:
    """Return what decides a schedule's times. Raises InvalidTrigger or UnknownTimezone."""
    return load_timing(schedule.spec, store.compiled_of(schedule), seed=store.seed)


def keep_triggers(store: Writes, text: str, spec: ScheduleSpec) -> CompiledSpec:
    """Compile a changed specification, with its triggers as they were expanded: a JSON text."""
    triggers = load_triggers(text)
    return CompiledSpec(
        spec=spec,
        compiled=text,
        on_boot=is_on_boot(triggers),
        has_events=has_events(triggers),
        upstreams=upstreams_of(spec.name, triggers),
        timing=timing_of(spec, triggers, seed=store.seed),
        warnings=(),
    )


def retime(
    store: Writes, schedule: Schedule, timing: Timing, *, now_ms: int, reason: Reason
) -> Retiming:
    """Return what a schedule missed by its old times, and what comes next by its new ones."""
    # Decided times stay decided, also if the clock went back since.
    decided_ms = max(now_ms, to_ms(schedule.decided_until))
    following = _next(schedule, timing, after_ms=decided_ms)
    if decided_ms > now_ms and store.is_decided_early(schedule, now_ms=now_ms):
        # No time between is decided; a decided one has a row.
        earlier = _next(schedule, timing, after_ms=now_ms)
        if earlier is not None and earlier.plan_ms < decided_ms:
            following, decided_ms = earlier, now_ms
    return Retiming(
        next=following,
        decided_until_ms=decided_ms,
        missed=missed_of(store, schedule, now_ms=now_ms, reason=reason),
    )


def retime_declared(store: Writes, schedule: Schedule, timing: Timing, *, now_ms: int) -> Retiming:
    """Return the same for a change that a program declares, without postponing its next fire.

    Two versions of a program can change the schedule in turn at each start. So a fire that only
    waits for its jitter stays, if the new times have it too, and `every ... after end` counts from
    the last end. An active run sets the next time when it ends.
    """
    waiting = _find_waiting(schedule, timing, now_ms=now_ms)
    if waiting is not None:
        before_ms = max(waiting.plan_ms - 1, to_ms(schedule.decided_until))
        missed = missed_of(store, schedule, now_ms=before_ms, reason=Reason.EDITED)
        return Retiming(next=waiting, decided_until_ms=before_ms, missed=missed)
    retiming = retime(store, schedule, timing, now_ms=now_ms, reason=Reason.EDITED)
    if timing.after_end_ms is None or schedule.paused_until is not None:
        return retiming
    if store.has_active(schedule):
        return retiming
    after_ms = retiming.decided_until_ms
    idle_ms = after_ms - (after_ms - _idle_since_ms(store, schedule)) % timing.after_end_ms
    following = _next(schedule, timing, after_ms=after_ms, idle_ms=idle_ms)
    return replace(retiming, next=following)


def _find_waiting(schedule: Schedule, timing: Timing, *, now_ms: int) -> NextFire | None:
    """Return the next fire if only its jitter holds it, by the old and by the new times."""
    plan_at, due_at = schedule.next_plan_at, schedule.next_run_at
    if plan_at is None or due_at is None or not to_ms(plan_at) <= now_ms < to_ms(due_at):
        return None
    if schedule.paused_until is not None:
        return None
    found = next_fire(timing, to_ms(plan_at) - 1, planned_count=schedule.planned_count)
    is_same = found is not None and found.plan_ms == to_ms(plan_at) and found.due_ms > now_ms
    return found if is_same else None


def _idle_since_ms(store: Writes, schedule: Schedule) -> int:
    """Return when the last run of a schedule ended, or when it was made."""
    last_id = schedule.last_execution_id
    last = None if last_id is None else store.find_execution(last_id)
    ended_at = None if last is None else last.finished_at
    return to_ms(ended_at or schedule.created_at)


def _next(
    schedule: Schedule, timing: Timing, *, after_ms: int, idle_ms: int | None = None
) -> NextFire | None:
    """Return the first fire after `after_ms` by new times.

    `every ... after end` counts from `idle_ms` (default: `after_ms`).
    """
    if not schedule.enabled:
        return None
    return next_after_pause(
        timing,
        after_ms if schedule.paused_until is None else to_ms(schedule.paused_until),
        decided_until_ms=after_ms,
        planned_count=schedule.planned_count,
        idle_ms=idle_ms,
    )


def missed_of(
    store: Writes, schedule: Schedule, *, now_ms: int, reason: Reason
) -> tuple[Missed, ...]:
    """Return the undecided times of a schedule up to now."""
    try:
        timing = timing_of_stored(store, schedule)
    except InvalidInput:
        return ()  # Unreadable triggers: it must stay possible to edit or remove the schedule.
    is_held = not schedule.enabled or schedule.paused_until is not None
    return passed_until(
        timing,
        decided_until_ms=to_ms(schedule.decided_until),
        until_ms=now_ms,
        reason=Reason.PAUSED if is_held else reason,
        planned_count=schedule.planned_count,
    )
