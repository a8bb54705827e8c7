"""Answer why a schedule ran, did not run, or will not run, in sentences and in fields."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput, NotFound, Unreadable
from edgecron.base.safetext import clean
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import NamedTuple
from edgecron.base.window_texts import split_once_in
from edgecron.client.sentences import FrontEnd, absence_advice
from edgecron.model.choices import Status
from edgecron.model.listing import Idle, standing_of, upstreams
from edgecron.triggers import clock_change_notes, describe
from edgecron.views.json_objects import MASK, execution_object, instant, outlook_object
from edgecron.views.outlook import Verdict
from edgecron.views.phrases import (
    disk_words,
    excluded_words,
    is_overdue,
    moved_words,
    next_words,
    windows_words,
)
from edgecron.views.run_words import run_sentence
from edgecron.views.schedule_words import active_lines, pause_lines, present_lines
from edgecron.views.times import clock_set_words, distance, full_time, local_time, near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.views.outlook import Explanation, Outlook

_MOST_RUNS = 5  # of one time that are explained one by one
_MOST_LINE = 200  # letters of a line of output
_NOW = "now"  # the verdict of an answer without a time
SayRun = Callable[["Execution"], list[str]]


class Answer(NamedTuple):
    """An answer about a schedule: now, at a time, or about one of its runs.

    `outlook` is for now, `explanation` for a time.
    """

    schedule: str
    sentences: list[str]
    runs: tuple[Execution, ...]
    outlook: Outlook | None = None
    explanation: Explanation | None = None


def last_line(client: Client, run: Execution) -> str:
    """Return the last line that a failed run printed; '' without one."""
    output = None
    if run.status is Status.FAILED:
        with suppress(Unreadable):
            output = client.output(run.id)
    return "" if output is None else output.last_line


def say_run(client: Client, run: Execution, *, zone: tzinfo) -> list[str]:
    """Explain a run; of one that failed, with the last line of its output."""
    sentence = run_sentence(run, zone=zone, now=client.now(), spec=client.spec_of(run))
    line = last_line(client, run)
    if line:
        begins = " begins" if len(line) > _MOST_LINE else ""
        sentence += f' Its last line of output{begins}: "{clean(line[:_MOST_LINE])}".'
    return [sentence]


def answer_run(run: Execution, *, say: SayRun) -> Answer:
    """Explain one run. `say` makes the sentences about a run."""
    return Answer(run.schedule, say(run), (run,))


def answer_now(front: FrontEnd, name: str, *, zone: tzinfo, say: SayRun) -> Answer:
    """Explain the last run of a schedule, and the next one. Raises NotFound."""
    client = front.client()
    outlook = client.outlook(name, upcoming=1)
    last = client.history(name, limit=1)
    sentences = [sentence for run in last for sentence in say(run)]
    if not last:
        sentences = ["It has not run yet, and no time was skipped."]
    ahead = _prospect_sentences(front, outlook, zone=zone, now=client.now())
    # If nobody runs the schedule, say this first: it matters more than the last run.
    first = 1 if outlook.idle is Idle.VANISHED else 0
    return Answer(name, ahead[:first] + sentences + ahead[first:], tuple(last), outlook=outlook)


def answer_time(front: FrontEnd, name: str, at: datetime, *, zone: tzinfo, say: SayRun) -> Answer:
    """Explain a time of a schedule, past or future. Raises NotFound."""
    client = front.client()
    found = client.explain(name, at)
    if found.verdict is Verdict.RECORDED:
        shown: tuple[Execution, ...] = found.runs[-_MOST_RUNS:]
        sentences = [sentence for run in shown for sentence in say(run)]
        if len(found.runs) > len(shown):
            history = front.command(f"history {found.schedule.name}")
            sentences.insert(0, f"Of {len(found.runs)} runs these are the last; see {history}.")
    else:
        sentences = _verdict_sentences(front, found, zone=zone, now=client.now())
        sentences += _change_notes(client, found)
    return Answer(found.schedule.name, sentences, found.runs, explanation=found)


def answer_object(answer: Answer, *, now: datetime) -> dict[str, Any]:
    """Return an answer as JSON shows it."""
    found, outlook = answer.explanation, answer.outlook
    verdict = Verdict.RECORDED.value if outlook is None else _NOW
    body: dict[str, Any] = {
        "schedule": answer.schedule,
        "at": None if found is None else instant(found.at),
        "verdict": verdict if found is None else found.verdict.value,
        "answer": " ".join(answer.sentences),
        "runs": [execution_object(run) for run in answer.runs],
    }
    if found is None:
        return body | {"outlook": None if outlook is None else outlook_object(outlook, now=now)}
    return body | {
        "plan_at": instant(found.plan_at),
        "due_at": instant(found.due_at),
        "source": found.source,
        "previous_at": instant(found.previous_at),
        "next_at": instant(found.next_at),
        "revision": found.words.revision,
    }


def _change_notes(client: Client, found: Explanation) -> list[str]:
    """Return what clock changes within a day do to such a time."""
    day = timedelta(days=1)
    since, until = to_ms(found.at - day), to_ms(found.at + day)
    notes: dict[str, None] = {}
    for trigger in client.triggers_at(found.schedule.name, found.at):
        for change in clock_change_notes(trigger, since, until):
            notes[f"On {change.date} {change.text}."] = None
    return list(notes)


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


def _prospect_sentences(
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


def _verdict_sentences(
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


def trigger_lines(client: Client, schedule: Schedule) -> list[tuple[str, str]]:
    """Return (text, words) of each trigger; one entry with the reason if one can't be read."""
    try:
        triggers = client.triggers(schedule)
    except InvalidInput as error:
        return [(", ".join(schedule.spec.triggers), f"broken: {error}")]
    return [(trigger.text, describe(trigger)) for trigger in triggers]
