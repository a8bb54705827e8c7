"""A cron trigger's fields, compiled: sorted tuples, asked by rank, and their JSON form.

Wall times here are whole seconds since 1970-01-01T00:00 on the wall clock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from edgecron.triggers.days import DayRule, day_rule
from edgecron.triggers.tzif import DAY_S

SECONDS = MINUTES = tuple(range(60))
HOURS = tuple(range(24))
DAYS = tuple(range(1, 32))
MONTHS = tuple(range(1, 13))
WEEKDAYS = tuple(range(7))


class CronFields:
    """What the fields match, without a zone. Immutable.

    `is_wildcard`: the minute or the hour field starts with `*`, so that the trigger follows
    elapsed time instead of running once per wall time (Debian cron).
    """

    __slots__ = ("_bits", "_per_hour", "day_star", "hours", "is_wildcard", "minutes", "per_day",
                 "rule", "seconds", "weekday_star")  # fmt: skip

    def __init__(
        self,
        *,
        seconds: tuple[int, ...],
        minutes: tuple[int, ...],
        hours: tuple[int, ...],
        rule: DayRule,
        day_star: bool,
        weekday_star: bool,
        is_wildcard: bool,
    ) -> None:
        self.seconds = seconds
        self.minutes = minutes
        self.hours = hours
        self.rule = rule
        self.day_star = day_star
        self.weekday_star = weekday_star
        self.is_wildcard = is_wildcard
        self._per_hour = len(minutes) * len(seconds)
        self._bits = 0  # made when first asked for
        self.per_day = len(hours) * self._per_hour

    def first(self, wall_s: int, until_s: int) -> int | None:
        """The first matching wall time from `wall_s` on and before `until_s`, or None."""
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
        """The last matching wall time from `wall_s` on and before `until_s`, or None."""
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
        """How many wall times from `wall_s` on and before `until_s` match."""
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

    def day_bits(self) -> int:
        """A number whose bit k is set where second k of a day that matches is a matching time."""
        if not self._bits:
            minute = sum(1 << second for second in self.seconds)
            hour = sum(minute << (60 * n) for n in self.minutes)
            self._bits = sum(hour << (3600 * n) for n in self.hours)
        return self._bits

    def _rank(self, time_s: int) -> int:
        """How many matching times of a day come before this one, in seconds since midnight."""
        minute, second = divmod(time_s, 60)
        hour, minute = divmod(minute, 60)
        index = bisect_left(self.hours, hour)
        rank = index * self._per_hour
        if index == len(self.hours) or self.hours[index] != hour:
            return rank
        index = bisect_left(self.minutes, minute)
        rank += index * len(self.seconds)
        if index == len(self.minutes) or self.minutes[index] != minute:
            return rank
        return rank + bisect_left(self.seconds, second)

    def _time(self, rank: int) -> int:
        """The matching time of a day of this rank, in seconds since midnight."""
        hour, rest = divmod(rank, self._per_hour)
        minute, second = divmod(rest, len(self.seconds))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def identity(self) -> tuple[object, ...]:
        """What makes two of them the same."""
        return (self.seconds, self.minutes, self.hours, self.rule.identity(), self.day_star,
                self.weekday_star, self.is_wildcard)  # fmt: skip

    def to_json(self) -> dict[str, object]:
        """Numbers and flags, as `fields_from_json` reads them back; "*" where a field is full."""
        rule = self.rule
        return {
            "seconds": _short(self.seconds, SECONDS),
            "minutes": _short(self.minutes, MINUTES),
            "hours": _short(self.hours, HOURS),
            "days": _short(rule.days, DAYS),
            "last_day": rule.last_day,
            "nearest_weekdays": list(rule.nearest),
            "months": _short(rule.months, MONTHS),
            "weekdays": _short(rule.weekdays, WEEKDAYS),
            "nth_weekdays": [list(pair) for pair in rule.nth_weekdays],
            "last_weekdays": list(rule.last_weekdays),
            "day_star": self.day_star,
            "weekday_star": self.weekday_star,
            "wildcard": self.is_wildcard,
        }


def make_fields(
    *,
    seconds: Sequence[int],
    minutes: Sequence[int],
    hours: Sequence[int],
    days: Sequence[int],
    last_day: bool,
    nearest: Sequence[int],
    months: Sequence[int],
    weekdays: Sequence[int],
    nth_weekdays: Sequence[tuple[int, int]],
    last_weekdays: Sequence[int],
    day_star: bool,
    weekday_star: bool,
    is_wildcard: bool,
) -> CronFields:
    """Fields of these values. Raises ValueError where one is out of range or a field is empty."""
    rule = day_rule(
        days=_within("days", days, 1, 31),
        last_day=last_day,
        nearest=_within("nearest_weekdays", nearest, 1, 31),
        months=_within("months", months, 1, 12),
        weekdays=_within("weekdays", weekdays, 0, 6),
        nth_weekdays=tuple(sorted({(weekday, nth) for weekday, nth in nth_weekdays})),
        last_weekdays=_within("last_weekdays", last_weekdays, 0, 6),
        is_ored=not (day_star or weekday_star),
    )
    _within("nth_weekdays", [weekday for weekday, _ in rule.nth_weekdays], 0, 6)
    _within("nth_weekdays", [nth for _, nth in rule.nth_weekdays], 1, 5)
    fields = CronFields(
        seconds=_within("seconds", seconds, 0, 59),
        minutes=_within("minutes", minutes, 0, 59),
        hours=_within("hours", hours, 0, 23),
        rule=rule,
        day_star=day_star,
        weekday_star=weekday_star,
        is_wildcard=is_wildcard,
    )
    if not fields.per_day or not rule.months:
        raise ValueError("a field matches nothing")
    return fields


def fields_from_json(obj: Mapping[str, object]) -> CronFields:
    """Fields from `CronFields.to_json`. Raises ValueError where the object is no such thing."""
    flags = {key: obj.get(key) for key in ("last_day", "day_star", "weekday_star", "wildcard")}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError(f"flags are {flags}, expected true or false")
    pairs = obj.get("nth_weekdays")
    if not isinstance(pairs, list):
        raise ValueError("nth_weekdays is not a list")
    nth_weekdays = [(pair[0], pair[1]) for pair in (_numbers("nth", pair) for pair in pairs)]
    return make_fields(
        seconds=_long("seconds", obj.get("seconds"), SECONDS),
        minutes=_long("minutes", obj.get("minutes"), MINUTES),
        hours=_long("hours", obj.get("hours"), HOURS),
        days=_long("days", obj.get("days"), DAYS),
        last_day=bool(flags["last_day"]),
        nearest=_numbers("nearest_weekdays", obj.get("nearest_weekdays")),
        months=_long("months", obj.get("months"), MONTHS),
        weekdays=_long("weekdays", obj.get("weekdays"), WEEKDAYS),
        nth_weekdays=nth_weekdays,
        last_weekdays=_numbers("last_weekdays", obj.get("last_weekdays")),
        day_star=bool(flags["day_star"]),
        weekday_star=bool(flags["weekday_star"]),
        is_wildcard=bool(flags["wildcard"]),
    )


def _short(values: tuple[int, ...], full: tuple[int, ...]) -> str | list[int]:
    return "*" if values == full else list(values)


def _long(what: str, value: object, full: tuple[int, ...]) -> Sequence[int]:
    return full if value == "*" else _numbers(what, value)


def _numbers(what: str, value: object) -> list[int]:
    is_numbers = isinstance(value, list) and all(type(number) is int for number in value)
    if isinstance(value, list) and is_numbers and (what != "nth" or len(value) == 2):
        return value
    raise ValueError(f"{what} is {value!r}, expected a list of numbers")


def _within(what: str, values: Sequence[int], least: int, most: int) -> tuple[int, ...]:
    kept = tuple(sorted(set(values)))
    if kept and not (kept[0] >= least and kept[-1] <= most):
        raise ValueError(f"{what} is {list(kept)}, expected {least} to {most}")
    return kept
