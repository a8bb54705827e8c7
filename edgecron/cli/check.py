"""Explain a trigger and list its next times.

    edgecron check "30 2 * * *" --tz Europe/Berlin -n 10
    edgecron check every weekday at 9
    edgecron check every 15m from 2026-11-20T08:00:00Z
    edgecron check at tomorrow 09:00
    edgecron check "H 3 * * *" --name nightly
    edgecron check every 2h --between 21:00-05:00 --except 2026-12-24
    edgecron check once in 21:00-05:00 when ac-power

This command uses no database. A trigger is a cron text, `every 15m`, `at TIME`, `in 20m`, `once in
WINDOW`, `on boot` or plain words. Times that windows or excepted days exclude are listed as
excluded; they do not count for -n.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import UTC, datetime
from shlex import quote
from typing import TYPE_CHECKING

from edgecron.base.checks import check_name
from edgecron.base.clock import SystemClock, now
from edgecron.base.errors import InvalidTime, InvalidTrigger, Problems
from edgecron.base.units import DAY_MS, format_instant, from_ms, to_ms
from edgecron.base.value_texts import parse_when, read_count, read_time
from edgecron.base.values import dataclass
from edgecron.base.zones import load_zone
from edgecron.cli.output import paint, room_on_screen
from edgecron.cli.parser import Parser
from edgecron.cli.schedule_arguments import read_policies
from edgecron.cli.session import Session
from edgecron.client.calendars import read_calendars
from edgecron.formats.option_texts import read_once_in
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import OPTIONS, Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.forecast import excluded_before
from edgecron.planning.times import timing_of
from edgecron.triggers import (
    EveryTrigger,
    OnceInTrigger,
    Trigger,
    TriggerKind,
    clock_change_notes,
    describe,
    parse_trigger,
)
from edgecron.triggers.gate import gate
from edgecron.views.json_objects import excluded_object
from edgecron.views.phrases import NOTE, WARNING, excluded_words, glyph
from edgecron.views.times import distance

if TYPE_CHECKING:
    from edgecron.planning.next_fire import Missed

_MOST = 10_000
_WINDOWS = ("between", "not_between", "except")
_AHEAD_MS = 366 * DAY_MS
_MOST_NOTES = 6
_WIDE = 76  # columns of a time with the same time in UTC
_STAND_IN = "example"  # H needs a name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The facts that `check` shows about a trigger."""

    trigger: Trigger
    description: str
    times: list[datetime]
    excluded: list[Missed]
    warnings: list[str]
    notes: list[str]


def add_arguments(parser: Parser) -> None:
    parser.add("TEXT...", "several words are joined")
    parser.add("--tz ZONE|local", "read the trigger in this zone (default: local)")
    parser.add("-n N", "list N times (default: 5)", dest="limit", default="5")
    parser.add("--from TIME", "list times after this one (default: now)", dest="from_at")
    parser.add("--name NAME", "compute H for this schedule")
    for name in _WINDOWS:
        option = OPTIONS[name]
        parser.add(f"{option.option} {option.metavar}", option.help, action="append")


def run(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit, what="-n", most=_MOST)
    timezone = "local" if args.tz is None else args.tz
    at = now(SystemClock())
    start = at
    if args.from_at is not None:
        start = read_time(args.from_at, what="--from", timezone=timezone, now=at, is_past_ok=True)
    reading = _read(args, timezone=timezone, start=start, limit=limit, now=at)
    if cli.is_json:
        cli.put_json(
            [
                {
                    "text": reading.trigger.text,
                    "description": reading.description,
                    "timezone": timezone,
                    "next": [format_instant(time) for time in reading.times],
                    "excluded": [excluded_object(one) for one in reading.excluded],
                    "warnings": reading.warnings,
                    "notes": reading.notes,
                }
            ]
        )
        return 0
    _put(cli, reading, now=at)
    return 0


