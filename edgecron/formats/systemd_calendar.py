"""Read the times of systemd timers: calendar expressions and time spans (systemd.time(7)).

systemd wants weekday and date both to match, and cron one of them. So an expression that restricts
both becomes an n-th weekday, a last weekday, or a field that starts with `*`, which cron ANDs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from edgecron.base.errors import InvalidInput, InvalidTrigger, UnknownTimezone
from edgecron.base.units import from_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.triggers import parse_trigger
from edgecron.triggers.fields import WEEKDAYS

LOCAL = "local"
_SHORTHANDS = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",
}
_DAY_NUMBERS = {
    shown.lower(): number for number, name in enumerate(WEEKDAYS) for shown in (name[:3], name)
}
_EVERY_WEEKDAY = frozenset(range(7))
_LATEST_EPOCH = 253_370_764_800  # the year 9999

_PART = re.compile(
    r"(?P<start>\d{1,9})(?:\.(?P<fraction>\d{1,6}))?(?:\.\.(?P<stop>\d{1,9}(?:\.\d{1,6})?))?"
    r"(?:/(?P<repeat>\d{1,9}(?:\.\d{1,6})?))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A calendar expression as trigger texts and their zone: 'local', 'UTC' or an IANA name."""

    triggers: tuple[str, ...]
    timezone: str


class _Unit(NamedTuple):
    name: str
    least: int
    most: int

    @property
    def all(self) -> frozenset[int]:
        return frozenset(range(self.least, self.most + 1))


_YEAR = _Unit("year", 1970, 2199)
_MONTH = _Unit("month", 1, 12)
_DAY = _Unit("day", 1, 31)
_FROM_END = _Unit("day from the end", 1, 28)
_HOUR = _Unit("hour", 0, 23)
_MINUTE = _Unit("minute", 0, 59)
_SECOND = _Unit("second", 0, 59)


class _Days(NamedTuple):
    """The date part. `from_end` counts back from a month's last day, which is 1."""

    years: frozenset[int] | None
    months: frozenset[int]
    days: frozenset[int]
    from_end: frozenset[int] | None


class _Clock(NamedTuple):
    """The time part."""

    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int]


_MIDNIGHT = _Clock(frozenset({0}), frozenset({0}), frozenset({0}))


def read_calendar(text: str) -> Calendar:
    """Read an OnCalendar expression. Raises InvalidInput with the reason if it can't be carried."""
    shown = f"{text[:80]!a}"
    expression, timezone = _split_zone(text.strip())
    expression = _SHORTHANDS.get(expression.lower(), expression)
    if not expression:
        raise InvalidInput("the calendar expression is empty")
    if expression.startswith("@"):
        return Calendar(triggers=(_epoch_trigger(expression, shown),), timezone="UTC")
    weekdays, rest = _split_weekdays(expression, shown)
    date_text, clock_text = _split_date(rest, shown)
    days = _read_date(date_text, shown)
    clock = _read_clock(clock_text, shown)
    triggers = tuple(_triggers(weekdays, days, clock, shown))
    for trigger in triggers:
        try:
            parse_trigger(trigger, timezone)
        except (InvalidTrigger, UnknownTimezone) as error:
            raise InvalidInput(f"{shown}: {error.message}") from None
    return Calendar(triggers=triggers, timezone=timezone)


def _split_zone(text: str) -> tuple[str, str]:
    front, _, last = text.rpartition(" ")
    if not front or not last[:1].isalpha() or last.lower() in _SHORTHANDS:
        return text, LOCAL
    if last.lower() == "utc":
        return front.rstrip(), "UTC"
    try:
        parse_trigger("@daily", last)
    except UnknownTimezone:
        raise InvalidInput(f"{last[:60]!a} is an unknown time zone") from None
    return front.rstrip(), last


def _epoch_trigger(expression: str, shown: str) -> str:
    seconds = expression[1:]
    if not (seconds.isascii() and seconds.isdigit()) or len(seconds) > 12:
        raise InvalidInput(f"{shown} is not a calendar expression")
    if int(seconds) >= _LATEST_EPOCH:
        raise InvalidInput(f"{shown} is after the year 9998")
    return f"at {from_ms(int(seconds) * 1000):%Y-%m-%dT%H:%M:%SZ}"


def _split_weekdays(text: str, shown: str) -> tuple[frozenset[int], str]:
    """Split off the weekdays, 0 for Sunday. All seven if the text names none."""
    if not text[0].isalpha():
        return _EVERY_WEEKDAY, text
    word, _, rest = text.partition(" ")
    found: set[int] = set()
    for item in word.lower().removesuffix(",").split(","):
        ends = [_DAY_NUMBERS.get(name) for name in re.split(r"\.\.|-", item)]
        if len(ends) > 2 or None in ends:
            raise InvalidInput(f"{shown} has the unknown weekday {item[:40]!a}")
        # systemd counts from Monday to Sunday.
        first, last = ((number or 7) for number in (ends[0], ends[-1]))
        if first > last:
            raise InvalidInput(f"{shown} has the weekdays {item[:40]!a}, which run backwards")
        found.update(number % 7 for number in range(first, last + 1))
    return frozenset(found), rest.strip()


