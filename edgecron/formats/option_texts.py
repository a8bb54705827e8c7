"""Read the texts of a schedule's options, of command lines and documents; see `base.value_texts`.

`what` is the option's name as the person wrote it: `--max-late`, or `max_late`.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import check_json, check_type
from edgecron.base.errors import (
    InvalidDuration,
    InvalidInput,
    InvalidTrigger,
    UsageError,
)
from edgecron.base.units import format_duration_ms, format_instant, parse_duration_ms
from edgecron.base.value_texts import (
    OWN_PREFIX,
    example,
    hint_for_word,
    read_choice,
    read_count,
    read_duration_ms,
    read_time,
)
from edgecron.base.window_texts import (
    HOLIDAYS,
    is_calendar,
    is_command,
    parse_days,
    parse_window,
    source_of,
    split_once_in,
)
from edgecron.model.choices import GLOBAL_SCOPE, JobKind, Priority
from edgecron.model.conditions import check_needs, parse_condition
from edgecron.model.engine import check_placement
from edgecron.model.job import READERS, Job
from edgecron.model.options import (
    MOST_PRIORITY,
    NONE,
    POLICIES,
    Option,
    OptionType,
    Policies,
)
from edgecron.model.run import RunOptions
from edgecron.triggers import Trigger, parse_trigger

if TYPE_CHECKING:
    from edgecron.model.schedule import ScheduleSpec

# What people give as a cron text, and what has an option of its own.
_OTHER_KIND = re.compile(r"@?(every|at|once|after|on boot|on demand|reboot)\b\s*", re.IGNORECASE)


_MOST_RUNS = 1_000_000_000
_SECOND_MS = 1000
_MOST_TYPO = 60  # up to this number of milliseconds, minutes were probably meant
_AFTER_DURATION = re.compile(r"\s+(?:from|after)\s", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SECRET_WORDS = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "APIKEY", "PRIVATE_KEY")
_PASSWORD_IN_URL = re.compile(r"://[^/?#@\s]*:[^/?#@\s]+@")
PRIORITIES = {priority.name.lower(): int(priority) for priority in Priority}


def read_option(option: Option, text: str, *, what: str) -> Any:
    """Read the text of a policy or of an option of the job. Raises InvalidInput, which names it."""
    match option.type:
        case OptionType.DURATION:
            is_zero = option.least == 0 and text in ("0", "0s")
            return 0.0 if is_zero else read_duration_ms(text, what) / 1000
        case OptionType.COUNT:
            return read_count(text, what=what, least=option.least, most=option.most)
        case OptionType.CHOICE:
            choices: type[StrEnum] = type(option.default_value)
            return read_choice(text, choices, what=what)
        case OptionType.PRIORITY:
            return read_priority(text, what)
        case OptionType.FACTOR:
            return _factor(option, text, what)
        case OptionType.CODES:
            return tuple(
                read_count(part.strip(), what=what, least=0, most=255) for part in text.split(",")
            )
        case OptionType.RULES:
            return tuple(part.strip() for part in text.split(","))
        case OptionType.USER:
            return read_user(text, what)
        case OptionType.JSON:
            check_json(text, what=what)
        case OptionType.TEXT if option.field == "on":
            check_placement(text, what=what)
        case OptionType.TEXT if option.name in READERS:
            READERS[option.name](text, what=what)
    return text


def policy_fields(
    given: Mapping[str, str | list[str] | bool | None], label: Callable[[str], str]
) -> dict[str, Any]:
    """Read the policies among these texts of options, by field; `none` is the default.

    `label` returns the name of an option for a message. Raises InvalidInput.
    """
    fields: dict[str, Any] = {}
    for option in POLICIES:
        text = given.get(option.name)
        if isinstance(text, bool):
            fields[option.field or ""] = text
        elif isinstance(text, list):
            fields[option.field or ""] = _read_labelled(option, text, label(option.name))
        elif text == NONE:
            fields[option.field or ""] = option.default_value
        elif text is not None:
            fields[option.field or ""] = read_option(option, text, what=label(option.name))
    return fields


def check_retry_delays(policies: Policies, label: Callable[[str], str]) -> None:
    """Raise UsageError if the first retry delay is longer than the longest."""
    if policies.retry_delay_s > policies.retry_max_delay_s:
        delay, most = (
            format_duration_ms(round(seconds * 1000))
            for seconds in (policies.retry_delay_s, policies.retry_max_delay_s)
        )
        raise UsageError(
            f"{label('retry_delay')} is {delay}, which is more than"
            f" {label('retry_max_delay')}, {most}",
            hint=f"give {label('retry_max_delay')} too, such as {delay}, or a shorter delay",
        )


def read_trigger(
    key: str,
    text: str,
    *,
    what: str,
    name: str,
    timezone: str | None,
    now: datetime | None,
    is_past_ok: bool = False,
    is_fast_ok: bool = False,
) -> Trigger:
    """Read the text of `cron`, `every`, `at`, `once`, `after` or `when`. Raises InvalidInput.

    Without `now`, relative times are refused and times in the past accepted. Unless
    `is_fast_ok`, an interval under a second is refused: it is usually `1m` with a typo.
    """
    match key:
        case "cron":
            other = _OTHER_KIND.match(text)
            if other is not None and not is_words(text):
                from shlex import quote  # Rarely needed, and engines import this module.

                key = other[1].lower().replace("reboot", "on boot").replace(" ", "_")
                if what.startswith("--"):
                    value = "" if key.startswith("on_") else f" {quote(text[other.end() :])}"
                    key = f"--{key.replace('_', '-')}{value}"
                raise InvalidTrigger(
                    f"{what} is {text!r}, expected a cron text", hint=f"use {key} instead of {what}"
                )
            return parse_trigger(text, timezone, name)
        case "every":
            # The grammar reads what follows the duration.
            duration = _AFTER_DURATION.split(text, maxsplit=1)[0]
            interval_ms = read_duration_ms(duration, what)
            if 0 < interval_ms < _SECOND_MS and not is_fast_ok:
                raise _too_fast(duration.strip(), what)
            return parse_trigger(f"every {text}", timezone, name, anchor=now, now=now)
        case "at":
            instant = read_time(text, what=what, timezone=timezone, now=now, is_past_ok=is_past_ok)
            return parse_trigger(f"at {format_instant(instant)}", timezone, name)
        case "once":
            words = text if text.lower().startswith("in ") else f"in {text}"
            return parse_trigger(read_once_in(f"once {words}"), timezone, name)
        case "when":
            trigger = parse_trigger(read_once_in(text), timezone, name, anchor=now, now=now)
            if is_fast(trigger.text) and not is_fast_ok:
                raise _too_fast(trigger.text.split()[1], what)
            return trigger
        case _:
            if len(text.split()) > 1:
                raise InvalidTrigger(
                    f"{what} is {text!r}, expected one schedule", hint="name each one separately"
                )
            return parse_trigger(f"{key} {text}", timezone, name)


def is_words(text: str) -> bool:
    """Return whether a text is a trigger in plain words, even one that can't be."""
    from edgecron.triggers.english import read_words  # Engines import this module.

    try:
        return read_words(text) is not None
    except InvalidTrigger:
        return True