def _read(
    args: Namespace, *, timezone: str, start: datetime, limit: int, now: datetime
) -> _Reading:
    if args.name is not None:
        check_name(args.name, what="schedule name")
    name = args.name or _STAND_IN
    # `--from` anchors a bare interval, as it does in `add`.
    anchor = None if args.from_at is None else start
    text = " ".join(args.text)
    try:
        trigger = parse_trigger(read_once_in(text), timezone, name, anchor=anchor, now=now)
    except InvalidTrigger as error:
        if _is_time(text, timezone=timezone, now=now):
            hint = f"edgecron check {quote(f'at {text}')}"
            raise InvalidTrigger(f"{text!r} is a time, not a trigger", hint=hint) from error
        if len(args.text) > 3 and args.text[0].lower() not in ("every", "at", "once"):
            hint = "quote the cron text, because the shell expands *: edgecron check '0 2 * * *'"
            raise InvalidTrigger(error.message, hint=hint) from error
        raise
    problems = Problems()
    policies = read_policies(args, Policies(), problems)
    problems.refuse()
    job = Job(kind=JobKind.COMMAND, argv=("true",))
    spec = ScheduleSpec(name=name, triggers=(text,), job=job, timezone=timezone, policies=policies)
    timing = timing_of(read_calendars(spec, now=now), [trigger], seed=b"")
    plans_ms: list[int] = []
    first_ms = after_ms = to_ms(start) if args.from_at is None else to_ms(start) - 1
    while len(plans_ms) < limit and (found := timing.times.next_with_source(after_ms)) is not None:
        after_ms = found[0]
        plans_ms.append(after_ms)
    until_ms = plans_ms[-1] if plans_ms else first_ms + _AHEAD_MS
    excluded = excluded_before(timing, first_ms, plans_ms or [until_ms])
    times = [from_ms(plan_ms) for plan_ms in plans_ms]
    notes = _kind_notes(trigger, name=args.name, is_anchored=anchor is not None)
    if not times and not excluded and trigger.kind is TriggerKind.AT:
        notes.append("that is in the past: it never fires")
    if excluded and not times:
        notes.append("a schedule would never run: its windows exclude all its times")
    changes = clock_change_notes(trigger, to_ms(start), to_ms(start) + _AHEAD_MS)
    notes += [f"{change.date}: {change.text}" for change in changes[:_MOST_NOTES]]
    if len(changes) > _MOST_NOTES:
        notes.append(f"and {len(changes) - _MOST_NOTES} more clock changes within the year")
    return _Reading(
        trigger=trigger,
        description=describe(trigger),
        times=times,
        excluded=excluded,
        warnings=list(trigger.warnings),
        notes=notes,
    )


def _is_time(text: str, *, timezone: str, now: datetime) -> bool:
    """Whether a text is a time that a person could mean by an `at` trigger."""
    try:
        parse_when(text, timezone=timezone, now=now)
    except InvalidTime:
        return False
    return True


def _kind_notes(trigger: Trigger, *, name: str | None, is_anchored: bool) -> list[str]:
    """Return notes on a kind of trigger."""
    if trigger.kind is TriggerKind.BOOT:
        return ["it fires at each boot of the machine; these times are unknown"]
    if trigger.kind is TriggerKind.DEMAND:
        return ["it has no times: it runs when you ask for it, by `edgecron run`"]
    if trigger.kind in (TriggerKind.AFTER, TriggerKind.AFTER_END):
        return ["it has no times of its own: it fires when other runs end"]
    if isinstance(trigger, OnceInTrigger):
        when = "as soon as its conditions are true" if trigger.conditions else "in its first half"
        return [f"a window opens at these times; its run starts {when}"]
    if isinstance(trigger, EveryTrigger) and not (trigger.is_bounded or is_anchored):
        return ["a schedule counts from its creation; these times count from 1970"]
    if trigger.kind is TriggerKind.CRON and gate(trigger.text).has_hash:
        whose = f"the name {name!r}" if name else f"the stand-in name {_STAND_IN!r} (see --name)"
        return [f"H comes from {whose} only; a database's seed moves these times"]
    return []


def _put(cli: Session, reading: _Reading, *, now: datetime) -> None:
    is_colored = cli.use_color(sys.stdout)
    cli.put(f"{paint(reading.trigger.text, 'bold', is_on=is_colored)}")
    cli.put(f"  {reading.description}")
    zone = load_zone(reading.trigger.timezone)
    is_wide = room_on_screen() >= _WIDE
    excluded = list(reading.excluded)
    for number, time in enumerate(reading.times):
        while excluded and from_ms(excluded[0].from_ms) < time:
            _put_excluded(cli, excluded.pop(0), reading, is_colored=is_colored)
        label = "next" if number == 0 else ""
        local = time.astimezone(zone).strftime("%a %Y-%m-%d %H:%M:%S %z")
        utc = time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        away = paint(distance(time, now), "cyan", is_on=is_colored)
        label = paint(f"{label:<5}", "dim", is_on=is_colored)
        also = f"  {paint(utc, 'dim', is_on=is_colored)}" if is_wide else ""
        cli.put(f"  {label} {local}{also}  {away}")
    for one in excluded:
        _put_excluded(cli, one, reading, is_colored=is_colored)
    note_sign, warning_sign = glyph(*NOTE), glyph(*WARNING)
    for note in reading.notes:
        cli.put(f"  {paint(note_sign, 'cyan', is_on=is_colored)} {note}")
    for warning in reading.warnings:
        cli.put(f"  {paint(warning_sign, 'yellow', is_on=is_colored)} {warning}")


def _put_excluded(cli: Session, times: Missed, reading: _Reading, *, is_colored: bool) -> None:
    zone = load_zone(reading.trigger.timezone)
    words = excluded_words(times, reading.trigger.timezone, zone=zone)
    cli.put(f"  {paint('excluded', 'yellow', is_on=is_colored)}  {words}")
