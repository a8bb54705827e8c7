"""Format events of an engine as lines: for a terminal, as logfmt, or as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo

from edgecron.base.safetext import clean
from edgecron.base.units import format_ms, from_ms
from edgecron.cli.output import STATUS_STYLES, paint
from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import Status
from edgecron.views.phrases import (
    CHANGED,
    CREATED,
    NOTE,
    OK,
    PROBLEM,
    RUN_GLYPHS,
    WARNING,
    condition_words,
    display_width,
    glyph,
    size_words,
)
from edgecron.views.times import local_time, short_duration

Line = Callable[[Event], str]

# The `component` of a JSON line, by the beginning of an event's kind; else it is about a run.
_COMPONENTS = {
    "engine_": "engine",
    "database_": "store",
    "state_restored": "store",
    "polling": "store",
    "listening": "store",
    "supervisor_": "supervisor",
    "schedule": "schedules",
    "broken": "schedules",
    "pruned": "retention",
    "resumed": "clock",
    "clock_": "clock",
    "local_zone_": "clock",
    "tzdata_": "clock",
    "checking_times": "clock",
    "times_checked": "clock",
    "retimed": "clock",
}
# By status, or else by kind; all others are "info".
_ERRORS = frozenset(
    {
        "failed",
        "interrupted",
        EventKind.NOT_STARTED,
        EventKind.LEASE_LOST,
        EventKind.BROKEN,
        EventKind.DATABASE_TROUBLE,
        EventKind.DATABASE_COPIED,
        EventKind.SUPERVISOR_DIED,
        EventKind.SUPERVISOR_TROUBLE,
        EventKind.SCHEDULES_REFUSED,
    }
)
_WARNINGS = frozenset(
    {
        EventKind.SKIPPED,
        EventKind.REQUEUED,
        EventKind.STALLED,
        EventKind.STATE_RESTORED,
        EventKind.POLLING,
        EventKind.TAKEN_OVER,
        EventKind.CLOCK_SET,
        EventKind.CLOCK_UNTRUSTED,
    }
)

_RUNNING = (RUN_GLYPHS[Status.RUNNING], STATUS_STYLES[Status.RUNNING])
# By the word of an event; all others have the sign of their level.
_SIGNS = {
    **{status.value: (sign, STATUS_STYLES[status]) for status, sign in RUN_GLYPHS.items()},
    "started": _RUNNING,
    "adopted": _RUNNING,
    "requeued": (RUN_GLYPHS[Status.QUEUED], "yellow"),
    "schedule created": (CREATED, "green"),
    "schedule changed": (CHANGED, "yellow"),
    "schedules applied": (OK, "green"),
}
_SIGNS_BY_LEVEL = {
    "info": (NOTE, "cyan"),
    "warning": (WARNING, "yellow"),
    "error": (PROBLEM, "red"),
}
_TOLD_BY_MESSAGE = ("exit", "signal", "spawn", "stalled", "condition")
_TOLD_BY_REASON = ("timeout", "request", "shutdown", "removed", "lost", "reboot")
# Width of schedule names; a longer name shifts its line to the right.
_NAME_COLUMNS = 12
_WAITING = {
    "place": "waits for a place",
    "earlier_run": "waits for an earlier run",
    "replaced_run": "waits for the end of the run it replaces",
}
_QUOTED = re.compile(r'[ "=\\]')  # letters that logfmt has to quote
_COUNTED = ("created", "changed", "unchanged")
# Of events whose details fill in one sentence.
_SENTENCES = {
    EventKind.TAKEN_OVER: "the database no longer has {runs} of this engine's runs: other machines"
    " could not reach the engine, or another server has taken over; on_lost: {on_lost}",
    EventKind.POLLING: "the server, or a pooler before it, passes no notices on; the engine looks"
    " for changes every {every_s}",
    EventKind.LISTENING: "the server passes notices on again",
    EventKind.STATE_RESTORED: "the state folder was deleted; the engine created it again",
    EventKind.DATABASE_COPIED: "pid {pid} runs a copy of this database, {copy}: each schedule fires"
    " in both; stop one, and see edgecron doctor",
    EventKind.STALLED: "printed nothing for its stall timeout",
    EventKind.NOTICES_TROUBLE: "notices can't be sent",
    EventKind.CALENDARS_TROUBLE: "calendars of --except can't be read",
    EventKind.ALARM_TROUBLE: "the machine can't be told to wake for the next run",
    EventKind.ENGINE_STOPPING: "{on_shutdown}: {runs} running",
    EventKind.SUSPENDED: "until {waiting_for} is true again",
    EventKind.RESUMED: "the machine was asleep for {asleep_s}",
    EventKind.CLOCK_UNTRUSTED: "it is too far from {known_ms}, the last known time; scheduled runs"
    " are held",
    EventKind.CLOCK_WAIT_OVER: "intervals and boot jobs run by this clock; cron and `at` times are"
    " still held",
    EventKind.CLOCK_TRUSTED: "runs are no longer held",
    EventKind.TZDATA_CHANGED: "{was}, now {now}",
    EventKind.LOCAL_ZONE_CHANGED: "{was}, now {now}",
    EventKind.CHECKING_TIMES: "by the clock and the zones: {checked_percent} % so far",
    EventKind.TIMES_CHECKED: "{changed:,} changed, in {took_s}",
    EventKind.RETIMED: "next {next_ms}, was {next_was_ms}",
}
_REASONS = {
    "overlap": "earlier run active",
    "misfire": "missed",
    "jitter": "passed by jitter",
    "shutdown": "stopped with the engine",
    "request": "cancelled by a user",
    "lost": "its end is unknown",
    "reboot": "the machine restarted",
    "restored": "its database was restored from a backup",
    "removed": "its schedule was removed",
    "replaced": "a newer run replaced it",
    "never_started": "it had been claimed, and not started",
    "clock": "the clock was wrong",
    "missing": "its next time was missing",
    "timezone": "the local time zone changed",
    "tzdata": "the time zone data changed",
    "engine_gone": "continues; its engine is no longer running",
}
# Instants among the details; every other detail has the same key in a log.
_INSTANTS_IN_LOG = {
    **{f"{name}_ms": f"{name}_at" for name in ("plan", "due", "missed_from", "missed_to")},
    "wait_until_ms": "wait_until",
    "known_ms": "known_at",
    "next_ms": "next_run_at",
    "next_was_ms": "next_run_was_at",
}


def readable(*, zone: tzinfo, is_colored: bool, name_columns: int = _NAME_COLUMNS) -> Line:
    """Return a formatter for lines such as `14:05:00  ✓ backup  success  run 41  1.2s`."""

    def line(event: Event) -> str:
        word = _word(event)
        time = from_ms(event.at_ms).astimezone(zone).strftime("%H:%M:%S")
        sign, style = _SIGNS.get(word) or _SIGNS_BY_LEVEL[_level(event)]
        name = clean(event.schedule or "engine")
        name += " " * (name_columns - display_width(name))
        notes = "  ".join([_run_words(event), *(clean(word) for word in _notes(event, zone))])
        return (
            f"{paint(time, 'dim', is_on=is_colored)}"
            f"  {paint(glyph(*sign), style, is_on=is_colored)}"
            f" {paint(name, 'bold', is_on=is_colored)}  "
            f"{paint(f'{word:<11}', style, is_on=is_colored)}"
            f"  {paint(notes.rstrip(), 'dim', is_on=is_colored and word == 'started')}"
        ).rstrip()

    return line


def logfmt(event: Event) -> str:
    """Format as `ts=... event=ended run=41 schedule=backup status=failed duration_ms=30000`."""
    return logfmt_pairs(_fields(event))


def logfmt_pairs(fields: Mapping[str, object]) -> str:
    """Format fields as `key=value`, quoted if necessary."""
    return " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())


def as_json(event: Event) -> str:
    """Format as a JSON object: the keys of common log tools, then those of `logfmt`.

    `schedule_id`, `priority` and `next_run_at` are there if the event has a subject.
    """
    fields = _fields(event)
    shown: dict[str, object] = {
        "ts": fields["ts"],
        "level": _level(event),
        "msg": _message(event),
        "component": _component(event.kind),
        "event": fields["event"],
    }
    if event.schedule is not None:
        shown["job_name"] = event.schedule
    if event.execution_id is not None:
        shown["run_id"] = event.execution_id
    if (subject := event.subject) is not None:
        next_ms = subject.next_run_ms
        shown["schedule_id"] = subject.schedule_id
        shown["priority"] = subject.priority
        shown["next_run_at"] = None if next_ms is None else format_ms(next_ms)
    return json.dumps(shown | fields, ensure_ascii=True)


def start_as_json(fields: Mapping[str, object]) -> str:
    """Format the line of a starting daemon as a JSON object, with the keys of `as_json`."""
    fields = dict(fields)
    first = {"ts": fields.pop("ts"), "level": "info", "msg": "engine: starting"}
    return json.dumps(first | {"component": "engine"} | fields, ensure_ascii=True)


def _component(kind: EventKind) -> str:
    found = (name for start, name in _COMPONENTS.items() if kind.value.startswith(start))
    return next(found, "run")


def _level(event: Event) -> str:
    if event.kind in _ERRORS or event.details.get("status") in _ERRORS:
        return "error"
    return "warning" if event.kind in _WARNINGS else "info"


def _message(event: Event) -> str:
    """`backup: failed, run 41, 1.2s, exit code 3`; times are in UTC."""
    words = [_word(event), *_run_words(event).split("  "), *_notes(event, UTC)]
    said = ", ".join(word for word in map(str.strip, words) if word)
    return f"{event.schedule or 'engine'}: {said}"


def _fields(event: Event) -> dict[str, object]:
    fields: dict[str, object] = {"ts": format_ms(event.at_ms), "event": event.kind.value}
    if event.execution_id is not None:
        fields["run"] = event.execution_id
    if event.schedule is not None:
        fields["schedule"] = event.schedule
    for key, value in event.details.items():
        if key in _INSTANTS_IN_LOG and isinstance(value, int):
            fields[_INSTANTS_IN_LOG[key]] = format_ms(value)
        else:
            fields[key] = value
    return fields


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        value = ",".join(map(str, value))
    text = clean(str(value))
    if text and not _QUOTED.search(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _word(event: Event) -> str:
    if event.kind is EventKind.ENDED:
        return str(event.details["status"])
    return event.kind.value.replace("_", " ").removeprefix("engine ")


def _run_words(event: Event) -> str:
    """Return run number and duration, padded to align."""
    run = "" if event.execution_id is None else f"run {event.execution_id}"
    duration = event.details.get("duration_ms")
    took = short_duration(duration) if isinstance(duration, int) else ""
    return f"{run:<7}  {took:>6}" if run else ""


def _notes(event: Event, zone: tzinfo) -> list[str]:
    """Return further facts about an event, in parts."""
    details = event.details
    notes: list[str] = []
    reason = details.get("reason")
    message = details.get("error_msg")
    # Show one of the two: the message if the job ended by itself, the reason if it was ended.
    if reason is not None and not (message and reason in _TOLD_BY_MESSAGE):
        notes.append(_reason_words(str(reason), details))
    if message and reason not in _TOLD_BY_REASON:
        notes.append(str(message))
    return [*notes, *_notes_of_kind(event, zone)]


def _notes_of_kind(event: Event, zone: tzinfo) -> list[str]:
    details = event.details
    match event.kind:
        case EventKind.QUEUED | EventKind.REQUEUED:
            return _waiting_words(event, zone)
        case (
            EventKind.SCHEDULE_CREATED
            | EventKind.SCHEDULE_CHANGED
            | EventKind.SCHEDULES_APPLIED
            | EventKind.SCHEDULES_REFUSED
        ):
            return _file_notes(details)
        case EventKind.PRUNED:
            return [_pruned_words(details)]
        case EventKind.ENGINE_STOPPED:
            return [_left_words(details)]
        case EventKind.CLOCK_SET:
            by_s = details["by_s"]
            side = "back" if isinstance(by_s, (int, float)) and by_s < 0 else "forward"
            return [f"{side} by {_span(by_s)}"]
    if event.kind not in _SENTENCES:
        return []
    shown: dict[str, object] = {
        "next_ms": "none",
        "next_was_ms": "none",
        **details,
        "copy": details.get("copy") or "at an unknown path",
    }
    for key, value in details.items():
        if key.endswith("_ms") and isinstance(value, int):
            shown[key] = local_time(from_ms(value), zone=zone)
        elif key.endswith("_s"):
            shown[key] = _span(value)
    return [_SENTENCES[event.kind].format_map(shown)]


def _span(seconds: object) -> str:
    assert isinstance(seconds, (int, float))
    return short_duration(round(abs(seconds) * 1000))


def _waiting_words(event: Event, zone: tzinfo) -> list[str]:
    """Say what a queued run waits for: its time, a condition or a place."""
    attempt, due_ms = event.details.get("attempt"), event.details.get("due_ms")
    words = [f"attempt {attempt}"] if attempt is not None else []
    if isinstance(due_ms, int) and due_ms > event.at_ms:
        words.append(f"at {from_ms(due_ms).astimezone(zone).strftime('%H:%M:%S')}")
    waits_for = event.details.get("waits_for")
    condition, until_ms = event.details.get("waiting_for"), event.details.get("wait_until_ms")
    if isinstance(condition, str) and isinstance(until_ms, int):
        words.append(
            condition_words(condition, from_ms(until_ms), zone=zone, now=from_ms(event.at_ms))
        )
    elif waits_for is not None:
        words.append(_WAITING[str(waits_for)])
    return [" ".join(words)] if words else []


def _reason_words(reason: str, details: Mapping[str, object]) -> str:
    words = _REASONS.get(reason, reason)
    count = details.get("missed_count")
    return f"{words} {count} times" if isinstance(count, int) and count > 1 else words


def _file_notes(details: Mapping[str, object]) -> list[str]:
    notes = [str(details[key]) for key in ("changes", "note") if key in details]
    counts = [f"{details[key]} {key}" for key in _COUNTED if details.get(key)]
    where = str(details.get("file", ""))
    if "line" in details:
        where += f", line {details['line']}"
    if "no_longer_in_file" in details:
        notes.append(f"no longer in the file: {details['no_longer_in_file']}")
    return [word for word in (", ".join(counts), *notes, where) if word]


def _pruned_words(details: Mapping[str, object]) -> str:
    """`1,200 runs, 300 outputs, about 1.2 MiB`."""
    words = [f"{value:,} {key}" for key, value in details.items() if key != "size_bytes"]
    size = details.get("size_bytes")
    if isinstance(size, int) and size:
        words.append(f"about {size_words(size)}")
    return ", ".join(words)


def _left_words(details: Mapping[str, object]) -> str:
    runs = details.get("runs")
    if not isinstance(runs, int) or runs == 0:
        return "no run is active"
    if runs == 1:
        return "1 run continues; the next engine adopts it"
    return f"{runs} runs continue; the next engine adopts them"
