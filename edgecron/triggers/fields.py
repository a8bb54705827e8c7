"""A cron text's expanded fields: which days and times of day match, and their JSON form.

Days are numbered since 1970-01-01. A weekday is 0 (Sunday) to 6. Wall times are whole seconds
since 1970-01-01T00:00 on the wall clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from datetime import date
from functools import cached_property, lru_cache

from edgecron.base.tzif import DAY_S, EPOCH_ORDINAL
from edgecron.base.values import dataclass

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LAST_MONTH = 9998 * 12  # months are numbered since January of year 0


@dataclass(frozen=True, kw_only=True)
class DayRule:
    """The days on which a cron trigger can fire: its day, month and weekday fields.

    The two day fields are ORed unless one of them starts with `*` (Debian cron).
    """

    days: tuple[int, ...]
    last_day: bool
    nearest: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    nth_weekdays: tuple[tuple[int, int], ...]
    last_weekdays: tuple[int, ...]
    day_star: bool
    weekday_star: bool

    @property
    def is_ored(self) -> bool:
        return not (self.day_star or self.weekday_star)

    def first(self, day: int, until: int) -> int | None:
        """Find the first matching day from `day` on and before `until`."""
        at = date.fromordinal(day + EPOCH_ORDINAL)
        month = at.year * 12 + at.month - 1
        found = self.in_month(month)
        index = bisect_left(found, at.day)
        if index < len(found):
            day += found[index] - at.day
            return day if day < until else None
        # A month has at least 28 days: after this month every day is too late.
        last_month = min(month + (until - day) // 28 + 2, _LAST_MONTH)
        while month < last_month:
            month += self._steps[month % 12]
            found = self.in_month(month)
            if found:
                day = _month_start(month) + found[0] - 1
                return day if day < until else None
        return None

    def last(self, day: int, since: int) -> int | None:
        """Find the last matching day at or before `day` and not before `since`."""
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
        """Count the matching days from `day` on and before `until`."""
        if until <= day:
            return 0
        start = date.fromordinal(day + EPOCH_ORDINAL)
        end = date.fromordinal(until + EPOCH_ORDINAL)
        first_month = start.year * 12 + start.month - 1
        last_month = end.year * 12 + end.month - 1
        whole = sum(len(self.in_month(month)) for month in range(first_month, last_month))
        before = bisect_left(self.in_month(first_month), start.day)
        return whole - before + bisect_left(self.in_month(last_month), end.day)

    def in_month(self, month: int) -> tuple[int, ...]:
        """List the matching days of a month, 1 to 31, in order."""
        if month % 12 + 1 not in self.months:
            return ()
        kind = _kind(month)
        if kind not in self._days:
            self._days[kind] = _match_days(self, *kind)
        return self._days[kind]

    @cached_property
    def _steps(self) -> tuple[int, ...]:
        """Count the months from each month, January first, to the next one that can match."""
        return tuple(min((n - at - 1) % 12 or 12 for n in self.months) for at in range(12))

    @cached_property
    def _days(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The matching days of a month by its kind, of which there are 28."""
        return {}

    def can_ever_match(self) -> bool:
        """Whether any day ever matches: these 28 years hold every kind of year."""
        return any(self.in_month(month) for month in range(2000 * 12, 2028 * 12))


@lru_cache(maxsize=256)
def _times_of_day(
    hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]
) -> tuple[int, ...]:
    """List the times of day that match, in milliseconds since midnight."""
    return tuple(
        (hour * 3600 + minute * 60 + second) * 1000
        for hour in hours
        for minute in minutes
        for second in seconds
    )


@lru_cache(maxsize=1024)
def _kind(month: int) -> tuple[int, int]:
    """Return the length of a month and the weekday on which it begins."""
    year, index = divmod(month, 12)
    return _month_length(year, index), date(year, index + 1, 1).toordinal() % 7


