"""The time fields of a crontab line, and the lines of an anacrontab.

The trigger gate accepts more than cron (`L`, `5#2`, `H`). It also reads a few texts otherwise:
Debian's cron takes `1#2` for `1`, `*5` for `*` and `fri-sun` for never. This module refuses a field
outside the plain grammar that every cron reads alike. The gate checks values and ranges.
"""

from __future__ import annotations

import re
from functools import lru_cache

from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple, dataclass

_BLANKS = re.compile(r"[ \t]+")
# Forms that cron does not know, but the gate or other programs do.
_OURS = re.compile(r"[LWHR?]|[LHR]\W.*|L\d|\d+[LW]|.*#.*", re.IGNORECASE | re.ASCII | re.DOTALL)

# The trigger text of each macro of cron.
MACROS = {
    "@reboot": "on boot",
    "@yearly": "@yearly",
    "@annually": "@annually",
    "@monthly": "@monthly",
    "@weekly": "@weekly",
    "@daily": "@daily",
    "@midnight": "@midnight",
    "@hourly": "@hourly",
}

_MACRO_HINTS = {
    "@every_minute": "write * * * * *",
    "@every_second": "add it with: edgecron add NAME --every 1s",
    "@applenotonbattery": "write only the five time fields",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time part of a line as a trigger text, and the unchanged rest."""

    trigger: str
    rest: str


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    name: str
    expected: str
    most: int
    element: re.Pattern[str]


def _field(name: str, expected: str, most: int, names: str = "") -> _Field:
    value = rf"(?:[0-9]{{1,9}}{names})"
    element = rf"(?:\*|(?P<first>{value})(?:-(?P<last>{value}))?)(?P<step>/[0-9]{{1,9}})?"
    return _Field(name, expected, most, re.compile(element, re.IGNORECASE | re.ASCII))


_FIELDS = (
    _field("minute", "0-59", 59),
    _field("hour", "0-23", 23),
    _field("day of month", "1-31", 31),
    _field("month", "1-12 or JAN-DEC", 12, "|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"),
    _field("day of week", "0-7 or SUN-SAT", 7, "|sun|mon|tue|wed|thu|fri|sat"),
)


def split_timing(text: str) -> Timing:
    """Split a line without leading blanks into its trigger and the rest. Raises InvalidInput."""
    if text.startswith("@"):
        return _split_macro(text)
    parts = _BLANKS.split(text, maxsplit=5)
    if len(parts) < 5:
        raise InvalidInput(
            f"{text[:60]!a} is neither a variable (NAME = value) nor five time fields",
            hint="write minute, hour, day of month, month, day of week and a command",
        )
    for place, part in enumerate(parts[:5]):
        _check_part(place, part)
    return _check_rest(" ".join(parts[:5]), parts[5] if len(parts) == 6 else "")


def _split_macro(text: str) -> Timing:
    macro, rest = (*_BLANKS.split(text, maxsplit=1), "")[:2]
    trigger = MACROS.get(macro)
    if trigger is None:
        raise InvalidInput(
            f"{macro[:60]!a} is not a time that cron knows",
            hint=_MACRO_HINTS.get(macro.lower(), f"expected one of {', '.join(MACROS)}"),
        )
    return _check_rest(trigger, rest)


def _check_rest(trigger: str, rest: str) -> Timing:
    if rest.startswith("*"):
        raise InvalidInput(
            "a * follows the time, but cron expects a command or a user",
            hint="cron knows no seconds: write minute, hour, day of month, month, day of week",
        )
    return Timing(trigger=trigger, rest=rest)


@lru_cache(maxsize=512)  # Ten thousand lines have few different parts.
def _check_part(place: int, part: str) -> None:
    for element in part.split(","):
        _check_element(_FIELDS[place], element)


def _check_element(field: _Field, element: str) -> None:
    """Refuse what cron does not know, or reads otherwise than the gate, which checks the rest."""
    match = field.element.fullmatch(element)
    if match is None:
        hint = None
        if "~" in element:
            hint = "a random time can't be imported: write a fixed time, and use --jitter"
        elif _OURS.fullmatch(element):
            hint = "cron itself does not know this form; add it with: edgecron add NAME --cron TEXT"
        raise InvalidInput(
            f"{field.name} is {element[:60]!a}, expected {field.expected}, a range, a list or a"
            " step",
            hint=hint,
        )
    first, last, step = match["first"], match["last"], match["step"]
    if first and step and not last:
        raise InvalidInput(
            f"{field.name} {element!a} means only {first} to some crons, and others refuse it",
            hint=f"write {first}-{field.most}{step}, or {first}",
        )
    if last and last.lower() == "sun" and first.lower() != "sun":
        number = _DAYS.index(first.lower()) if first.lower() in _DAYS else first
        raise InvalidInput(
            f"{field.name} {element!a} runs backwards, so cron never runs it",
            hint=f"write {number}-7",
        )


_LINE = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S.*)", re.DOTALL)
_HOURS = re.compile(r"\s*(\d{1,2})\s*-\s*(\d{1,2})\s*", re.ASCII)
_MOST_DAYS = 3650
_DATES = {
    "1": "* * *",
    "@daily": "* * *",
    "7": "* * 0",
    "@weekly": "* * 0",
    "@monthly": "1 * *",
    "@yearly": "1 1 *",
    "@annually": "1 1 *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnacronJob:
    """A line of an anacrontab. `identifier` is the name that its author gave the job."""

    trigger: str
    identifier: str
    command: str


def read_start_hour(text: str) -> int:
    """Read the first hour of START_HOURS_RANGE, such as 3 of `3-22`. Raises InvalidInput."""
    found = _HOURS.fullmatch(text)
    if found is None or not int(found[1]) <= int(found[2]) <= 24 or int(found[1]) > 23:
        raise InvalidInput(f"START_HOURS_RANGE is {text[:60]!a}, expected hours such as 3-22")
    return int(found[1])


def read_job(text: str, *, start_hour: int) -> AnacronJob:
    """Read a line that is neither a comment nor a variable. Raises InvalidInput."""
    found = _LINE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{text[:60]!a} is neither a variable nor period, delay, identifier, command",
            hint="write such as: 7 25 cron.weekly run-parts /etc/cron.weekly",
        )
    period, delay, identifier, command = found.groups()
    if not (delay.isascii() and delay.isdigit()) or len(delay) > 6:
        raise InvalidInput(f"delay is {delay[:60]!a}, expected minutes")
    minutes = start_hour * 60 + int(delay)
    if minutes >= 24 * 60:
        raise InvalidInput(
            f"delay is {delay} minutes after {start_hour:02}:00, which is the next day",
            hint="write a shorter delay",
        )
    dates = _DATES.get(period)
    if dates is not None:
        trigger = f"{minutes % 60} {minutes // 60} {dates}"
    elif (
        period.isascii() and period.isdigit() and len(period) < 6 and 1 <= int(period) <= _MOST_DAYS
    ):
        trigger = f"every {int(period)}d"
    else:
        raise InvalidInput(
            f"period is {period[:60]!a}, expected a number of days, @daily, @weekly,"
            " @monthly or @yearly"
        )
    return AnacronJob(trigger=trigger, identifier=identifier, command=command.rstrip())
