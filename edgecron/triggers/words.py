"""Describe a trigger in plain English. Fields without a neat phrase are listed value by value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from edgecron.base.tzif import DAY_S, Spans
from edgecron.base.units import DAY_MS, EARLIEST_MS, HOUR_MS, LATEST_MS, MINUTE_MS, format_ms
from edgecron.base.units import from_ms as to_datetime
from edgecron.base.values import NamedTuple
from edgecron.base.zones import LOCAL, trigger_spans, trigger_zone_name
from edgecron.triggers.base import Trigger
from edgecron.triggers.fields import MONTHS, WEEKDAYS, CronFields
from edgecron.triggers.kinds import (
    AfterEndTrigger,
    AfterTrigger,
    AtTrigger,
    BootTrigger,
    CronTrigger,
    DemandTrigger,
    EveryTrigger,
    OnceInTrigger,
)


class ClockChange(NamedTuple):
    """A change of a zone's offset at which a trigger behaves specially.

    `at` is its instant in UTC, `date` the local date (YYYY-MM-DD) on which clocks change.
    """

    at: datetime
    date: str
    text: str


def clock_change_notes(trigger: Trigger, from_ms: int, until_ms: int) -> list[ClockChange]:
    """Write a note for each offset change in (from, until] that affects this trigger.

    Empty for a trigger that does not follow the wall clock.
    """
    if isinstance(trigger, OnceInTrigger):
        trigger = trigger.opening
    if not isinstance(trigger, CronTrigger):
        return []
    since, until = max(from_ms, EARLIEST_MS) // 1000, min(until_ms, LATEST_MS) // 1000
    spans = trigger_spans(trigger.timezone, until_s=until + 1)
    notes: list[ClockChange] = []
    for index in range(spans.index_at(since) + 1, spans.index_at(until) + 1):
        text = _note(trigger, spans, index)
        if text is not None:
            start = spans.starts[index]
            date = _datetime(start + spans.offsets[index - 1]).strftime("%Y-%m-%d")
            notes.append(ClockChange(_datetime(start), date, text))
    return notes


def _note(trigger: CronTrigger, spans: Spans, index: int) -> str | None:
    start, offset = spans.starts[index], spans.offsets[index]
    before, after = start + spans.offsets[index - 1], start + offset
    is_gap, is_wildcard = after > before, trigger.fields.is_wildcard
    if is_gap:
        # For a fixed trigger, a time that an earlier fold showed already is not skipped.
        since, until = before if is_wildcard else spans.marks[index], after
    else:
        since, until = after, min(before, spans.end(index) + offset)
    count = trigger.fields.count(since, until)
    if not count:
        return None
    is_one = count == 1
    if is_gap:
        effect = f"{'does' if is_one else 'do'} not exist that day"
        runs = f"{'it runs once' if is_one else 'they run as one'}, at {_shown(after, before)}"
        effect += ", and nothing runs in place" if is_wildcard else f"; {runs}"
    else:
        effect = "comes twice, and it runs" if is_one else "come twice, and they run"
        effect += " both times" if is_wildcard else " the first time only"
    way = "forward" if is_gap else "back"
    change = f"clocks go {way} from {_shown(before, after)} to {_shown(after, before)}"
    return f"{change}: {_which(trigger, since, until, count)} {effect}"


def _which(trigger: CronTrigger, since: int, until: int, count: int) -> str:
    first, last = trigger.fields.first(since, until), trigger.fields.last(since, until)
    if first is None or last is None or first == last:
        return _shown(first or since, until)
    return f"{count} times from {_shown(first, last)} to {_shown(last, first)}"


def _shown(wall_s: int, other_s: int) -> str:
    """Show a wall time, with its date if the other one is on another day."""
    wall = _datetime(wall_s)
    clock = wall.strftime("%H:%M:%S" if wall.second else "%H:%M")
    if wall_s // DAY_S == other_s // DAY_S:
        return clock
    return f"{wall.year:04d}-{wall.month:02d}-{wall.day:02d} {clock}"


def _datetime(at_s: int) -> datetime:
    """Make a datetime of an instant, or one that shows a wall time: its offset has no meaning."""
    return to_datetime(at_s * 1000)


__all__ = ["ClockChange", "clock_change_notes", "describe", "describe_briefly"]

_NTH = ("first", "second", "third", "fourth", "fifth")
_UNITS = (("week", 7 * DAY_MS), ("day", DAY_MS), ("hour", HOUR_MS), ("minute", MINUTE_MS),
          ("second", 1000), ("millisecond", 1))  # fmt: skip
_AFTER = {"success": "succeeded", "failure": "failed", "any": "ended"}
# More times of day than these are described by minutes and hours.
_MOST_TIMES = 6


def describe(trigger: Trigger) -> str:
    """Describe in one line when the trigger fires: 'at 02:00 every day (Europe/Berlin)'."""
    match trigger:
        case CronTrigger():
            return f"{_describe_fields(trigger.fields)} ({_zone(trigger.timezone)})"
        case EveryTrigger():
            start = f", from {format_ms(trigger.anchor_ms)}" if trigger.is_bounded else ""
            return f"every {_duration(trigger.interval_ms, after_every=True)}{start}"
        case AfterEndTrigger():
            return f"{_duration(trigger.interval_ms)} after the end of the last run"
        case AtTrigger():
            return f"once, at {format_ms(trigger.at_ms)}"
        case BootTrigger():
            return "once each time the machine has booted"
        case DemandTrigger():
            return "only on demand"
        case AfterTrigger():
            return f"each time {trigger.upstream} has {_AFTER[trigger.on]}"
        case OnceInTrigger():
            when = f", when {' and '.join(trigger.conditions)}" if trigger.conditions else ""
            return f"once {_window(trigger)}{when} ({_zone(trigger.timezone)})"
        case _:
            return trigger.text


def describe_briefly(trigger: Trigger) -> str:
    """Describe it for a list, briefly and without a zone: '02:00 every day'."""
    match trigger:
        case CronTrigger():
            words = _describe_fields(trigger.fields).removeprefix("at ")
            return "every hour" if words == "every hour, on the hour" else words
        case EveryTrigger():
            return f"every {_duration(trigger.interval_ms, after_every=True)}"
        case AfterEndTrigger():
            return f"{_duration(trigger.interval_ms)} after its end"
        case AtTrigger():
            return "once"
        case BootTrigger():
            return "at boot"
        case DemandTrigger():
            return "on demand"
        case AfterTrigger():
            on = {"success": "", "failure": " failed", "any": " ended"}[trigger.on]
            return f"after {trigger.upstream}{on}"
        case OnceInTrigger():
            return f"once {_window(trigger)}"
        case _:
            return trigger.text


def _window(trigger: OnceInTrigger) -> str:
    """`between 21:00 and 05:00 every day`."""
    first, last = (
        _clock(at_s // 3600, at_s // 60 % 60, 0, with_seconds=False)
        for at_s in (trigger.window.start_s, (trigger.window.end_s - 1) % DAY_S + 1)
    )
    days = _days(trigger.opening.fields)
    return f"between {first} and {last}" + (f", {days}" if days else " every day")


def _describe_fields(fields: CronFields) -> str:
    time, is_time_of_day = _times(fields)
    day = _days(fields)
    months = fields.rule.months
    if day:
        day = f", {day}"
    elif is_time_of_day:
        day = " every day"
    if len(months) < 12:
        day += f", in {_runs([MONTHS[month - 1] for month in months], months)}"
    return time + day


def _times(fields: CronFields) -> tuple[str, bool]:
    """Describe the time of day; return also whether 'every day' fits behind it."""
    seconds, minutes, hours = fields.seconds, fields.minutes, fields.hours
    if fields.per_day <= _MOST_TIMES:
        shown = [
            _clock(hour, minute, second, with_seconds=seconds != (0,))
            for hour in hours
            for minute in minutes
            for second in seconds
        ]
        return f"at {_join(shown)}", True
    phrase = _stretch(fields)
    if phrase is not None:
        return phrase, False
    second = "" if seconds == (0,) else f"{_listed('second', seconds, 60)} of "
    hour = "every hour" if len(hours) == 24 else _listed("hour", hours, 24)
    minute = "every minute" if len(minutes) == 60 else _listed("minute", minutes, 60)
    whole = f"{second}{minute} of {hour}"
    return (whole if whole.startswith("every") else f"at {whole}"), False


def _stretch(fields: CronFields) -> str | None:
    """Describe regular times, such as 'every 15 minutes from 09:00 to 17:45'."""
    seconds, minutes, hours = fields.seconds, fields.minutes, fields.hours
    hour_step = _step(hours)
    if len(minutes) == 1 and seconds == (0,) and hour_step is not None:
        if len(hours) == 24:
            return "every hour, on the hour" if minutes == (0,) else None
        many, with_seconds = _many(hour_step, "hour"), False
    elif hours != tuple(range(hours[0], hours[-1] + 1)):
        return None
    elif seconds == (0,) and _fills(minutes):
        many, with_seconds = _many(60 // len(minutes), "minute"), False
    elif len(minutes) == 60 and _fills(seconds):
        many, with_seconds = _many(60 // len(seconds), "second"), True
    else:
        return None
    if len(hours) == 24:
        return many
    first = _clock(hours[0], minutes[0], seconds[0], with_seconds=with_seconds)
    last = _clock(hours[-1], minutes[-1], seconds[-1], with_seconds=with_seconds)
    return f"{many} from {first} to {last}"


def _step(values: tuple[int, ...]) -> int | None:
    """Find the distance that all neighbours have."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    return steps.pop() if len(steps) == 1 else None


