"""What will happen next to a schedule, in plain words."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.client.engine_words import absence_advice, runner_words
from edgecron.views.phrases import (
    count_words,
    disk_words,
    due_words,
    is_overdue,
    moved_words,
    progress_words,
    range_words,
    recorded_words,
    waiting_words,
)
from edgecron.views.times import clock_set_words, distance, full_time, local_time, near_time

if TYPE_CHECKING:
    from edgecron.client.engine_words import FrontEnd
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.views.outlook import ActiveRun, Behind, FireNow, LatePlaces, Outlook

_MOST_ACTIVE = 5
_MOST_NAMED = 5
_MINUTE_S = 60
_MOST_PAYLOAD = 60  # letters of it in a line about a run
_SKIPPED = {
    "overlap": "an earlier run of it still went on",
    "misfire": "nothing could run it at its time, and catch-up gave it up",
    "paused": "it was paused",
    "edited": "its time had passed when its times were changed",
    "rescheduled": "the run before it was rescheduled past its time",
    "jitter": "jitter delayed the run before it past its time; the jitter exceeds the interval",
    "condition": "what it needs did not come true in time",
    "removed": "it was removed",
}


def prospect_lines(
    front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime, mask: str | None = None
) -> list[tuple[str, str]]:
    """(label, text): what comes next, what is active, what a fire now would do, what did not.

    A mask stands for payloads.
    """
    lines = _next_lines(front, outlook, zone=zone, now=now)
    lines += [("note", text) for text in outlook.changes]
    doctor = front.command("doctor")
    return lines + present_lines(outlook, doctor=doctor, zone=zone, now=now, mask=mask)


def present_lines(
    outlook: Outlook, *, doctor: str, zone: tzinfo, now: datetime, mask: str | None = None
) -> list[tuple[str, str]]:
    """(label, text): what is held or active, what a fire now would do, what did not run.

    `doctor` is a command line of it. A mask stands for payloads.
    """
    lines = []
    if not outlook.is_clock_trusted:
        lines.append(("held", f"this machine's clock can't be trusted; see: {doctor}"))
    lines += _active_lines(outlook, zone=zone, now=now, mask=mask)
    lines.append(("a fire now", _fire_words(outlook)))
    if outlook.last_unrun is not None:
        lines.append(("not run", unrun_words(outlook.last_unrun, zone=zone, now=now)))
    return lines


def prospect_sentences(
    front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime
) -> list[str]:
    """What is active and what comes next, as sentences; first of all that nobody runs it."""
    from edgecron.model.listing import Idle
    from edgecron.views.json_objects import MASK

    lines = _active_lines(outlook, zone=zone, now=now, mask=MASK)
    if outlook.upcoming:
        fire = outlook.upcoming[0]
        time = full_time(fire.due_at, outlook.schedule.spec.timezone, zone=zone)
        by = "" if fire.source is None else f", by {fire.source!r}"
        moved = ""
        if fire.is_moved:
            moved = f", {moved_words(fire, zone=zone, now=now)}"
        far = distance(fire.due_at, now, is_clock_trusted=outlook.is_clock_trusted)
        lines.append(("next", f"{time} ({far}){by}{moved}"))
        lines += [("note", text) for text in outlook.changes]
    elif outlook.idle is not Idle.VANISHED:
        lines += _next_lines(front, outlook, zone=zone, now=now)
    sentences = [f"{label}: {text}".removeprefix(": ") for label, text in lines]
    if outlook.idle is Idle.VANISHED:
        sentences.insert(0, absence_advice(front, outlook.schedule, zone=zone, now=now))
    if outlook.upcoming and not outlook.has_engine:
        sentences.append(absence_advice(front, outlook.schedule, zone=zone, now=now))
    if outlook.upcoming and is_overdue(outlook.upcoming[0].due_at, now):
        full = front.client().disk_problem()
        if full is not None:
            sentences.append(disk_words(full))
    clock = front.client().clock_state()
    if clock.set_at_ms is not None and clock.set_by_ms is not None:
        set_at = from_ms(clock.set_at_ms)
        words = clock_set_words(set_at, clock.set_by_ms, zone=zone, now=now)
        is_past = now >= set_at - timedelta(milliseconds=min(0, clock.set_by_ms))
        if words is not None and not is_past:
            sentences.append(f"this machine's clock {words}")
    if not outlook.is_clock_trusted:
        sentences.append(f"this machine's clock can't be trusted; see {front.command('doctor')}")
    return [f"{line[:1].upper()}{line[1:].rstrip()}." for line in sentences]


def late_words(late: LatePlaces) -> str:
    """Which late runs hold the places for late runs: `2 of 2 held by poll-a, poll-b; 30 wait`."""
    counts = Counter(schedule for _, schedule in late.held_by)
    named = [f"{name} ({count} runs)" if count > 1 else name for name, count in counts.items()]
    more = len(named) - _MOST_NAMED
    by = ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    held = str(len(late.held_by)) + ("" if late.places is None else f" of {late.places}")
    waits = "waits" if late.waiting == 1 else "wait"
    wait = f"; {late.waiting:,} more {waits}" if late.waiting else ""
    return f"{held} held" + (f" by {by}" if named else "") + wait


def behind_words(behind: Behind, *, now: datetime) -> str:
    """How often a schedule is due, for how many places, and what was skipped."""
    rate = f"{behind.due_per_minute:,} times a minute"
    if behind.due_per_minute > _MINUTE_S:
        rate = f"{round(behind.due_per_minute / _MINUTE_S):,} times a second"
    places = "" if behind.places is None else f", places for {behind.places:,}"
    first = distance(behind.since, now)
    return f"due {rate}{places}; {behind.skipped:,} times skipped, the first {first}"


def unrun_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Which fire was left out last, and why: `run 6, 11:45:14: an earlier run still went on`."""
    reason = "" if execution.reason is None else execution.reason.value
    words = _SKIPPED.get(reason, reason)
    if execution.error_msg:
        words = f"{words}: {clean(recorded_words(execution, zone=zone, now=now))}"
    missed = range_words(execution, zone=zone, now=now)
    more = f"; {missed}" if missed else ""
    time = near_time(execution.plan_at, zone=zone, now=now)
    return f"run {execution.id}, {time}, {execution.status}: {words}{more}"


