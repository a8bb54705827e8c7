"""The options of one declaration: checked as Python values, and read by the documents' names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from datetime import date, datetime, timedelta
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import check_type, json_text, suggest
from edgecron.base.errors import InvalidInput, UnknownTimezone
from edgecron.base.units import MAX_DURATION_MS, format_duration_ms
from edgecron.base.values import replace
from edgecron.base.zones import check_zone
from edgecron.embedding.failures import RULE_NAMES
from edgecron.formats.document_schedule import read_table, suggest_key
from edgecron.formats.document_tables import (
    JOBS,
    LOCAL,
    SWITCHED,
    TRIGGERS,
    schedule_table,
    trigger_key,
)
from edgecron.model.options import JOB_OPTIONS, LISTS, OPTIONS, Group, OptionType
from edgecron.triggers import parse_trigger

if TYPE_CHECKING:
    from edgecron.formats.document_tables import Wanted
    from edgecron.model.schedule import Schedule
    from edgecron.triggers import Trigger


def check_when(when: Sequence[object]) -> None:
    """Raise InvalidInput for a value that is not a trigger, such as the function itself."""
    for one in when:
        if not isinstance(one, str) and not hasattr(one, "next_after"):
            raise InvalidInput(
                f"{one!r:.60} is not a trigger, expected a trigger or its text",
                hint='such as @scheduler.job("@daily"), or every("5m")',
            )


def payload_text(payload: object, *, name: str) -> Mapping[str, object]:
    """Return the document's key for a payload; nothing without a payload."""
    if payload is None:
        return {}
    return {"payload": json_text(payload, what=f"the payload of {name!r}")}


def command_keys(name: str, command: Sequence[str] | None, shell: str | None) -> dict[str, object]:
    """Return the document's keys for a command or a shell line. Raises InvalidInput."""
    if (command is None) == (shell is None):
        raise InvalidInput(
            f"schedule {name!r} has {'no command' if command is None else 'two commands'},"
            " expected command=[...] or shell='...'",
            hint="to call a function: call=reports.send",
        )
    try:
        if command is None:
            check_type("shell", shell, str, expected="text", hint="such as shell='ls -l | wc'")
            return {"shell": shell}
        hint = "such as command=['ls', '-l'], or shell='ls -l' for a line of the shell"
        if isinstance(command, str | bytes):  # also a sequence, but of letters
            raise InvalidInput(
                f"command is the text {command!r:.60}, expected a list of words", hint=hint
            )
        check_type("command", command, list, tuple, expected="a list of words", hint=hint)
        for index, word in enumerate(command):
            check_type(
                f"command[{index}]", word, str, PathLike,
                expected="text", hint=f"such as {str(word)!r:.60}",
            )  # fmt: skip
    except InvalidInput as error:
        raise _about(name, error) from None
    return {"command": [fspath(word) for word in command]}


# The documents' names.
_KEYS = {
    "from_at": "from",
    "until_at": "until",
    "scopes": "scope",
    "except_days": "except",
    "while_needs": "while",
}
_NAMES = {key: name for name, key in _KEYS.items()}
# What job() and add() take beside the triggers and the job itself, by the names of Python.
OPTION_NAMES = frozenset(
    _NAMES.get(option.name, option.name)
    for option in OPTIONS.values()
    if option.group is not Group.JOB
    and option.type is not OptionType.TRIGGERS
    and option.name not in (*SWITCHED, "queue")
)
# The other parameters of these methods.
_JOB_ONLY = ("name", "payload", "process", *RULE_NAMES)
_ADD_ONLY = ("name", "command", "shell", "call", "args", "kwargs", "replace")
COMMAND_OPTION_NAMES = OPTION_NAMES | {option.name for option in JOB_OPTIONS}


def check_names(name: str, options: Mapping[str, object], *, known: Set[str]) -> None:
    """Raise InvalidInput for an option that a declaration can't have."""
    try:
        for key in options:
            _check_name(key, known)
    except InvalidInput as error:
        raise _about(name, error) from None


