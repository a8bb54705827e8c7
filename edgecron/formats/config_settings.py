"""The table of settings, and how their values are written.

The file reader, `config show`, help and messages use the table. Files have TOML, variables and
flags have text: a value of a file first becomes the text that a flag would have, or a tuple of
texts. `what` names the setting in a message, as in `limits.burst is 'x', expected ...`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.base.paths import ServerUrl, read_location, resolve_path
from edgecron.base.units import parse_size
from edgecron.base.value_texts import read_choice, read_count, read_duration_ms
from edgecron.base.values import NamedTuple
from edgecron.base.zones import check_zone
from edgecron.formats.config_keys import ACTIONS, read_keys
from edgecron.formats.document_tables import value_text
from edgecron.formats.option_texts import read_list, read_option
from edgecron.model.choices import Alert, OnLost, OnShutdown
from edgecron.model.engine import check_label
from edgecron.model.options import DEFAULTABLE, LISTS, NONE, Option, OptionType, Part

Text = str | tuple[str, ...]

_MOST_INTEGER = 10**18
_URL = re.compile(r"https?://[^\s@]+|unix:.+")
_MOST_BYTES = 2**62


class Kind(NamedTuple):
    """A kind of value: the TOML types that it can have, and the reader of its text.

    `joiner` separates the parts of an array's text; `is_list`: the parts stay separate.
    """

    read: Callable[[Any, str], Any]
    expected: str
    types: tuple[type, ...] = (str, int, float)
    joiner: str | None = None
    is_list: bool = False
    check_written: Callable[[str, str], object] | None = None  # only for values of files

    def text_of(self, value: object, what: str) -> Text:
        """Write a file's value as text. Raises InvalidInput if it is not of this kind."""
        if isinstance(value, list) and self.joiner is not None:
            parts = tuple(self._part_of(part, what) for part in value)
            if self.check_written is not None:
                for part in parts:
                    self.check_written(part, what)
            return parts if self.is_list else self.joiner.join(parts)
        text = self._part_of(value, what)
        if self.check_written is not None:
            self.check_written(text, what)
        return (text,) if self.is_list else text

    def parted(self, text: str) -> Text:
        """Split the text of a variable if this kind has parts."""
        if not self.is_list:
            return text
        return tuple(part.strip() for part in text.split(self.joiner))

    def _part_of(self, value: object, what: str) -> str:
        # In Python, True is an int.
        if isinstance(value, bool) or not isinstance(value, self.types):
            raise InvalidInput(f"{what} is {_shown(value)}, expected {self.expected}")
        if isinstance(value, int) and abs(value) > _MOST_INTEGER:
            raise InvalidInput(f"{what} is a number out of range, expected {self.expected}")
        return str(value)


def count(*, most: int = 1_000_000) -> Kind:
    def read(text: str, what: str) -> int:
        return read_count(text, what=what, most=most)

    return Kind(read, f"a whole number from 1 to {most}", (int, str))


def choice(members: type[StrEnum]) -> Kind:
    *rest, last = (member.value for member in members)
    return Kind(
        lambda text, what: read_choice(text, members, what=what),
        f"{', '.join(rest)} or {last}",
        (str,),
    )


def size(*, least: int = 1, most: int = _MOST_BYTES) -> Kind:
    def read(text: str, what: str) -> int:
        number = parse_size(text, what=what)
        if not least <= number <= most:
            raise InvalidInput(f"{what} is {text!r}, expected {least} to {most} bytes")
        return number

    return Kind(read, "a size, such as 256KiB or 1GB", (str, int))


def or_none(kind: Kind) -> Kind:
    """Return the same kind with `none` for None."""
    check = kind.check_written

    def check_written(text: str, what: str) -> None:
        if text != NONE and check is not None:
            check(text, what)

    return kind._replace(
        check_written=check_written,
        read=lambda text, what: None if text == NONE else kind.read(text, what),
        expected=f"{kind.expected}, or none",
    )


