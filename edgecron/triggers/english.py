"""Read triggers in plain English: what `describe` prints, and what people write in its place.

The result is a trigger text that `grammar` reads. `calendar_english` reads days and times of day.
"""

from __future__ import annotations

import re

from edgecron.base.errors import InvalidTrigger
from edgecron.base.units import MAX_DURATION_MS, format_duration_ms
from edgecron.base.values import NamedTuple
from edgecron.triggers.calendar_english import CalendarReader
from edgecron.triggers.english_values import ANY_CLOCK, WEEKDAY, read_clocks, weekday_text

_UNIT_MS = {"week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "hr": 3_600_000,
            "minute": 60_000, "min": 60_000, "second": 1000, "sec": 1000,
            "millisecond": 1}  # fmt: skip
_OUTCOMES = {"succe": "", "faile": ":failure", "fails": ":failure", "ended": ":any", "ends": ":any"}
_DAY_MACROS = ("hourly", "daily", "weekly", "monthly", "yearly", "annually")

_UNIT = rf"({'|'.join(_UNIT_MS)})s?"
_COUNTED = rf"(?:(\d{{1,9}}) ?)?{_UNIT}"
_TWICE = rf"(?:other|second|2nd) {_UNIT}"
_DURATION = rf"{_TWICE}|{_COUNTED}(?:(?:,? and |,? )(\d{{1,9}}) ?{_UNIT})*"

_ZONE = re.compile(r" \((local time|[\w+\-]+(?:/[\w+\-]+)*)(?:, [\w+\-/]+)?\)$", re.ASCII)
_ONCE_AT = re.compile(r"once,? at (.+)")
_BOOT = re.compile(r"once each time the machine has booted|(?:at )?(?:each |every )?boot")
_DEMAND = re.compile(r"only on demand")
_AFTER = re.compile(
    r"(?:after|when|each time) (\S+) (?:has )?(succeeded|succeeds|failed|fails|ended|ends)"
)
_AFTER_END = re.compile(rf"({_DURATION}) after (?:the end of the last run|its end)")
_ONCE_BETWEEN = re.compile(
    rf"once between ({ANY_CLOCK}|24:00) and ({ANY_CLOCK}|24:00)"
    r"(?:,? (?!when)(.+?))?(?:, when (.+))?"
)
_EVERY = re.compile(rf"(?:every|each) ({_DURATION})(?:,? from (\d{{4}}-\S+))?")
_COUNT_AND_UNIT = re.compile(_COUNTED)
_EVERY_OTHER = re.compile(_TWICE)
_LONG = re.compile(
    r"\b(?:every|each) (?:(\d{1,4})(?:nd|rd|th)?|other|second) ?(day|week|month|year)s?\b", re.ASCII
)
# `every second` is an interval before these words only.
_OTHER = re.compile(
    rf"\b(?:every|each) (?:other\b|second (?!(?:on|in|from|between"
    rf"|of (?:minute|every)|{WEEKDAY}|(?:and|or) .+)s?\b))"
)


class Words(NamedTuple):
    """The trigger text that words mean, and the zone that they name: `local`, or None."""

    text: str
    zone: str | None


def read_words(text: str) -> Words | None:
    """Read a trigger in plain English; None for any other text.

    Raises InvalidTrigger for words that are understood but name times that one trigger can't have.
    """
    zone = _ZONE.search(text)
    words = text if zone is None else text[: zone.start()]
    low = words.lower()
    found = _read_event(words) or _read_every(low)
    if found is None:
        _check_every_other(low)
        found = CalendarReader(low).read()
    if found is None:
        return None
    named = None if zone is None else zone[1].replace("local time", "local")
    return Words(found, named)


def _read_event(words: str) -> str | None:
    """Read words without times of day; names and conditions keep their capitals."""
    low = words.lower()
    if _BOOT.fullmatch(low):
        return "on boot"
    if _DEMAND.fullmatch(low):
        return "on demand"
    if found := _ONCE_AT.fullmatch(low):
        return f"at {words[found.start(1) :]}"
    if found := _AFTER.fullmatch(low):
        return f"after {words[slice(*found.span(1))]}{_OUTCOMES[found[2][:5]]}"
    if found := _AFTER_END.fullmatch(low):
        return f"every {_duration(found[1])} after end"
    if found := _ONCE_BETWEEN.fullmatch(low):
        conditions = "" if found[4] is None else words[slice(*found.span(4))]
        return _once_in(found[1], found[2], days=found[3] or "every day", conditions=conditions)
    return None


def _once_in(first: str, last: str, *, days: str, conditions: str) -> str | None:
    reader = CalendarReader(days)
    if not reader.read_clauses() or reader.has_more_than_weekdays():
        return None
    weekdays = f" {weekday_text(reader.weekdays)}" if reader.weekdays else ""
    ends = read_clocks([end.replace("24:00", "00:00") for end in (first, last)])
    opens, closes = (
        "24:00" if text == "24:00" else "{:02d}:{:02d}".format(*clock[:2])
        for text, clock in zip((first, last), ends, strict=True)
    )
    return f"once in {opens}-{closes}{weekdays}" + (f" when {conditions}" if conditions else "")


def _read_every(words: str) -> str | None:
    if words in _DAY_MACROS:
        return f"@{words}"
    if words in ("every hour, on the hour", "every hour on the hour"):
        return "0 * * * *"
    found = _EVERY.fullmatch(words)
    if found is None:
        return None
    start = found[found.re.groups]
    return f"every {_duration(found[1])}" + ("" if start is None else f" from {start.upper()}")


def _check_every_other(words: str) -> None:
    """Refuse longer intervals with times of day or weekdays: cron texts can't count such ones."""
    if found := _LONG.search(words):
        count, unit = max(1, int(found[1] or 2)), found[2]
        what, days = "from an unknown first day", count * (7 if unit == "week" else 1)
        hint = f"write 'every {days}d from 2026-11-20T09:00:00Z'"
        if unit in ("month", "year"):
            what = "although they differ in length"
            hint = "write 'monthly', or a cron text such as 0 0 1 */2 *"
        if unit == "year":
            hint = "write 'yearly', or only one time: 'at 2026-11-20T09:00:00Z'"
        raise InvalidTrigger(f"trigger {words!r} counts {unit}s {what}", hint=hint)
    if found := _OTHER.search(words):
        raise InvalidTrigger(
            f"trigger {words!r} has {found[0].strip()!r}, which could mean several things",
            hint="write 'second friday of the month', or 'every 14d from 2026-11-20T09:00:00Z'",
        )


def _duration(words: str) -> str:
    if found := _EVERY_OTHER.fullmatch(words):
        total_ms = 2 * _UNIT_MS[found[1]]
    else:
        counted = _COUNT_AND_UNIT.findall(words)
        total_ms = sum(int(count or 1) * _UNIT_MS[unit] for count, unit in counted)
    if not 1 <= total_ms <= MAX_DURATION_MS:
        raise InvalidTrigger(
            f"interval {words!r} is out of reach, expected 1 ms to 100 years",
            hint="write for example: every 15 minutes",
        )
    return format_duration_ms(total_ms)
