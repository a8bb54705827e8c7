"""Say in sentences what comes next, why a time has no run, and how a run ended.

These sentences ask the database for more. Sentences that need no database are in `views`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.units import from_ms, to_ms
from edgecron.base.window_texts import split_once_in
from edgecron.client.engine_words import (
    FrontEnd,
    absence_advice,
    absence_words,
    find_living,
    find_place,
    missing_advice,
    stalled_words,
)
from edgecron.model.choices import COMMAND_QUEUE, Cause, Status
from edgecron.model.conditions import read_condition
from edgecron.model.listing import ACTIVE_RUNS, Idle, standing_of, upstreams
from edgecron.supervisor.runner import THREADS
from edgecron.triggers import describe
from edgecron.views.json_objects import MASK
from edgecron.views.outlook import Explanation, Verdict
from edgecron.views.phrases import (
    disk_words,
    due_words,
    excluded_words,
    failure_words,
    is_overdue,
    moved_words,
    next_words,
    status_words,
    waiting_words,
    windows_words,
)
from edgecron.views.run_words import no_output_words
from edgecron.views.schedule_words import active_lines, pause_lines, present_lines, waits_words
from edgecron.views.times import (
    clock_set_words,
    distance,
    full_time,
    local_time,
    near_time,
    short_duration,
)

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.views.outlook import ActiveRun, Outlook


def prospect_lines(
    front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime, mask: str | None = None
) -> list[tuple[str, str]]:
    """Return (label, text): what comes next, is active, would a run now do, and did not run.

    `mask` replaces payloads.
    """
    lines = _next_lines(front, outlook, zone=zone, now=now)
    lines += [("note", text) for text in outlook.changes]
    doctor = front.command("doctor")
    return lines + present_lines(outlook, doctor=doctor, zone=zone, now=now, mask=mask)


def prospect_sentences(
    front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime
) -> list[str]:
    """Return sentences: no engine runs it, if so; what is active; and what comes next."""
    lines = active_lines(outlook, zone=zone, now=now, mask=MASK)
    if outlook.upcoming:
        lines += pause_lines(outlook, zone=zone, now=now)
        fire = outlook.upcoming[0]
        time = full_time(fire.due_at, outlook.schedule.spec.timezone, zone=zone)
        by = "" if fire.source is None else f", by {fire.source!r}"
        moved = ""
        if fire.is_moved:
            moved = f", {moved_words(fire, zone=zone, now=now)}"
        far = distance(fire.due_at, now, is_clock_trusted=outlook.is_clock_trusted)
        label = "overdue since" if is_overdue(fire.due_at, now) else "next"
        lines.append((label, f"{time} ({far}){by}{moved}"))
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


def _next_lines(
    front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime
) -> list[tuple[str, str]]:
    schedule = outlook.schedule
    lines = pause_lines(outlook, zone=zone, now=now)
    before = None
    excluded = list(outlook.excluded)
    for fire in outlook.upcoming:
        while excluded and excluded[0].from_ms < to_ms(fire.plan_at):
            words = excluded_words(excluded.pop(0), schedule.spec.timezone, zone=zone)
            lines.append(("" if before == "excluded" else "excluded", words))
            before = "excluded"
        time = full_time(fire.due_at, schedule.spec.timezone, zone=zone)
        label = "overdue" if is_overdue(fire.due_at, now) else "next"
        far = distance(fire.due_at, now, is_clock_trusted=outlook.is_clock_trusted)
        shown = f"{time}  {far}  {fire.source or ''}".rstrip()
        if fire.is_moved:
            shown += f"  {moved_words(fire, zone=zone, now=now)}"
        lines.append(("" if label == before else label, shown))
        before = label
    for one in excluded:
        words = excluded_words(one, schedule.spec.timezone, zone=zone)
        lines.append(("" if before == "excluded" else "excluded", words))
        before = "excluded"
    if not outlook.upcoming:
        lines.append(("next", idle_sentence(front, outlook, zone=zone, now=now)))
    return lines


def idle_sentence(front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime) -> str:
    """Say why no fire is to come, and what to do about it."""
    schedule = outlook.schedule
    spec, name = schedule.spec, schedule.name
    if outlook.idle is None:
        if schedule.paused_until is not None and schedule.next_run_at is not None:
            end = near_time(schedule.paused_until, zone=zone, now=now)
            return f"none: no time follows the pause, which ends at {end}"
        return "unknown: the triggers can't be read"
    ends = [text for text in spec.triggers if text.endswith(" after end")]
    words = {
        Idle.VANISHED: f"none: {absence_advice(front, schedule, zone=zone, now=now)}",
        Idle.BROKEN: f"none: broken: {schedule.trigger_error}",
        Idle.PAUSED: f"none: paused; resume it: {front.command(f'resume {name}')}",
        Idle.MAX_RUNS: (f"none: --max-runs {spec.max_runs} is reached"),
        Idle.ENDED: f"none: it has no more times before --until {_until(outlook, zone)}",
        Idle.OWN_END: f"none yet: {' or '.join(ends)} of the active run",
        Idle.UPSTREAM: f"{_upstream_words(front, outlook, zone=zone, now=now)}",
        Idle.BOOT: "when the machine boots",
        Idle.DEMAND: f"on demand: {front.command(f'run {name}')}",
        Idle.DONE: "none: its triggers have no more times",
        Idle.EXCLUDED: "none: its windows exclude the rest of its times",
        Idle.NO_NEXT: "missing; an engine will compute it",
    }
    return words.get(outlook.idle, outlook.idle)


def _until(outlook: Outlook, zone: tzinfo) -> str:
    until = outlook.schedule.spec.until_at
    return local_time(until, zone=zone, absent="")


def _upstream_words(front: FrontEnd, outlook: Outlook, *, zone: tzinfo, now: datetime) -> str:
    """Say which schedules it follows, and when they come next."""
    words = []
    for name in upstreams(standing_of(outlook.schedule)):
        try:
            upstream = front.client().schedule(name)
        except NotFound:
            words.append(f"none: {name}, which it follows, was removed")
        else:
            is_trusted = outlook.is_clock_trusted
            standing = standing_of(upstream)
            when = next_words(standing, zone=zone, now=now, is_clock_trusted=is_trusted)
            words.append(
                f"after {name} ({when if upstream.next_run_at is None else f'next {when}'})"
            )
    return "; ".join(words)


def find_active(client: Client, execution: Execution) -> ActiveRun | None:
    """Return an active run with what it waits for; None if it is not among the first ones."""
    try:
        active = client.outlook(execution.schedule, upcoming=0).active
    except NotFound:
        return None  # Its schedule was removed meanwhile, and the run with it.
    return next((run for run in active if run.execution.id == execution.id), None)


def verdict_sentences(
    front: FrontEnd, found: Explanation, *, zone: tzinfo, now: datetime
) -> list[str]:
    """Say why a time has no run: what the time is for the schedule, and the times around it."""
    schedule = found.schedule
    name, spec = schedule.name, schedule.spec

    def shown(instant: datetime | None) -> str:
        return "" if instant is None else full_time(instant, spec.timezone, zone=zone)

    time = shown(found.plan_at or found.at)
    made = shown(schedule.created_at)
    by = "" if found.source is None else f" by {found.source!r}"
    is_window = found.source is not None and split_once_in(found.source) is not None
    what = "the opening of one of its windows" if is_window else "one of its times"
    moved = ""
    if found.due_at is not None and found.due_at != found.plan_at:
        moved = f", and start at {shown(found.due_at)}"
    until = schedule.paused_until
    if until is None or not schedule.enabled:
        end = f"; resume it: {front.command(f'resume {name}')}"
    else:
        end = f" until {shown(until)}"
    did = "was" if found.at <= now else "is"
    words = {
        Verdict.BROKEN: f"It {did} not run: the triggers can't be read:"
        f" {schedule.trigger_error or 'the record of that time is damaged'}.",
        Verdict.NOT_MADE: f"It did not run at {time}: the schedule was added later, at {made}.",
        Verdict.NO_TIME: f"{time} {did} not one of its times.{_around(found, zone=zone)}",
        Verdict.EXCLUDED: f"{time} {did} skipped: it lies outside the windows of the schedule"
        f" ({windows_words(spec.policies)}).",
        Verdict.TOO_EARLY: f"{time} is before --from {shown(spec.from_at)}.",
        Verdict.ENDED: f"{time} is after --until {shown(spec.until_at)}.",
        Verdict.USED_UP: f"--max-runs {spec.max_runs} {did} reached before {time}.",
        Verdict.HELD: f"{time} {did} skipped: the schedule is paused{end}.",
        Verdict.VANISHED: f"It {did} not run at {time}:"
        f" {absence_advice(front, schedule, zone=zone, now=now)}.",
        Verdict.COMING: f"It will run: {time} is {what}{by}{moved}.",
        Verdict.DUE: f"{time} is {what}{by}{moved}; no engine decided it yet.",
        Verdict.FORGOTTEN: f"Retention removed the record of {time}.",
        Verdict.UNRECORDED: f"{time} is {what}{by}, but has no record: the"
        " times were edited about then, or the history was removed.",
    }
    lines = [words.get(found.verdict, f"{time}: {found.verdict}.")]
    if found.verdict in (Verdict.NO_TIME, Verdict.UNRECORDED) and (
        found.words.revision != schedule.revision
    ):
        lines.append(
            f"Revision {found.words.revision} of {shown(found.words.written_at)} applied then;"
            f" the schedule is at revision {schedule.revision} now."
        )
    if found.verdict in (Verdict.DUE, Verdict.COMING):
        lines += _engine_words(front, found, zone=zone, now=now)
    return lines


def _engine_words(front: FrontEnd, found: Explanation, *, zone: tzinfo, now: datetime) -> list[str]:
    """Say which missing engine or untrusted clock holds a fire."""
    client, schedule = front.client(), found.schedule
    if not client.has_engine(schedule.spec.placed_queue, offer=schedule.offer):
        return [_sentence(absence_advice(front, found.schedule, zone=zone, now=now))]
    if not client.is_clock_trusted():
        return [f"This machine's clock can't be trusted; see {front.command('doctor')}."]
    return []


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _around(found: Explanation, *, zone: tzinfo) -> str:
    timezone = found.schedule.spec.timezone
    around = [
        f"{word} is {full_time(instant, timezone, zone=zone)}"
        for word, instant in (
            ("the previous one", found.previous_at),
            ("the next one", found.next_at),
        )
        if instant is not None
    ]
    if not around:
        triggers = " and ".join(found.schedule.spec.triggers)
        return f" It has no times of its own: it fires {triggers}."
    return f" Of those, {' and '.join(around)}."


def prints_elsewhere(execution: Execution) -> bool:
    """Whether the output of a run is not kept: it is a function within its program."""
    return execution.supervisor_id == THREADS


def state_words(front: FrontEnd, execution: Execution, *, zone: tzinfo) -> str:
    """Say the state of a run, beside its output or instead of the output."""
    if execution.status is Status.RUNNING:
        place = find_place(front.client(), execution)
        return "is still running" if place is None else f"is still running on {place}"
    if execution.status is Status.QUEUED:
        waits = waiting_words(execution, zone=zone, now=front.client().now())
        return "has not started yet" if waits is None else f"has not started yet: it {waits}"
    output = front.client().output(execution.id)
    return no_output_words(
        execution,
        spec=front.client().spec_of(execution),
        printed_bytes=0 if output is None else output.stdout_bytes + output.stderr_bytes,
        removed_at=None if output is None else output.removed_at,
        zone=zone,
    )


def end_words(front: FrontEnd, ended: Execution, *, zone: tzinfo) -> str:
    """Say how a run ended.

    `: failed (exit code 7), 1.2 s; attempt 2 of 3 is run 42, due at 14:05:10, in 10 s`.
    """
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
    """Say what a queued run waits for: `waits: run 1 is still running`."""
    words = blocking_words(front, execution)
    if words is not None:
        return f"waits: {words}"
    client = front.client()
    found = find_active(client, execution)
    if found is None or found.waits_for is None:
        return "has not started yet"
    return f"is queued: {waits_words(found, zone=zone, now=client.now())}"


def blocking_words(front: FrontEnd, execution: Execution) -> str | None:
    """Say which earlier run of its schedule blocks a run, and what to do; None if none does."""
    client = front.client()
    before = [
        other
        for other in client.history(execution.schedule, choice=ACTIVE_RUNS, limit=1000)
        if other.id < execution.id
        # A backfill run that has not begun blocks nothing.
        and (other.status is Status.RUNNING or other.cause is not Cause.BACKFILL)
        and (other.scope_kind, other.scope_id) == (execution.scope_kind, execution.scope_id)
    ]
    running = [other for other in before if other.status is Status.RUNNING]
    if not before or (execution.status is Status.QUEUED and not running):
        return None  # A queued run blocks only runs that would be queued too.
    words = (
        f"run {running[-1].id} is still running" if running else f"run {before[-1].id} is queued"
    )
    schedule = _find_schedule(client, execution.schedule)
    states = find_living(client, schedule)
    if not states and schedule is not None and schedule.spec.queue != COMMAND_QUEUE:
        return f"{words}, and {absence_words(client, schedule)}"
    if not states:
        queue = COMMAND_QUEUE if schedule is None else schedule.spec.placed_queue
        return f"{words}, and {missing_advice(front, queue)}"
    if all(state.is_stalled for state in states):
        return f"{words}, and {stalled_words(states)}; see {front.command('doctor')}"
    queued = [other for other in before if other.status is Status.QUEUED]
    if execution.status is Status.SKIPPED and running and queued:
        return f"{words}, and run {queued[0].id} already waits for its end"
    waiting_for = before[0].waiting_for
    if execution.status is Status.SKIPPED and not running and waiting_for is not None:
        cancel = front.command(f"cancel {before[0].id}")
        return (
            f"run {before[0].id} waits for {read_condition(waiting_for).words()};"
            f" to start the job now, cancel that run first: {cancel}"
        )
    if execution.status is Status.SKIPPED:
        wait = front.command(f"edit {execution.schedule} --overlap queue")
        return f"{words}; to queue a run behind it: {wait}"
    return words


def _find_schedule(client: Client, name: str) -> Schedule | None:
    try:
        return client.schedule(name)
    except NotFound:
        return None  # It was removed meanwhile.


def trigger_lines(client: Client, schedule: Schedule) -> list[tuple[str, str]]:
    """Return (text, words) of each trigger; one entry with the reason if one can't be read."""
    try:
        triggers = client.triggers(schedule)
    except InvalidInput as error:
        return [(", ".join(schedule.spec.triggers), f"broken: {error}")]
    return [(trigger.text, describe(trigger)) for trigger in triggers]