def read_once_in(text: str) -> str:
    """Return the text of a trigger `once in` with its conditions as canonical texts.

    Another text stays as it is: the grammar refuses it. Raises InvalidInput for a condition.
    """
    parts = split_once_in(text)
    if parts is None:
        return text
    canonical: list[str] = []
    for one in parts.conditions:
        try:
            canonical.append(parse_condition(one).text)
        except InvalidInput as error:
            if not canonical or not is_command(canonical[-1]):
                raise
            raise InvalidInput(
                error.message, hint="if the word 'and' belongs to the command, put it in quotes"
            ) from None
    check_needs(canonical)
    return parts._replace(conditions=tuple(canonical)).text


def is_fast(trigger_text: str) -> bool:
    """Whether the text of a trigger means an interval under a second."""
    kind, _, words = trigger_text.partition(" ")
    if kind != "every":
        return False
    try:
        return parse_duration_ms(words.partition(" ")[0]) < _SECOND_MS
    except InvalidDuration:  # the stored text of a broken schedule
        return False


def _too_fast(duration: str, what: str) -> InvalidTrigger:
    allow = "--allow-fast" if what.startswith("--") else "allow_fast = true"
    count = duration.removesuffix("ms")
    is_typo = count.isdecimal() and int(count) <= _MOST_TYPO
    meant = f"did you mean {count}m? " if is_typo else ""
    return InvalidTrigger(
        f"{what} {duration!r} is less than a second",
        hint=f"{meant}to allow intervals under a second: {allow}",
    )


