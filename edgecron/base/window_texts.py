"""Windows and days as texts: when runs can start, and on which days they can't. Pure.

A window is `21:00-05:00`, `MON-FRI`, or both: `21:00-05:00 MON-FRI`. A day is `2026-12-24`, and
several are `2026-12-24..2027-01-02`. `planning.windows` reads them in a zone. A trigger such as
`once in 21:00-05:00 MON-FRI when ac-power` has a window and conditions.

A calendar is `holidays:DE-BY` or the path of an iCalendar file. When a schedule is written, its
days are read, and follow its name: `holidays:DE-BY = 2026-12-25 2026-12-26`. So a fire needs
neither the file nor a library. A calendar can also have spans of time, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache

from edgecron.base.errors import InvalidInput
from edgecron.base.tzif import DAY_S, EPOCH_ORDINAL
from edgecron.base.values import NamedTuple

WEEK_S = 7 * DAY_S
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)", re.ASCII)
_ROUGH_CLOCK = r"(\d{1,2})(?:[:.](\d\d))?(AM|PM)?"
_ROUGH_TIME = re.compile(_ROUGH_CLOCK, re.ASCII)
_ROUGH_TIMES = re.compile(f"{_ROUGH_CLOCK}-{_ROUGH_CLOCK}", re.ASCII)
_LONG_NAME = re.compile(r"\b(?:MON|TUES?|WEDNES|THURS?|FRI|SATUR|SUN)(?:DAY)?\b")
_WINDOW_HINT = "write 21:00-05:00, MON-FRI, or '21:00-05:00 MON-FRI'"
_ONCE_IN = re.compile(r"\s*once\s+in\s+", re.IGNORECASE)
_WHEN = re.compile(r"\s+when(?:\s+|$)", re.IGNORECASE)
_AND = re.compile(r"(\s+and\s+)", re.IGNORECASE)
_COMMAND = re.compile(r"(?:not:)?command[:\[]")
_MOST = 32  # windows of one option, and days
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
_DAYS_HINT = "write 2026-12-24, 2026-12-24..2027-01-02, holidays:DE-BY or /path/of/file.ics"
_MANY_DAYS_HINT = "give days in a row as 2026-12-24..2027-01-02, or all in a calendar, file.ics"
HOLIDAYS = "holidays:"
_HOLIDAYS = re.compile(r"holidays:[A-Z]{2}(-[A-Z0-9]{1,3})?", re.ASCII)
_READ = " = "  # between a calendar and the days that were read from it


class Window(NamedTuple):
    """A part of some weekdays (0 is Monday), in seconds of the day on which it opens.

    `end_s` lies beyond the end of that day if the window passes midnight.
    """

    start_s: int
    end_s: int
    weekdays: tuple[int, ...]

    def holds(self, week_s: int) -> bool:
        """Whether it is open at a second of the week, counted from Monday 00:00."""
        return any(
            (week_s - day * DAY_S - self.start_s) % WEEK_S < self.end_s - self.start_s
            for day in self.weekdays
        )

    def edges(self) -> set[int]:
        """The seconds of the week at which it opens and closes."""
        return {
            (day * DAY_S + at_s) % WEEK_S
            for day in self.weekdays
            for at_s in (self.start_s, self.end_s)
        }


@lru_cache(maxsize=256)
def parse_window(text: str) -> Window:
    """Read a window. Raises InvalidInput."""
    words = text.split()
    times, names = "00:00-24:00", "MON-SUN"
    if words and words[0][:1].isdigit():
        times = words.pop(0)
    elif len(words) != 1:
        raise _unread(text)
    if words:
        names = words.pop(0)
    first, dash, last = times.partition("-")
    if words or not dash:
        raise _unread(text)
    start_s, end_s = _clock_s(first, text), _clock_s(last, text)
    if start_s == DAY_S:
        raise InvalidInput(
            f"window {text!a} opens at 24:00, the end of a day",
            hint=f"begin it at 00:00 of the next day: {text.replace(first, '00:00', 1)}",
        )
    if start_s == end_s:
        raise InvalidInput(
            f"window {text!a} is empty: it opens and closes at {first}", hint=_WINDOW_HINT
        )
    if end_s < start_s:
        end_s += DAY_S
    return Window(start_s, end_s, _weekdays(names, text))


def hours_of(text: str) -> str:
    """Return the text of the window that a person means: `03` or `3am` is `03:00-04:00`.

    `03:30` is this minute, `22-5` is `22:00-05:00`. Weekdays can follow. Raises InvalidInput.
    """
    first, _, names = text.upper().strip().partition(" ")
    found = _ROUGH_TIME.fullmatch(first)
    if found is not None:
        start = _rough_clock(*found.groups())
        hour, minute = map(int, start.split(":"))
        end = hour * 60 + minute + (60 if found[2] is None else 1)
        first = f"{start}-{end // 60:02}:{end % 60:02}"
    window = f"{first} {names}".strip()
    try:
        parse_window(window)
    except InvalidInput:
        meant = _find_meant(window)
        if meant is None:
            raise
        return meant
    return window


class OnceIn(NamedTuple):
    """The parts of a trigger `once in WINDOW when CONDITION and CONDITION`."""

    window: str
    conditions: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text that `split_once_in` reads."""
        when = f" when {' and '.join(self.conditions)}" if self.conditions else ""
        return f"once in {self.window}{when}"


