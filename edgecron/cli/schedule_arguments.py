"""Options of `add` and `edit`: from parsed arguments to a specification.

The options come from the table in `model/options.py`. An option that is not given changes nothing;
`none` clears it.
"""

from __future__ import annotations

import os
import resource
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from edgecron.base.errors import Problems, UsageError
from edgecron.base.value_texts import read_time
from edgecron.base.values import replace
from edgecron.base.window_texts import HOLIDAYS, is_calendar
from edgecron.cli.parser import ADVANCED
from edgecron.cli.session import Session
from edgecron.formats import option_texts as values
from edgecron.formats.config import option_defaults
from edgecron.formats.document_tables import SWITCHED, trigger_key
from edgecron.formats.option_texts import check_for_function, check_variable, is_secret
from edgecron.model.choices import GLOBAL_SCOPE, JobKind
from edgecron.model.job import Job
from edgecron.model.options import (
    JOB_OPTIONS,
    NONE,
    OPTIONS,
    POLICIES,
    Group,
    Option,
    OptionType,
    Policies,
)
from edgecron.model.schedule import ScheduleSpec
from edgecron.triggers import Trigger, parse_trigger

_WHEN = "when"  # a trigger in words, or the text of any trigger
_TRIGGERS = (_WHEN, "cron", "every", "at", "once", "after")
# Options that do something only together with another one.
_FORMER = "--grace"  # of --max-late
_NEEDED = {
    "stall_action": "stall_timeout",
    "while_lost": "while",
    "needs_deadline": "needs",
    "retry_delay": "retries",
    "retry_factor": "retries",
    "retry_max_delay": "retries",
}


def add_schedule_arguments(parser: ArgumentParser) -> None:
    """Add the options of a schedule, grouped by task."""
    parser.add_argument(_FORMER, help=SUPPRESS)
    sections = [*Group, None]  # None is for the advanced options of all groups
    for group in sections:
        section = parser.add_argument_group(ADVANCED if group is None else group.value)
        if group is Group.WHEN:
            section.add_argument(
                f"--{_WHEN}",
                action="append",
                metavar="WORDS",
                help="run at these times, such as 'every weekday at 9'",
            )
        for option in OPTIONS.values():
            if (None if option.is_advanced else option.group) is not group or not option.option:
                continue
            if option.type is OptionType.SWITCH:
                # A policy can be switched off again.
                action = "store_true" if option.field is None else BooleanOptionalAction
                section.add_argument(option.option, action=action, help=option.words)
                continue
            section.add_argument(
                option.option,
                dest=argument_of(option),
                action="append" if option.is_repeatable else "store",
                metavar=option.metavar or "|".join(option.choices),
                help=option.words.replace("%", "%%"),
            )
            if option.type is OptionType.VARIABLES:
                section.add_argument(
                    "--env-from-shell",
                    action="extend",
                    nargs="+",
                    metavar="NAME",
                    help="set variables of the job to their present values in this shell",
                )


def argument_of(option: Option) -> str:
    """Return the name of an option in parsed arguments."""
    return f"{option.name}_at" if option.type is OptionType.TIME else option.flag or option.name


def is_anything_given(args: Namespace) -> bool:
    """Return whether any option of a schedule, or a command, was given."""
    beside = ("name", "argv")
    given = {key: value for key, value in vars(args).items() if key not in beside}
    if args.argv is not None or any(value not in (None, False) for value in given.values()):
        return True
    # A policy is switched off by --no-NAME.
    return any(
        given[option.name] is False for option in POLICIES if option.type is OptionType.SWITCH
    )


def option_label(key: str) -> str:
    """Return how an option is written: `--retry-delay`."""
    return f"--{key.replace('_', '-')}"


def rename_former_option(cli: Session, args: Namespace) -> None:
    """Take the value of --grace as that of --max-late, with a warning.

    Raises UsageError if both are given.
    """
    if args.grace is None:
        return
    if args.max_late is not None:
        raise UsageError(
            f"{_FORMER} and --max-late are both given, and mean the same", hint=f"remove {_FORMER}"
        )
    args.max_late, args.grace = args.grace, None
    cli.warn(
        f"{_FORMER} is now called --max-late; the old name stops working with the next release"
    )