def read_max_runs(text: str, *, what: str) -> int | None:
    """Read the most planned runs, None for any number. Raises UsageError."""
    return None if text == NONE else read_count(text, what=what, most=_MOST_RUNS)


def read_group(text: str, *, what: str) -> tuple[str | None, str | None]:
    """Read the name of a group, None for none, and the text of its limit. Raises UsageError."""
    if text == NONE:
        return None, None
    name, colon, limit = text.partition(":")
    if colon and limit != NONE:
        _read_limit_number(limit, what=what)
    return name, limit if colon else None


def read_limit(text: str, *, what: str) -> tuple[str, int | None] | None:
    """Read a group and its limit, None being no limit; None if no limit is given."""
    group, limit = read_group(text, what=what)
    if group is None or limit is None:
        return None
    return group, None if limit == NONE else _read_limit_number(limit, what=what)


def _read_limit_number(text: str, *, what: str) -> int:
    return read_count(text, what=f"{what} NAME:N", hint=f"for example: {example(what, 'disk:2')}")


def read_list(option: Option, texts: list[str]) -> tuple[str, ...]:
    """Read the texts of a repeatable policy as canonical ones; `none` clears it.

    Raises InvalidInput.
    """
    if texts == [NONE]:
        return ()
    if option.type is OptionType.CONDITIONS:
        return tuple(parse_condition(text).text for text in texts)
    plain = tuple(" ".join(text.split()) for text in texts)
    if option.type is OptionType.WINDOWS:
        for text in plain:
            parse_window(text)
        return tuple(text.upper() for text in plain)
    # Calendars are read again when the schedule is written.
    plain = tuple(map(_plain_source, plain))
    for text in plain:
        if not is_calendar(text):  # A path can still be relative to the folder of the caller.
            parse_days(text)
    return plain


def _read_labelled(option: Option, texts: list[str], what: str) -> tuple[str, ...]:
    try:
        return read_list(option, texts)
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error.message}", hint=error.hint) from None


def _plain_source(text: str) -> str:
    source = source_of(text)
    is_holidays = source.lower().startswith(HOLIDAYS)
    return HOLIDAYS + source[len(HOLIDAYS) :].upper() if is_holidays else source


def read_scope(text: str, *, what: str) -> tuple[str, str]:
    """Read a scope's kind and id. Raises UsageError."""
    if text in (NONE, GLOBAL_SCOPE[0]):
        return GLOBAL_SCOPE
    kind, _, scope_id = text.partition(":")
    if not kind or not scope_id:
        raise UsageError(f"{what} is {text!r}, expected KIND:ID", hint="such as device:pump-3")
    return kind, scope_id


def read_user(name: str, what: str) -> str:
    """Read a user whom this process can run a job as. Raises InvalidInput."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise InvalidInput(
            f"user {name!r} is unknown on this machine", hint="list the users: getent passwd"
        ) from None
    if uid != os.geteuid() and os.geteuid() != 0:
        raise InvalidInput(
            f"{what} is {name!r}, but only root can run a schedule as another user",
            hint="add it as root, and run the engine as root",
        )
    return name


def check_for_function(job: Job, name: str, *, what: str) -> Job:
    """Return the job. Raises InvalidInput if it is a function and this option has no effect."""
    is_given = getattr(job, name) not in (None, {})
    if job.kind is JobKind.CALLABLE and is_given and name != "payload":
        raise InvalidInput(
            f"{what} is only for commands, and the job is a function of a program",
            hint=f"remove {what}, or make the job a command",
        )
    return job


def check_variable(key: str, *, what: str) -> None:
    """Raise UsageError for a name that would not reach the job unchanged."""
    if _VARIABLE.fullmatch(key) is None:
        raise UsageError(
            f"{what} names the variable {key[:60]!r}, which no shell can read",
            hint="use letters, digits and _, not starting with a digit",
        )
    check_not_own(key, what=what)


def check_not_own(key: str, *, what: str) -> None:
    """Raise UsageError for the name of a variable that edgecron sets in each run."""
    if key.startswith(OWN_PREFIX):
        raise UsageError(
            f"{what} names the variable {key[:60]!r}, but {OWN_PREFIX} is reserved",
            hint="take another name: a run's own variables would replace it",
        )


def is_secret(name: str, value: str | None) -> bool:
    """Whether a variable's name suggests a secret, or its value is a URL with a password."""
    is_named = any(word in name.upper() for word in _SECRET_WORDS)
    return is_named or (value is not None and _PASSWORD_IN_URL.search(value) is not None)


