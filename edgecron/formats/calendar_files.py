"""Read the days and times of an iCalendar file (RFC 5545), those of repeated events too. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import takewhile

from edgecron.base.errors import InvalidInput, UnknownTimezone
from edgecron.base.units import format_instant
from edgecron.base.values import NamedTuple
from edgecron.base.zones import load_zone

MOST_ITEMS = 1_000  # of one file
_FOLD = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r'([A-Za-z-]+)((?:;[^=:;]+=(?:"[^"]*"|[^";:]*))*):(.*)')
_PARAMETER = re.compile(r';([^=]+)=(?:"([^"]*)"|([^";:]*))')
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d{8})T(\d\d)(\d\d)(\d\d)(Z?)", re.ASCII)
_DURATION = re.compile(
    r"\+?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.ASCII
)
_UNTIL = re.compile(r"UNTIL=(\d{8}T\d{6}Z)", re.ASCII | re.IGNORECASE)
_TOO_OFTEN = re.compile(r"FREQ=(SECONDLY|MINUTELY|HOURLY)", re.ASCII | re.IGNORECASE)
_DAY = timedelta(days=1)


class _Property(NamedTuple):
    """A line of an event: its parameters in capitals, and its value."""

    parameters: dict[str, str]
    value: str


class _Moment(NamedTuple):
    """A date or time of an event on the clock of its zone. All-day events have no zone."""

    at: datetime
    zone: tzinfo | None


_Event = dict[str, list[_Property]]


def read_calendar(text: str, *, timezone: str | None, since: date, until: date) -> tuple[str, ...]:
    """The days and spans of a file's events in [since, until), as `parse_except` reads them.

    A time without a zone is one of `timezone`. Raises InvalidInput.
    """
    events = _events(text)
    moved = _moved(events, timezone)
    found: set[str] = set()
    for event in events:
        if any(one.value.upper() == "CANCELLED" for one in event.get("STATUS", ())):
            continue
        for item in _items(event, moved, timezone, since=since, until=until):
            found.add(item)
            if len(found) > MOST_ITEMS:
                raise InvalidInput(
                    f"it has over {MOST_ITEMS:,} events in the coming years",
                    hint="keep in the file only the events that matter",
                )
    return tuple(sorted(found))


def _events(text: str) -> list[_Event]:
    lines = _FOLD.sub("", text.removeprefix("\ufeff")).splitlines()
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        raise InvalidInput("it is not an iCalendar file: it does not begin with BEGIN:VCALENDAR")
    events: list[_Event] = []
    inside: list[str] = []
    for line in lines:
        found = _LINE.fullmatch(line.strip())
        if found is None:
            continue
        name, value = found[1].upper(), found[3]
        if name == "BEGIN":
            inside.append(value.upper())
            if inside[-1] == "VEVENT":
                events.append({})
        elif name == "END" and inside:
            inside.pop()
        elif inside[-1:] == ["VEVENT"]:
            parameters = {
                key.upper(): quoted or plain for key, quoted, plain in _PARAMETER.findall(found[2])
            }
            events[-1].setdefault(name, []).append(_Property(parameters, value))
    return events


def _moved(events: list[_Event], timezone: str | None) -> set[tuple[str, datetime]]:
    """The occurrences of repeated events that events of their own replace, by the event's UID."""
    return {
        (_uid(event), _moment(one, one.value, timezone).at)
        for event in events
        for one in event.get("RECURRENCE-ID", ())
    }


def _uid(event: _Event) -> str:
    return event["UID"][0].value if "UID" in event else ""


def _items(
    event: _Event,
    moved: set[tuple[str, datetime]],
    timezone: str | None,
    *,
    since: date,
    until: date,
) -> Iterator[str]:
    if "DTSTART" not in event:
        raise InvalidInput("an event has no DTSTART")
    first = event["DTSTART"][0]
    start = _moment(first, first.value, timezone)
    length = _length(event, start, timezone)
    least = datetime.combine(since, time()) - length
    most = datetime.combine(until, time())
    uid = _uid(event)
    is_single = "RECURRENCE-ID" in event
    without = {moment.at for moment in _listed(event, "EXDATE", timezone)}
    starts = [start.at] if "RRULE" not in event else []
    starts += [moment.at for moment in _listed(event, "RDATE", timezone)]
    for rule in event.get("RRULE", ()):
        starts += _repeated(rule.value, start, least, most)
    for at in starts:
        is_replaced = not is_single and (uid, at) in moved
        if least <= at < most and at not in without and not is_replaced and length:
            yield _item(at, length, start.zone)


def _item(at: datetime, length: timedelta, zone: tzinfo | None) -> str:
    if zone is None:
        last = (at + length - _DAY).date()
        return f"{at:%Y-%m-%d}" if last <= at.date() else f"{at:%Y-%m-%d}..{last:%Y-%m-%d}"
    began = at.replace(tzinfo=zone).astimezone(UTC)
    ended = (at + length).replace(tzinfo=zone).astimezone(UTC)
    return f"{format_instant(began)}..{format_instant(ended)}"


def _length(event: _Event, start: _Moment, timezone: str | None) -> timedelta:
    """How long an event lasts, by the clock of its zone. The end of an event is exclusive."""
    if "DTEND" in event:
        one = event["DTEND"][0]
        end = _moment(one, one.value, timezone)
        at = end.at
        if start.zone is not None and end.zone is not None:
            at = at.replace(tzinfo=end.zone).astimezone(start.zone).replace(tzinfo=None)
        return max(at - start.at, timedelta())
    if "DURATION" in event:
        text = event["DURATION"][0].value
        found = _DURATION.fullmatch(text)
        if found is None:
            raise InvalidInput(f"duration {text[:40]!a} of an event is not understood")
        weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return _DAY if start.zone is None else timedelta()


def _listed(event: _Event, name: str, timezone: str | None) -> Iterator[_Moment]:
    for one in event.get(name, ()):
        for value in one.value.split(","):
            yield _moment(one, value, timezone)


def _moment(one: _Property, value: str, timezone: str | None) -> _Moment:
    day = _DATE.fullmatch(value)
    try:
        if day is not None:
            return _Moment(datetime.fromisoformat(value), None)
        found = _TIME.fullmatch(value)
        if found is not None:
            at = datetime.fromisoformat(value.rstrip("Z"))
            zone = "UTC" if found[5] else one.parameters.get("TZID", timezone)
            return _Moment(at, load_zone(zone))
    except ValueError as error:
        if isinstance(error, UnknownTimezone):
            raise
    raise InvalidInput(f"time {value[:40]!a} of an event is not understood")


def _repeated(rule: str, start: _Moment, least: datetime, most: datetime) -> list[datetime]:
    """The starts of a repeated event in [least, most), by the clock of its zone."""
    from dateutil.rrule import rrulestr  # 10 ms; croniter, which reads cron texts, needs it too.

    if _TOO_OFTEN.search(rule):
        raise InvalidInput(f"an event repeats more often than daily: RRULE:{rule[:70]}")

    def local(found: re.Match[str]) -> str:
        at = datetime.strptime(found[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return f"UNTIL={at.astimezone(start.zone or UTC):%Y%m%dT%H%M%S}"

    try:
        starts = rrulestr(_UNTIL.sub(local, rule), dtstart=start.at).xafter(least, inc=True)
        return list(takewhile(lambda at: at < most, starts))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"RRULE:{rule[:70]} is not understood: {error}") from None
