"""Numbers and closed choices as text. Light, for every verb has some."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from edgecron.base.errors import UsageError

_Choice = TypeVar("_Choice", bound=StrEnum)


def read_count(text: str, *, what: str, least: int = 1, most: int = 1_000_000) -> int:
    """A whole number that an option was given, within bounds. Raises UsageError."""
    digits = text.removeprefix("-") if least < 0 else text
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
    if number is None or not least <= number <= most:
        raise UsageError(f"{what} is {text!r}, expected a whole number from {least} to {most}")
    return number


def read_choice(text: str, members: Iterable[_Choice], *, what: str) -> _Choice:
    """The member of a closed choice that an option was given. Raises UsageError."""
    known = {member.value: member for member in members}
    if text in known:
        return known[text]
    *rest, last = known
    raise UsageError(f"{what} is {text!r}, expected {', '.join(rest)} or {last}")