@lru_cache(maxsize=256)
def split_once_in(text: str) -> OnceIn | None:
    """Split the text of a trigger `once in`; None for another trigger. Checks no part.

    A word `and` in quotes belongs to the command of a condition.
    """
    begun = _ONCE_IN.match(text)
    if begun is None:
        return None
    window, *rest = _WHEN.split(text[begun.end() :], maxsplit=1)
    conditions = _split_conditions(rest[0].strip()) if rest else ()
    return OnceIn(" ".join(window.split()).upper(), conditions)


def _split_conditions(text: str) -> tuple[str, ...]:
    first, *others = _AND.split(text)
    found = [first]
    for word, part in zip(others[::2], others[1::2], strict=True):
        if _has_open_quote(found[-1]):
            found[-1] += word + part
        else:
            found.append(part)
    return tuple(found)


def is_command(condition: str) -> bool:
    """Whether the text of a condition is a command, or its opposite."""
    return _COMMAND.match(condition) is not None


def _has_open_quote(condition: str) -> bool:
    """Whether a condition is a command with a quote that has no end yet."""
    if not is_command(condition):
        return False
    import shlex  # Rarely needed, and engines import this module.

    try:
        shlex.split(condition)
    except ValueError:
        return True
    return False


def _clock_s(text: str, window: str) -> int:
    found = _CLOCK.fullmatch(text)
    hour, minute = (int(found[1]), int(found[2])) if found else (25, 0)
    at_s = hour * 3600 + minute * 60
    if minute > 59 or at_s > DAY_S:
        raise _unread(window)
    return at_s


