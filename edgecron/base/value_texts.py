"""Read numbers, choices, durations and times as people write them, in options and documents.

`what` is the option's name as the person wrote it: `--max-late`, or `max_late`. A time is in a
zone: `2026-11-21 09:00`, `tomorrow 09:00`, `in 20m`. A wall time that a gap skips is the gap's end;
a repeated one is its first pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from edgecron.base.checks import check_aware, suggest
from edgecron.base.errors import (
    InvalidDuration,
    InvalidInput,
    InvalidTime,
    UnreadableTime,
    UsageError,
)
from edgecron.base.tzif import DAY_S, EPOCH_ORDINAL
from edgecron.base.units import (
    EARLIEST_MS,
    find_meant_duration,
    format_instant,
    from_ms,
    parse_duration_ms,
    to_ms,
)
from edgecron.base.zones import offset_at, resolve_wall

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


# Times.

_LONGEST = 64
# A written time lies at least a year before the last datetime, so later times can be found.
LATEST_WRITTEN_MS = 253_370_764_799_999  # 9998-12-31T23:59:59.999Z
_LOCAL = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?", re.ASCII | re.I
)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
# What people write instead, only for hints.
_HALF_DAY = re.compile(r"\b(\d{1,2})(?::(\d\d))? ?([ap])\.?m\b\.?", re.ASCII)
_DAY_FIRST = re.compile(r"\b(\d\d)\.(\d\d)\.(\d{4})\b", re.ASCII)
_YEAR_FIRST = re.compile(r"\b\d{4}[/.]\d\d[/.]\d\d\b", re.ASCII)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HINT = (
    "write 2026-11-20T08:00:00Z, a local 2026-11-20 09:00, 'in 20m', '09:00' or 'tomorrow 09:00'"
)
_PAST_HINT = (
    "write 2026-11-20T08:00:00Z, a local 2026-11-20 09:00, '2h ago', '09:00' or 'yesterday 09:00'"
)
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DAY_NAMES = (
    *_DAYS, "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
)  # fmt: skip
_LOCAL_HINT = "write 2026-11-20T08:00:00Z, or a local 2026-11-20 09:00"


def parse_when(
    text: str, *, timezone: str | None, now: datetime, is_past: bool = False
) -> datetime:
    """Read the instant, in UTC, that a person means by a text, in a zone, at `now`.

    RFC 3339; a local date with or without a time; `now`; `in 20m`; `2h ago`; `09:00`;
    `yesterday`, `today`, `tomorrow` or a weekday, with or without a time. Each with or without
    `at` before it. A bare `09:00` is the next one, a weekday the next after today; with `is_past`
    today's `09:00` and the last such weekday before today.
    Raises InvalidTime, or UnknownTimezone.
    """
    try:
        return _read_when(text, timezone=timezone, now=now, is_past=is_past)
    except UnreadableTime as error:
        meant = _find_meant(text, timezone=timezone, now=now, is_past=is_past)
        hint = error.hint if meant is None else f"did you mean {meant!r}?"
        raise UnreadableTime(error.message, hint=hint) from None


def _find_meant(text: object, *, timezone: str | None, now: datetime, is_past: bool) -> str | None:
    """Find the time that a person probably meant, such as `09:00` for `9am`."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    low = " ".join(text.lower().split())
    meant = _HALF_DAY.sub(_full_day, low)
    meant = _DAY_FIRST.sub(r"\3-\2-\1", meant)
    meant = _YEAR_FIRST.sub(lambda found: found[0].replace("/", "-").replace(".", "-"), meant)
    first, space, rest = meant.partition(" ")
    if first.isalpha():
        meant = f"{suggest(first, _DAY_NAMES, cutoff=0.75) or first}{space}{rest}"
    if meant == low:
        return None
    try:
        _read_when(meant, timezone=timezone, now=now, is_past=is_past)
    except InvalidTime:
        return None
    return meant


def _full_day(found: re.Match[str]) -> str:
    hour = int(found[1]) % 12 + (12 if found[3] == "p" else 0)
    return f"{hour:02}:{found[2] or '00'}" if 1 <= int(found[1]) <= 12 else found[0]


def _read_when(text: str, *, timezone: str | None, now: datetime, is_past: bool) -> datetime:
    shown = _check(text, hint=_PAST_HINT if is_past else _HINT)
    words = shown.lower().split()
    if words[0] == "at" and len(words) > 1:
        shown, words = shown[3:], words[1:]
    if words == ["now"]:
        return check_aware("time", now).astimezone(UTC)
    if words[0] == "in" and len(words) > 1:
        return _distant(text, shown.split()[1:], now=now, sign=1)
    if words[-1] == "ago" and len(words) > 1:
        return _distant(text, shown.split()[:-1], now=now, sign=-1)
    if not shown[:4].isdigit():
        return _relative(text, words, timezone=timezone, now=now, is_past=is_past)
    return parse_local(shown, timezone=timezone)


