"""Read values of settings: TOML in files, text in variables and flags.

A value of a file becomes the text that a flag would have, or a tuple of texts, and is read from
that. `what` names the setting in a message, as in `limits.burst is 'x', expected ...`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from edgecron.base.errors import InvalidDuration, InvalidInput
from edgecron.base.paths import resolve_path
from edgecron.base.units import parse_duration_ms, parse_size
from edgecron.base.values import NamedTuple
from edgecron.formats.option_texts import read_choice, read_count

NONE = "none"
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
            raise InvalidInput(f"{what} is a number out of reach, expected {self.expected}")
        return str(value)


def read_duration_ms(text: str, what: str) -> int:
    """Read milliseconds of `90s` or `1h30m`. Raises InvalidDuration, naming the setting."""
    try:
        return parse_duration_ms(text)
    except InvalidDuration as error:
        raise InvalidDuration(f"{what}: {error.message}", hint=error.hint) from None


def count(*, least: int = 1, most: int = 1_000_000) -> Kind:
    def read(text: str, what: str) -> int:
        return read_count(text, what=what, least=least, most=most)

    return Kind(read, f"a whole number from {least} to {most}", (int, str))


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


def _read_url(text: str, what: str) -> str:
    if _URL.match(text) is None:
        # Not quoted: the text can hold a password.
        raise InvalidInput(f"{what} is no address, expected one such as http://pi:8745")
    return text


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and abs(value) > _MOST_INTEGER:
        return "a number out of reach"
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
URL = Kind(_read_url, "an address such as http://pi:8745", (str,))
THEME = Kind(_read_theme, "auto or the name of a theme", (str,))
