"""A run in words: what it waits for, what becomes of it, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from edgecron.client.engine_words import FrontEnd
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule, ScheduleSpec

PRINTS_ELSEWHERE = "what a function prints goes to its program's own output"


def prints_elsewhere(execution: Execution) -> bool:
    """Whether nothing is kept of what a run prints: it is a function within its program."""
    from edgecron.supervisor.runner import THREADS

    return execution.supervisor_id == THREADS


def is_planned_earlier(execution: Execution) -> bool:
    """Whether the plan time of a run says more than when it started: a run that was late, retried,
    caught up or backfilled."""
    from edgecron.model.choices import ON_TIME_MS, Cause

    if execution.attempt > 1 or execution.cause in (Cause.CATCH_UP, Cause.BACKFILL, Cause.RETRY):
        return True
    if execution.started_at is None or execution.cause is Cause.MANUAL:
        return False
    return (execution.started_at - execution.plan_at).total_seconds() * 1000 > ON_TIME_MS


def run_lines(
    execution: Execution, *, zone: tzinfo, now: datetime, mask: str | None
) -> list[tuple[str, str]]:
    """All that is known of a run, but for what it printed: (label, text).

    `mask` stands for its payload; None shows the payload itself.
    """
    from edgecron.views.phrases import (
        flag_words,
        progress_words,
        range_words,
        recorded_words,
        status_words,
        waiting_words,
    )
    from edgecron.views.times import local_time, short_duration

    def time(at: datetime | None) -> str:
        return "" if at is None else local_time(at, zone=zone)

    waiting = ""
    if execution.waiting_for is not None and execution.wait_until is not None:
        until = execution.wait_until
        waiting = waiting_words(execution.waiting_for, until, zone=zone, now=now)
    took = "" if execution.duration_ms is None else short_duration(execution.duration_ms)
    late_ms = 0.0
    if execution.started_at is not None:
        late_ms = (execution.started_at - execution.due_at).total_seconds() * 1000
    late = f"  ({short_duration(int(late_ms))} after due)" if late_ms >= 1000 else ""
    attempts = f"{execution.attempt} of {execution.max_attempts}"
    lines = [
        ("status", status_words(execution)),
        ("cause", execution.cause.value.replace("_", " ")),
        ("trigger", execution.trigger_text or ""),
        ("scope", f"{execution.scope_kind}:{execution.scope_id}" if execution.scope_id else ""),
        ("attempt", attempts if execution.max_attempts > 1 else ""),
        ("plan", time(execution.plan_at)),
        ("due", time(execution.due_at)),
        ("started", f"{time(execution.started_at)}{late}" if execution.started_at else ""),
        ("finished", time(execution.finished_at)),
        ("took", took),
        ("exit code", "" if execution.exit_code is None else str(execution.exit_code)),
        ("error", recorded_words(execution, zone=zone, now=now)),
        ("missed", range_words(execution, zone=zone, now=now) or ""),
        ("waiting", waiting),
        ("cancel", f"requested {time(execution.cancel_requested_at)}"),
        ("progress", "" if execution.progress is None else progress_words(execution.progress)),
        ("result", execution.result or ""),
        ("payload", "" if execution.payload is None else mask or execution.payload),
        ("flags", ", ".join(flag_words(execution))),
        ("engine", "" if execution.engine_id is None else str(execution.engine_id)),
        ("revision", str(execution.revision)),
    ]
    if execution.cancel_requested_at is None:
        lines = [line for line in lines if line[0] != "cancel"]
    return [(label, text) for label, text in lines if text]


def state_words(front: FrontEnd, execution: Execution, *, zone: tzinfo) -> str:
    """What there is to be said of a run beside its output, or instead of it."""
    from edgecron.model.choices import Status
    from edgecron.views.phrases import waiting_words

    if execution.status is Status.RUNNING:
        return "is still running"
    if execution.status is Status.QUEUED:
        if execution.waiting_for is None or execution.wait_until is None:
            return "has not started yet"
        words = waiting_words(
            execution.waiting_for, execution.wait_until, zone=zone, now=front.client().now()
        )
        return f"has not started yet: it {words}"
    output = front.client().output(execution.id)
    return no_output_words(
        execution,
        spec=front.client().spec_of(execution),
        printed_bytes=0 if output is None else output.stdout_bytes + output.stderr_bytes,
        removed_at=None if output is None else output.removed_at,
        zone=zone,
    )


def no_output_words(
    execution: Execution,
    *,
    spec: ScheduleSpec | None,
    printed_bytes: int,
    removed_at: datetime | None,
    zone: tzinfo,
) -> str:
    """Why there is nothing to see of what a run printed that has ended.

    `spec` is its schedule's when it was decided, None where that can't be read any more.
    """
    from edgecron.model.choices import JobKind, Status
    from edgecron.views.phrases import failure_words, size_words, status_words
    from edgecron.views.times import local_time

    if execution.status is Status.INTERRUPTED:
        return "was interrupted, and its output was lost with its supervisor"
    if removed_at is not None:
        when = local_time(removed_at, zone=zone)
        return f"printed {size_words(printed_bytes)}, which retention has removed at {when}"
    more = f"; {failure_words(execution)}" if execution.error_msg else ""
    is_function = spec is not None and spec.job.kind is JobKind.CALLABLE
    if is_function and execution.started_at is not None:
        return f"has no output here: {PRINTS_ELSEWHERE} ({status_words(execution)}{more})"
    return f"printed nothing ({status_words(execution)}{more})"


def end_words(front: FrontEnd, ended: Execution, *, zone: tzinfo) -> str:
    """`: failed (exit code 7), 1.2 s; attempt 2 of 3 is run 42, due at 14:05:10, in 10 s`."""
    from edgecron.views.phrases import due_words, failure_words, status_words
    from edgecron.views.times import short_duration

    client = front.client()
    why = f" ({failure_words(ended)})" if ended.error_msg else ""
    took = "" if ended.duration_ms is None else f", {short_duration(ended.duration_ms)}"
    following = client.next_attempt(ended)
    more = ""
    if following is not None:
        due = due_words(following, zone=zone, now=client.now())
        more = (
            f"; attempt {following.attempt} of {following.max_attempts}"
            f" is run {following.id}, {due}"
        )
    return f": {status_words(ended)}{why}{took}{more}"


def queued_words(front: FrontEnd, execution: Execution, *, zone: tzinfo) -> str:
    """What a queued run waits for: `waits: run 1 still runs`."""
    from edgecron.client.outlook_words import find_active, waits_words

    words = blocking_words(front, execution)
    if words is not None:
        return f"waits: {words}"
    client = front.client()
    found = find_active(client, execution)
    if found is None or found.waits_for is None:
        return "has not started yet"
    return f"is queued: {waits_words(found, zone=zone, now=client.now())}"


def blocking_words(front: FrontEnd, execution: Execution) -> str | None:
    """Which earlier run of its schedule keeps a run from its start, and what to do; or None."""
    from edgecron.client.engine_words import absence_words, find_living, stalled_words
    from edgecron.model.choices import ACTIVE, COMMAND_QUEUE, Cause, Status

    client = front.client()
    before = [
        other
        for other in client.history(execution.schedule, statuses=tuple(ACTIVE), limit=1000)
        if other.id < execution.id
        # What has not begun of a backfill keeps nothing back.
        and (other.status is Status.RUNNING or other.cause is not Cause.BACKFILL)
        and (other.scope_kind, other.scope_id) == (execution.scope_kind, execution.scope_id)
    ]
    running = [other for other in before if other.status is Status.RUNNING]
    if not before or (execution.status is Status.QUEUED and not running):
        return None  # What is queued before it keeps back what would be queued, and nothing else.
    words = f"run {running[-1].id} still runs" if running else f"run {before[-1].id} is queued"
    schedule = _find_schedule(client, execution.schedule)
    states = find_living(client, schedule)
    if not states and schedule is not None and schedule.spec.queue != COMMAND_QUEUE:
        return f"{words}, and {absence_words(client, schedule)}"
    if not states:
        return f"{words}, and no engine is alive: start one with {front.command('daemon')}"
    if all(state.is_stalled for state in states):
        return f"{words}, and {stalled_words(states)}; see {front.command('doctor')}"
    queued = [other for other in before if other.status is Status.QUEUED]
    if execution.status is Status.SKIPPED and running and queued:
        return f"{words}, and run {queued[0].id} waits for its end already"
    if execution.status is Status.SKIPPED:
        wait = front.command(f"edit {execution.schedule} --overlap queue")
        return f"{words}; to let one wait for it: {wait}"
    return words


def _find_schedule(client: Client, name: str) -> Schedule | None:
    from edgecron.base.errors import NotFound

    try:
        return client.schedule(name)
    except NotFound:
        return None  # It was removed meanwhile.
