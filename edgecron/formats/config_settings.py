"""The table of settings, which the file reader, `config show`, help and messages use."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.formats.config_keys import ACTIONS, read_keys
from edgecron.formats.config_kinds import (
    DURATION,
    PATH,
    PATHS,
    THEME,
    URL,
    Kind,
    Text,
    choice,
    count,
    or_none,
    read_duration_ms,
    size,
)
from edgecron.formats.document_writing import value_text
from edgecron.formats.option_texts import read_needs, read_policy
from edgecron.model.choices import OnShutdown
from edgecron.model.options import DEFAULTABLE, NONE, Option, OptionType, Part
from edgecron.triggers import check_zone

_EXPECTED = {
    OptionType.ZONE: "an IANA name, or local",
    OptionType.CONDITIONS: "a condition, or an array of them",
    OptionType.CODES: "exit codes, such as 0 or [0, 2]",
    OptionType.CHOICE: "one of its words",
    OptionType.DURATION: 'a duration such as "90s" or "1h30m"',
}


def option_kind(option: Option) -> Kind:
    """Return the kind of a default: as the option of `add`, with `none` to clear it."""
    expected = _EXPECTED.get(option.type, "a number")
    match option.type:
        case OptionType.ZONE:
            return Kind(_read_zone, expected, (str,))
        case OptionType.CONDITIONS:
            return Kind(_read_needs, expected, (str,), ",", is_list=True)
        case OptionType.PATH:
            return or_none(PATH)
        case OptionType.CODES:
            return Kind(_policy(option), expected, (str, int), ",")
        case OptionType.CHOICE:
            return Kind(_policy(option), expected, (str,))
        case OptionType.DURATION:
            return Kind(_policy(option), expected, (str, int))
    return Kind(_policy(option), expected, (str, int, float))


def _policy(option: Option) -> Any:
    def read(text: str, what: str) -> object:
        return None if text == NONE else read_policy(option, text, what=what)

    return read


def _read_zone(text: str, what: str) -> str | None:
    try:
        return check_zone(text)
    except InvalidInput as error:
        raise InvalidConfig(f"{what}: {error.message}", hint=error.hint) from None


def _read_needs(texts: Text, what: str) -> tuple[str, ...]:
    try:
        return read_needs(list(texts))
    except InvalidInput as error:
        raise InvalidConfig(f"{what}: {error.message}", hint=error.hint) from None


FOREVER = "forever"
_MOST_OUTPUT = 64 * 1024 * 1024


class Color(StrEnum):
    AUTO = "auto"  # on a terminal, unless NO_COLOR is set
    ALWAYS = "always"
    NEVER = "never"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class Setting(NamedTuple):
    """A setting. `default` is written as in a file; if None, `absent` describes the default."""

    key: str
    kind: Kind
    default: Any
    help: str
    absent: str = NONE
    flag: str | None = None

    @property
    def section(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    def default_value(self) -> Any:
        if self.default is None:
            return None
        return self.kind.read(self.kind.text_of(self.default, self.key), self.key)


SECTIONS: dict[str, str] = {
    "": "where the database is, and how output looks",
    "limits": "what an engine takes: daemon, and run --wait where it runs a schedule itself",
    "daemon": "what edgecron daemon does when it starts",
    "defaults": "what new schedules have, unless add says otherwise",
    "retention": "how long history and output are kept",
    "dashboard": "how the dashboard looks",
    "dashboard.keys": "which keys do what in the dashboard",
}


def _read_clock_wait(text: str, what: str) -> int | None:
    """Read milliseconds; None is without end."""
    if text == FOREVER:
        return None
    return 0 if text == NONE else read_duration_ms(text, what)


_CLOCK_WAIT = Kind(_read_clock_wait, 'a duration such as "10m", none or forever', (str,))
_KEYS = Kind(
    read_keys, 'the name of a key such as "ctrl+q", or an array of them', (str,), ",", True
)  # fmt: skip
_AGE = or_none(DURATION)
_SIZE = or_none(size())

_TOP = (
    Setting("database", PATH, None, "the database file", "this user's own", "--db"),
    Setting(
        "url",
        URL,
        None,
        "the server of another machine to ask, instead of a database",
        "none",
        "--url",
    ),
    Setting(
        "token_file", PATH, None, "where the token for that server lies", "none", "--token-file"
    ),
    Setting("color", choice(Color), "auto", "colours: auto, always or never", flag="--color"),
)
_LIMITS = (
    Setting(
        "limits.max_running", count(), None, "runs at once", "4 per core, at least 8",
        "--max-running",
    ),
    Setting("limits.burst", or_none(count()), None, "starts within a second", "no limit",
            "--burst"),
    Setting(
        "limits.output", size(least=1024, most=_MOST_OUTPUT), "256KiB",
        "kept of what a run prints: its head and its tail",
    ),
    Setting(
        "limits.on_shutdown", choice(OnShutdown), "leave",
        "what becomes of what runs: leave, wait or stop", flag="--on-shutdown",
    ),
    Setting(
        "limits.shutdown_timeout", or_none(DURATION), None,
        "with wait: then what still runs is ended", flag="--shutdown-timeout",
    ),
    Setting(
        "limits.clock_wait", _CLOCK_WAIT, "10m",
        "how long intervals wait for a clock that can be trusted; none, forever",
        flag="--clock-wait",
    ),
    Setting("limits.log_format", choice(LogFormat), "text", "text or json",
            flag="--log-format"),
)  # fmt: skip


_DAEMON = (
    Setting(
        "daemon.schedules", PATHS, [], "schedule files that it applies, and again on HUP",
        flag="--schedules",
    ),
)  # fmt: skip


def _default(option: Option) -> Setting:
    default: object = option.default or None
    if option.is_clearable or option.type is OptionType.PATH:
        default = None
    elif option.part is Part.POLICIES and option.type is not OptionType.DURATION:
        default = value_text(option, option.default_value)
    absent = option.default or NONE
    return Setting(f"defaults.{option.name}", option_kind(option), default, option.help, absent)


_DEFAULTS = tuple(map(_default, DEFAULTABLE))
_RETENTION = (
    Setting("retention.output_age", _AGE, "90d", "what runs printed is kept for"),
    Setting("retention.output_bytes", _SIZE, "256MiB", "of all that runs printed, as stored"),
    Setting("retention.history_age", _AGE, "400d", "ended runs are kept for"),
    Setting("retention.history_count", or_none(count(most=1_000_000_000)), 50_000,
            "ended runs kept of each schedule"),
    Setting("retention.database_bytes", or_none(size(least=1024 * 1024)), "1GiB",
            "the size of the database"),
)  # fmt: skip
_DASHBOARD = (
    Setting("dashboard.theme", THEME, "auto", "auto, or the name of a theme"),
    *(
        Setting(f"dashboard.keys.{name}", _KEYS, list(action.keys), action.help)
        for name, action in ACTIONS.items()
    ),
)

SETTINGS: dict[str, Setting] = {
    setting.key: setting
    for setting in (*_TOP, *_LIMITS, *_DAEMON, *_DEFAULTS, *_RETENTION, *_DASHBOARD)
}


_HEAD = """\
# Settings of edgecron. A flag comes before a variable EDGECRON_SECTION_KEY, that before a user's
# file, that before the system's file, that before the default. `edgecron config show` says where
# each value comes from. Below, every line is the default: take away the # and change it.
"""
_SAMPLES = {
    "database": "/srv/edgecron/edgecron.db",
    "url": "http://pi:8745",
    "token_file": "~/.config/edgecron/token",
    "limits.max_running": 8,
    "limits.burst": 10,
    "defaults.grace": "24h",
    "defaults.max_running": 1,
    "defaults.env_file": "~/.config/edgecron/job.env",
    "defaults.cwd": "~",
}


def example_text() -> str:
    """Write a file in which every setting is a comment."""
    parts = [_HEAD]
    for section, words in SECTIONS.items():
        lines = [f"# {words[:1].upper()}{words[1:]}"]
        lines += [f"[{section}]"] if section else []
        lines += [_line(setting) for setting in SETTINGS.values() if setting.section == section]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def toml_text(value: Any) -> str:
    """Write a text, number or array as TOML."""
    # Arrays of texts, texts and numbers are the same in both.
    return json.dumps(value, ensure_ascii=False)


def _line(setting: Setting) -> str:
    value, words = setting.default, setting.help
    if value is None:
        value = _SAMPLES.get(setting.key, "none")
        if value != "none":
            words += f"; unless set: {setting.absent}"
    return f"# {setting.name} = {toml_text(value)}".ljust(36) + f"  # {words}"