def _read_path(text: str, what: str) -> str:
    return str(resolve_path(text, what=what))


def _read_database(text: str, what: str) -> str:
    return text if isinstance(read_location(text), ServerUrl) else _read_path(text, what)


def _check_location(text: str, what: str) -> None:
    if not isinstance(read_location(text), ServerUrl):
        _check_absolute(text, what)


def _check_absolute(text: str, what: str) -> None:
    # Commands that read the file start in any folder.
    if not text.startswith(("/", "~")):
        raise InvalidInput(
            f"{what} is {text[:200]!r}, expected an absolute path or one that begins with ~"
        )


def _read_theme(text: str, what: str) -> str:
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", text, re.ASCII) is None:
        raise InvalidInput(f"{what} is {text[:60]!r}, expected auto or the name of a theme")
    return text


def _read_label(text: str, what: str) -> str:
    check_label(text, what=what)
    return text


def _read_url(text: str, what: str) -> str:
    if _URL.match(text) is None:
        # Not quoted: the text can hold a password.
        raise InvalidInput(f"{what} is not an address, expected one such as http://pi:8745")
    return text


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and abs(value) > _MOST_INTEGER:
        return "a number out of range"
    return repr(value)[:80] if isinstance(value, (str, int, float)) else f"'{value}'"


DURATION = Kind(read_duration_ms, 'a duration such as "90s" or "1h30m"', (str,))
PATH = Kind(_read_path, "a path", (str,), check_written=_check_absolute)
PATHS = Kind(
    lambda texts, what: tuple(_read_path(text, what) for text in texts),
    "a path, or an array of paths",
    (str,),
    joiner=",",
    is_list=True,
    check_written=_check_absolute,
)
DATABASE = Kind(_read_database, "a path or postgresql://...", (str,), check_written=_check_location)
_LABELS = Kind(
    lambda texts, what: tuple(_read_label(text, what) for text in texts),
    "a name, or an array of names",
    (str,),
    joiner=",",
    is_list=True,
)
URL = Kind(_read_url, "an address such as http://pi:8745", (str,))
THEME = Kind(_read_theme, "auto or the name of a theme", (str,))


_EXPECTED = {
    OptionType.ZONE: "an IANA name, or local",
    OptionType.TEXT: "text such as that of the option",
    OptionType.CONDITIONS: "a condition, or an array of them",
    OptionType.WINDOWS: "a window such as 21:00-05:00, or an array of them",
    OptionType.DAYS: "a day such as 2026-12-24, or an array of them",
    OptionType.CODES: "exit codes, such as 0 or [0, 2]",
    OptionType.RULES: "the name of a rule, an array of them, or off",
    OptionType.CHOICE: "one of its words",
    OptionType.DURATION: 'a duration such as "90s" or "1h30m"',
}


_TYPES: dict[OptionType, tuple[type, ...]] = {
    OptionType.ZONE: (str,),
    **dict.fromkeys(LISTS, (str,)),
    OptionType.CODES: (str, int),
    OptionType.RULES: (str,),
    OptionType.CHOICE: (str,),
    OptionType.DURATION: (str, int),
}


_JOINED = (OptionType.CODES, OptionType.RULES, *LISTS)  # several values in a variable


def option_kind(option: Option) -> Kind:
    """Return the kind of a default: as the option of `add`, with `none` to clear it."""
    if option.type is OptionType.PATH:
        return or_none(PATH)
    return Kind(
        partial(_read_default, option),
        _EXPECTED.get(option.type, "a number"),
        _TYPES.get(option.type, (str, int, float)),
        "," if option.type in _JOINED else None,
        is_list=option.type in LISTS,
    )


