"""Parts of triggers in plain English: names, numbers, times of day, intervals and events.

Weekdays are numbered as in cron texts, from 0, Sunday.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from edgecron.base.errors import InvalidTrigger
from edgecron.base.units import DAY_MS, HOUR_MS, MAX_DURATION_MS, MINUTE_MS, format_duration_ms
from edgecron.triggers.fields import MONTHS, WEEKDAYS

_WEEKDAYS = tuple(map(str.lower, WEEKDAYS))
_MONTHS = tuple(map(str.lower, MONTHS))
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5,
             "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5}  # fmt: skip

WEEKDAY = rf"({'|'.join(f'{name}|{name[:3]}' for name in _WEEKDAYS)}|tues|thur|thurs)s?"
MONTH = rf"({'|'.join(_MONTHS)}|{'|'.join(name[:3] for name in _MONTHS)}|sept)"
CLOCK = r"(?:\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?|\d{1,2} ?[ap]m|noon|midnight)"
ANY_CLOCK = rf"(?:{CLOCK}|\d{{1,2}})(?![\d:])"
_CLOCK_PARTS = re.compile(r"(\d{1,2})(?::(\d\d))?(?::(\d\d))? ?([ap]m)?", re.ASCII)
# 12 hours or 24? 09:00 and 17 are of 24.
_HALF_DAY = re.compile(r"([1-9]|1[0-2])|[1-9]:.*\d", re.ASCII)
Clock = tuple[int, int, int]


def starred_text(days: list[int]) -> str:
    """Write days so that cron wants the weekday, too: with a `*` at the beginning."""
    for step in range(2, 31):
        if set(range(1, 32, step)) <= set(days):
            rest = sorted(set(days) - set(range(1, 32, step)))
            return ",".join([f"*/{step}", *([values_text(rest, 0)] if rest else [])])
    raise InvalidTrigger(
        "a cron text can't have these days of the month only on some weekdays",
        hint="write the first, second, third, fourth or last weekday of the month",
    )


def read_clocks(texts: Sequence[str]) -> list[Clock]:
    """Read times of day. The pm of `1, 2 and 5pm` is for all three.

    Raises InvalidTrigger if an hour could be am or pm: `9 and 5pm`, `1pm and 3`, `noon to 5`.
    """
    clocks: list[Clock] = []
    later = half = ""  # the text behind; the next text with am or pm
    has_half = any(text.endswith("m") for text in texts)
    for text in reversed(texts):
        clock = _clock(text)
        if text.endswith("m"):
            half = text
        elif _HALF_DAY.fullmatch(text) and has_half:
            clock = _clock(f"{text}{half[-2:]}")
            if not half or clock >= _clock(half):
                raise _half_day(text)
        elif later and clock > clocks[-1] and _is_half_day(text, later):
            raise _half_day(later if text == "noon" else text)
        clocks.append(clock)
        later = text
    return clocks[::-1]


def _is_half_day(text: str, later: str) -> bool:
    """Whether the later time of two would be the earlier one, unless one means pm."""
    if _HALF_DAY.fullmatch(text) is None:
        return text == "noon" and _HALF_DAY.fullmatch(later) is not None
    return later == "midnight" or _HALF_DAY.fullmatch(later) is not None


def _half_day(text: str) -> InvalidTrigger:
    return InvalidTrigger(
        f"the time {text!r} could be am or pm", hint="write am or pm behind each time, or 17:00"
    )


def _clock(text: str) -> Clock:
    if text in ("noon", "midnight"):
        return (12 if text == "noon" else 0), 0, 0
    found = _CLOCK_PARTS.fullmatch(text)
    assert found is not None, text
    hour, minute, second = int(found[1]), int(found[2] or 0), int(found[3] or 0)
    if found[4] is not None:
        # 13pm is nothing, and 12am is midnight.
        hour = 24 if not 1 <= hour <= 12 else hour % 12 + (12 if found[4] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidTrigger(
            f"there is no time {text!r}", hint="write a time such as 09:00, 17:30 or 9pm"
        )
    return hour, minute, second


def read_span(first: str, last: str | None) -> Sequence[int]:
    if int(last or first) < int(first):
        raise InvalidTrigger(
            f"the numbers {first} to {last} go backwards", hint="write the smaller number first"
        )
    return range(int(first), int(last or first) + 1)


def values_text(values: Sequence[int], most: int) -> str:
    """Write numbers of a cron field; `most` of them are all."""
    if len(values) == most:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(values) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
        is_whole = most == 24 and values[0] == 0 and values[-1] + step >= most
        return f"*/{step}" if is_whole else f"{values[0]}-{values[-1]}/{step}"
    return ",".join(_run_text([str(value) for value in run]) for run in _runs(values))


def _run_text(names: Sequence[str]) -> str:
    return f"{names[0]}-{names[-1]}" if len(names) > 2 else ",".join(names)


def _runs(values: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def weekday_text(weekdays: Iterable[int]) -> str:
    """`MON-FRI`, `TUE,THU`; from Monday on, as people count a working week."""
    runs = _runs(sorted({(weekday - 1) % 7 for weekday in weekdays}))
    if len(runs[0]) == 7:
        return "*"
    return ",".join(_run_text([weekday_name(place + 1) for place in run]) for run in runs)


def weekday_name(weekday: int) -> str:
    return _WEEKDAYS[weekday % 7][:3].upper()


def read_weekday(name: str) -> int:
    return next(at for at, full in enumerate(_WEEKDAYS) if full.startswith(name[:3]))


def read_month(name: str) -> int:
    return next(at for at, full in enumerate(_MONTHS, 1) if full.startswith(name[:3]))


_UNIT_MS = {"week": 7 * DAY_MS, "day": DAY_MS, "hour": HOUR_MS, "hr": HOUR_MS,
            "minute": MINUTE_MS, "min": MINUTE_MS, "second": 1000, "sec": 1000,
            "millisecond": 1}  # fmt: skip
_OUTCOMES = {"succe": "", "faile": ":failure", "fails": ":failure", "ended": ":any", "ends": ":any"}
_DAY_MACROS = ("hourly", "daily", "weekly", "monthly", "yearly", "annually")

_UNIT = rf"({'|'.join(_UNIT_MS)})s?"
_COUNTED = rf"(?:(\d{{1,9}}) ?)?{_UNIT}"
_TWICE = rf"(?:other|second|2nd) {_UNIT}"
_DURATION = rf"{_TWICE}|{_COUNTED}(?:(?:,? and |,? )(\d{{1,9}}) ?{_UNIT})*"

_ONCE_AT = re.compile(r"once,? at (.+)")
_BOOT = re.compile(r"once each time the machine has booted|(?:at )?(?:each |every )?boot")
_DEMAND = re.compile(r"only on demand")
_AFTER = re.compile(
    r"(?:after|when|each time) (\S+) (?:has )?(succeeded|succeeds|failed|fails|ended|ends)"
)
_AFTER_END = re.compile(rf"({_DURATION}) after (?:the end of the last run|its end)")
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


def read_event(words: str) -> str | None:
    """Read words without days and times of day; names keep their capitals. None for others."""
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
    return None


def read_every(words: str) -> str | None:
    if words in _DAY_MACROS:
        return f"@{words}"
    if words in ("every hour, on the hour", "every hour on the hour"):
        return "0 * * * *"
    found = _EVERY.fullmatch(words)
    if found is None:
        return None
    start = found[found.re.groups]
    return f"every {_duration(found[1])}" + ("" if start is None else f" from {start.upper()}")


def check_every_other(words: str) -> None:
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