def secret_warnings(specs: Iterable[ScheduleSpec], *, held_by: str) -> Iterator[str]:
    """Yield a warning for each variable that looks like a secret; `held_by`: who shows it."""
    for spec in specs:
        for name, value in spec.job.env.items():
            if is_secret(name, value):
                yield (
                    f"schedule {spec.name}: {held_by} {name} in plain text;"
                    " put secrets in a file and use env_file"
                )


def _factor(option: Option, text: str, what: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not option.least <= factor <= option.most:
        raise UsageError(
            f"{what} is {text!r}, expected a number from {option.least} to {option.most}",
            hint="2 doubles the delay with each retry, 1 keeps it",
        )
    return factor


def read_priority(text: str, what: str) -> int:
    """Read a priority by its name or number. Raises UsageError."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    sign = -1 if text.startswith("-") else 1
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and int(digits[:9]) <= MOST_PRIORITY):
        raise UsageError(
            f"{what} is {text!r}, expected low, normal, high,"
            f" or a number from {-MOST_PRIORITY} to {MOST_PRIORITY}",
            hint=hint_for_word(text, PRIORITIES, what=what),
        )
    return sign * int(digits[:9])


RUN_OPTIONS = ("delay", "at", "priority", "timeout", "scope")
_NUMBERS = (int, float)


def read_run_options(
    given: Mapping[str, Any],
    *,
    timezone: str | None,
    now: datetime | None,
    label: Callable[[str], str] = str,
) -> RunOptions:
    """Read the options of RUN_OPTIONS that are given and not None.

    A duration is text, seconds or a timedelta; a time is text or an aware datetime; a scope is
    text or a pair. Without `now`, relative times are refused. `label` returns the name of an
    option for a message. Raises InvalidInput.
    """
    values = {name: value for name in RUN_OPTIONS if (value := given.get(name)) is not None}
    return RunOptions(
        delay_s=_seconds(values.get("delay"), label("delay")),
        at=_instant(values.get("at"), label("at"), timezone=timezone, now=now),
        priority=_priority(values.get("priority"), label("priority")),
        timeout_s=_seconds(values.get("timeout"), label("timeout")),
        scope=_scope(values.get("scope"), label("scope")),
    )


def _seconds(value: Any, what: str) -> float | None:
    if value is None or (isinstance(value, _NUMBERS) and not isinstance(value, bool)):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    check_type(what, value, str, expected="a duration", hint=f"such as {what}='5m'")
    if value in ("0", "0s"):
        return 0.0
    return read_duration_ms(value, what) / 1000


def _instant(
    value: Any, what: str, *, timezone: str | None, now: datetime | None
) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInput(f"{what} is {value}, which has no time zone", hint="add tzinfo=UTC")
        return value
    check_type(what, value, str, expected="a time", hint=f"such as {what}='tomorrow 09:00'")
    return read_time(value, what=what, timezone=timezone, now=now)


def _priority(value: Any, what: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    check_type(what, value, str, expected="a priority", hint=f"such as {what}='high'")
    return read_priority(value, what)


def _scope(value: Any, what: str) -> tuple[str, str] | None:
    if value is None:
        return None
    if isinstance(value, tuple | list) and len(value) == 2:
        return str(value[0]), str(value[1])
    check_type(what, value, str, expected="a scope", hint=f"such as {what}='device:plc3'")
    return read_scope(value, what=what)


def read_run_number(text: str, *, what: str = "RUN") -> int:
    """Read the number of a run. Raises UsageError."""
    return read_count(text, what=what, most=2**63 - 1, hint="list the runs: edgecron history")
