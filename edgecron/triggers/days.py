"""The days on which a cron trigger may fire: the day, month and weekday fields together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date
from functools import lru_cache

from edgecron.triggers.tzif import EPOCH_ORDINAL

# Months kept per rule: a count over fifty years, and then the cache starts again.
_MONTHS_KEPT = 700
_LAST_MONTH = 9998 * 12
_FIRST_DAY = date.min.toordinal() - EPOCH_ORDINAL
_LAST_DAY = date.max.toordinal() - EPOCH_ORDINAL


class DayRule:
    """Which days match. Days are numbered since 1970-01-01, months since January of year 0.

    The two day fields are ORed unless one of them starts with `*` (Debian cron). A weekday is
    0 (Sunday) to 6. Made by `day_rule`, which shares equal ones.
    """

    __slots__ = (
        "_kept", "_kinds", "_steps",
        "days",
        "is_ored",
        "last_day",
        "last_weekdays",
        "months",
        "nearest",
        "nth_weekdays",
        "weekdays",
    )  # fmt: skip

    def __init__(
        self,
        *,
        days: tuple[int, ...],
        last_day: bool,
        nearest: tuple[int, ...],
        months: tuple[int, ...],
        weekdays: tuple[int, ...],
        nth_weekdays: tuple[tuple[int, int], ...],
        last_weekdays: tuple[int, ...],
        is_ored: bool,
    ) -> None:
        self.days = days
        self.last_day = last_day
        self.nearest = nearest
        self.months = months
        self.weekdays = weekdays
        self.nth_weekdays = nth_weekdays
        self.last_weekdays = last_weekdays
        self.is_ored = is_ored
        self._kept: dict[int, tuple[int, ...]] = {}
        # By month length and the weekday of its first: all that the days of a month depend on.
        self._kinds: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        # From each month, January first, how many months to the next that may match.
        self._steps = tuple(
            next((n for n in range(1, 13) if (month + n) % 12 + 1 in months), 12)
            for month in range(12)
        )

    def identity(self) -> tuple[object, ...]:
        """What makes two of them the same."""
        return (self.days, self.last_day, self.nearest, self.months, self.weekdays,
                self.nth_weekdays, self.last_weekdays, self.is_ored)  # fmt: skip

    def first(self, day: int, until: int) -> int | None:
        """The first matching day from `day` on and before `until`, or None."""
        at = date.fromordinal(day + EPOCH_ORDINAL)
        month = start_month = at.year * 12 + at.month - 1
        found = self.in_month(month)
        index = bisect_left(found, at.day)
        if index < len(found):
            day += found[index] - at.day
            return day if day < until else None
        # A month has at least 28 days: past this one every day is too late.
        last_month = min(start_month + (until - day) // 28 + 2, _LAST_MONTH)
        while month < last_month:
            month += self._steps[month % 12]
            found = self.in_month(month)
            if found:
                day = _month_start(month) + found[0] - 1
                return day if day < until else None
        return None

    def last(self, day: int, since: int) -> int | None:
        """The last matching day at or before `day` and not before `since`, or None."""
        while day >= since:
            at = date.fromordinal(day + EPOCH_ORDINAL)
            found = self.in_month(at.year * 12 + at.month - 1)
            index = bisect_right(found, at.day)
            if index:
                day += found[index - 1] - at.day
                return day if day >= since else None
            day -= at.day
        return None

    def count(self, day: int, until: int) -> int:
        """How many days from `day` on and before `until` match."""
        if until <= day:
            return 0
        start = date.fromordinal(day + EPOCH_ORDINAL)
        end = date.fromordinal(until + EPOCH_ORDINAL)
        first_month = start.year * 12 + start.month - 1
        last_month = end.year * 12 + end.month - 1
        whole = sum(len(self.in_month(month)) for month in range(first_month, last_month))
        before = bisect_left(self.in_month(first_month), start.day)
        return whole - before + bisect_left(self.in_month(last_month), end.day)

    def bits(self, day: int, until: int) -> int:
        """A number whose bit n is set where `day + n` matches, before `until`.

        Days that no datetime can hold match never.
        """
        start = max(day, _FIRST_DAY)
        end = min(until, _LAST_DAY + 1)
        if start >= end:
            return 0
        at = date.fromordinal(start + EPOCH_ORDINAL)
        month = at.year * 12 + at.month - 1
        first = start - at.day + 1
        found = 0
        while first < end:
            length = _month_length(*divmod(month, 12))
            if month % 12 + 1 in self.months:
                mask = self._kind(length, (first + EPOCH_ORDINAL) % 7)[1]
                found |= mask << (first - start) if first >= start else mask >> (start - first)
            first += length
            month += 1
        return (found & ((1 << (end - start)) - 1)) << (start - day)

    def in_month(self, month: int) -> tuple[int, ...]:
        """The matching days of a month, 1 to 31, in order."""
        found = self._kept.get(month)
        if found is None:
            found = self._match(*divmod(month, 12))
            if len(self._kept) >= _MONTHS_KEPT:
                self._kept = {}
            self._kept[month] = found
        return found

    def can_ever_match(self) -> bool:
        """Whether any day ever matches: these 28 years hold every kind of year there is."""
        return any(self.in_month(month) for month in range(2000 * 12, 2028 * 12))

    def _match(self, year: int, month_index: int) -> tuple[int, ...]:
        if month_index + 1 not in self.months:
            return ()
        first = date(year, month_index + 1, 1).toordinal() % 7
        length = _month_length(year, month_index)
        return self._kind(length, first)[0]

    def _kind(self, length: int, first: int) -> tuple[tuple[int, ...], int]:
        """The matching days of a month of this length that begins on this weekday, and as bits."""
        found = self._kinds.get((length, first))
        if found is None:
            days = self._match_kind(length, first)
            found = self._kinds[length, first] = days, sum(1 << (day - 1) for day in days)
        return found

    def _match_kind(self, length: int, first: int) -> tuple[int, ...]:
        wanted = {day for day in self.days if day <= length}
        if self.last_day:
            wanted.add(length)
        wanted.update(_nearest_workday(day, first, length) for day in self.nearest)
        weekly: set[int] = set()
        for weekday in self.weekdays:
            weekly.update(range(1 + (weekday - first) % 7, length + 1, 7))
        for weekday, nth in self.nth_weekdays:
            day = 1 + (weekday - first) % 7 + 7 * (nth - 1)
            if day <= length:
                weekly.add(day)
        for weekday in self.last_weekdays:
            weekly.add(length - (first + length - 1 - weekday) % 7)
        return tuple(sorted(wanted | weekly if self.is_ored else wanted & weekly))


@lru_cache(maxsize=2048)
def day_rule(
    *,
    days: tuple[int, ...],
    last_day: bool,
    nearest: tuple[int, ...],
    months: tuple[int, ...],
    weekdays: tuple[int, ...],
    nth_weekdays: tuple[tuple[int, int], ...],
    last_weekdays: tuple[int, ...],
    is_ored: bool,
) -> DayRule:
    """The rule of these fields; thousands of schedules on the same days share one."""
    return DayRule(
        days=days,
        last_day=last_day,
        nearest=nearest,
        months=months,
        weekdays=weekdays,
        nth_weekdays=nth_weekdays,
        last_weekdays=last_weekdays,
        is_ored=is_ored,
    )


def _month_length(year: int, month_index: int) -> int:
    if month_index == 1:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month_index in (3, 5, 8, 10) else 31


def _month_start(month: int) -> int:
    return date(month // 12, month % 12 + 1, 1).toordinal() - EPOCH_ORDINAL


def _nearest_workday(day: int, first: int, length: int) -> int:
    """Monday to Friday nearest to a day, within the month; a day past its end is its last day."""
    day = min(day, length)
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
