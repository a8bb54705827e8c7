"""Say in words what a schedule is and what its runs wait for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.base.units import to_ms
from edgecron.formats.document_tables import value_text
from edgecron.model.choices import Cause, WaitsFor
from edgecron.model.conditions import read_condition
from edgecron.model.engine import find_program
from edgecron.model.listing import Idle, standing_of, upstreams
from edgecron.model.options import JOB_OPTIONS, LISTS, POLICIES, OptionType, Policies
from edgecron.planning.admission import Admission
from edgecron.planning.windows import windows_of
from edgecron.views.phrases import (
    count_words,
    due_words,
    group_words,
    is_suspended,
    job_words,
    last_words,
    late_words,
    needs_words,
    no_engine_words,
    progress_words,
    range_words,
    recorded_words,
    runner_words,
    waiting_words,
    while_words,
    windows_words,
)
from edgecron.views.run_words import NOT_RUN
from edgecron.views.times import distance, local_time, near_time

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.views.outlook import ActiveRun, Behind, FireNow, Outlook


def job_lines(schedule: Schedule, *, mask: str | None = None) -> list[tuple[str, str]]:
    """Return what a schedule runs, and how, as (label, text).

    `mask` replaces the values of environment, stdin and payload.
    """
    spec, job = schedule.spec, schedule.spec.job

    def shown(value: str) -> str:
        return value if mask is None else mask

    lines = [("job", f"{job_words(spec)}  ({job.kind})")]
    for option in JOB_OPTIONS:
        value = option.value_of(spec)
        if option.type is OptionType.VARIABLES:
            text = "\n".join(f"{name}={shown(one)}" for name, one in value.items())
        elif value is None:
            continue
        else:
            text = str(shown(value) if option.name in ("stdin", "payload") else value)
        if text:
            lines.append((option.label or option.name.replace("_", " "), text))
    return lines


def bound_lines(schedule: Schedule, *, zone: tzinfo) -> list[tuple[str, str]]:
    """Return what the runs of a schedule need and share, and their bounds, as (label, text)."""
    spec = schedule.spec
    lines = [
        ("group", group_words(schedule)),
        ("needs", needs_words(spec.policies)),
        ("windows", windows_words(spec.policies)),
        ("while", while_words(spec.policies)),
        ("from", local_time(spec.from_at, zone=zone, absent="")),
        ("until", local_time(spec.until_at, zone=zone, absent="")),
        ("max runs", str(spec.max_runs or "")),
    ]
    if spec.scopes != (("global", ""),):
        lines.append(("scopes", ", ".join(f"{kind}:{id_}" for kind, id_ in spec.scopes)))
    return [(label, text) for label, text in lines if text]


# Policies that are shown even with their default.
ALWAYS_SHOWN = ("catch_up", "overlap", "timeout")


def policy_words(policies: Policies) -> str:
    """Return the policies of a schedule that differ from the defaults, in one line."""
    words = []
    for option in POLICIES:
        value = getattr(policies, option.field or "")
        is_shown = option.name in ALWAYS_SHOWN or value != option.default_value
        if is_shown and option.type not in LISTS:
            text = value_text(option, value)
            shown = ", ".join(map(str, text)) if isinstance(text, list) else str(text)
            shown = shown.lower() if isinstance(value, bool) else shown
            words.append(f"{option.name.replace('_', ' ')} {shown}")
    return ", ".join(words)


def record_lines(schedule: Schedule, *, zone: tzinfo, now: datetime) -> list[tuple[str, str]]:
    """Return how the last run ended, and how many there were, as (label, text)."""
    lines = [("last", last_words(standing_of(schedule), now=now))]
    if schedule.last_error:
        lines.append(("last error", schedule.last_error))
    counts = [f"{count} {status}" for status, count in schedule.counts.items() if count]
    lines.append(("so far", ", ".join([count_words(schedule.run_count, "run"), *counts])))
    if schedule.pruned_until is not None:
        until = local_time(schedule.pruned_until, zone=zone)
        lines.append(("history", f"retention removed the runs up to {until}"))
    return lines


def state_lines(count: int) -> list[tuple[str, str]]:
    """Return how many keys of state a schedule keeps, as (label, text)."""
    return [("remembers", count_words(count, "key"))] if count else []


_MOST_ACTIVE = 5
_MINUTE_S = 60
_MOST_PAYLOAD = 60  # letters in a line about a run


def present_lines(
    outlook: Outlook, *, doctor: str, zone: tzinfo, now: datetime, mask: str | None = None
) -> list[tuple[str, str]]:
    """Return what is held or active, what a fire would do now, and what did not run.

    Each line is (label, text). `doctor` is its command line. `mask` replaces payloads.
    """
    lines = []
    if not outlook.is_clock_trusted:
        lines.append(("held", f"this machine's clock can't be trusted; see: {doctor}"))
    lines += active_lines(outlook, zone=zone, now=now, mask=mask)
    lines.append(("if due now", _fire_words(outlook, now=now)))
    if outlook.last_unrun is not None:
        lines.append(("not run", unrun_words(outlook.last_unrun, zone=zone, now=now)))
    return lines


def behind_words(behind: Behind, *, now: datetime) -> str:
    """Say how often a schedule is due, for how many places, and how many times were skipped."""
    rate = f"{behind.due_per_minute:,} times a minute"
    if behind.due_per_minute > _MINUTE_S:
        rate = f"{round(behind.due_per_minute / _MINUTE_S):,} times a second"
    places = "" if behind.places is None else f", places for {behind.places:,}"
    first = distance(behind.since, now)
    return f"due {rate}{places}; {behind.skipped:,} times skipped, the first {first}"


def unrun_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Say which fire was skipped last, and why: `run 6, 11:45:14: an earlier run was active`."""
    reason = "" if execution.reason is None else execution.reason.value
    words = NOT_RUN.get(reason, reason)
    if execution.error_msg:
        words = f"{words}: {clean(recorded_words(execution, zone=zone, now=now))}"
    missed = range_words(execution, zone=zone, now=now)
    more = f"; {missed}" if missed else ""
    time = near_time(execution.plan_at, zone=zone, now=now)
    return f"run {execution.id}, {time}, {execution.status}: {words}{more}"


