"""Say instants and durations as people do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from edgecron.base.errors import UnknownTimezone
from edgecron.base.units import HOUR_MS, format_duration_ms
from edgecron.base.zones import load_zone

_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)
_LARGE_MS = 3 * HOUR_MS  # a larger step back recomputes next times


def local_time(instant: datetime | None, *, zone: tzinfo | None, absent: str = "-") -> str:
    """Format a local time to the second."""
    if instant is None:
        return absent
    return instant.astimezone(zone or UTC).strftime("%Y-%m-%d %H:%M:%S")


def near_time(instant: datetime, *, zone: tzinfo, now: datetime) -> str:
    """Format a local time, short if it is near: `14:05:00`, `Nov 21 02:00`."""
    local, today = instant.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return local.strftime("%H:%M:%S")
    pattern = "%b %d %H:%M" if abs((instant - now).days) < 300 else "%Y-%m-%d %H:%M"
    return local.strftime(pattern)


def with_near_times(text: str, *, zone: tzinfo, now: datetime) -> str:
    """Replace the UTC instants in one of our texts by local times."""

    def local(found: re.Match[str]) -> str:
        return near_time(datetime.fromisoformat(found[0]), zone=zone, now=now)

    return _INSTANT.sub(local, text)


def weekday_time(instant: datetime, timezone: str | None, *, zone: tzinfo) -> str:
    """Return `full_time` after the day of the week there: `Fri 2026-11-20 14:05:00`."""
    try:
        day = instant.astimezone(load_zone(timezone))
    except UnknownTimezone:
        day = instant.astimezone(zone)
    return f"{day:%a} {full_time(instant, timezone, zone=zone)}"


def full_time(instant: datetime, timezone: str | None, *, zone: tzinfo) -> str:
    """Format a time in full: in the zone of its schedule and, if clocks differ, in ours."""
    here = local_time(instant, zone=zone)
    try:
        there = instant.astimezone(load_zone(timezone))
    except UnknownTimezone:
        return here
    local = instant.astimezone(zone)
    if there.utcoffset() == local.utcoffset():
        return here
    if there.date() == local.date():
        here = local.strftime("%H:%M:%S")
    return f"{there.strftime('%Y-%m-%d %H:%M:%S %Z')}, {here} here"


def distance(instant: datetime, now: datetime, *, is_clock_trusted: bool = True) -> str:
    """Say how far away an instant is: `in 3d 14h`, `13m ago`.

    If the clock can't be trusted: `held`.
    """
    if not is_clock_trusted:
        return "held"
    seconds = round((instant - now).total_seconds())
    if seconds == 0:
        return "now"
    shown = _size(abs(seconds))
    return f"in {shown}" if seconds > 0 else f"{shown} ago"


def _size(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600 - 30:
        return f"{round(seconds / 60)}m"
    return _hours_or_days(seconds)


def short_duration(duration_ms: int | None) -> str:
    """Format a duration: `459ms`, `2.4s`, `1m 48s`, `2h 5m`, `3d 14h`."""
    if duration_ms is None:
        return "-"
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 59_950:
        return f"{duration_ms / 1000:.1f}s"
    seconds = round(duration_ms / 1000)
    if seconds < 3600:
        return _two_units(seconds, 60, "m", "s")
    return _hours_or_days(seconds)


def _hours_or_days(seconds: int) -> str:
    if seconds < 86400 - 30:
        return _two_units(round(seconds / 60), 60, "h", "m")
    return _two_units(round(seconds / 3600), 24, "d", "h")


def _two_units(amount: int, per_large: int, large: str, small: str) -> str:
    whole, rest = divmod(amount, per_large)
    return f"{whole}{large} {rest}{small}" if rest else f"{whole}{large}"


def spoken_time(instant: datetime, *, zone: tzinfo, now: datetime) -> str:
    """Read a time back to the person who wrote it: `Sat 2026-11-21 09:00:00, in 18h 5m`."""
    local = instant.astimezone(zone)
    return f"{local.strftime('%a %Y-%m-%d %H:%M:%S')}, {distance(instant, now)}"


def clock_set_words(set_at: datetime, by_ms: int, *, zone: tzinfo, now: datetime) -> str | None:
    """Say that the clock was set, and the effect; None if that is over a day ago."""
    if not timedelta(0) <= now - set_at < timedelta(days=1):
        return None
    at, span = near_time(set_at, zone=zone, now=now), short_duration(abs(by_ms))
    if by_ms > 0:
        return f"was set forward by {span} at {at}: the times in between were missed"
    before = set_at - timedelta(milliseconds=by_ms)
    until = near_time(before, zone=zone, now=now)
    if -by_ms > _LARGE_MS:
        return f"was set back by {span} at {at}: next times were computed again"
    over = "" if now < before else "; this span is over"
    return (
        f"was set back by {span} at {at}: intervals and wildcard cron times follow elapsed time,"
        f" fixed times up to {until} do not fire again{over}"
    )


def seconds_words(seconds: float) -> str:
    """Format the seconds of a policy as its option does: `1h30m`."""
    return format_duration_ms(round(seconds * 1000))
