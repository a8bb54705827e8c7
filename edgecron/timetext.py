"""Durations and instants as text: `1h30m`, `2026-11-20T08:00:00Z`. No clock, no zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from edgecron.errors import InvalidDuration, UnreadableTime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d{1,12})(ms|s|m|h|d|w)", re.ASCII)
_MILLISECOND = timedelta(milliseconds=1)
# 100 years: beyond it a datetime sum could overflow, and no schedule means it.
MAX_DURATION_MS = 100 * 366 * 86_400_000


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970 of an aware datetime, rounded down."""
    return (instant - EPOCH) // _MILLISECOND


def from_ms(instant_ms: int) -> datetime:
    """The aware UTC datetime of milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=instant_ms)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `15m`, `6h`, `2d`, `1h30m`, `250ms`: at least 1, at most 100 years.

    Raises InvalidDuration, naming the text and what was expected.
    """
    compact = text.strip()
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise InvalidDuration(
            f"duration {_short(text)} is not understood",
            hint="write a number and a unit, such as 90s, 15m, 6h, 2d or 1h30m",
        )
    total_ms = sum(int(number) * _UNIT_MS[unit] for number, unit in parts)
    if total_ms == 0:
        raise InvalidDuration(f"duration {_short(text)} is zero, expected more than nothing")
    if total_ms > MAX_DURATION_MS:
        raise InvalidDuration(f"duration {_short(text)} is longer than 100 years")
    return total_ms


def format_duration_ms(duration_ms: int) -> str:
    """The shortest exact text that `parse_duration_ms` reads back: 5400000 is `1h30m`."""
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
    """RFC 3339 in UTC with `Z`; fractions only where there are any, in milliseconds."""
    utc = instant.astimezone(UTC)
    text = utc.strftime("%Y-%m-%dT%H:%M:%S")
    if len(text) < 20 and utc.year < 1000:
        text = f"{utc.year:04d}" + text[text.index("-") :]
    millisecond = utc.microsecond // 1000
    return f"{text}.{millisecond:03d}Z" if millisecond else f"{text}Z"


def format_ms(instant_ms: int | None) -> str | None:
    """`format_instant` of milliseconds since 1970; None stays None."""
    return None if instant_ms is None else format_instant(from_ms(instant_ms))


def parse_instant(text: str) -> datetime:
    """The aware UTC datetime of an RFC 3339 text with `Z` or an offset.

    Raises InvalidTime where it can't be read or carries no offset.
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