def pause_lines(outlook: Outlook, *, zone: tzinfo, now: datetime) -> list[tuple[str, str]]:
    """Return the end of a pause and how many times it skips, as (label, text)."""
    schedule = outlook.schedule
    until, held = schedule.paused_until, outlook.held
    if not schedule.enabled or until is None or until <= now:
        return []
    left = "" if held is None else f"; it skips {count_words(held.count, 'time')}"
    return [("paused", f"until {local_time(until, zone=zone)}{left}")]


def active_lines(
    outlook: Outlook, *, zone: tzinfo, now: datetime, mask: str | None
) -> list[tuple[str, str]]:
    shown = outlook.active[:_MOST_ACTIVE]
    lines = [
        ("active" if number == 0 else "", _active_words(run, zone=zone, now=now, mask=mask))
        for number, run in enumerate(shown)
    ]
    more = outlook.active_count - len(shown)
    if more > 0:
        lines.append(("", f"and {more} more queued"))
    if outlook.late is not None:
        lines.append(("late runs", late_words(outlook.late)))
    if outlook.behind is not None:
        words = behind_words(outlook.behind, now=now)
        lines.append(("behind", f"engines can't keep up: {words}"))
    return lines


def _active_words(run: ActiveRun, *, zone: tzinfo, now: datetime, mask: str | None) -> str:
    execution = run.execution
    attempt = ""
    if execution.max_attempts > 1:
        attempt = f", attempt {execution.attempt} of {execution.max_attempts}"
    elif execution.cause is not Cause.SCHEDULE:
        attempt = f", {execution.cause.value.replace('_', ' ')}"
    scope = f", {execution.scope_kind}:{execution.scope_id}" if execution.scope_id else ""
    what = f"{attempt}{scope}{_payload_words(execution, mask=mask)}"
    if run.waits_for is None:
        since = execution.started_at or execution.due_at
        when = f"running since {near_time(since, zone=zone, now=now)}"
        if is_suspended(execution):
            when += f", {recorded_words(execution, zone=zone, now=now)}"
        asked = ", cancel requested" if execution.cancel_requested_at is not None else ""
        far = "" if execution.progress is None else f": {progress_words(execution.progress)}"
        return f"run {execution.id}, {when}{what}{asked}{far}"
    return f"run {execution.id} is queued{what}: {waits_words(run, zone=zone, now=now)}"


