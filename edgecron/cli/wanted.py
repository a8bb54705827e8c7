"""What `add` and `edit` are told of a schedule: options in, a specification out.

An option that is left out changes nothing; `none` clears one.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edgecron.documents import values
from edgecron.documents.values import NONE
from edgecron.errors import UsageError
from edgecron.model import Policies, ScheduleSpec
from edgecron.values import replace

if TYPE_CHECKING:
    from edgecron.triggers import Trigger

_DEFAULTS = Policies()
_TRIGGERS = ("cron", "every", "at", "after")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of a schedule, named after its policies."""
    when = parser.add_argument_group("when (several may be given: the earliest comes first)")
    when.add_argument("--cron", action="append", metavar="TEXT", help="5 fields, 6, or @daily")
    when.add_argument(
        "--every", action="append", metavar="DURATION", help="15m; '15m from TIME'; '1h after end'"
    )
    when.add_argument("--allow-fast", action="store_true", help="allow intervals under a second")
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
    late = parser.add_argument_group("missed times, and times that come while it still runs")
    late.add_argument("--catch-up", metavar="once|skip|all", help="missed times (once)")
    late.add_argument("--grace", metavar="DURATION", help="how late is too late (24h)")
    late.add_argument(
        "--overlap",
        metavar="skip|queue|allow|replace",
        help="while it still runs (skip); queue lets one wait, replace ends the old one",
    )
    late.add_argument(
        "--max-running", metavar="N", help="at the same time (1; unlimited with --overlap allow)"
    )
    end = parser.add_argument_group("how it ends, and what then")
    end.add_argument("--timeout", metavar="DURATION", help="end it after (none)")
    end.add_argument("--kill-grace", metavar="DURATION", help="between TERM and KILL (10s)")
    end.add_argument("--ok-codes", metavar="0,2", help="exit codes that are a success (0)")
    end.add_argument("--retries", metavar="N", help="further attempts after a failure (0)")
    end.add_argument("--retry-delay", metavar="DURATION", help="before the first of them (10s)")
    end.add_argument("--retry-factor", metavar="X", help="by which the delay grows (2)")
    end.add_argument("--retry-max-delay", metavar="DURATION", help="up to which it grows (1h)")
    end.add_argument(
        "--on-interrupt",
        metavar="leave|retry",
        help="when its end is not known, as after a power cut (leave)",
    )
    turn = parser.add_argument_group("what it waits for")
    turn.add_argument(
        "--needs",
        action="append",
        metavar="success:NAME[:DURATION]",
        help="wait until another schedule has succeeded, within DURATION; may be repeated",
    )
    turn.add_argument(
        "--needs-deadline", metavar="DURATION", help="how long after its time to wait (24h)"
    )
    turn.add_argument(
        "--group",
        metavar="NAME[:N]",
        help="its group; N runs at once, of all its schedules (none lifts the limit)",
    )
    turn.add_argument("--priority", metavar="low|normal|high|N", help="among queued runs (normal)")
    more = parser.add_argument_group("besides")
    more.add_argument("--scope", action="append", metavar="KIND:ID", help="fire for each of these")
    more.add_argument("--description", metavar="TEXT", help="a note for people")


def is_anything_given(args: Namespace) -> bool:
    """Whether any option of a schedule, or a command, was given."""
    beside = ("name", "argv")
    return args.argv is not None or any(
        value not in (None, False) for key, value in vars(args).items() if key not in beside
    )


def label(key: str) -> str:
    """How an option is written: `--retry-delay`."""
    return f"--{key.replace('_', '-')}"


def read_triggers(
    args: Namespace, *, name: str, timezone: str | None, now: datetime
) -> list[Trigger]:
    """The triggers that were given, parsed; empty where none was.

    Raises InvalidTrigger, and UsageError for --allow-fast without an interval.
    """
    if args.allow_fast and not args.every:
        raise UsageError(
            "--allow-fast is given without --every",
            hint="give the interval, too, such as --every 500ms",
        )
    triggers = []
    for key in _TRIGGERS:
        if key == "after" and args.on_boot:
            from edgecron.triggers import parse_trigger

            triggers.append(parse_trigger("on boot", timezone, name))
        for text in getattr(args, key) or ():
            if text != NONE:
                triggers.append(
                    values.read_trigger(
                        key,
                        text,
                        what=label(key),
                        name=name,
                        timezone=timezone,
                        now=now,
                        is_fast_ok=args.allow_fast,
                    )
                )
    return triggers


def keep_uncleared(args: Namespace, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Triggers without those of a kind that `none` clears."""
    from edgecron.documents.keys import trigger_key

    cleared = {key for key in _TRIGGERS if NONE in (getattr(args, key) or ())}
    return tuple(text for text in texts if trigger_key(text) not in cleared)


def read_policies(args: Namespace, before: Policies) -> Policies:
    """The policies as they were, with what was given."""
    changes: dict[str, Any] = {}
    for key, (name, _) in values.POLICIES.items():
        text = getattr(args, key)
        if text is not None:
            changes[name] = (
                getattr(_DEFAULTS, name)
                if text == NONE
                else values.read_policy(key, text, what=label(key))
            )
    if args.needs is not None:
        changes["needs"] = values.read_needs(args.needs)
    if not changes:
        return before
    changed = replace(before, **changes)
    if "retry_delay_s" in changes or "retry_max_delay_s" in changes:
        values.check_retry_delays(changed, label)
    return changed


def apply_rest(spec: ScheduleSpec, args: Namespace, *, now: datetime) -> ScheduleSpec:
    """The specification with the options that are neither triggers, job nor policies."""
    changes: dict[str, Any] = {}
    if args.group is not None:
        changes["group"], _ = values.read_group(args.group, what="--group")
    if args.description is not None:
        changes["description"] = None if args.description == NONE else args.description
    for name, option, is_past_ok in (("from_at", "--from", True), ("until_at", "--until", False)):
        text = getattr(args, name)
        if text is not None:
            changes[name] = (
                None
                if text == NONE
                else values.read_time(
                    text, what=option, timezone=spec.timezone, now=now, is_past_ok=is_past_ok
                )
            )
    if args.max_runs is not None:
        changes["max_runs"] = values.read_max_runs(args.max_runs, what="--max-runs")
    if args.scope is not None:
        changes["scopes"] = tuple(values.read_scope(text, what="--scope") for text in args.scope)
    return replace(spec, **changes) if changes else spec


def read_group_limit(args: Namespace) -> tuple[str, int | None] | None:
    """The group whose limit was given, and that limit; None where none was."""
    return None if args.group is None else values.read_limit(args.group, what="--group")