def read_triggers(
    args: Namespace, problems: Problems, *, name: str, timezone: str | None, now: datetime
) -> list[Trigger]:
    """Parse the given triggers; empty if none was given, or none can be read."""
    if args.allow_fast and not (args.every or args.when):
        problems.note(
            UsageError(
                "--allow-fast is given without --every",
                hint="give the interval, too, such as --every 500ms",
            )
        )
    triggers: list[Trigger | None] = []
    for key in _TRIGGERS:
        if key == "after":
            for switch, text in SWITCHED.items():
                if getattr(args, switch):
                    triggers.append(parse_trigger(text, timezone, name))
        for text in getattr(args, key) or ():
            if text != NONE or key == _WHEN:
                read = partial(
                    values.read_trigger,
                    key,
                    text,
                    what=option_label(key),
                    name=name,
                    timezone=timezone,
                    now=now,
                    is_fast_ok=args.allow_fast,
                )
                triggers.append(problems.read(read, None))
    return [one for one in triggers if one is not None]


def keep_uncleared(args: Namespace, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Drop the triggers of each kind that `none` clears."""
    cleared = {key for key in _TRIGGERS if NONE in (getattr(args, key) or ())}
    return tuple(text for text in texts if trigger_key(text) not in cleared)


def read_policies(args: Namespace, before: Policies, problems: Problems) -> Policies:
    """Return the policies with the given changes."""
    changes: dict[str, Any] = {}
    for option in POLICIES:
        given = {option.name: getattr(args, option.name, None)}
        changes |= problems.read(partial(values.policy_fields, given, option_label), {})
    if not changes:
        return before
    if "except_days" in changes:
        changes["except_days"] = tuple(map(_whole_path, changes["except_days"]))
    changed = problems.read(lambda: replace(before, **changes), before)
    if "retry_delay_s" in changes or "retry_max_delay_s" in changes:
        problems.read(lambda: values.check_retry_delays(changed, option_label), None)
    return changed


def _whole_path(text: str) -> str:
    """The path of a calendar's file from the root; another text as it is."""
    is_file = is_calendar(text) and not text.startswith(HOLIDAYS)
    return os.path.abspath(os.path.expanduser(text)) if is_file else text


def read_rest(
    args: Namespace, problems: Problems, *, timezone: str | None, now: datetime
) -> dict[str, Any]:
    """Return the given fields that are neither triggers, job nor policies."""
    changes: dict[str, Any] = {}
    if args.group is not None:
        group = partial(values.read_group, args.group, what="--group")
        changes["group"], _ = problems.read(group, (None, None))
    if args.description is not None:
        changes["description"] = None if args.description == NONE else args.description
    for name, option, is_past_ok in (("from_at", "--from", True), ("until_at", "--until", False)):
        text = getattr(args, name)
        if text is not None:
            read = partial(
                read_time, text, what=option, timezone=timezone, now=now, is_past_ok=is_past_ok
            )
            changes[name] = None if text == NONE else problems.read(read, None)
    if args.max_runs is not None:
        max_runs = partial(values.read_max_runs, args.max_runs, what="--max-runs")
        changes["max_runs"] = problems.read(max_runs, None)
    if args.scope is not None:
        scopes = (partial(values.read_scope, text, what="--scope") for text in args.scope)
        changes["scopes"] = tuple(problems.read(scope, GLOBAL_SCOPE) for scope in scopes)
    return changes


def read_group_limit(args: Namespace) -> tuple[str, int | None] | None:
    """Return the group and the limit that --group sets; None if it sets no limit."""
    return None if args.group is None else values.read_limit(args.group, what="--group")


def read_job(args: Namespace, before: Job | None, problems: Problems) -> Job:
    """Return the job with the given changes; without `before`, a command must be given."""
    # Takes the place of a job that can't be read: the caller refuses the problems.
    stand_in = before or Job(kind=JobKind.COMMAND, argv=(NONE,))
    otherwise = (stand_in.kind, stand_in.argv)
    kind, argv = problems.read(lambda: _read_command(args, before), otherwise)
    changes: dict[str, Any] = {}
    for option in JOB_OPTIONS:
        text = getattr(args, option.name)
        if text is not None and option.type is not OptionType.VARIABLES:
            read = partial(_read, option, text)
            changes[option.name] = None if text == NONE else problems.read(read, None)
    changes["env"] = problems.read(lambda: _read_variables(args, before), {})
    job = problems.read(lambda: replace(stand_in, kind=kind, argv=argv, **changes), stand_in)
    for option in JOB_OPTIONS:
        if getattr(args, option.name) is not None:
            check = partial(check_for_function, job, option.name, what=option.option)
            problems.read(check, job)
    return job


def _read_command(args: Namespace, before: Job | None) -> tuple[JobKind, tuple[str, ...]]:
    if args.argv is not None and args.shell is not None:
        raise UsageError(
            "--shell and a command after -- are both given, expected one of them",
            hint="remove one of them",
        )
    if args.argv is not None:
        return JobKind.COMMAND, tuple(args.argv)
    if args.shell is not None:
        return JobKind.SHELL, (args.shell,)
    if before is not None:
        return before.kind, before.argv
    raise UsageError(
        "the command is missing", hint="write it after --, or give a line with --shell"
    )


def _read_variables(args: Namespace, before: Job | None) -> dict[str, str]:
    env = _read_env(args.env, dict(before.env) if before is not None else {})
    given = {text.partition("=")[0] for text in args.env or ()}
    shell = _read_shell(args.env_from_shell or ())
    return env | {name: value for name, value in shell.items() if name not in given}


def find_secrets(args: Namespace) -> list[str]:
    """Find variables that look like secrets; the database would keep them in plain text."""
    given = [text.partition("=")[::2] for text in args.env or ()]
    given += [(name, os.environ.get(name, "")) for name in args.env_from_shell or ()]
    return [name for name, value in given if is_secret(name, value)]


def find_least_niceness() -> int | None:
    """Return the least niceness that this user's runs can have; None if there is no limit."""
    if os.geteuid() == 0:
        return None
    limit = getattr(resource, "RLIMIT_NICE", None)  # of Linux only
    allowed = 0 if limit is None else max(0, resource.getrlimit(limit)[0])
    return min(os.getpriority(os.PRIO_PROCESS, 0), 20 - allowed)


def niceness_warning(job: Job, *, least: int | None) -> str | None:
    """Warn of a niceness below the `least` that is allowed; None if it is allowed."""
    if job.nice is None or least is None or job.nice >= least:
        return None
    return (
        f"nice is {job.nice}, but only root can go below {least}: each run would fail;"
        f" give nice {least} or more, or run the engine as root"
    )


def find_ineffective(args: Namespace, spec: ScheduleSpec) -> list[str]:
    """Return a sentence for each given option that needs another one, which the schedule lacks."""
    return [
        f"{OPTIONS[name].option} has no effect without {OPTIONS[needed].option}"
        for name, needed in _NEEDED.items()
        if getattr(args, argument_of(OPTIONS[name])) not in (None, NONE)
        and not OPTIONS[needed].value_of(spec)
    ]


def find_missing_paths(args: Namespace) -> list[str]:
    """Return a sentence for each given folder or file that does not exist yet."""
    sentences = []
    for option, what, exists in (
        ("cwd", "folder", os.path.isdir),
        ("env_file", "file", os.path.isfile),
    ):
        text = getattr(args, option)
        path = None if text in (None, NONE) else _read_path(text)
        # ~ is the home of the user that the job runs as, maybe not ours.
        if path is not None and not path.startswith("~") and not exists(path):
            sentences.append(f"--{option.replace('_', '-')}: there is no {what} {path!r} yet")
    return sentences


def _read_env(given: list[str] | None, env: dict[str, str]) -> dict[str, str]:
    for text in given or ():
        if text == NONE:
            env = {}
            continue
        key, equals, value = text.partition("=")
        if not equals or not key:
            # Do not quote it: it could be a secret.
            raise UsageError("--env is not KEY=VALUE", hint="for example: --env LANG=C")
        check_variable(key, what="--env")
        env[key] = value
    return env


def _read_shell(names: Sequence[str]) -> dict[str, str]:
    """Return variables of the calling shell. Raises UsageError if it lacks some of them."""
    for name in names:
        check_variable(name, what="--env-from-shell")
    unset = [name for name in dict.fromkeys(names) if name not in os.environ]
    if unset:
        named = " and ".join(unset)
        are = "is" if len(unset) == 1 else "are"
        raise UsageError(
            f"--env-from-shell names {named}, which {are} not set in this shell",
            hint=f"export {' '.join(unset)} first, or give the value: --env {unset[0]}=VALUE",
        )
    return {name: os.environ[name] for name in names}


def _read(option: Option, text: str) -> Any:
    if option.type is OptionType.PATH:
        return _read_path(text)
    return values.read_option(option, text, what=option.option)


def _read_path(text: str) -> str:
    # The job starts in HOME, but a person means the current folder.
    return text if text.startswith("~") else os.path.abspath(text)


def with_defaults(cli: Session, args: Namespace) -> Namespace:
    """Fill in [defaults] of the configuration for options that were not given.

    Raises InvalidInput for an unusable default.
    """
    defaults = option_defaults(cli.config())
    named = {argument_of(OPTIONS[key]): text for key, text in defaults.items()}
    given = {name: value for name, value in vars(args).items() if value is not None}
    return Namespace(**{**vars(args), **named, **given})