def read_options(
    name: str,
    triggers: Sequence[Trigger | str],
    job: Mapping[str, object],
    options: Mapping[str, object],
    *,
    known: Set[str],
    timezone: str | None,
) -> Wanted:
    """Return the schedule that a declaration wants. `job` are the document's keys of its job.

    `known` are the names of options that it can have, `timezone` is the default zone. Raises
    InvalidInput with the first problem.
    """
    check_when(triggers)
    given = _keys_of(name, options, known=known)
    zone = _timezone(name, triggers, options, timezone)
    table = _triggers(name, triggers, zone) | dict(job) | {"timezone": zone or "UTC"} | given
    return replace(_read(name, table), is_declared=True)


def read_change(
    schedule: Schedule,
    triggers: Sequence[Trigger | str],
    job: Mapping[str, object],
    options: Mapping[str, object],
    *,
    known: Set[str],
) -> Wanted:
    """Return what a schedule becomes: other triggers, another job, other options.

    Without triggers, it keeps its own. A key of `job` that is None goes.
    Raises InvalidInput with the first problem.
    """
    name = schedule.name
    check_when(triggers)
    given = _keys_of(name, options, known=known)
    table = schedule_table(schedule)
    zone = _timezone(name, triggers, options, str(table.get("timezone", LOCAL)))
    if triggers:
        table = {key: value for key, value in table.items() if key not in TRIGGERS}
        table |= _triggers(name, triggers, zone)
    if job.keys() & JOBS.keys():
        table = {key: value for key, value in table.items() if key not in JOBS}
    table |= {**job, "timezone": zone, **given}
    table = {key: value for key, value in table.items() if value is not None}
    return _read(name, table, known=schedule.spec.triggers)


def _keys_of(name: str, options: Mapping[str, object], *, known: Set[str]) -> dict[str, object]:
    """Check options, and return them by the documents' keys, without the time zone."""
    check_names(name, options, known=known)
    try:
        for key, value in options.items():
            _check_option(key, value)
    except UnknownTimezone:
        raise
    except InvalidInput as error:
        raise _about(name, error) from None
    keys = {key: _KEYS.get(key, key) for key in options if key != "timezone"}
    return {document_key: _value(document_key, options[key]) for key, document_key in keys.items()}


def _read(name: str, table: dict[str, object], *, known: Collection[str] = ()) -> Wanted:
    wanted, problems = read_table(name, table, known=known)
    if wanted is None:
        first = problems[0]
        raise InvalidInput(f"schedule {name!r}: {first.message}", hint=first.hint)
    return wanted


def _timezone(
    name: str,
    triggers: Sequence[Trigger | str],
    options: Mapping[str, object],
    default: str | None,
) -> str | None:
    """Return the zone of the options or the triggers, or the default. Two zones are an error."""
    named = {one.timezone for one in triggers if not isinstance(one, str)} - {None}
    given = options.get("timezone")
    if given is not None:
        named.add(str(given))
    if len(named) > 1:
        zones = " and ".join(sorted(str(one) for one in named))
        raise InvalidInput(
            f"schedule {name!r} names the time zones {zones}, expected one",
            hint="make a schedule for each of them",
        )
    return named.pop() if named else default


def _triggers(name: str, triggers: Sequence[Trigger | str], zone: str | None) -> dict[str, object]:
    found: dict[str, list[str]] = {}
    for one in triggers:
        text = parse_trigger(one, zone, name).text if isinstance(one, str) else one.text
        key = trigger_key(text)
        found.setdefault(key, []).append(text if key == "cron" else text.partition(" ")[2])
    return {key: True if key in SWITCHED else texts for key, texts in found.items()}


def _about(name: str, error: InvalidInput) -> InvalidInput:
    return InvalidInput(f"schedule {name!r}: {error.message}", hint=error.hint)


