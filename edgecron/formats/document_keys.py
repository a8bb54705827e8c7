"""Read the values of keys of a schedule's table, and suggest a key for an unknown one."""

from __future__ import annotations

from datetime import date, time

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidInput
from edgecron.formats import option_texts as values
from edgecron.model.option_types import LISTS, Option, OptionType
from edgecron.model.options import NONE, OPTIONS
from edgecron.triggers import check_zone

# Names of other programs that people write instead.
_OTHER_WORDS = {
    "tz": "timezone", "argv": "command", "cmd": "command", "run": "command", "exec": "command",
    "folder": "cwd", "dir": "cwd", "environment": "env", "schedule": "cron", "scopes": "scope",
    "paused": "enabled", "disabled": "enabled", "start": "from", "end": "until",
}  # fmt: skip


def suggest_key(key: str) -> str | None:
    """Return the known key that is most similar; None if no key is similar."""
    return _OTHER_WORDS.get(key) or suggest(key, OPTIONS)


def hint_for_unknown(key: str) -> str:
    """Return the hint for a key that is unknown."""
    meant = suggest_key(key)
    return f"did you mean {meant}?" if meant else "see: edgecron apply --help"


def read_policy(option: Option, value: object) -> object:
    """Read a policy. Raises InvalidInput."""
    if option.type in LISTS:
        return values.read_list(option, [read_time_text(one) for one in read_list(value)])
    if option.type is OptionType.SWITCH:
        return option.default_value if value == NONE else read_boolean(value)
    if option.choices and not isinstance(value, str):
        known = ", ".join(option.choices)
        raise InvalidInput(f"{option.name} is {_kind(value)}, expected one of {known}")
    if value == [] and option.type is OptionType.RULES:
        return ()
    if isinstance(value, list) and option.type in (OptionType.CODES, OptionType.RULES):
        text = ",".join(read_text(one) for one in value)
    else:
        text = read_text(value)
    if text == NONE:
        return option.default_value
    return values.read_option(option, text, what=option.name)


def read_text(value: object) -> str:
    """Return a text, or a number as text. Raises InvalidInput for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and value.bit_length() > 64:
            raise InvalidInput("the number is too large")
        return str(value)
    raise InvalidInput(f"the value is {_kind(value)}, expected text in quotes or a number")


def read_time_text(value: object) -> str:
    """Return a time as text; TOML has times without quotes, too."""
    return value.isoformat() if isinstance(value, date | time) else read_text(value)


def read_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected true or false",
            hint="write true or false without quotes",
        )
    return value


def read_list(value: object) -> list[object]:
    """Return an array, or one value as an array."""
    return value if isinstance(value, list) else [value]


def read_argv(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected an array of texts",
            hint='such as ["/bin/tar", "czf"]; a line for a shell is given as shell',
        )
    return tuple(read_text(one) for one in value)


def read_line(value: object) -> tuple[str, ...]:
    return (read_text(value),)


def _env(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidInput(
            f"the value is {_kind(value)}, expected a table",
            hint='such as env = { LANG = "C" }, or env.LANG = "C"',
        )
    env = {}
    for key, one in value.items():
        # Other odd names are accepted: an import of a crontab can have made them.
        values.check_not_own(key, what="env")
        env[key] = read_text(one)
    return env


def read_job_value(option: Option, value: object) -> object:
    """Read an option of the job; None clears it."""
    if option.type is OptionType.VARIABLES:
        return _env(value)
    text = read_text(value)
    is_literal = option.type in (OptionType.JSON, OptionType.LINES)
    if text == NONE and not is_literal:
        return None
    return values.read_option(option, text, what=option.name)


def read_timezone(value: object) -> str | None:
    return check_zone(read_text(value))


def read_group(value: object) -> tuple[str | None, tuple[str, int | None] | None]:
    text = read_text(value)
    name, _ = values.read_group(text, what="group")
    return name, values.read_limit(text, what="group")


def read_scopes(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(values.read_scope(read_text(one), what="scope") for one in read_list(value))


def read_max_runs(value: object) -> int | None:
    return values.read_max_runs(read_text(value), what="max_runs")


def _kind(value: object) -> str:
    """Name the type of a value in the words of TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "a table"
        case date() | time():
            return "a time"
    return "text"
