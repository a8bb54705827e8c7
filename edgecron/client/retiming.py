"""A stored schedule's times, when a person changes it: what it missed, and what comes next."""

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
    missed_until,
    next_after_pause,
    next_fire,
)
from edgecron.planning.times import (
    CompiledSpec,
    is_on_boot,
    load_timing,
    load_triggers,
    timing_of,
    upstreams_of,
)
from edgecron.store.sqlite.schedule_changes import Retiming
from edgecron.store.sqlite.store import SqliteStore


def timing_of_stored(store: SqliteStore, schedule: Schedule) -> Timing:
    """What decides a schedule's times. Raises InvalidTrigger or UnknownTimezone."""
    return load_timing(schedule.spec, store.compiled_of(schedule), seed=store.seed)


def keep_triggers(store: SqliteStore, schedule: Schedule, spec: ScheduleSpec) -> CompiledSpec:
    """A changed specification whose triggers stay as they were expanded."""
    text = store.compiled_of(schedule)
    triggers = load_triggers(text)
    return CompiledSpec(
        spec=spec,
        compiled=text,
        on_boot=is_on_boot(triggers),
        upstreams=upstreams_of(spec.name, triggers),
        timing=timing_of(spec, triggers, seed=store.seed),
        warnings=(),
    )


def retime(
    store: SqliteStore, schedule: Schedule, timing: Timing, *, now_ms: int, reason: Reason
) -> Retiming:
    """What a schedule has missed by its old times, and what comes next by its new ones."""
    # What is decided stays decided, also where the clock went back since.
    decided_ms = max(now_ms, to_ms(schedule.decided_until))
    following = _next(schedule, timing, after_ms=decided_ms)
    if decided_ms > now_ms and store.is_decided_early(schedule, now_ms=now_ms):
        # Nothing between is decided, and of the time itself its row says that it is.
        earlier = _next(schedule, timing, after_ms=now_ms)
        if earlier is not None and earlier.plan_ms < decided_ms:
            following, decided_ms = earlier, now_ms
    return Retiming(
        next=following,
        decided_until_ms=decided_ms,
        missed=missed_of(store, schedule, now_ms=now_ms, reason=reason),
    )


def retime_declared(
    store: SqliteStore, schedule: Schedule, timing: Timing, *, now_ms: int
) -> Retiming:
    """The same where a program's code changed its times, as each start of either of two versions
    does: what would come next comes all the same.

    A fire that only waits for its jitter stays where the new times have it, too, and an interval
    after the end counts on from the last end; what goes on sets it with its own.
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
    """The next fire, where its plan time has come and its jitter holds it, by old and new times."""
    plan_at, due_at = schedule.next_plan_at, schedule.next_run_at
    if plan_at is None or due_at is None or not to_ms(plan_at) <= now_ms < to_ms(due_at):
        return None
    if schedule.paused_until is not None:
        return None
    found = next_fire(timing, to_ms(plan_at) - 1, planned_count=schedule.planned_count)
    is_same = found is not None and found.plan_ms == to_ms(plan_at) and found.due_ms > now_ms
    return found if is_same else None


def _idle_since_ms(store: SqliteStore, schedule: Schedule) -> int:
    """When the last run of a schedule has ended, or it was made."""
    last_id = schedule.last_execution_id
    last = None if last_id is None else store.find_execution(last_id)
    ended_at = None if last is None else last.finished_at
    return to_ms(ended_at or schedule.created_at)


def _next(
    schedule: Schedule, timing: Timing, *, after_ms: int, idle_ms: int | None = None
) -> NextFire | None:
    """What comes next by new times, where nothing up to `after_ms` does; an interval after the end
    counts from `idle_ms`, or from there."""
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
    store: SqliteStore, schedule: Schedule, *, now_ms: int, reason: Reason
) -> Missed | None:
    """The times of a schedule up to now that nothing has decided, or None."""
    try:
        timing = timing_of_stored(store, schedule)
    except InvalidInput:
        return None  # Nothing to count; it must be possible to mend or remove such a schedule.
    is_held = not schedule.enabled or schedule.paused_until is not None
    return missed_until(
        timing,
        decided_until_ms=to_ms(schedule.decided_until),
        until_ms=now_ms,
        reason=Reason.PAUSED if is_held else reason,
        planned_count=schedule.planned_count,
    )