def _weekdays(names: str, window: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in names.upper().split(","):
        first, dash, last = part.partition("-")
        try:
            start, end = WEEKDAYS.index(first), WEEKDAYS.index(last if dash else first)
        except ValueError:
            raise _unread(window) from None
        found.update((start + step) % 7 for step in range((end - start) % 7 + 1))
    return tuple(sorted(found))


def _unread(text: str) -> InvalidInput:
    meant = _find_meant(text)
    return InvalidInput(
        f"window {text[:70]!a} is not understood, expected times and weekdays",
        hint=_WINDOW_HINT if meant is None else f"did you mean {meant!r}?",
    )


def _find_meant(text: str) -> str | None:
    """Return a window for times such as `9-17` or `9am-5pm`, and for names such as `Monday`."""
    times: list[str] = []
    names: list[str] = []
    for word in text.upper().split():
        found = _ROUGH_TIMES.fullmatch(word)
        if found is None:
            names.append(_LONG_NAME.sub(lambda name: name[0][:3], word))
        else:
            times.append("-".join(_rough_clock(*found.group(*at)) for at in ((1, 2, 3), (4, 5, 6))))
    meant = " ".join([*times, *names])
    if meant == text.upper():
        return None
    try:
        parse_window(meant)
    except InvalidInput:
        return None
    return meant


def _rough_clock(hour: str, minute: str | None, half: str | None) -> str:
    """Return `17:00` for 5 PM."""
    hours = int(hour) if half is None else int(hour) % 12 + (12 if half == "PM" else 0)
    return f"{hours:02}:{minute or '00'}"


def most_spread_ms(source: str | None) -> int:
    """Bound how long after its plan time the trigger of this text starts a run; 0 for others.

    A run without conditions starts in the first half of its window. Clocks can make it longer.
    """
    parts = None if source is None else split_once_in(source)
    return 0 if parts is None or parts.conditions else _most_spread_ms(parts)


@lru_cache(maxsize=64)
def _most_spread_ms(parts: OnceIn) -> int:
    window = parse_window(parts.window)
    return (window.end_s - window.start_s + DAY_S) // 2 * 1000


# Days and calendars.


class Excepted(NamedTuple):
    """Days, as (first, last) numbered since 1970-01-01, and spans in milliseconds since 1970."""

    days: tuple[tuple[int, int], ...]
    spans: tuple[tuple[int, int], ...] = ()


def source_of(text: str) -> str:
    """A day or calendar as a person wrote it, without the days that were read from it."""
    return text.partition(_READ)[0]


def days_of(text: str) -> list[str]:
    """The days and spans that were read from a calendar, as texts."""
    return text.partition(_READ)[2].split()


def is_calendar(text: str) -> bool:
    """Whether a text of `except` names a calendar."""
    source = source_of(text).lower()
    return source.startswith(HOLIDAYS) or source.endswith(".ics")


def is_read(text: str) -> bool:
    """Whether a text names a calendar, and has the days that were read from it."""
    return is_calendar(text) and _READ in text


def is_unread(text: str) -> bool:
    """Whether a text names a calendar, and its days have not been read."""
    return is_calendar(text) and _READ not in text


def with_days(source: str, items: Sequence[str]) -> str:
    """A calendar with its days and spans."""
    return f"{source}{_READ}{' '.join(items)}"


@lru_cache(maxsize=256)
def parse_except(text: str) -> Excepted:
    """Read a day, several days, or a calendar with its days. Raises InvalidInput."""
    if not is_calendar(text):
        return Excepted((parse_days(text),))
    source, _, items = text.partition(_READ)
    if source.startswith(HOLIDAYS):
        if _HOLIDAYS.fullmatch(source) is None:
            raise InvalidInput(
                f"calendar {source[:70]!a} is not understood, expected a country",
                hint="write holidays:DE, or holidays:DE-BY for a part of it",
            )
    elif not source.startswith("/"):
        raise InvalidInput(
            f"calendar {source[:70]!a} is a relative path", hint="write the whole path of the file"
        )
    days, spans = [], []
    for item in items.split():
        if "T" in item:
            start, _, end = item.partition("..")
            spans.append((_instant_ms(start), _instant_ms(end)))
        else:
            days.append(parse_days(item))
    return Excepted(tuple(days), tuple(spans))


def _instant_ms(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise InvalidInput(f"time {text[:70]!a} of a calendar is not understood") from None


@lru_cache(maxsize=4096)
def parse_days(text: str) -> tuple[int, int]:
    """Read a day or several: the first and the last, numbered since 1970-01-01.

    Raises InvalidInput.
    """
    first, dots, last = text.partition("..")
    try:
        days = [date.fromisoformat(one.strip()) for one in ((first, last) if dots else (first,))]
    except ValueError:
        raise InvalidInput(
            f"day {text[:70]!a} is not understood, expected dates", hint=_hint_for_days(text)
        ) from None
    if days[-1] < days[0]:
        raise InvalidInput(f"days {text!a} end before they begin", hint=_DAYS_HINT)
    return days[0].toordinal() - EPOCH_ORDINAL, days[-1].toordinal() - EPOCH_ORDINAL


# The windows and days of a schedule together.


def check_windows(
    between: Sequence[str], not_between: Sequence[str], except_days: Sequence[str]
) -> None:
    """Raise InvalidInput for windows or days that can't be read, or leave no time at all."""
    for what, texts in (
        ("between", between),
        ("not-between", not_between),
        ("except", except_days),
    ):
        if len(texts) > _MOST:
            raise InvalidInput(
                f"{what} has {len(texts)} values, expected at most {_MOST}",
                hint=_MANY_DAYS_HINT if texts is except_days else None,
            )
        for text in texts:
            _ = parse_except(text) if texts is except_days else parse_window(text)
    if not any(is_open for _, is_open in week_of(tuple(between), tuple(not_between))):
        who = "between and not-between leave" if between else "not-between leaves"
        raise InvalidInput(
            f"{who} no time in which a run can start", hint="change one of them, or remove it"
        )


@lru_cache(maxsize=256)
def week_of(between: tuple[str, ...], not_between: tuple[str, ...]) -> tuple[tuple[int, bool], ...]:
    """The week as (second at which a part begins, whether runs can start in it), from Monday."""
    opened = [parse_window(text) for text in between]
    shut = [parse_window(text) for text in not_between]
    edges = sorted({0}.union(*(one.edges() for one in (*opened, *shut))))
    week: list[tuple[int, bool]] = []
    for at_s in edges:
        is_open = not opened or any(one.holds(at_s) for one in opened)
        is_open = is_open and not any(one.holds(at_s) for one in shut)
        if not week or week[-1][1] != is_open:
            week.append((at_s, is_open))
    return tuple(week)


def _hint_for_days(text: str) -> str:
    day_first = _DAY_FIRST.fullmatch(text)
    if day_first is not None:
        return f"did you mean {day_first[3]}-{int(day_first[2]):02}-{int(day_first[1]):02}?"
    name = text.strip().upper()[:3]
    return f"for days of the week: not-between {name}" if name in WEEKDAYS else _DAYS_HINT