def _match_days(rule: DayRule, length: int, first: int) -> tuple[int, ...]:
    """List the matching days of a month of this length that begins on this weekday."""
    wanted = {day for day in rule.days if day <= length}
    if rule.last_day:
        wanted.add(length)
    wanted.update(_nearest_workday(day, first, length) for day in rule.nearest)
    weekly: set[int] = set()
    for weekday in rule.weekdays:
        weekly.update(range(1 + (weekday - first) % 7, length + 1, 7))
    for weekday, nth in rule.nth_weekdays:
        day = 1 + (weekday - first) % 7 + 7 * (nth - 1)
        if day <= length:
            weekly.add(day)
    for weekday in rule.last_weekdays:
        weekly.add(length - (first + length - 1 - weekday) % 7)
    return tuple(sorted(wanted | weekly if rule.is_ored else wanted & weekly))


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


@dataclass(frozen=True, kw_only=True)
class CronFields:
    """The values that the fields match, without a zone: sorted numbers.

    `is_wildcard`: the minute or hour field starts with `*`, so the trigger follows elapsed time
    instead of running once per wall time (Debian cron).
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    rule: DayRule
    is_wildcard: bool

    @cached_property
    def per_hour(self) -> int:
        return len(self.minutes) * len(self.seconds)

    @cached_property
    def per_day(self) -> int:
        return len(self.hours) * self.per_hour

    def first(self, wall_s: int, until_s: int) -> int | None:
        """Find the first matching wall time from `wall_s` on and before `until_s`."""
        if wall_s >= until_s:
            return None
        day, time_s = divmod(wall_s, DAY_S)
        rank = self._rank(time_s)
        if rank == self.per_day:
            day, rank = day + 1, 0
        found = self.rule.first(day, until_s // DAY_S + 1)
        if found is None:
            return None
        wall_s = found * DAY_S + self._time(rank if found == day else 0)
        return wall_s if wall_s < until_s else None

    def last(self, wall_s: int, until_s: int) -> int | None:
        """Find the last matching wall time from `wall_s` on and before `until_s`."""
        if wall_s >= until_s:
            return None
        day, time_s = divmod(until_s, DAY_S)
        rank = self._rank(time_s)
        if rank == 0:
            day, rank = day - 1, self.per_day
        found = self.rule.last(day, wall_s // DAY_S)
        if found is None:
            return None
        until_s = found * DAY_S + self._time((rank if found == day else self.per_day) - 1)
        return until_s if until_s >= wall_s else None

    def count(self, wall_s: int, until_s: int) -> int:
        """Count the matching wall times from `wall_s` on and before `until_s`."""
        if wall_s >= until_s:
            return 0
        day, time_s = divmod(wall_s, DAY_S)
        end_day, end_time_s = divmod(until_s, DAY_S)
        total = self.rule.count(day, end_day) * self.per_day
        if self.rule.count(day, day + 1):
            total -= self._rank(time_s)
        if self.rule.count(end_day, end_day + 1):
            total += self._rank(end_time_s)
        return total

    def list_ms(self, wall_s: int, until_s: int) -> list[int]:
        """List the matching wall times from `wall_s` on and before `until_s`, in milliseconds."""
        if wall_s >= until_s:
            return []
        day, time_s = divmod(wall_s, DAY_S)
        end_day, end_time_s = divmod(until_s, DAY_S)
        times_ms = _times_of_day(self.hours, self.minutes, self.seconds)
        found: list[int] = []
        at = self.rule.first(day, end_day + 1)
        while at is not None:
            start_ms = at * DAY_S * 1000
            first = self._rank(time_s) if at == day else 0
            last = self._rank(end_time_s) if at == end_day else self.per_day
            found += [start_ms + time_ms for time_ms in times_ms[first:last]]
            at = self.rule.first(at + 1, end_day + 1) if at < end_day else None
        return found

    def _rank(self, time_s: int) -> int:
        """Count the matching times of a day before this one, in seconds since midnight."""
        minute, second = divmod(time_s, 60)
        hour, minute = divmod(minute, 60)
        index = bisect_left(self.hours, hour)
        rank = index * self.per_hour
        if index == len(self.hours) or self.hours[index] != hour:
            return rank
        index = bisect_left(self.minutes, minute)
        rank += index * len(self.seconds)
        if index == len(self.minutes) or self.minutes[index] != minute:
            return rank
        return rank + bisect_left(self.seconds, second)

    def _time(self, rank: int) -> int:
        """The matching time of a day that has this rank, in seconds since midnight."""
        hour, rest = divmod(rank, self.per_hour)
        minute, second = divmod(rest, len(self.seconds))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def to_json(self) -> dict[str, object]:
        """Write numbers and flags, as `fields_from_json` reads them; "*" for a full field."""
        rule = self.rule
        numbers = {
            "seconds": self.seconds,
            "minutes": self.minutes,
            "hours": self.hours,
            "days": rule.days,
            "nearest_weekdays": rule.nearest,
            "months": rule.months,
            "weekdays": rule.weekdays,
            "last_weekdays": rule.last_weekdays,
        }
        return {
            **{key: _shortened(key, values) for key, values in numbers.items()},
            "nth_weekdays": [list(pair) for pair in rule.nth_weekdays],
            "last_day": rule.last_day,
            "day_star": rule.day_star,
            "weekday_star": rule.weekday_star,
            "wildcard": self.is_wildcard,
        }


RANGES = {
    "seconds": range(60),
    "minutes": range(60),
    "hours": range(24),
    "days": range(1, 32),
    "nearest_weekdays": range(1, 32),
    "months": range(1, 13),
    "weekdays": range(7),
    "last_weekdays": range(7),
}
_MAY_BE_FULL = ("seconds", "minutes", "hours", "days", "months", "weekdays")


def fields_from_json(obj: Mapping[str, object]) -> CronFields:
    """Read fields from `CronFields.to_json`. Raises ValueError if the object is not such fields."""
    rule = DayRule(
        days=_read_numbers(obj, "days"),
        last_day=_read_flag(obj, "last_day"),
        nearest=_read_numbers(obj, "nearest_weekdays"),
        months=_read_numbers(obj, "months"),
        weekdays=_read_numbers(obj, "weekdays"),
        nth_weekdays=_read_pairs(obj),
        last_weekdays=_read_numbers(obj, "last_weekdays"),
        day_star=_read_flag(obj, "day_star"),
        weekday_star=_read_flag(obj, "weekday_star"),
    )
    fields = CronFields(
        seconds=_read_numbers(obj, "seconds"),
        minutes=_read_numbers(obj, "minutes"),
        hours=_read_numbers(obj, "hours"),
        rule=rule,
        is_wildcard=_read_flag(obj, "wildcard"),
    )
    if not fields.per_day or not rule.months:
        raise ValueError("a field matches nothing")
    return fields


def _shortened(key: str, values: tuple[int, ...]) -> str | list[int]:
    is_full = key in _MAY_BE_FULL and len(values) == len(RANGES[key])
    return "*" if is_full else list(values)


def _read_numbers(obj: Mapping[str, object], key: str) -> tuple[int, ...]:
    values, allowed = obj.get(key), RANGES[key]
    if values == "*":
        return tuple(allowed)
    if isinstance(values, list) and all(type(one) is int and one in allowed for one in values):
        return tuple(sorted(set(values)))
    raise ValueError(f"{key} is {values!r}, expected numbers from {allowed[0]} to {allowed[-1]}")


def _read_pairs(obj: Mapping[str, object]) -> tuple[tuple[int, int], ...]:
    pairs = obj.get("nth_weekdays")
    if not isinstance(pairs, list):
        raise ValueError("nth_weekdays is not a list")
    for pair in pairs:
        is_pair = isinstance(pair, list) and [type(one) for one in pair] == [int, int]
        if not is_pair or pair[0] not in range(7) or pair[1] not in range(1, 6):
            raise ValueError(f"nth_weekdays has {pair!r}, expected a weekday and 1 to 5")
    return tuple(sorted({(weekday, nth) for weekday, nth in pairs}))


def _read_flag(obj: Mapping[str, object], key: str) -> bool:
    flag = obj.get(key)
    if not isinstance(flag, bool):
        raise ValueError(f"{key} is {flag!r}, expected true or false")
    return flag
