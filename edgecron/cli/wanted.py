"""What `add` and `edit` are told of a schedule: options in, a specification out.

An option that is left out changes nothing; `none` clears one.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from edgecron.cli.options import UsageError, read_choice, read_count
from edgecron.cli.wantedjob import NONE
from edgecron.errors import InvalidDuration, InvalidTime, InvalidTrigger
from edgecron.model import (
    GLOBAL_SCOPE,
    CatchUp,
    OnInterrupt,
    Overlap,
    Policies,
    Priority,
    ScheduleSpec,
)
from edgecron.timetext import format_instant, parse_duration_ms

if TYPE_CHECKING:
    from edgecron.triggers import Trigger

_MOST_PRIORITY = 1000
_MOST_RUNS = 1_000_000_000
_MOST_FACTOR = 100
_DEFAULTS = Policies()


def add_arguments(parser: ArgumentParser) -> None:
    """The options of a schedule, named after its policies."""
    when = parser.add_argument_group("when (several may be given: the earliest comes first)")
    when.add_argument("--cron", action="append", metavar="TEXT", help="5 fields, 6, or @daily")
    when.add_argument(
        "--every", action="append", metavar="DURATION", help="15m; '15m from TIME'; '1h after end'"
    )
    when.add_argument("--at", action="append", metavar="TIME", help="once; 'tomorrow 09:00'")
    when.add_argument(
        "--on-boot", action="store_true", help="once each time the machine has booted"
    )
    when.add_argument(
        "--after",
        action="append",
        metavar="NAME[:success|failure|any]",
        help="when a run of another schedule has ended (success)",
    )
    when.add_argument("--tz", metavar="ZONE|local", help="the zone of --cron and of times")
    when.add_argument("--from", dest="from_at", metavar="TIME", help="not before")
    when.add_argument("--until", dest="until_at", metavar="TIME", help="not after")
    when.add_argument("--max-runs", metavar="N", help="so many planned runs at most")
    when.add_argument(
        "--jitter",
        metavar="DURATION",
        help="start up to this much later, by a stable hash of name and time",
    )
    job = parser.add_argument_group("what")
    job.add_argument("--shell", metavar="LINE", help="a line for /bin/sh, instead of -- COMMAND")
    job.add_argument("--env", action="append", metavar="KEY=VALUE", help="a variable of the job's")
    job.add_argument("--env-file", metavar="PATH", help="KEY=VALUE lines, read at each run")
    job.add_argument("--cwd", metavar="PATH", help="the folder to run in (HOME)")
    job.add_argument("--user", metavar="NAME", help="run as another user (root only)")
    job.add_argument("--stdin", metavar="TEXT", help="what the command reads")
    job.add_argument("--payload", metavar="JSON", help="EDGECRON_PAYLOAD of the command")
    how = parser.add_argument_group("policies")
    how.add_argument("--catch-up", metavar="once|skip|all", help="missed times (once)")
    how.add_argument("--grace", metavar="DURATION", help="how late is too late (24h)")
    how.add_argument(
        "--overlap",
        metavar="skip|queue|allow|replace",
        help="while it still runs (skip); queue lets one wait, replace ends the old one",
    )
    how.add_argument(
        "--max-running", metavar="N", help="at the same time (1; unlimited with --overlap allow)"
    )
    how.add_argument("--retries", metavar="N", help="further attempts after a failure (0)")
    how.add_argument("--retry-delay", metavar="DURATION", help="before the first of them (10s)")
    how.add_argument("--retry-factor", metavar="X", help="by which the delay grows (2)")
    how.add_argument("--retry-max-delay", metavar="DURATION", help="up to which it grows (1h)")
    how.add_argument(
        "--on-interrupt",
        metavar="leave|retry",
        help="when its end is not known, as after a power cut (leave)",
    )
    how.add_argument("--timeout", metavar="DURATION", help="end it after (none)")
    how.add_argument("--kill-grace", metavar="DURATION", help="between TERM and KILL (10s)")
    how.add_argument("--ok-codes", metavar="0,2", help="exit codes that are a success (0)")
    how.add_argument("--priority", metavar="low|normal|high|N", help="among queued runs (normal)")
    how.add_argument(
        "--group",
        metavar="NAME[:N]",
        help="its group; N runs at once, of all its schedules (none lifts the limit)",
    )
    how.add_argument(
        "--needs",
        action="append",
        metavar="success:NAME[:DURATION]",
        help="wait until another schedule has succeeded, within DURATION; may be repeated",
    )
    how.add_argument(
        "--needs-deadline", metavar="DURATION", help="how long after its time to wait (24h)"
    )
    how.add_argument("--scope", action="append", metavar="KIND:ID", help="fire for each of these")
    how.add_argument("--description", metavar="TEXT", help="a note for people")


def is_anything_given(args: Namespace) -> bool:
    """Whether any option of a schedule, or a command, was given."""
    beside = ("name", "argv")
    return args.argv is not None or any(
        value not in (None, False) for key, value in vars(args).items() if key not in beside
    )


def read_triggers(
    args: Namespace, *, name: str, timezone: str | None, now: datetime
) -> list[Trigger]:
    """The triggers that were given, parsed; empty where none was. Raises InvalidTrigger."""
    from edgecron.triggers import TriggerKind, parse_trigger

    triggers = []
    for text in args.cron or ():
        trigger = parse_trigger(text, timezone, name)
        if trigger.kind is not TriggerKind.CRON:
            raise InvalidTrigger(
                f"--cron is {text!r}, expected a cron text", hint="see --every, --at and --on-boot"
            )
        triggers.append(trigger)
    for text in args.every or ():
        triggers.append(parse_trigger(_every_text(text, timezone, now), timezone, name, anchor=now))
    for text in args.at or ():
        instant = read_time(text, what="--at", timezone=timezone, now=now)
        triggers.append(parse_trigger(f"at {format_instant(instant)}", timezone, name))
    if args.on_boot:
        triggers.append(parse_trigger("on boot", timezone, name))
    for text in args.after or ():
        triggers.append(parse_trigger(f"after {text}", timezone, name))
    return triggers


def read_time(
    text: str, *, what: str, timezone: str | None, now: datetime, is_past_ok: bool = False
) -> datetime:
    """An instant that a person wrote. Raises InvalidTime, also for one that has passed."""
    from edgecron.triggers import parse_when

    instant = parse_when(text, timezone=timezone, now=now)
    if instant <= now and not is_past_ok:
        raise InvalidTime(
            f"{what} is {text!r}, that is {format_instant(instant)}, which is in the past",
            hint="give a time that is still to come",
        )
    return instant


def read_policies(args: Namespace, before: Policies) -> Policies:
    """The policies as they were, with what was given."""
    changes: dict[str, Any] = {}
    for option, (name, read) in _POLICY_OPTIONS.items():
        text = getattr(args, option)
        if text is not None:
            changes[name] = (
                getattr(_DEFAULTS, name) if text == NONE else _read_of(option, read, text)
            )
    if args.needs is not None:
        changes["needs"] = () if args.needs == [NONE] else _needs(args.needs)
    return replace(before, **changes) if changes else before


def _read_of(option: str, read: Callable[[str], object], text: str) -> object:
    """What an option's text means; a duration that can't be read is told with its option."""
    try:
        return read(text)
    except InvalidDuration as error:
        shown = option.replace("_", "-")
        raise InvalidDuration(f"--{shown}: {error.message}", hint=error.hint) from None


def apply_rest(spec: ScheduleSpec, args: Namespace, *, now: datetime) -> ScheduleSpec:
    """The specification with the options that are neither triggers, job nor policies."""
    changes: dict[str, Any] = {}
    if args.group is not None:
        changes["group"], _ = _read_group(args.group)
    if args.description is not None:
        changes["description"] = None if args.description == NONE else args.description
    for name, option, is_past_ok in (("from_at", "--from", True), ("until_at", "--until", False)):
        text = getattr(args, name)
        if text is not None:
            changes[name] = (
                None
                if text == NONE
                else read_time(
                    text, what=option, timezone=spec.timezone, now=now, is_past_ok=is_past_ok
                )
            )
    if args.max_runs is not None:
        changes["max_runs"] = (
            None
            if args.max_runs == NONE
            else read_count(args.max_runs, what="--max-runs", most=_MOST_RUNS)
        )
    if args.scope is not None:
        changes["scopes"] = tuple(_read_scope(text) for text in args.scope)
    return replace(spec, **changes) if changes else spec


def read_group_limit(args: Namespace) -> tuple[str, int | None] | None:
    """The group whose limit was given, and that limit; None where none was."""
    if args.group is None:
        return None
    group, limit = _read_group(args.group)
    if group is None or limit is None:
        return None
    return group, None if limit == NONE else read_count(limit, what="--group NAME:N")


def _read_group(text: str) -> tuple[str | None, str | None]:
    """The name of a group, None for none, and the text of its limit."""
    if text == NONE:
        return None, None
    name, colon, limit = text.partition(":")
    if colon and limit != NONE:
        read_count(limit, what="--group NAME:N")
    return name, limit if colon else None


def _every_text(text: str, timezone: str | None, now: datetime) -> str:
    duration, found, start = text.partition(" from ")
    # What follows the duration is the grammar's.
    length = re.split(r"\s+(?:from|after)\s", duration, maxsplit=1, flags=re.IGNORECASE)[0]
    _read_of("every", parse_duration_ms, length.lower())
    if not found:
        return f"every {text}"
    instant = read_time(start, what="from", timezone=timezone, now=now, is_past_ok=True)
    return f"every {duration} from {format_instant(instant)}"


def _read_scope(text: str) -> tuple[str, str]:
    if text in (NONE, GLOBAL_SCOPE[0]):
        return GLOBAL_SCOPE
    kind, _, scope_id = text.partition(":")
    if not kind or not scope_id:
        raise UsageError(f"--scope is {text!r}, expected KIND:ID", hint="such as device:pump-3")
    return kind, scope_id


def _seconds(text: str) -> float:
    return parse_duration_ms(text) / 1000


def _seconds_or_zero(text: str) -> float:
    return 0.0 if text in ("0", "0s") else _seconds(text)


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= _MOST_FACTOR:
        raise UsageError(
            f"--retry-factor is {text!r}, expected a number from 1 to {_MOST_FACTOR}",
            hint="2 doubles the delay with each retry, 1 keeps it",
        )
    return factor


def _needs(texts: list[str]) -> tuple[str, ...]:
    from edgecron.conditions import parse_condition

    return tuple(parse_condition(text).text for text in texts)


def _codes(text: str) -> tuple[int, ...]:
    return tuple(
        read_count(part.strip(), what="--ok-codes", least=0, most=255) for part in text.split(",")
    )


def read_priority(text: str) -> int:
    """A priority by its name or number. Raises UsageError."""
    named = {priority.name.lower(): int(priority) for priority in Priority}
    if text in named:
        return named[text]
    sign = -1 if text.startswith("-") else 1
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and int(digits[:9]) <= _MOST_PRIORITY):
        raise UsageError(
            f"--priority is {text!r}, expected low, normal, high,"
            f" or a number from {-_MOST_PRIORITY} to {_MOST_PRIORITY}"
        )
    return sign * int(digits[:9])


def _choice(option: str, *members: StrEnum) -> Callable[[str], StrEnum]:
    return lambda text: read_choice(text, members, what=f"--{option}")


_POLICY_OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "catch_up": ("catch_up", _choice("catch-up", *CatchUp)),
    "grace": ("grace_s", _seconds_or_zero),
    "overlap": ("overlap", _choice("overlap", *Overlap)),
    "max_running": ("max_running", lambda text: read_count(text, what="--max-running")),
    "timeout": ("timeout_s", _seconds),
    "kill_grace": ("kill_grace_s", _seconds_or_zero),
    "ok_codes": ("ok_codes", _codes),
    "priority": ("priority", read_priority),
    "jitter": ("jitter_s", _seconds_or_zero),
    "needs_deadline": ("needs_deadline_s", _seconds_or_zero),
    "retries": ("retries", lambda text: read_count(text, what="--retries", least=0)),
    "retry_delay": ("retry_delay_s", _seconds_or_zero),
    "retry_factor": ("retry_factor", _factor),
    "retry_max_delay": ("retry_max_delay_s", _seconds_or_zero),
    "on_interrupt": ("on_interrupt", _choice("on-interrupt", *OnInterrupt)),
}
