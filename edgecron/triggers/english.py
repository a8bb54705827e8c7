"""Read triggers in plain English: what `describe` prints, and what people write in its place.

`every weekday at 9` is `0 9 * * MON-FRI`. The result is a trigger text that `grammar` reads.
Weekdays are numbered as in cron texts, from 0, Sunday.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from edgecron.base.errors import InvalidTrigger
from edgecron.base.units import MAX_DURATION_MS, format_duration_ms
from edgecron.base.values import NamedTuple

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5,
             "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5}  # fmt: skip
_WORKING_WEEK = (1, 2, 3, 4, 5)
_WEEKEND = (6, 0)
_UNIT_MS = {"week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "hr": 3_600_000,
            "minute": 60_000, "min": 60_000, "second": 1000, "sec": 1000,
            "millisecond": 1}  # fmt: skip
_OUTCOMES = {"succe": "", "faile": ":failure", "fails": ":failure", "ended": ":any", "ends": ":any"}
_DAY_MACROS = ("hourly", "daily", "weekly", "monthly", "yearly", "annually")

_WEEKDAY = rf"({'|'.join(f'{name}|{name[:3]}' for name in _WEEKDAYS)}|tues|thur|thurs)s?"
_MONTH = rf"({'|'.join(_MONTHS)}|{'|'.join(name[:3] for name in _MONTHS)}|sept)"
_CLOCK = r"(?:\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?|\d{1,2} ?[ap]m|noon|midnight)"
_ANY_CLOCK = rf"(?:{_CLOCK}|\d{{1,2}})(?![\d:])"
_UNIT = rf"({'|'.join(_UNIT_MS)})s?"
_COUNTED = rf"(?:(\d{{1,9}}|other) ?)?{_UNIT}"
_DURATION = rf"{_COUNTED}(?:(?:,? and |,? ){_COUNTED})*"
_NUMBERS = r"\d{1,2}(?: to \d{1,2})?(?:(?:,? and |, )\d{1,2}(?: to \d{1,2})?)*"
_NTH = rf"({'|'.join(_ORDINALS)}|last)"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})\b(?!\w)", re.ASCII)


_ZONE = re.compile(r" \((local time|[\w+\-]+(?:/[\w+\-]+)*)(?:, [\w+\-/]+)?\)$", re.ASCII)
_ONCE_AT = re.compile(r"once,? at (.+)")
_BOOT = re.compile(r"once each time the machine has booted|(?:at )?(?:each |every )?boot")
_DEMAND = re.compile(r"only on demand")
_AFTER = re.compile(
    r"(?:after|when|each time) (\S+) (?:has )?(succeeded|succeeds|failed|fails|ended|ends)"
)
_AFTER_END = re.compile(rf"({_DURATION}) after (?:the end of the last run|its end)")
_ONCE_BETWEEN = re.compile(
    rf"once between ({_ANY_CLOCK}|24:00) and ({_ANY_CLOCK}|24:00)"
    r"(?:,? (?!when)(.+?))?(?:, when (.+))?"
)
_EVERY = re.compile(rf"(?:every|each) ({_DURATION})(?:,? from (\d{{4}}-\S+))?")
_COUNT_AND_UNIT = re.compile(_COUNTED)
_CLOCK_PARTS = re.compile(r"(\d{1,2})(?::(\d\d))?(?::(\d\d))? ?([ap]m)?", re.ASCII)

# What stands between other words and says nothing.
_LINKS = _compiled(r"and|on|in|of (?:the|each|every) month|of it|every month|every year")
_DAILY = _compiled(r"every day|each day|daily")
_OR = _compiled(r"or")
_WHEN_IT_IS = _compiled(r"when it is")
_FREQUENCY = _compiled(r"weekly|every week|monthly|yearly|annually")
_FIELDS = _compiled(
    rf"(?:at )?(?:(every second|seconds? {_NUMBERS}) of )?(every minute|minutes? {_NUMBERS})"
    rf" of (every hour|hours? {_NUMBERS})"
)
_STEP = _compiled(
    r"every (?:(\d{1,4}) )?(hour|minute|min|second|sec)s?"
    rf"(?:,? on the hour|,? (?:from|between) ({_ANY_CLOCK}) (?:to|and|until) ({_ANY_CLOCK}))?"
)
_AT = re.compile(rf"(?:at )({_ANY_CLOCK})|({_CLOCK})(?![\d:])", re.ASCII)
_BARE = re.compile(r"(\d{1,2})(?: to (\d{1,2}))?(?![\d:])", re.ASCII)
_WEEK_PART = _compiled(r"(?:every |each )?(weekday|workday|weekend)s?")
_NEAREST = re.compile(r"the weekday nearest to day (\d{1,2})(?: \(or to the last day\))?", re.ASCII)
_LAST_DAY = _compiled(r"(?:the )?(last|first) day")
_NTH_WEEKDAY = _compiled(rf"(?:the |every )?{_NTH} {_WEEKDAY}")
_DATE = _compiled(
    rf"(?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}|{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?"
)
_DAY = _compiled(r"days? (\d{1,2})(?: to (\d{1,2}))?|(?:the )?(\d{1,2})(?:st|nd|rd|th)")
_WEEKDAY_RUN = _compiled(rf"(?:every |each )?{_WEEKDAY}(?: to {_WEEKDAY})?")
_MONTH_RUN = _compiled(rf"{_MONTH}(?: to {_MONTH})?")


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
    found = _read_event(words) or _read_every(words.lower()) or _Reader(words.lower()).read()
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
    reader = _Reader(days)
    if not reader.read_clauses() or reader.has_more_than_weekdays():
        return None
    weekdays = f" {_weekday_text(reader.weekdays)}" if reader.weekdays else ""
    opens, closes = (
        "24:00" if text == "24:00" else "{:02d}:{:02d}".format(*_clock(text)[:2])
        for text in (first, last)
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


def _duration(words: str) -> str:
    total_ms = sum(
        (2 if count == "other" else int(count or 1)) * _UNIT_MS[unit]
        for count, unit in _COUNT_AND_UNIT.findall(words)
    )
    if not 1 <= total_ms <= MAX_DURATION_MS:
        raise InvalidTrigger(
            f"interval {words!r} is out of reach, expected 1 ms to 100 years",
            hint="write for example: every 15 minutes",
        )
    return format_duration_ms(total_ms)


class _Reader:
    """The clauses of a calendar time, in any order: times of day, days and months."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._rest = words
        self._kind = ""  # of the clause before: a bare number continues it
        self._clocks: list[tuple[int, int, int]] = []
        self._fields: tuple[str, str, str] | None = None  # second, minute, hour
        self._days: list[int] = []
        self._nearest: list[int] = []
        self._has_last_day = False
        self.weekdays: list[int] = []
        self._nth: list[str] = []
        self._months: list[int] = []
        self._is_ored: bool | None = None  # None: the words do not say
        self._frequency = ""
        self._is_daily = False

    def read(self) -> str | None:
        """Return the cron text; None for other words."""
        if not self.read_clauses() or not (self._is_daily or self._names_days):
            return None
        if self._clocks and self._fields is not None:
            raise self._refusal("names times of day and an interval", "write one of the two")
        second, minute, hour = self._fields or self._clock_fields()
        day, month, weekday = self._day_fields()
        head = "" if second == "0" else f"{second} "
        return f"{head}{minute} {hour} {day} {month} {weekday}"

    @property
    def _names_days(self) -> bool:
        """Whether the words are more than a time of day, which means one instant."""
        return bool(self.weekdays) or self.has_more_than_weekdays(but_clocks=True)

    def has_more_than_weekdays(self, *, but_clocks: bool = False) -> bool:
        """Whether there are clauses other than plain weekdays, and perhaps times of day."""
        parts = (self._days, self._nearest, self._nth, self._months, self._frequency)
        return (
            any(parts)
            or self._has_last_day
            or self._fields is not None
            or bool(self._clocks and not but_clocks)
        )

    def read_clauses(self) -> bool:
        """Read all clauses; return whether all words were understood."""
        while self._rest:
            before = self._rest
            for read in (
                self._read_link,
                self._read_fields,
                self._read_days,
                self._read_step,
                self._read_weekdays,
                self._read_months,
                self._read_clock,
                self._read_number,
            ):
                if read():
                    break
            self._rest = self._rest.lstrip(" ,")
            if self._rest == before:
                return False
        return True

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._rest)
        if found is not None:
            self._rest = self._rest[found.end() :]
        return found

    def _read_link(self) -> bool:
        if self._take(_OR):
            self._is_ored = True
        elif self._take(_WHEN_IT_IS):
            self._is_ored = False
        elif self._take(_DAILY):
            self._is_daily = True
        elif found := self._take(_FREQUENCY):
            self._frequency = found[0]
        elif not self._take(_LINKS):
            return False
        return True

    def _read_fields(self) -> bool:
        found = self._take(_FIELDS)
        if found is None:
            return False
        second, minute, hour = (
            "0" if part is None else "*" if part.startswith("every") else _numbers(part)
            for part in found.groups()
        )
        self._fields = (second, minute, hour)
        return True

    def _read_step(self) -> bool:
        found = self._take(_STEP)
        if found is None:
            return False
        step, unit = int(found[1] or 1), found[2][:3]
        first = last = None
        if found[3] is not None:
            first, last = _clock(found[3]), _clock(found[4])
        most = 24 if unit == "hou" else 60
        is_even = 0 < step < most and (most % step == 0 or (unit == "hou" and first is not None))
        if not is_even:
            whole = "a day" if unit == "hou" else "an hour" if unit == "min" else "a minute"
            raise self._refusal(
                f"has a step of {step}, which does not divide {whole}",
                "write a step that does, or only the interval without days and times",
            )
        self._fields = self._stretch(step, unit, first, last)
        return True

    def _stretch(
        self,
        step: int,
        unit: str,
        first: tuple[int, int, int] | None,
        last: tuple[int, int, int] | None,
    ) -> tuple[str, str, str]:
        every = "*" if step == 1 else f"*/{step}"
        if first is None or last is None:
            fields = {"hou": ("0", "0", every), "min": ("0", every, "*"), "sec": (every, "*", "*")}
            return fields[unit]
        hours = list(range(first[0], last[0] + 1))
        if unit == "hou" and first <= last and not first[2]:
            hours = list(range(first[0], last[0] + (last[1] >= first[1]), step))
            return "0", str(first[1]), _values_text(hours, 24)
        ends = (60 - step, 0) if unit == "min" else (59, 60 - step)
        if first[1:] != (0, 0) or last[1:] not in (ends, (ends[0], 0)) or last < first:
            whole = [f"{hour:02d}:{ends[0]:02d}" for hour in (max(first[0], last[0] - 1), last[0])]
            raise self._refusal(
                "does not begin and end with an hour",
                f"begin it at {first[0]:02d}:00, and end it at {whole[0]} or {whole[1]}",
            )
        hour = _values_text(hours, 24)
        return ("0", every, hour) if unit == "min" else (every, "*", hour)

    def _read_days(self) -> bool:
        if found := self._take(_NEAREST):
            self._nearest.append(int(found[1]))
        elif found := self._take(_NTH_WEEKDAY):
            weekday = _weekday(found[2])
            nth = _ORDINALS.get(found[1])
            self._nth.append(f"L{weekday}" if nth is None else f"{_names(weekday)}#{nth}")
        elif found := self._take(_LAST_DAY):
            if found[1] == "first":
                self._days.append(1)
            else:
                self._has_last_day = True
        elif found := self._take(_DATE):
            self._days.append(int(found[1] or found[4]))
            self._months.append(_month(found[2] or found[3]))
            self._kind = "month"
            return True
        elif found := self._take(_DAY):
            self._days += _span(found[1] or found[3], found[2])
        else:
            return False
        self._kind = "day"
        return True

    def _read_weekdays(self) -> bool:
        if found := self._take(_WEEK_PART):
            self.weekdays += _WEEKEND if found[1] == "weekend" else _WORKING_WEEK
        elif found := self._take(_WEEKDAY_RUN):
            first = _weekday(found[1])
            last = first if found[2] is None else _weekday(found[2])
            self.weekdays += [(first + more) % 7 for more in range((last - first) % 7 + 1)]
        else:
            return False
        self._kind = "weekday"
        return True

    def _read_months(self) -> bool:
        found = self._take(_MONTH_RUN)
        if found is None:
            return False
        first = _month(found[1])
        last = first if found[2] is None else _month(found[2])
        self._months += [(first - 1 + more) % 12 + 1 for more in range((last - first) % 12 + 1)]
        self._kind = "month"
        return True

    def _read_clock(self) -> bool:
        found = self._take(_AT)
        if found is None:
            return False
        self._clocks.append(_clock(found[1] or found[2]))
        self._kind = "clock"
        return True

    def _read_number(self) -> bool:
        if self._kind not in ("day", "clock"):
            return False
        found = self._take(_BARE)
        if found is None or (self._kind == "clock" and found[2] is not None):
            return False
        if self._kind == "clock":
            self._clocks.append(_clock(found[1]))
        else:
            self._days += _span(found[1], found[2])
        return True

    def _clock_fields(self) -> tuple[str, str, str]:
        clocks = sorted(set(self._clocks)) or [(0, 0, 0)]
        hours, minutes, seconds = (sorted({clock[at] for clock in clocks}) for at in range(3))
        if len(clocks) != len(hours) * len(minutes) * len(seconds):
            raise self._refusal(
                "has times at different minutes", "give the schedule a trigger for each of them"
            )
        return _values_text(seconds, 60), _values_text(minutes, 60), _values_text(hours, 24)

    def _day_fields(self) -> tuple[str, str, str]:
        days, months = sorted(set(self._days)), sorted(set(self._months))
        has_day = bool(days or self._nearest or self._has_last_day)
        weekday = _weekday_text(self.weekdays) if self.weekdays else ",".join(self._nth)
        if self.weekdays and self._nth:
            raise self._refusal(
                "has plain and counted weekdays", "give the schedule a trigger for each of them"
            )
        if has_day and weekday and self._is_ored is None:
            raise self._refusal(
                "has days of the month and of the week",
                "write '..., or on Friday' for both, or '..., when it is Friday'",
            )
        if not has_day and not weekday and self._frequency:
            if self._frequency in ("weekly", "every week"):
                weekday = "SUN"
            else:
                days, has_day = [1], True
                months = months or ([] if self._frequency == "monthly" else [1])
        day = "*"
        if has_day:
            star = _starred(days) if weekday and self._is_ored is False else None
            parts = [_values_text(days, 0) if star is None else star] if days else []
            parts += [f"{nearest}W" for nearest in self._nearest]
            day = ",".join([*parts, "L"] if self._has_last_day else parts)
        return day, _values_text(months, 12) if months else "*", weekday or "*"

    def _refusal(self, what: str, hint: str) -> InvalidTrigger:
        return InvalidTrigger(f"trigger {self._words!r} {what}", hint=hint)