def _fills(values: tuple[int, ...]) -> bool:
    """Whether the values are 0 and every multiple of a step that divides 60, two at least."""
    step = _step(values)
    return step is not None and values == tuple(range(0, 60, step)) and 60 % step == 0


def _many(step: int, unit: str) -> str:
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _days(fields: CronFields) -> str:
    """Describe the day fields; '' for every day."""
    rule = fields.rule
    any_day, any_weekday = len(rule.days) == 31, len(rule.weekdays) == 7
    if (any_day or any_weekday) if rule.is_ored else (any_day and any_weekday):
        return ""
    of_month, weekday, is_nth = _days_of_month(fields), _weekdays(fields), not rule.weekdays
    if rule.is_ored:
        if is_nth:
            return f"on {of_month}, or on {weekday}, of the month"
        return f"on {of_month} of the month, or on {weekday}"
    if any_day:
        return f"on {weekday} of the month" if is_nth else weekday
    if any_weekday:
        return f"on {of_month} of the month"
    return f"on {of_month} of the month, when it is {weekday}" + (" of it" if is_nth else "")


def _days_of_month(fields: CronFields) -> str:
    rule = fields.rule
    parts = [_listed("day", rule.days, 31)] if rule.days else []
    parts += [
        f"the weekday nearest to day {day}" + (" (or to the last day)" if day > 28 else "")
        for day in rule.nearest
    ]
    if rule.last_day:
        parts.append("the last day")
    return _join(parts)