def parse_local(text: str, *, timezone: str | None) -> datetime:
    """Read an instant, in UTC, from RFC 3339 or a local date and time in a zone.

    Raises InvalidTime, or UnknownTimezone.
    """
    shown = _check(text, hint=_LOCAL_HINT)
    found = _LOCAL.fullmatch(shown)
    if found is not None:
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        try:
            wall = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError:
            what = _impossible(month, day, hour, minute, second)
            raise UnreadableTime(
                f"time {text!r} is not on the calendar: {what}", hint=_LOCAL_HINT
            ) from None
        fraction_ms = int((found[7] or "").ljust(3, "0")[:3])
        at_s = resolve_wall(to_ms(wall) // 1000, timezone=timezone)
        return _bounded(at_s * 1000 + fraction_ms, text=text)
    try:
        # RFC 3339 allows a space and small letters, which fromisoformat reads as well.
        instant = datetime.fromisoformat(shown.upper())
        if instant.tzinfo is None:
            raise ValueError
    except ValueError:
        raise UnreadableTime(
            f"time {text!r} is not understood, expected RFC 3339 or a local time", hint=_LOCAL_HINT
        ) from None
    return _bounded(to_ms(instant), text=text)


def _impossible(month: int, day: int, hour: int, minute: int, second: int) -> str:
    """Say which part of a date and time does not exist."""
    for what, number, most in (("hour", hour, 23), ("minute", minute, 59), ("second", second, 59)):
        if number > most:
            return f"there is no {what} {number}"
    if not 1 <= month <= 12:
        return f"there is no month {month}"
    return f"its month has no day {day}"


def _check(text: object, *, hint: str) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST or not text.isascii() or not text.strip():
        shown = ascii(text) if not isinstance(text, str) else ascii(text[:_LONGEST])
        raise UnreadableTime(
            f"time {shown} is not understood, expected an instant or a time of day", hint=hint
        )
    return " ".join(text.split())


def _distant(text: str, words: list[str], *, now: datetime, sign: int) -> datetime:
    joined = "".join(words)
    try:
        distance_ms = parse_duration_ms(joined)
    except InvalidDuration as error:
        example = find_meant_duration(joined) or "20m"
        hint = f"write 'in {example}'" if sign > 0 else f"write '{example} ago'"
        what = error.message.replace(joined, " ".join(words), 1)  # as it was written
        raise UnreadableTime(f"time {text!r}: {what}", hint=hint) from None
    return _bounded(to_ms(check_aware("time", now)) + sign * distance_ms, text=text)


def _relative(
    text: str, words: list[str], *, timezone: str | None, now: datetime, is_past: bool
) -> datetime:
    now_s = to_ms(check_aware("time", now)) // 1000
    today = (now_s + offset_at(now_s, timezone=timezone)) // DAY_S
    first, hint = words[0], _PAST_HINT if is_past else _HINT
    if len(words) > 2:
        raise _not_understood(text, hint=hint)
    if first in _DAYS:
        day = today + _DAYS[first]
    elif first[:3] in _WEEKDAYS and (len(first) == 3 or first.endswith("day")):
        weekday = (today + EPOCH_ORDINAL - 1) % 7
        ahead = (_WEEKDAYS.index(first[:3]) - weekday) % 7
        day = today + (ahead - 7 if is_past else ahead or 7)
    elif len(words) == 1:
        time_s = _clock(text, first, hint=hint)
        at_s = resolve_wall(today * DAY_S + time_s, timezone=timezone)
        if at_s <= now_s and not is_past:
            at_s = resolve_wall((today + 1) * DAY_S + time_s, timezone=timezone)
        return _bounded(at_s * 1000, text=text)
    else:
        raise _not_understood(text, hint=hint)
    time_s = _clock(text, words[1], hint=hint) if len(words) == 2 else 0
    return _bounded(resolve_wall(day * DAY_S + time_s, timezone=timezone) * 1000, text=text)


def _clock(text: str, word: str, *, hint: str) -> int:
    found = _CLOCK.fullmatch(word)
    hour, minute, second = (int(part or 0) for part in found.groups()) if found else (24, 0, 0)
    if hour > 23 or minute > 59 or second > 59:
        raise _not_understood(text, hint=hint)
    return hour * 3600 + minute * 60 + second


def _not_understood(text: str, *, hint: str) -> UnreadableTime:
    first, _, rest = text.lower().partition(" ")
    if first == "next" and rest:
        hint = f"did you mean '{rest} 00:00'?"
    with suppress(InvalidDuration):
        parse_duration_ms(text.lstrip("+"))
        meant = text.lstrip("+")
        hint = (
            f"did you mean '{meant} ago'?" if hint == _PAST_HINT else f"did you mean 'in {meant}'?"
        )
    return UnreadableTime(
        f"time {text!r} is not understood, expected an instant or a time of day", hint=hint
    )


def _bounded(at_ms: int, *, text: str) -> datetime:
    if not EARLIEST_MS <= at_ms <= LATEST_WRITTEN_MS:
        raise UnreadableTime(f"time {text!r} lies outside the years 1 to 9998", hint=_LOCAL_HINT)
    return from_ms(at_ms)
