"""Windows and days as texts: when runs can start, on which days they don't. Pure.

A window is `21:00-05:00`, `MON-FRI`, or both: `21:00-05:00 MON-FRI`. A day is `2026-12-24`, and
several are `2026-12-24..2027-01-02`. `planning.windows` reads them in a zone.

A calendar is `holidays:DE-BY` or the path of an iCalendar file. When a schedule is written, its
days are read, and follow its name: `holidays:DE-BY = 2026-12-25 2026-12-26`. So a fire needs
neither the file nor a library. Beside days there can be spans of time, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache

from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.base.window_texts import WEEKDAYS, parse_window

_MOST = 32  # windows of one option, and days
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAYS_HINT = "write 2026-12-24, 2026-12-24..2027-01-02, holidays:DE-BY or /path/of/file.ics"
_MANY_DAYS_HINT = "give days in a row as 2026-12-24..2027-01-02, or all in a calendar, file.ics"
HOLIDAYS = "holidays:"
_HOLIDAYS = re.compile(r"holidays:[A-Z]{2}(-[A-Z0-9]{1,3})?", re.ASCII)
_READ = " = "  # between a calendar and the days that were read from it


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
    return days[0].toordinal() - _EPOCH_ORDINAL, days[-1].toordinal() - _EPOCH_ORDINAL


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