def _weekdays(fields: CronFields) -> str:
    rule = fields.rule
    if rule.weekdays:
        # From Monday to Sunday, as people count a working week.
        shown = sorted(rule.weekdays, key=_from_monday)
        places = [_from_monday(weekday) for weekday in shown]
        return _runs([WEEKDAYS[weekday] for weekday in shown], places)
    parts = [f"the {_NTH[nth - 1]} {WEEKDAYS[weekday]}" for weekday, nth in rule.nth_weekdays]
    parts += [f"the last {WEEKDAYS[weekday]}" for weekday in rule.last_weekdays]
    return _join(parts)


def _listed(what: str, values: Sequence[int], most: int) -> str:
    """'minute 5', 'minutes 5 and 20', 'days 1 to 7', 'every second'."""
    if len(values) == most:
        return f"every {what}"
    plural = what if len(values) == 1 else f"{what}s"
    return f"{plural} {_runs([str(value) for value in values], values)}"


def _runs(names: Sequence[str], places: Sequence[int]) -> str:
    """Join the names; three or more neighbours become 'first to last'."""
    parts: list[str] = []
    start = 0
    for index in range(1, len(names) + 1):
        if index < len(names) and places[index] == places[index - 1] + 1:
            continue
        if index - start >= 3:
            parts.append(f"{names[start]} to {names[index - 1]}")
        else:
            parts += names[start:index]
        start = index
    return _join(parts)


def _join(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _clock(hour: int, minute: int, second: int, *, with_seconds: bool) -> str:
    return f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if with_seconds else "")


def _duration(duration_ms: int, *, after_every: bool = False) -> str:
    parts: list[str] = []
    rest = duration_ms
    for unit, unit_ms in _UNITS:
        if unit == "week" and rest % unit_ms:
            continue  # 8 days, not 1 week and 1 day
        count, rest = divmod(rest, unit_ms)
        if count:
            parts.append(f"{count} {unit}" + ("s" if count > 1 else ""))
    if after_every and len(parts) == 1:
        return parts[0].removeprefix("1 ")
    return _join(parts)


def _zone(timezone: str | None) -> str:
    if timezone == LOCAL:
        return f"local time, {trigger_zone_name()}"
    return timezone or "UTC"


def _from_monday(weekday: int) -> int:
    return (weekday - 1) % 7
