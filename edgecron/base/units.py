"""Read and write durations, instants and sizes: `1h30m`, `2026-11-20T08:00:00Z`, `256KiB`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from edgecron.base.errors import InvalidDuration, InvalidInput, UnreadableTime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Instants that a datetime can hold in any zone. No plan time lies outside them.
EARLIEST_MS = -62_135_510_400_000  # 0001-01-02T00:00:00Z
LATEST_MS = 253_402_128_000_000  # 9999-12-30T00:00:00Z
_MILLISECOND = timedelta(milliseconds=1)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MIB = 1024 * 1024
_UNIT_MS = {
    "ms": 1,
    "s": 1000,
    "m": MINUTE_MS,
    "h": HOUR_MS,
    "d": DAY_MS,
    "w": 7 * DAY_MS,
    "mo": 30 * DAY_MS,
}
_PART = re.compile(r"(\d{1,12})(ms|mo|s|m|h|d|w)", re.ASCII | re.IGNORECASE)
_EXAMPLES = "write a number and a unit, such as 90s, 15m, 6h, 2d or 1h30m"
# What people write instead, only for hints.
_ADVERBS = {
    "hourly": "1h", "daily": "1d", "weekly": "7d",
    "minute": "1m", "hour": "1h", "day": "1d", "week": "7d",
}  # fmt: skip
_LOOSE_PART = re.compile(r"(\d{1,9}(?:[.,]\d{1,3})?) ?([a-z]*)", re.ASCII)
_LOOSE = re.compile(rf"(?:{_LOOSE_PART.pattern} ?){{1,4}}", re.ASCII)
_LOOSE_UNITS = {
    word: unit
    for unit, words in {
        "s": "sec secs second seconds",
        "m": "min mins minute minutes",
        "h": "hr hrs hour hours",
        "d": "day days",
        "w": "week weeks",
        "mo": "month months",
    }.items()
    for word in words.split()
}
_MOST_LOOSE = 40
_SMALLER = {"w": "d", "d": "h", "h": "m", "m": "s"}
# 100 years: beyond it a datetime sum could overflow, and no schedule means it.
MAX_DURATION_MS = 100 * 366 * DAY_MS


def to_ms(instant: datetime) -> int:
    """Convert an aware datetime to milliseconds since 1970, rounded down."""
    return (instant - EPOCH) // _MILLISECOND


def from_ms(instant_ms: int) -> datetime:
    """Convert milliseconds since 1970 to an aware UTC datetime."""
    return EPOCH + _MILLISECOND * instant_ms


def parse_duration_ms(text: str) -> int:
    """Read milliseconds of `90s`, `15m`, `6h`, `2d`, `1h30m`, `250ms`: 1 ms to 100 years.

    A month (`mo`) is 30 days. `M` could be a minute or a month, so edgecron refuses it.
    Raises InvalidDuration, naming the text and what was expected.
    """
    compact = text.strip()
    parts = _PART.findall(compact)
    if compact.isascii() and compact.isdigit() and compact.strip("0"):
        short = compact[:18]
        raise InvalidDuration(
            f"duration {_short(text)} has no unit", hint=f"write {short}s, {short}m or {short}h"
        )
    if compact.isascii() and compact.isdigit():
        raise _zero(text)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        meant = find_meant_duration(compact)
        raise InvalidDuration(
            f"duration {_short(text)} is not understood",
            hint=f"did you mean {meant}?" if meant is not None else _EXAMPLES,
        )
    units = [unit.lower() for _, unit in parts]
    for number, unit in parts:
        if unit == "M":
            raise InvalidDuration(
                f"duration {_short(text)} is ambiguous: {number}mo or {number}m?",
                hint=f"write {number}m for minutes, or {30 * int(number)}d for months of 30 days",
            )
        if units.count(unit.lower()) > 1:
            raise InvalidDuration(
                f"duration {_short(text)} names the unit {unit.lower()} twice",
                hint="write each unit once, such as 1h30m",
            )
    total_ms = sum(int(number) * _UNIT_MS[unit.lower()] for number, unit in parts)
    if total_ms == 0:
        raise _zero(text)
    if total_ms > MAX_DURATION_MS:
        raise InvalidDuration(f"duration {_short(text)} is longer than 100 years", hint=_EXAMPLES)
    return total_ms


def _zero(text: str) -> InvalidDuration:
    return InvalidDuration(
        f"duration {_short(text)} is zero, expected more than nothing", hint=_EXAMPLES
    )


def find_meant_duration(text: str) -> str | None:
    """Find the duration that a text probably means, such as 5m for `5 minutes`."""
    low = text.lower()
    if low in _ADVERBS:
        return _ADVERBS[low]
    if len(low) > _MOST_LOOSE or _LOOSE.fullmatch(low) is None:
        return None
    total_ms, unit = 0.0, ""
    for number, word in _LOOSE_PART.findall(low):
        # A number without a unit at the end, as in `1h30`, has the next smaller one.
        unit = _LOOSE_UNITS.get(word, word) if word else _SMALLER.get(unit, "")
        if unit not in _UNIT_MS:
            return None
        total_ms += float(number.replace(",", ".")) * _UNIT_MS[unit]
    return format_duration_ms(round(total_ms)) if 1 <= total_ms <= MAX_DURATION_MS else None


def format_duration_ms(duration_ms: int) -> str:
    """Write the shortest exact text that `parse_duration_ms` reads: 5400000 is `1h30m`."""
    if duration_ms == 0:
        return "0s"
    rest = duration_ms
    parts: list[str] = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNIT_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def format_instant(instant: datetime) -> str:
    """Write RFC 3339 in UTC with `Z`, and milliseconds if there are any."""
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    timespec = "milliseconds" if utc.microsecond >= 1000 else "seconds"
    return utc.isoformat(timespec=timespec)[:-6] + "Z"  # The offset has six letters: +00:00.


def format_ms(instant_ms: int | None) -> str | None:
    """Write milliseconds since 1970 as `format_instant` does; None stays None."""
    if instant_ms is None:
        return None
    seconds, milliseconds = divmod(instant_ms, 1000)
    fraction = f".{milliseconds:03}" if milliseconds else ""
    return f"{_format_second(seconds)}{fraction}Z"


@lru_cache(maxsize=64)
def _format_second(seconds: int) -> str:
    # Many lines of a log have the same second: to write it again takes six times as long.
    return format_instant(from_ms(seconds * 1000)).removesuffix("Z")


def parse_instant(text: str) -> datetime:
    """Read RFC 3339 with `Z` or an offset as an aware UTC datetime.

    Raises InvalidTime if it can't be read or has no offset.
    """
    if text.isascii():
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            value = None
        if value is not None and value.tzinfo is not None:
            try:
                return value.astimezone(UTC)
            except OverflowError:
                pass
    raise UnreadableTime(
        f"time {_short(text)} is not understood",
        hint="write RFC 3339 with an offset, such as 2026-11-20T08:00:00Z",
    )


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}... ({len(text)} long)"


_SIZE = re.compile(r"(\d{1,15})\s?([A-Za-z]*)", re.ASCII)
_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}
_MOST_BYTES = 2**62


def parse_size(text: str, *, what: str) -> int:
    """Read bytes of `256KiB` (1024), `1GB` (1000) or a plain number; at least one.

    Raises InvalidInput, naming `what` the size is of.
    """
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else _UNITS.get(found[2].lower())
    size = 0 if found is None or unit is None else int(found[1]) * unit
    if not 1 <= size <= _MOST_BYTES:
        letter = "" if found is None else found[2].upper()
        raise InvalidInput(
            f"{what} is {text[:60]!r}, expected a size of at least one byte",
            hint=f"did you mean {found[1]}{letter}iB?"
            if found is not None and letter in ("K", "M", "G", "T")
            else "write a number and a unit, such as 256KiB, 10MB or 1GB",
        )
    return size


def format_size(size_bytes: int) -> str:
    """Write bytes exactly, in the largest unit that leaves no rest: `5GB`, `256KiB`, `1000`."""
    fitting = [(one, word) for word, one in _UNITS.items() if one > 1 and size_bytes % one == 0]
    one, word = max(fitting, default=(1, ""))
    return f"{size_bytes // one}{word.upper().replace('I', 'i')}"