def _starred(days: list[int]) -> str:
    """Write days so that cron wants the weekday, too: with a `*` at the beginning."""
    for step in range(2, 31):
        if set(range(1, 32, step)) <= set(days):
            rest = sorted(set(days) - set(range(1, 32, step)))
            return ",".join([f"*/{step}", *([_values_text(rest, 0)] if rest else [])])
    raise InvalidTrigger(
        "a cron text can't have these days of the month only on some weekdays",
        hint="write the first, second, third, fourth or last weekday of the month",
    )


def _clock(text: str) -> tuple[int, int, int]:
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


def _numbers(words: str) -> str:
    found = _BARE.findall(words)
    return _values_text(sorted({value for first, last in found for value in _span(first, last)}), 0)


def _span(first: str, last: str | None) -> Iterable[int]:
    return range(int(first), int(last or first) + 1)


def _values_text(values: Sequence[int], most: int) -> str:
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


def _weekday_text(weekdays: Iterable[int]) -> str:
    """`MON-FRI`, `TUE,THU`; from Monday on, as people count a working week."""
    runs = _runs(sorted({(weekday - 1) % 7 for weekday in weekdays}))
    if len(runs[0]) == 7:
        return "*"
    return ",".join(_run_text([_names(place + 1) for place in run]) for run in runs)


def _names(weekday: int) -> str:
    return _WEEKDAYS[weekday % 7][:3].upper()


def _weekday(name: str) -> int:
    return next(at for at, full in enumerate(_WEEKDAYS) if full.startswith(name[:3]))


def _month(name: str) -> int:
    return next(at for at, full in enumerate(_MONTHS, 1) if full.startswith(name[:3]))