def _payload_words(execution: Execution, *, mask: str | None) -> str:
    """Return the beginning of a run's own payload, or the mask; empty if it has none."""
    if execution.payload is None:
        return ""
    if mask is not None:
        return f", with payload {mask}"
    text = " ".join(execution.payload.split())
    shown = text if len(text) <= _MOST_PAYLOAD else f"{text[:_MOST_PAYLOAD]}..."
    return f", with payload {shown}"


def waits_words(run: ActiveRun, *, zone: tzinfo, now: datetime) -> str:
    assert run.waits_for is not None
    waits = waiting_words(run.execution, zone=zone, now=now)
    if run.waits_for is WaitsFor.CONDITION and waits is not None:
        return waits
    words = {
        WaitsFor.WINDOW: "waits for its window, which opens at"
        f" {near_time(run.execution.due_at, zone=zone, now=now)}",
        WaitsFor.TIME: due_words(run.execution, zone=zone, now=now),
        WaitsFor.RESUME: "waits for the end of the pause",
        WaitsFor.ENGINE: no_engine_words(run.queue),
        WaitsFor.PROGRAM: "waits for its program, which is not running or does not declare it",
        WaitsFor.NOBODY: "nothing runs it: its program no longer declares it",
        WaitsFor.EARLIER_RUN: f"waits for run {run.behind_id}",
        WaitsFor.REPLACED_RUN: f"replaces run {run.behind_id}, which is stopping",
        WaitsFor.GROUP: "waits for a place in its group",
        WaitsFor.PLACE: "waits for a place on its engine",
        WaitsFor.LOOK: "waits until its engine looks for changes, every few seconds",
    }
    return words.get(run.waits_for, run.waits_for)


def _fire_words(outlook: Outlook, *, now: datetime) -> str:
    """Say what a fire would do right now; if scopes differ, for each outcome."""
    by_words: dict[str, list[str]] = {}
    for fire in outlook.fire_now:
        by_words.setdefault(_becomes(outlook, fire, now=now), []).append(":".join(fire.scope))
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{words} ({', '.join(scopes)})" for words, scopes in by_words.items())


def _becomes(outlook: Outlook, fire: FireNow, *, now: datetime) -> str:
    overlap = outlook.schedule.spec.policies.overlap
    run = f"run {fire.because_id}" if fire.because_id is not None else "an active run"
    standing = standing_of(outlook.schedule)
    until = standing.paused_until
    if standing.vanished_at is not None:
        return "would not run: its program no longer declares it"
    if not standing.enabled or (until is not None and until > now):
        return "would be skipped: the schedule is paused"
    policies, timezone = outlook.schedule.spec.policies, outlook.schedule.spec.timezone
    windows = windows_of(policies, timezone)
    if windows is not None and not windows.is_open(to_ms(now)):
        return f"would be skipped: outside its windows ({windows_words(policies)})"
    if outlook.idle is Idle.UPSTREAM and set(upstreams(standing)) <= set(standing.gone_upstreams):
        return "is never due: only 'edgecron run' starts it"
    if fire.admission is Admission.RUN and outlook.unmet is not None:
        note = "" if outlook.unmet_note is None else f" ({outlook.unmet_note})"
        return f"would wait for {read_condition(outlook.unmet).words()}{note}"
    if fire.admission is Admission.RUN:
        runner = runner_words(outlook.schedule.spec.queue)
        return "would start immediately" if outlook.has_engine else f"would wait for {runner}"
    if fire.admission is Admission.SKIP:
        return f"would be skipped: {run} is active (overlap {overlap})"
    if fire.admission is Admission.REPLACE:
        return f"would replace {run} (overlap {overlap})"
    if fire.because_id is None:
        return "would wait for a place in its group"
    return f"would wait for {run} (overlap {overlap})"


def removal_words(name: str, *, command: Callable[[str], str]) -> str:
    """Say how to remove a schedule that its program no longer declares."""
    return f"remove it: {command(f'rm {name}')}, or call scheduler.prune() in the program"


def reverting_words(schedule: Schedule) -> str | None:
    """Say that a change by hand does not last; None if it does."""
    queue = schedule.spec.queue
    if find_program(queue) is None or schedule.vanished_at is not None:
        return None
    return f"{runner_words(queue)} restores the definition of its code when it starts"