_TEXTS = (str,), "text"
_TEXT_LIST = (str, list, tuple, set, frozenset), "text, or a list of texts"
# The types that an option accepts in Python, in words.
_TYPES: dict[OptionType, tuple[tuple[type, ...], str]] = {
    OptionType.TEXT: _TEXTS,
    OptionType.LINES: _TEXTS,
    OptionType.USER: _TEXTS,
    OptionType.GROUP: _TEXTS,
    OptionType.CHOICE: _TEXTS,
    OptionType.PATH: ((str, PathLike), "a path"),
    OptionType.VARIABLES: ((Mapping,), "a dict of texts"),
    OptionType.TIME: ((datetime, str), "a datetime or text"),
    OptionType.DURATION: ((int, float, str, timedelta), "seconds, a timedelta or text"),
    OptionType.COUNT: ((int, float, str), "a whole number"),
    OptionType.FACTOR: ((int, float, str), "a number"),
    OptionType.PRIORITY: ((int, str), "text or a whole number"),
    OptionType.CODES: ((int, str, list, tuple, set, frozenset), "exit codes"),
    **dict.fromkeys(LISTS, _TEXT_LIST),
    OptionType.DAYS: ((*_TEXT_LIST[0], date), "a date or text, or a list of them"),
    OptionType.SCOPES: _TEXT_LIST,
    OptionType.RULES: _TEXT_LIST,
    OptionType.SWITCH: ((bool,), "True or False"),
}
_EXAMPLES = {"env": "{'LANG': 'C'}", "allow_fast": "True", "enabled": "False"}  # unlike TOML's


def _check_name(key: str, known: Set[str]) -> None:
    """Raise InvalidInput for an option that the call does not take."""
    if key not in known and key in COMMAND_OPTION_NAMES:
        raise InvalidInput(
            f"option {key!r} is only for commands",
            hint=f"for a command: scheduler.add(..., command=['ls'], {key}={_example(key)})",
        )
    if key not in known:
        call, others = ("add", _ADD_ONLY) if "env" in known else ("job", _JOB_ONLY)
        meant = suggest_key(key)
        meant = _NAMES.get(meant or "", meant)
        meant = meant if meant in known else suggest(key, {*known, *others})
        raise InvalidInput(
            f"option {key!r} is unknown",
            hint=f"did you mean {meant}?"
            if meant
            else f"help(Scheduler.{call}) shows what it takes",
        )


def _check_option(key: str, value: object) -> None:
    """Raise InvalidInput for an option of a wrong type."""
    option = OPTIONS[_KEYS.get(key, key)]
    if value is None:
        return
    if option.type is OptionType.ZONE:
        check_zone(value)
        return
    types, expected = _TYPES[option.type]
    hint = f"such as {key}={_example(key)}"
    check_type(key, value, *types, expected=expected, hint=hint)
    if isinstance(value, Mapping):
        for name, one in value.items():
            if not isinstance(name, str):
                raise InvalidInput(f"{key} has the key {name!r:.60}, expected text", hint=hint)
            check_type(f"{key}[{name!r}]", one, str, int, float, expected="text", hint=hint)
    elif isinstance(value, list | tuple | set | frozenset):
        elements: tuple[type, ...] = (str,)
        if option.type is OptionType.CODES:
            elements = (int,)
        elif option.type is OptionType.DAYS:
            elements = (str, date)
        for one in value:
            if not isinstance(one, elements) or isinstance(one, bool):
                raise InvalidInput(f"{key} is {value!r:.60}, expected {expected}", hint=hint)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise InvalidInput(f"{key} is {value}, which has no time zone", hint="add tzinfo=UTC")
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if option.type is OptionType.DURATION and isinstance(seconds, int | float):
        _check_duration(key, seconds, hint=hint)


def _check_duration(key: str, seconds: float, *, hint: str) -> None:
    if not 0 <= seconds <= MAX_DURATION_MS / 1000:
        raise InvalidInput(f"{key} is {seconds!r} seconds, expected 0 to 100 years", hint=hint)


def _example(key: str) -> str:
    return _EXAMPLES.get(key) or OPTIONS[_KEYS.get(key, key)].example


def _value(key: str, value: object) -> Any:
    """Return the value of an option as a document holds it."""
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        value = value.total_seconds()
    option = OPTIONS.get(key)
    is_duration = option is not None and option.type is OptionType.DURATION
    if is_duration and isinstance(value, int | float) and not isinstance(value, bool):
        return format_duration_ms(round(value * 1000))
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset):
        return [one.isoformat() if isinstance(one, date) else one for one in value]
    return dict(value) if isinstance(value, Mapping) else value
