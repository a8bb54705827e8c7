"""A gated cron text, expanded to its values: a plain one here, any other by croniter.

Nearly every text is plain, numbers with their ranges, lists and steps; and croniter, with what it
needs itself, takes three megabytes and longer to load than all of edgecron. It is imported here
alone, and only its reading is used: it never decides an instant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgecron.errors import InvalidTrigger
from edgecron.triggers.fields import (
    DAYS,
    HOURS,
    MINUTES,
    MONTHS,
    SECONDS,
    WEEKDAYS,
    CronFields,
    make_fields,
)
from edgecron.triggers.gate import Gated

_FULL = (SECONDS, MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)
_PLAIN = re.compile(r"[0-9*/,-]+", re.ASCII)


def expand(gated: Gated, text: str, *, hash_id: bytes | None) -> CronFields:
    """The fields of a gated text; `hash_id` is what H is derived from, if there is any.

    Raises InvalidTrigger for what croniter refuses and for a date that can never come.
    """
    if all(_PLAIN.fullmatch(field) for field in gated.fields):
        fields = expand_plain(gated.fields)
    else:
        fields = expand_by_croniter(gated, text, hash_id=hash_id)
    if not fields.rule.can_ever_match():
        raise InvalidTrigger(
            f"cron text {text!r} can never fire: none of its months has such a day",
            hint="write a day that its months have, or L for the last day of a month",
        )
    return fields


def expand_plain(words: Sequence[str]) -> CronFields:
    """The fields of a gated text that holds nothing but numbers, ranges, lists, steps and stars."""
    seconds, minutes, hours, days, months, weekdays = (
        sorted({value for item in word.split(",") for value in _range_of(item, full)})
        for word, full in zip(words, _FULL, strict=True)
    )
    return make_fields(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        last_day=False,
        nearest=[],
        months=months,
        weekdays=weekdays,
        nth_weekdays=[],
        last_weekdays=[],
        day_star=words[3].startswith("*"),
        weekday_star=words[5].startswith("*"),
        is_wildcard=words[1].startswith("*") or words[2].startswith("*"),
    )


def _range_of(item: str, full: Sequence[int]) -> range:
    """The values of `5`, `5-10`, `*`, or one of these with a step: `5/10` goes on to the end."""
    values, has_step, step = item.partition("/")
    first, has_last, last = values.partition("-")
    low = full[0] if first == "*" else int(first)
    if has_last:
        high = int(last)
    else:
        high = full[-1] if has_step or first == "*" else low
    return range(low, high + 1, int(step) if has_step else 1)


def expand_by_croniter(gated: Gated, text: str, *, hash_id: bytes | None) -> CronFields:
    """The fields of any gated text."""
    from croniter import CroniterError, croniter

    try:
        # The start time is of no interest; given, so that no clock is read.
        read = croniter(
            " ".join(gated.fields),
            0.0,
            hash_id=hash_id if gated.has_hash else None,
            second_at_beginning=True,
        )
    except CroniterError as error:
        raise InvalidTrigger(
            f"cron text {text!r} is refused: {error}",
            hint="write minute hour day month weekday, such as '0 2 * * *'",
        ) from None
    # croniter's order: minute hour day month weekday second.
    minutes, hours, days, months, weekdays, seconds = read.expanded
    nearest = {int(day) for day in read.nearest_weekday}
    special = read.nth_weekday_of_month
    return make_fields(
        seconds=_values(seconds, SECONDS),
        minutes=_values(minutes, MINUTES),
        hours=_values(hours, HOURS),
        days=[day for day in _values(days, DAYS) if day not in nearest],
        last_day="l" in days,
        nearest=sorted(nearest),
        months=_values(months, MONTHS),
        weekdays=[day for day in _values(weekdays, WEEKDAYS) if day not in special],
        nth_weekdays=[
            (int(day), int(nth)) for day, nths in special.items() for nth in nths if nth != "l"
        ],
        last_weekdays=[int(day) for day, nths in special.items() if "l" in nths],
        day_star=gated.fields[3].startswith("*"),
        weekday_star=gated.fields[5].startswith("*"),
        is_wildcard=gated.fields[1].startswith("*") or gated.fields[2].startswith("*"),
    )


def _values(expanded: Sequence[int | str], full: tuple[int, ...]) -> list[int]:
    if "*" in expanded:
        return list(full)
    return [value for value in expanded if isinstance(value, int)]
