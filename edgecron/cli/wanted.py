"""What `add` and `edit` are told of a schedule: options in, a specification out.

An option that is left out changes nothing; `none` clears one.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import UsageError
from edgecron.base.values import replace
from edgecron.formats import option_texts as values
from edgecron.model.options import NONE, OPTIONS, POLICIES, Group, Option, OptionType, Policies
from edgecron.model.schedule import ScheduleSpec

if TYPE_CHECKING:
    from edgecron.triggers import Trigger

_TRIGGERS = ("cron", "every", "at", "after")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of a schedule, grouped by task."""
    for group in Group:
        section = parser.add_argument_group(group.value)
        for option in OPTIONS.values():
            if option.group is not group or not option.option:
                continue
            if option.type is OptionType.SWITCH:
                section.add_argument(option.option, action="store_true", help=option.words)
                continue
            section.add_argument(
                option.option,
                dest=argument_of(option),
                action="append" if option.is_repeatable else "store",
                metavar=option.metavar or "|".join(option.choices),
                help=option.words.replace("%", "%%"),
            )


def argument_of(option: Option) -> str:
    """The name of an option among parsed arguments."""
    return f"{option.name}_at" if option.type is OptionType.TIME else option.flag or option.name


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
    from edgecron.formats.document_writing import trigger_key

    cleared = {key for key in _TRIGGERS if NONE in (getattr(args, key) or ())}
    return tuple(text for text in texts if trigger_key(text) not in cleared)


def read_policies(args: Namespace, before: Policies) -> Policies:
    """The policies as they were, with what was given."""
    changes: dict[str, Any] = {}
    for option in POLICIES:
        given = getattr(args, option.name)
        if given is None:
            continue
        if option.type is OptionType.CONDITIONS:
            changes[option.field or ""] = values.read_needs(given)
        elif given == NONE:
            changes[option.field or ""] = option.default_value
        else:
            changes[option.field or ""] = values.read_policy(option, given, what=option.option)
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
