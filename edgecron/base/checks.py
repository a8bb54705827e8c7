"""Check names, texts, numbers and instants when values are made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from edgecron.base.errors import InvalidInput, InvalidName, InvalidTime
from edgecron.base.units import MAX_DURATION_MS

_AN_INSTANT = "such as datetime(2026, 12, 24, 18, tzinfo=UTC)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}", re.ASCII)
# The joiner between two emoji that are one picture, such as a family.
# Compiled only for a text that has one: that takes 4 ms, a twentieth of the start of a command.
_JOINED_EMOJI = "(?<=[\u2190-\U0001faff\ufe0f])\u200d(?=[\u2190-\U0001faff])"
MOST_TEXT = 1024 * 1024  # of a job's text: 64 jobs go to the supervisor in one frame
_NAME_RULE = "use 1 to 128 of A-Z a-z 0-9 _ - . starting with a letter or digit, not only digits"


def check_type(
    what: str, value: object, *types: type, expected: str, hint: str | None = None
) -> None:
    """Raise InvalidInput unless a program's value has one of these types. True is not a number."""
    if isinstance(value, types) and (bool in types or not isinstance(value, bool)):
        return
    raise InvalidInput(f"{what} is {value!r:.60}, expected {expected}", hint=hint)


def check_seconds(what: str, value: object, *, example: str, is_optional: bool = False) -> None:
    """Raise InvalidInput unless a program's value is a number of seconds, at most 100 years.

    `example` is the parameter with a value to try; with `is_optional` None passes.
    """
    if is_optional and value is None:
        return
    expected = "seconds or None" if is_optional else "seconds"
    check_type(what, value, int, float, expected=expected, hint=f"such as {example}")
    assert isinstance(value, int | float)
    check_range(what, value, 0, MAX_DURATION_MS / 1000)


def check_switch(what: str, value: object) -> None:
    """Raise InvalidInput unless a program's value is True or False."""
    check_type(what, value, bool, expected="True or False", hint=f"such as {what}=True")


def is_name(name: str) -> bool:
    """Whether `check_name` accepts a name."""
    return _NAME.fullmatch(name) is not None and not name.isdigit()


def check_name(name: str, *, what: str) -> None:
    """Raise InvalidName unless the name is 1 to 128 ASCII letters, digits, `_`, `-`, `.`.

    It starts with a letter or digit and is not only digits, so it never looks like an id.
    """
    if not isinstance(name, str):
        raise InvalidName(f"{what} is {name!r:.60}, expected text", hint="such as 'nightly'")
    if not is_name(name):
        shown = ascii(name) if len(name) <= 140 else f"{name[:60]!a}... ({len(name)} long)"
        near = re.sub(r"[^A-Za-z0-9_.-]+", "-", name[:140]).strip("-_.")
        is_usable = " " in name and _NAME.fullmatch(near) is not None and not near.isdigit()
        raise InvalidName(
            f"{what} {shown} is not usable",
            hint=f"did you mean {near}?" if is_usable else _NAME_RULE,
        )


def check_range(what: str, value: float | None, least: float, most: float) -> None:
    """Raise InvalidInput for a number outside [least, most]; None passes."""
    if value is not None and not least <= value <= most:  # a NaN is in no range
        nearest = most if value > most else least
        raise InvalidInput(
            f"{what} is {value}, expected {least} to {most}", hint=f"for example: {nearest}"
        )


def check_aware(what: str, instant: datetime) -> datetime:
    """Return the instant. Raises InvalidTime unless it is a datetime with an offset."""
    if not isinstance(instant, datetime):
        raise InvalidTime(
            f"{what} is {instant!r:.60}, expected a datetime with an offset", hint=_AN_INSTANT
        )
    if instant.utcoffset() is None:
        raise InvalidTime(
            f"{what} is {instant.isoformat()}, expected a time with an offset", hint=_AN_INSTANT
        )
    return instant


def check_aware_or_none(what: str, instant: datetime | None) -> None:
    """As `check_aware`; None passes."""
    if instant is not None:
        check_aware(what, instant)


def check_storable(what: str, text: str) -> None:
    """Raise InvalidInput for text with NUL, invalid UTF-8 or over a megabyte."""
    if len(text) > MOST_TEXT:
        raise InvalidInput(f"{what} is {len(text)} characters long, expected at most {MOST_TEXT}")
    if "\0" in text:
        raise InvalidInput(f"{what} {text[:60]!a} holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} {text[:60]!a} is not valid UTF-8") from None


def is_plain(texts: Sequence[str]) -> bool:
    """Whether texts are short and ASCII without NUL, so that `check_storable` passes each."""
    together = "".join(texts)
    return together.isascii() and len(together) <= MOST_TEXT and "\0" not in together


def check_text(text: str, *, what: str, most: int, lines: bool = False) -> None:
    """Raise InvalidInput unless it is 1 to `most` printable characters, or `lines` of them."""
    allowed = "\n\t" if lines else ""
    if not 1 <= len(text) <= most:
        raise InvalidInput(f"{what} is {len(text)} characters long, expected 1 to {most}")
    plain = re.sub(_JOINED_EMOJI, "", text) if "\u200d" in text else text
    if not plain.isprintable() and not all(
        letter.isprintable() or letter in allowed for letter in plain
    ):
        raise InvalidInput(f"{what} {text[:60]!a} holds control characters")


def suggest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant; None if none is similar enough.

    `cutoff` is the least similarity, from 0 to 1.
    """
    from difflib import get_close_matches  # Only errors need it, and it takes a millisecond.

    found = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None
