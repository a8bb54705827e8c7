"""Read triggers in plain English: what `describe` prints, and what people write in its place.

The result is a trigger text that `grammar` reads, a cron text for calendar times: `first monday at
9`, `every 15 minutes on weekdays`. Words that could mean two things are refused.
"""

from __future__ import annotations

import re
from itertools import product

from edgecron.base.errors import InvalidTrigger
from edgecron.base.values import NamedTuple
from edgecron.triggers.english_parts import (
    ANY_CLOCK,
    CLOCK,
    MONTH,
    ORDINALS,
    WEEKDAY,
    Clock,
    check_every_other,
    read_clocks,
    read_event,
    read_every,
    read_month,
    read_span,
    read_weekday,
    starred_text,
    values_text,
    weekday_name,
    weekday_text,
)

_ZONE = re.compile(r" \((local time|[\w+\-]+(?:/[\w+\-]+)*)(?:, [\w+\-/]+)?\)$", re.ASCII)
_ONCE_BETWEEN = re.compile(
    rf"once between ({ANY_CLOCK}|24:00) and ({ANY_CLOCK}|24:00)"
    r"(?:,? (?!when)(.+?))?(?:, when (.+))?"
)
_WORKING_WEEK = (1, 2, 3, 4, 5)
_WEEKEND = (6, 0)
_NUMBERS = r"\d{1,2}(?: to \d{1,2})?(?:(?:,? and |, )\d{1,2}(?: to \d{1,2})?)*"
_NTH = rf"(?:{'|'.join(ORDINALS)}|last)"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})\b(?!\w)", re.ASCII)


# What stands between other words and says nothing.
_LINKS = _compiled(rf"and|on|in|of (?:the|each|every) month|of it|of(?= {MONTH}\b)")
_DAILY = _compiled(r"every day|each day|daily|once (?:a|per|every) day")
_OR = _compiled(r"or")
_WHEN_IT_IS = _compiled(r"when it is")
_FREQUENCY = _compiled(
    r"(?:every|each|once (?:a|per|every)) (?:week(?! days?\b)|month|year)"
    r"|weekly|monthly|yearly|annually"
)
_FIELDS = _compiled(
    rf"(?:at )?(?:(every second|seconds? {_NUMBERS}) of )?(every minute|minutes? {_NUMBERS})"
    rf" of (every hour|hours? {_NUMBERS})"
)
_STEP = _compiled(
    r"every (?:(\d{1,4}) )?(hour|minute|min|second|sec)s?"
    rf"(?:,? on the hour|,? (?:from|between) ({ANY_CLOCK}) (?:to|and|until) ({ANY_CLOCK}))?"
)
_AT = re.compile(rf"(?:at )({ANY_CLOCK})|({CLOCK})(?![\d:])", re.ASCII)
_BARE = re.compile(r"(\d{1,2})(?: to (\d{1,2}))?(?![\d:])", re.ASCII)
_CONTINUED = re.compile(r".*(?:,|\band|\bor) ?", re.ASCII)
_WEEK_PART = _compiled(r"(?:every |each )?(week ?day|workday|weekend)s?")
_NEAREST = re.compile(r"the weekday nearest to day (\d{1,2})(?: \(or to the last day\))?", re.ASCII)
_LAST_DAY = _compiled(r"(?:the |every |each )?(last|first) day")
_NTH_WEEKDAY = _compiled(
    rf"(the |every |each )?({_NTH}(?:(?:,? (?:and|or) |, )(?:the )?{_NTH})*) {WEEKDAY}"
)
_EACH_NTH = re.compile(_NTH)
_TH = r"(?:st|nd|rd|th)"
_DATE = _compiled(
    rf"(?:the )?(\d{{1,2}}){_TH}?(?: to (\d{{1,2}}){_TH}?)?(?: of)? {MONTH}"
    rf"|{MONTH} (\d{{1,2}}){_TH}?(?: to (\d{{1,2}}){_TH}?)?"
)
_DAY = _compiled(rf"days? (\d{{1,2}})(?: to (\d{{1,2}}))?|(?:the )?(\d{{1,2}}){_TH}")
_WEEKDAY_RUN = _compiled(rf"(?:every |each )?{WEEKDAY}(?: to {WEEKDAY})?")
_MONTH_RUN = _compiled(rf"{MONTH}(?: to {MONTH})?")
_EACH = "give the schedule a trigger for each of them"


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
    found = read_event(words) or _read_once_between(words) or read_every(low)
    if found is None:
        check_every_other(low)
        found = _CalendarReader(low).read()
    if found is None:
        return None
    named = None if zone is None else zone[1].replace("local time", "local")
    return Words(found, named)