def _next_lines(
    front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime
) -> list[tuple[str, str]]:
    schedule = outlook.schedule
    lines = pause_lines(outlook, zone=zone, now=now)
    before = None
    for fire in outlook.upcoming:
        time = full_time(fire.due_at, schedule.spec.timezone, zone=zone)
        label = "due since" if is_overdue(fire.due_at, now) else "next"
        far = distance(fire.due_at, now, is_clock_trusted=outlook.is_clock_trusted)
        shown = f"{time}  {far}  {fire.source or ''}".rstrip()
        if fire.is_moved:
            shown += f"  {moved_words(fire, zone=zone, now=now)}"
        lines.append(("" if label == before else label, shown))
        before = label
    if not outlook.upcoming:
        lines.append(("next", idle_sentence(front, outlook, zone=zone, now=now)))
    return lines


def pause_lines(outlook: Outlook, *, zone: tzinfo, now: datetime) -> list[tuple[str, str]]:
    """(label, text): the end of a pause that has one, and what it leaves out; else nothing."""
    schedule = outlook.schedule
    until, held = schedule.paused_until, outlook.held
    if not schedule.enabled or until is None or until <= now:
        return []
    left = "" if held is None else f"; {count_words(held.count, 'time')} until then left out"
    return [("paused", f"until {local_time(until, zone=zone)}{left}")]


def idle_sentence(front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime) -> str:
    """Why nothing is to come, and what to do about it."""
    from edgecron.model.listing import Idle

    schedule = outlook.schedule
    spec, name = schedule.spec, schedule.name
    if outlook.idle is None:
        if schedule.paused_until is not None and schedule.next_run_at is not None:
            end = near_time(schedule.paused_until, zone=zone, now=now)
            return f"none: nothing of it follows its pause, which ends at {end}"
        return "none that can be told: its triggers can't be read"
    ends = [text for text in spec.triggers if text.endswith(" after end")]
    return {
        Idle.VANISHED: f"none: {absence_advice(front, schedule, zone=zone, now=now)}",
        Idle.BROKEN: f"none: broken: {schedule.trigger_error}",
        Idle.PAUSED: f"none: paused; let it fire again: {front.command(f'resume {name}')}",
        Idle.MAX_RUNS: (
            f"none: it has had the {count_words(spec.max_runs or 0, 'planned run')}"
            " that --max-runs allows"
        ),
        Idle.ENDED: f"none: no time of it lies before its end, --until {_until(outlook, zone)}",
        Idle.OWN_END: f"none yet: {' or '.join(ends)} of what is active",
        Idle.UPSTREAM: f"none of its own: {_upstream_words(front, outlook, zone=zone, now=now)}",
        Idle.BOOT: "none before the machine's next boot",
        Idle.DONE: "none: its triggers have no more times",
        Idle.NO_NEXT: "none yet: its next time is missing, and an engine computes it",
    }[outlook.idle]


def _until(outlook: Outlook, zone: tzinfo) -> str:
    until = outlook.schedule.spec.until_at
    return local_time(until, zone=zone, absent="")


