"""Read numbers, choices, durations and times as people write them, in options and documents.

`what` is the option's name as the person wrote it: `--max-late`, or `max_late`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidDuration, InvalidInput, InvalidTime, UsageError
from edgecron.base.units import format_instant, parse_duration_ms

_Choice = TypeVar("_Choice", bound=StrEnum)
OWN_PREFIX = "EDGECRON_"  # of the variables that every run is given
_FIRST_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_EXAMPLE_COUNT = 3


def read_count(
    text: str, *, what: str, least: int = 1, most: int = 1_000_000, hint: str | None = None
) -> int:
    """Read a whole number within bounds. Raises UsageError; its hint is an example by default."""
    digits = text.removeprefix("-") if least < 0 else text
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
    if number is None or not least <= number <= most:
        raise UsageError(
            f"{what} is {text!r}, expected a whole number from {least} to {most}",
            hint=hint or f"for example: {example(what, _near_number(text, least, most))}",
        )
    return number


def _near_number(text: str, least: int, most: int) -> int:
    """Return the allowed number that is nearest to a text; a small one if it holds none."""
    found = _FIRST_NUMBER.match(text.strip())
    return min(max(least, int(found[0]) if found else _EXAMPLE_COUNT), most)


def example(what: str, value: object) -> str:
    """Write an option, a variable or a key's value, for a person to copy into a hint.

    Keys are read from TOML, JSON and Python, which write texts and numbers alike.
    """
    if what.startswith("-"):
        return f"{what} {value}"
    if what.startswith(OWN_PREFIX):
        return f"{what}={value}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def read_run_number(text: str, *, what: str = "RUN") -> int:
    """Read the number of a run. Raises UsageError."""
    return read_count(text, what=what, most=2**63 - 1, hint="list the runs: edgecron history")


def read_choice(text: str, members: Iterable[_Choice], *, what: str) -> _Choice:
    """Read a member of a closed choice. Raises UsageError."""
    known = {member.value: member for member in members}
    if text in known:
        return known[text]
    *rest, last = known
    raise UsageError(
        f"{what} is {text!r}, expected {', '.join(rest)} or {last}",
        hint=hint_for_word(text, known, what=what),
    )


def hint_for_word(text: str, words: Iterable[str], *, what: str) -> str:
    """Suggest the word that was probably meant, else show the first one as an example."""
    known = list(words)
    close = suggest(text.lower(), known)
    if close is not None:
        return f"did you mean {example(what, close)}?"
    return f"for example: {example(what, known[0])}"


def read_duration_ms(text: str, what: str) -> int:
    """Read milliseconds of `90s` or `1h30m`. Raises InvalidDuration, which names the option."""
    try:
        return parse_duration_ms(text)
    except InvalidDuration as error:
        raise _about(error, what) from None


def read_time(
    text: str,
    *,
    what: str,
    timezone: str | None,
    now: datetime | None,
    is_past_ok: bool = False,
    is_past: bool = False,
) -> datetime:
    """Read an instant that a person wrote. Raises InvalidTime, also for one in the past.

    Without `now`, relative times are refused and the past is accepted. With `is_past` the person
    asks about the past: a bare `09:00` is today's, and a weekday the last one.
    """
    # Most commands read no time, and start a tenth faster without all triggers.
    from edgecron.triggers.walltime import parse_local, parse_when

    try:
        if now is None:
            return parse_local(text, timezone=timezone)
        instant = parse_when(text, timezone=timezone, now=now, is_past=is_past)
    except InvalidTime as error:
        raise _about(error, what) from None
    if instant <= now and not (is_past_ok or is_past):
        raise InvalidTime(
            f"{what} is {text!r}, that is {format_instant(instant)}, which is in the past",
            hint="give a time in the future",
        )
    return instant


def read_past(text: str, *, what: str, now: datetime) -> datetime:
    """Read an instant of the past: a time, or a duration before now. Raises InvalidTime.

    Local times are of the machine's zone. `-2h`, `2h` and `2h ago` are the same.
    """
    word = text.removeprefix("-")
    if word[:1].isdigit() and " " not in word and word[-1:].isalpha() and word[-1:] not in "zZ":
        return now - timedelta(milliseconds=parse_duration_ms(word))
    found = read_time(text, what=what, timezone="local", now=now, is_past=True)
    if found > now:
        raise InvalidTime(
            f"{what} is {text!r}, that is {format_instant(found)}, which is in the future",
            hint="give a time in the past, or a duration such as 7d",
        )
    return found


def _about(error: InvalidDuration | InvalidTime, what: str) -> InvalidInput:
    is_named = error.message.startswith(f"{what} ")  # time 'x' is not understood
    return type(error)(error.message if is_named else f"{what}: {error.message}", hint=error.hint)