def _split_date(text: str, shown: str) -> tuple[str, str]:
    """Split into date and time; either is empty if it is not there."""
    words = text.split()
    if len(words) > 2:
        raise InvalidInput(f"{shown} is not a calendar expression")
    if len(words) == 2:
        return words[0], words[1]
    if not words:
        return "", ""
    return ("", words[0]) if ":" in words[0] else (words[0], "")


def _read_date(text: str, shown: str) -> _Days:
    if not text:
        return _Days(None, _MONTH.all, _DAY.all, None)
    front, tilde, back = text.rpartition("~")
    parts = [*front.split("-"), back] if tilde else text.split("-")
    if len(parts) == 2:
        parts.insert(0, "*")
    if len(parts) != 3:
        raise InvalidInput(f"{shown} has the date {text[:40]!a}, expected year-month-day")
    years = None if parts[0] == "*" else _read_field(_YEAR, parts[0], shown)
    months = _read_field(_MONTH, parts[1], shown)
    if tilde and parts[2] != "*":
        return _Days(years, months, _DAY.all, _read_field(_FROM_END, parts[2], shown))
    return _Days(years, months, _read_field(_DAY, parts[2], shown), None)


def _read_clock(text: str, shown: str) -> _Clock:
    if not text:
        return _MIDNIGHT
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise InvalidInput(f"{shown} has the time {text[:40]!a}, expected hour:minute:second")
    seconds = parts[2] if len(parts) == 3 else "0"
    return _Clock(
        _read_field(_HOUR, parts[0], shown),
        _read_field(_MINUTE, parts[1], shown),
        _read_field(_SECOND, seconds, shown),
    )


def _read_field(unit: _Unit, text: str, shown: str) -> frozenset[int]:
    if text == "*":
        return unit.all
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise InvalidInput(f"{shown} has the {unit.name} {part[:40]!a}, which is not a number")
        if unit is not _SECOND and "." in part.replace("..", ""):
            raise InvalidInput(f"{shown} has the {unit.name} {part[:40]!a}, which is not whole")
        start, stop, repeat = (_whole(match[name], shown) for name in ("start", "stop", "repeat"))
        if match["fraction"] and int(match["fraction"]):
            raise _parts_of_seconds(shown)
        found.update(_range(unit, part, shown, start=start or 0, stop=stop, repeat=repeat))
    return frozenset(found)


def _whole(number: str | None, shown: str) -> int | None:
    if number is None:
        return None
    whole, _, fraction = number.partition(".")
    if fraction.strip("0"):
        raise _parts_of_seconds(shown)
    return int(whole)


def _range(
    unit: _Unit, part: str, shown: str, *, start: int, stop: int | None, repeat: int | None
) -> Iterable[int]:
    if unit is _YEAR:
        start, stop = _full_year(start), None if stop is None else _full_year(stop)
    for value in (start, start if stop is None else stop):
        if not unit.least <= value <= unit.most:
            raise InvalidInput(
                f"{shown} has the {unit.name} {value}, expected {unit.least} to {unit.most}"
            )
    # systemd refuses a range of one second, and takes one of any other unit.
    is_empty = unit is _SECOND and stop == start and repeat is None
    if repeat == 0 or is_empty or (stop is not None and stop < start):
        raise InvalidInput(f"{shown} has the {unit.name} {part[:40]!a}, which names no time")
    if stop is not None:
        if unit is _FROM_END and repeat is not None:
            # Days count up to the end: 1..5/2 is the fifth, third and last day from the end.
            stop -= (stop - start) % repeat
        return range(start, stop + 1, repeat or 1)
    if repeat is None:
        return (start,)
    last = start - repeat if unit is _FROM_END else start + repeat
    if not unit.least <= last <= unit.most:
        raise InvalidInput(f"{shown} has the {unit.name} {part[:40]!a}: the step is too long")
    if unit is _FROM_END:
        return range(start, 0, -repeat)
    return range(start, unit.most + 1, repeat)


def _full_year(year: int) -> int:
    return year + (2000 if year < 70 else 1900 if year < 100 else 0)


def _parts_of_seconds(shown: str) -> InvalidInput:
    return InvalidInput(f"{shown} has fractions of a second, and cron text has none")


def _triggers(weekdays: frozenset[int], days: _Days, clock: _Clock, shown: str) -> Iterable[str]:
    if days.years is not None:
        return (_one_instant(weekdays, days, clock, shown),)
    front = f"{_write(_MINUTE, clock.minutes)} {_write(_HOUR, clock.hours)}"
    if clock.seconds != {0}:
        front = f"{_write(_SECOND, clock.seconds)} {front}"
    if days.from_end is None:
        dates = [(_both(weekdays, days.days, shown), days.months)]
    else:
        dates = _from_end(weekdays, days.from_end, days.months, shown)
    return (f"{front} {day} {_write(_MONTH, months)} {weekday}" for (day, weekday), months in dates)