def _read_once_between(words: str) -> str | None:
    found = _ONCE_BETWEEN.fullmatch(words.lower())
    if found is None:
        return None
    first, last, days = found[1], found[2], found[3] or "every day"
    conditions = "" if found[4] is None else words[slice(*found.span(4))]
    reader = _CalendarReader(days)
    if not reader.read_clauses() or reader.has_more_than_weekdays():
        return None
    weekdays = f" {weekday_text(reader.weekdays)}" if reader.weekdays else ""
    ends = read_clocks([end.replace("24:00", "00:00") for end in (first, last)])
    opens, closes = (
        "24:00" if text == "24:00" else "{:02d}:{:02d}".format(*clock[:2])
        for text, clock in zip((first, last), ends, strict=True)
    )
    return f"once in {opens}-{closes}{weekdays}" + (f" when {conditions}" if conditions else "")


class _CalendarReader:
    """The clauses of a calendar time, in any order: times of day, days and months."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._rest = words
        self._kinds: list[str] = []  # of the clauses; neighbours of one kind are one
        self._has_or = False  # before the next clause
        self._clocks: list[str] = []
        self._fields: tuple[str, str, str] | None = None  # second, minute, hour
        self._days: list[int] = []
        self._nearest: list[int] = []
        self._has_last_day = False
        self.weekdays: list[int] = []
        self._nth: list[str] = []
        self._months: list[int] = []
        self._dates: list[tuple[int, int]] = []  # day and month
        self._is_month_first = False
        self._is_ored: bool | None = None  # None: the words do not say
        self._frequency = ""
        self._is_daily = False

    def read(self) -> str | None:
        """Return the cron text; None for other words."""
        if not self.read_clauses() or not (self._is_daily or self._names_days):
            return None
        self._check_pairs()
        self._check_frequency()
        second, minute, hour = self._fields or self._clock_fields()
        day, month, weekday = self._day_fields()
        head = "" if second == "0" else f"{second} "
        return f"{head}{minute} {hour} {day} {month} {weekday}"

    def _check_pairs(self) -> None:
        """Refuse words of which a cron text would mix the parts: `monday at 9, friday at 17`."""
        if self._clocks and self._fields is not None:
            raise self._refusal("names times of day and an interval", "write one of the two")
        again = {kind for kind in self._kinds if self._kinds.count(kind) > 1}
        if again & {"clock", "weekday"}:
            raise self._refusal("names days with times of their own", _EACH)
        if again & {"day", "month"} or self._is_month_first:
            is_mixed = self._nearest or (self._has_last_day and self._days)
            if is_mixed or set(product(self._days, self._months)) != set(self._dates):
                raise self._refusal("names dates that are not the same days of each month", _EACH)

    def _check_frequency(self) -> None:
        has_day = bool(self._days or self._nearest or self._has_last_day)
        has_nth = bool(self._nth)
        frequency = self._frequency
        if frequency and (self._is_daily or self._fields is not None):
            raise self._refusal(f"is {frequency}, and more often, too", "write one of the two")
        if self._is_daily and (has_day or has_nth):
            raise self._refusal("is for each day, and for some", "write one of the two")
        if frequency == "weekly" and (has_day or has_nth):
            raise self._refusal(
                "is weekly, but names days of the month", "remove 'weekly', or name a weekday"
            )
        if frequency == "monthly" and (self._months or (self.weekdays and not has_day)):
            raise self._refusal(
                f"is monthly, but names {'months' if self._months else 'a day of each week'}",
                "write 'march 1', 'first monday of march' or 'first monday of the month'",
            )
        is_date = self._months and (has_day or has_nth)
        if frequency == "yearly" and not is_date and {*self._kinds} - {"clock", "frequency"}:
            raise self._refusal(
                "is yearly, but does not name a date",
                "write 'every year on march 1', or 'first monday of march'",
            )

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

    def _enter(self, kind: str) -> None:
        """Begin a clause. An `or` stands between two of one kind, or month days and weekdays."""
        before = self._kinds[-1] if self._kinds else kind
        if self._has_or and {before, kind} == {"day", "weekday"}:
            self._is_ored = True
        elif self._has_or and before != kind:
            raise self._refusal("has an 'or' between different things", _EACH)
        self._has_or = False
        if before != kind or not self._kinds:
            self._kinds.append(kind)

    def _read_link(self) -> bool:
        if self._take(_OR):
            self._has_or = True
        elif self._take(_WHEN_IT_IS):
            self._is_ored = False
        elif self._take(_DAILY):
            self._enter("frequency")
            self._is_daily = True
        elif found := self._take(_FREQUENCY):
            self._enter("frequency")
            per = found[0].split()[-1]
            frequency = {"annually": "yearly"}.get(per, per.removesuffix("ly") + "ly")
            if self._frequency not in ("", frequency):
                raise self._refusal(f"is {self._frequency} and {frequency}", _EACH)
            self._frequency = frequency
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
        self._set_fields(second, minute, hour)
        return True

    def _read_step(self) -> bool:
        found = self._take(_STEP)
        if found is None:
            return False
        step, unit = int(found[1] or 1), found[2][:3]
        first = last = None
        if found[3] is not None:
            first, last = read_clocks((found[3], found[4]))
            if last < first:
                raise self._refusal(
                    "has a span that passes midnight",
                    "give the schedule two triggers, the second from 00:00",
                )
        most = 24 if unit == "hou" else 60
        is_even = 0 < step < most and (most % step == 0 or (unit == "hou" and first is not None))
        if not is_even:
            whole = "a day" if unit == "hou" else "an hour" if unit == "min" else "a minute"
            raise self._refusal(
                f"has a step of {step}, which does not divide {whole}",
                "write a step that does, or only the interval without days and times",
            )
        self._set_fields(*self._stretch(step, unit, first, last))
        return True

    def _set_fields(self, second: str, minute: str, hour: str) -> None:
        if self._fields is not None:
            raise self._refusal("names two intervals", _EACH)
        self._enter("clock")
        self._fields = (second, minute, hour)

    def _stretch(
        self,
        step: int,
        unit: str,
        first: Clock | None,
        last: Clock | None,
    ) -> tuple[str, str, str]:
        every = "*" if step == 1 else f"*/{step}"
        if first is None or last is None:
            fields = {"hou": ("0", "0", every), "min": ("0", every, "*"), "sec": (every, "*", "*")}
            return fields[unit]
        hours = list(range(first[0], last[0] + 1))
        if unit == "hou" and not first[2]:
            hours = list(range(first[0], last[0] + (last[1] >= first[1]), step))
            return "0", str(first[1]), values_text(hours, 24)
        ends = (60 - step, 0) if unit == "min" else (59, 60 - step)
        if first[1:] != (0, 0) or last[1:] not in (ends, (ends[0], 0)):
            whole = [f"{hour:02d}:{ends[0]:02d}" for hour in (max(first[0], last[0] - 1), last[0])]
            raise self._refusal(
                "does not begin and end with an hour",
                f"begin it at {first[0]:02d}:00, and end it at {whole[0]} or {whole[1]}",
            )
        hour = values_text(hours, 24)
        return ("0", every, hour) if unit == "min" else (every, "*", hour)

    def _read_days(self) -> bool:
        if found := self._take(_NTH_WEEKDAY):
            self._read_nth(found)
        elif found := self._take(_DATE):
            self._read_date(found)
        elif found := self._take(_NEAREST):
            self._enter("day")
            self._nearest.append(int(found[1]))
        elif found := self._take(_LAST_DAY):
            self._enter("day")
            if found[1] == "first":
                self._days.append(1)
            else:
                self._has_last_day = True
        elif found := self._take(_DAY):
            self._enter("day")
            self._days += read_span(found[1] or found[3], found[2])
        else:
            return False
        return True

    def _read_nth(self, found: re.Match[str]) -> None:
        weekday = read_weekday(found[3])
        places = _EACH_NTH.findall(found[2])
        is_every = found[1] in ("every ", "each ")
        counted = [ORDINALS[place] for place in places if ORDINALS.get(place, 1) > 1]
        if is_every and counted and "month" not in self._words:
            raise self._refusal(
                "could count weeks or the weekdays of a month",
                f"write '{found[2]} {found[3]} of the month', or"
                f" 'every {7 * counted[0]}d from 2026-11-20T09:00:00Z'",
            )
        self._enter("weekday")
        for place in places:
            nth = ORDINALS.get(place)
            self._nth.append(f"L{weekday}" if nth is None else f"{weekday_name(weekday)}#{nth}")

    def _read_date(self, found: re.Match[str]) -> None:
        self._is_month_first |= found[4] is not None
        for kind in ("month", "day") if found[4] else ("day", "month"):
            self._enter(kind)
        month = read_month(found[3] or found[4])
        days = read_span(found[1] or found[5], found[2] or found[6])
        self._days += days
        self._months.append(month)
        self._dates += [(day, month) for day in days]

    def _read_weekdays(self) -> bool:
        if found := self._take(_WEEK_PART):
            self._enter("weekday")
            self.weekdays += _WEEKEND if found[1] == "weekend" else _WORKING_WEEK
        elif found := self._take(_WEEKDAY_RUN):
            self._enter("weekday")
            first = read_weekday(found[1])
            last = first if found[2] is None else read_weekday(found[2])
            self.weekdays += [(first + more) % 7 for more in range((last - first) % 7 + 1)]
        else:
            return False
        return True

    def _read_months(self) -> bool:
        found = self._take(_MONTH_RUN)
        if found is None:
            return False
        self._enter("month")
        first = read_month(found[1])
        last = first if found[2] is None else read_month(found[2])
        self._months += [(first - 1 + more) % 12 + 1 for more in range((last - first) % 12 + 1)]
        return True

    def _read_clock(self) -> bool:
        found = self._take(_AT)
        if found is None:
            return False
        self._enter("clock")
        self._clocks.append(found[1] or found[2])
        return True

    def _read_number(self) -> bool:
        """Read a number that continues a list of days or times: the 10 of `at 9 and 10`."""
        kind = self._kinds[-1] if self._kinds else ""
        read = self._words[: len(self._words) - len(self._rest)]
        found = _BARE.match(self._rest)
        if found is None or _CONTINUED.fullmatch(read) is None:
            return False
        if kind == "clock" and self._clocks and found[2] is None:
            self._clocks.append(found[1])
        elif kind == "day" and not self._is_month_first:
            self._days += read_span(found[1], found[2])
        else:
            return False
        self._has_or = False
        self._take(_BARE)
        return True

    def _clock_fields(self) -> tuple[str, str, str]:
        clocks = sorted(set(read_clocks(self._clocks))) or [(0, 0, 0)]
        hours, minutes, seconds = (sorted({clock[at] for clock in clocks}) for at in range(3))
        if len(clocks) != len(hours) * len(minutes) * len(seconds):
            raise self._refusal("has times at different minutes", _EACH)
        return values_text(seconds, 60), values_text(minutes, 60), values_text(hours, 24)

    def _day_fields(self) -> tuple[str, str, str]:
        days, months = sorted(set(self._days)), sorted(set(self._months))
        has_day = bool(days or self._nearest or self._has_last_day)
        weekday = weekday_text(self.weekdays) if self.weekdays else ",".join(self._nth)
        if self.weekdays and self._nth:
            raise self._refusal("has plain and counted weekdays", _EACH)
        if has_day and weekday and self._is_ored is None:
            raise self._refusal(
                "has days of the month and of the week",
                "write '..., or on Friday' for both, or '..., when it is Friday'",
            )
        if not has_day and not weekday and self._frequency:
            if self._frequency == "weekly":
                weekday = "SUN"
            else:
                days, has_day = [1], True
                months = months or ([] if self._frequency == "monthly" else [1])
        day = "*"
        if has_day:
            star = starred_text(days) if weekday and self._is_ored is False else None
            parts = [values_text(days, 0) if star is None else star] if days else []
            parts += [f"{nearest}W" for nearest in self._nearest]
            day = ",".join([*parts, "L"] if self._has_last_day else parts)
        return day, values_text(months, 12) if months else "*", weekday or "*"

    def _refusal(self, what: str, hint: str) -> InvalidTrigger:
        return InvalidTrigger(f"trigger {self._words!r} {what}", hint=hint)


def _numbers(words: str) -> str:
    found = _BARE.findall(words)
    return values_text(
        sorted({value for first, last in found for value in read_span(first, last)}), 0
    )
