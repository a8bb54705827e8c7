"""A gated cron text, expanded to its values by croniter when the schedule is written.

Only this module imports croniter, and only its reading of the text is used: our own arithmetic
decides every instant. Engines read the expanded fields from the database.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.base.errors import InvalidTrigger
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


def expand(gated: Gated, text: str, *, hash_id: bytes | None) -> CronFields:
    """The fields of a gated text; `hash_id` is what H is derived from, if there is any.

    Raises InvalidTrigger for what croniter refuses and for a date that can never come.
    """
    fields = _read_by_croniter(gated, text, hash_id=hash_id)
    if not fields.rule.can_ever_match():
        raise InvalidTrigger(
            f"cron text {text!r} can never fire: none of its months has such a day",
            hint="write a day that its months have, or L for the last day of a month",
        )
    return fields


def _read_by_croniter(gated: Gated, text: str, *, hash_id: bytes | None) -> CronFields:
    # It takes longer to load than all of edgecron, and commands that write no cron text need none.
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