def _upstream_words(front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime) -> str:
    """What it follows, and when that comes next."""
    from edgecron.base.errors import NotFound
    from edgecron.model.listing import standing_of, upstreams
    from edgecron.views.phrases import next_words

    words = []
    for name in upstreams(standing_of(outlook.schedule)):
        try:
            upstream = front.client().schedule(name)
        except NotFound:
            words.append(f"it comes after {name}, which is not there any more")
        else:
            is_trusted = outlook.is_clock_trusted
            standing = standing_of(upstream)
            when = next_words(standing, zone=zone, now=now, is_clock_trusted=is_trusted)
            words.append(f"it comes after {name} (next {when})")
    return "; ".join(words)


def _active_lines(
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
        lines.append(("late places", late_words(outlook.late)))
    if outlook.behind is not None:
        words = behind_words(outlook.behind, now=now)
        lines.append(("behind", f"engines can't keep up with it: {words}"))
    return lines


def _active_words(run: ActiveRun, *, zone: tzinfo, now: datetime, mask: str | None) -> str:
    from edgecron.model.choices import Cause

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
        when = f"runs since {near_time(since, zone=zone, now=now)}"
        asked = ", its end was asked for" if execution.cancel_requested_at is not None else ""
        far = "" if execution.progress is None else f": {progress_words(execution.progress)}"
        return f"run {execution.id} {when}{what}{asked}{far}"
    return f"run {execution.id} is queued{what}: {waits_words(run, zone=zone, now=now)}"


def _payload_words(execution: Execution, *, mask: str | None) -> str:
    """The beginning of a payload of its own, or the mask; empty where it has its schedule's."""
    if execution.payload is None:
        return ""
    if mask is not None:
        return f", with payload {mask}"
    text = " ".join(execution.payload.split())
    shown = text if len(text) <= _MOST_PAYLOAD else f"{text[:_MOST_PAYLOAD]}..."
    return f", with payload {shown}"


def find_active(client: Client, execution: Execution) -> ActiveRun | None:
    """A run and what it waits for; None where it is not among those that go on first."""
    from edgecron.base.errors import NotFound

    try:
        active = client.outlook(execution.schedule, upcoming=0).active
    except NotFound:
        return None  # Its schedule was removed meanwhile, and it goes with it.
    return next((run for run in active if run.execution.id == execution.id), None)


def waits_words(run: ActiveRun, *, zone: tzinfo, now: datetime) -> str:
    from edgecron.model.choices import WaitsFor

    assert run.waits_for is not None
    condition, until = run.execution.waiting_for, run.execution.wait_until
    if run.waits_for is WaitsFor.CONDITION and condition is not None and until is not None:
        return waiting_words(condition, until, zone=zone, now=now)
    return {
        WaitsFor.TIME: due_words(run.execution, zone=zone, now=now),
        WaitsFor.RESUME: "held by the pause",
        WaitsFor.ENGINE: "waits for an engine; none is at work",
        WaitsFor.PROGRAM: "waits for its program, which is not at work, or without it",
        WaitsFor.NOBODY: "nobody runs it: its program declares it no more",
        WaitsFor.EARLIER_RUN: f"waits for run {run.behind_id}",
        WaitsFor.REPLACED_RUN: f"takes the place of run {run.behind_id}, which is being ended",
        WaitsFor.GROUP: "waits for a place in its group",
        WaitsFor.PLACE: "starts as soon as its engine has a place",
    }[run.waits_for]


def _fire_words(outlook: Outlook) -> str:
    """What a fire of this moment would become; of several scopes those that differ."""
    by_words: dict[str, list[str]] = {}
    for fire in outlook.fire_now:
        by_words.setdefault(_becomes(outlook, fire), []).append(":".join(fire.scope))
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{words} ({', '.join(scopes)})" for words, scopes in by_words.items())


def _becomes(outlook: Outlook, fire: FireNow) -> str:
    from edgecron.planning.overlap import Admission

    overlap = outlook.schedule.spec.policies.overlap
    run = f"run {fire.because_id}" if fire.because_id is not None else "what is active"
    if outlook.schedule.vanished_at is not None:
        return "would be run by nobody"
    if fire.admission is Admission.RUN and outlook.unmet is not None:
        from edgecron.model.conditions import read_condition

        return f"would wait for {read_condition(outlook.unmet).words()}"
    if fire.admission is Admission.RUN:
        runner = runner_words(outlook.schedule.spec.queue)
        return "would start at once" if outlook.has_engine else f"would wait for {runner}"
    if fire.admission is Admission.SKIP:
        return f"would be left out: {run} is active (overlap {overlap})"
    if fire.admission is Admission.REPLACE:
        return f"would take the place of {run} (overlap {overlap})"
    if fire.because_id is None:
        return "would wait for a place in its group"
    return f"would wait for {run} (overlap {overlap})"