def _one_instant(weekdays: frozenset[int], days: _Days, clock: _Clock, shown: str) -> str:
    """Write an `at` trigger for an expression with a year: edgecron has no other years."""
    is_one = days.from_end is None and weekdays == _EVERY_WEEKDAY
    fields = (days.years or (), days.months, days.days, *clock)
    if not is_one or any(len(field) != 1 for field in fields):
        raise InvalidInput(f"{shown} names years, and an edgecron trigger has no year")
    year, month, day, hour, minute, second = (next(iter(field)) for field in fields)
    return f"at {year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"


def _both(weekdays: frozenset[int], days: frozenset[int], shown: str) -> tuple[str, str]:
    """Write the two day fields of days that are in both sets."""
    day_text = _write(_DAY, days)
    weekday_text = "*" if weekdays == _EVERY_WEEKDAY else ",".join(_items(weekdays))
    if days == _DAY.all or weekdays == _EVERY_WEEKDAY:
        return day_text, weekday_text
    blocks = {(day - 1) // 7 + 1 for day in days}
    if days == {day for day in _DAY.all if (day - 1) // 7 + 1 in blocks}:
        nth = (f"{weekday}#{block}" for weekday in sorted(weekdays) for block in sorted(blocks))
        return "*", ",".join(nth)
    # A step as long as the field leaves its first value, and the star makes cron want both fields.
    if 1 in days:
        return ",".join(["*/31", *_items(days - {1})]), weekday_text
    if 0 in weekdays:
        return day_text, ",".join(["*/7", *_items(weekdays - {0})])
    raise InvalidInput(f"{shown} wants weekday and day of month both, which no cron text says")


def _from_end(
    weekdays: frozenset[int], from_end: frozenset[int], months: frozenset[int], shown: str
) -> list[tuple[tuple[str, str], frozenset[int]]]:
    """Write day fields, with their months, of days counted from the end of a month."""
    if weekdays != _EVERY_WEEKDAY:
        if from_end != set(range(1, 8)):
            raise InvalidInput(
                f"{shown} wants a weekday among days from the end of the month, which cron text"
                " says only of its last 7 days"
            )
        return [(("*", ",".join(f"L{weekday}" for weekday in sorted(weekdays))), months)]
    if from_end == {1}:
        return [(("L", "*"), months)]
    if 2 in months:
        raise InvalidInput(f"{shown} counts days from the end of February, which leap years change")
    found = []
    for length, alike in ((31, {1, 3, 5, 7, 8, 10, 12}), (30, {4, 6, 9, 11})):
        if months & alike:
            days = frozenset(length + 1 - back for back in from_end)
            found.append(((_write(_DAY, days), "*"), months & alike))
    return found


def _write(unit: _Unit, values: frozenset[int]) -> str:
    """Write the shortest field: `*`, a step, or values and ranges."""
    if values == unit.all:
        return "*"
    ordered = sorted(values)
    step = ordered[1] - ordered[0] if len(ordered) > 2 else 0
    if step > 1 and ordered == list(range(ordered[0], ordered[-1] + 1, step)):
        if ordered[-1] + step <= unit.most:
            return f"{ordered[0]}-{ordered[-1]}/{step}"
        return f"*/{step}" if ordered[0] == unit.least else f"{ordered[0]}-{unit.most}/{step}"
    return ",".join(_items(values))


def _items(values: frozenset[int]) -> list[str]:
    """Write values in order, three and more in a row as a range."""
    items: list[str] = []
    run: list[int] = []
    for value in [*sorted(values), None]:
        if run and value == run[-1] + 1:
            run.append(value)
            continue
        if len(run) > 2:
            items.append(f"{run[0]}-{run[-1]}")
        else:
            items += [str(one) for one in run]
        run = [] if value is None else [value]
    return items


_SPAN_S = {
    **dict.fromkeys(("usec", "us", "\u00b5s", "\u03bcs"), 1e-6),
    **dict.fromkeys(("msec", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "sec", "s", ""), 1.0),
    **dict.fromkeys(("minutes", "minute", "min", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hr", "h"), 3600.0),
    **dict.fromkeys(("days", "day", "d"), 86_400.0),
    **dict.fromkeys(("weeks", "week", "w"), 604_800.0),
    **dict.fromkeys(("months", "month", "M"), 2_629_800.0),
    **dict.fromkeys(("years", "year", "y"), 31_557_600.0),
}
_SPAN_PART = re.compile(r"\s*(\d{1,12}(?:\.\d{0,9})?)\s*([a-zA-Z\u00b5\u03bc]*)", re.ASCII)


def read_span_ms(text: str) -> int:
    """Read a time span such as `1h 30min`, in whole milliseconds; a bare number is seconds.

    Raises InvalidInput, also for `infinity`.
    """
    total_s, position = 0.0, 0
    stripped = text.strip()
    while position < len(stripped):
        match = _SPAN_PART.match(stripped, position)
        if match is None or match[2] not in _SPAN_S:
            break
        total_s += float(match[1]) * _SPAN_S[match[2]]
        position = match.end()
    if not stripped or position < len(stripped):
        raise InvalidInput(f"{text[:60]!a} is not a time span")
    return round(total_s * 1000)