def _read_default(option: Option, text: Any, what: str) -> object:
    """Read a text of a default, or its texts. Raises InvalidInput, which names the setting."""
    try:
        if option.type is OptionType.ZONE:
            return check_zone(text)
        if option.type in LISTS:
            return read_list(option, list(text))
    except InvalidInput as error:
        raise InvalidConfig(f"{what}: {error.message}", hint=error.hint) from None
    return None if text == NONE else read_option(option, text, what=what)


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
    "": "the place of the database, and the look of output",
    "limits": "limits of an engine: daemon, and run --wait if it runs a schedule itself",
    "daemon": "options of edgecron daemon",
    "defaults": "options of new schedules, unless add sets them",
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
    Setting(
        "database",
        DATABASE,
        None,
        "the database: a file, or postgresql://...",
        "this user's own",
        "--db",
    ),
    Setting(
        "url",
        URL,
        None,
        "the server of another machine to ask, instead of a database",
        "none",
        "--url",
    ),
    Setting("token_file", PATH, None, "file with the token of that server", "none", "--token-file"),
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
        "size of the kept output of a run: its head and its tail",
    ),
    Setting(
        "limits.on_shutdown", choice(OnShutdown), "leave",
        "choose what happens to running jobs: leave, wait or stop", flag="--on-shutdown",
    ),
    Setting(
        "limits.on_lost", choice(OnLost), "end",
        "choose what happens to running jobs that another machine took over: end or leave",
        flag="--on-lost",
    ),
    Setting(
        "limits.shutdown_timeout", or_none(DURATION), None,
        "with wait: end jobs that are still running after this time", flag="--shutdown-timeout",
    ),
    Setting(
        "limits.clock_wait", _CLOCK_WAIT, "10m",
        "how long intervals wait for a clock that can be trusted; none, forever",
        flag="--clock-wait",
    ),
    Setting(
        "limits.write_budget", or_none(size()), None,
        "warn in doctor and status if engines write more to disks in a day",
    ),
    Setting("limits.log_format", choice(LogFormat), "text", "text or json",
            flag="--log-format"),
)  # fmt: skip


_DAEMON = (
    Setting(
        "daemon.schedules", PATHS, [], "schedule files to apply at the start and on HUP",
        flag="--schedules",
    ),
    Setting(
        "daemon.labels", _LABELS, [], "labels of this machine, for schedules with --on label:SITE",
        flag="--label",
    ),
)  # fmt: skip


def _default(option: Option) -> Setting:
    default: object = option.default or None
    if option.is_clearable or option.type in (OptionType.PATH, OptionType.RULES):
        default = None
    elif option.part is Part.POLICIES and option.type is not OptionType.DURATION:
        default = value_text(option, option.default_value)
    absent = option.default or NONE
    return Setting(f"defaults.{option.name}", option_kind(option), default, option.help, absent)


_DEFAULTS = tuple(map(_default, DEFAULTABLE))
_RETENTION = (
    Setting("retention.output_age", _AGE, "90d", "the output of runs is kept for"),
    Setting("retention.output_bytes", _SIZE, "256MiB", "of all that runs printed, as stored"),
    Setting("retention.history_age", _AGE, "400d", "ended runs are kept for"),
    Setting("retention.history_count", or_none(count(most=1_000_000_000)), 50_000,
            "ended runs kept of each schedule"),
    Setting("retention.database_bytes", or_none(size(least=1024 * 1024)), "1GiB",
            "the size of the database"),
)  # fmt: skip
_DASHBOARD = (
    Setting("dashboard.theme", THEME, "auto", "auto, or the name of a theme"),
    Setting(
        "dashboard.notify",
        choice(Alert),
        "off",
        "on a new failure: off, bell, or osc9 for a message of the terminal",
    ),
    *(
        Setting(f"dashboard.keys.{name}", _KEYS, list(action.keys), action.help)
        for name, action in ACTIONS.items()
    ),
)

SETTINGS: dict[str, Setting] = {
    setting.key: setting
    for setting in (*_TOP, *_LIMITS, *_DAEMON, *_DEFAULTS, *_RETENTION, *_DASHBOARD)
}
