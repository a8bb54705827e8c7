"""A line of an anacrontab as a trigger, a name and a command: `7 25 cron.weekly run-parts ...`.

anacron runs a job once per period, some minutes after the machine came up. Here a job has a time of
day instead: the start of START_HOURS_RANGE plus the job's delay. edgecron catches up a missed time.
"""

from __future__ import annotations

import re

from edgecron.base.values import dataclass
from edgecron.formats.crontab_fields import Fault

_LINE = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S.*)", re.DOTALL)
_HOURS = re.compile(r"\s*(\d{1,2})\s*-\s*(\d{1,2})\s*", re.ASCII)
_MOST_DAYS = 3650
_DATES = {
    "1": "* * *",
    "@daily": "* * *",
    "7": "* * 0",
    "@weekly": "* * 0",
    "@monthly": "1 * *",
    "@yearly": "1 1 *",
    "@annually": "1 1 *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnacronJob:
    """What a line says. `identifier` is what its author calls the job."""

    trigger: str
    identifier: str
    command: str


def read_start_hour(text: str) -> int | Fault:
    """The first hour of START_HOURS_RANGE, such as 3 of `3-22`."""
    found = _HOURS.fullmatch(text)
    if found is None or not int(found[1]) <= int(found[2]) <= 24 or int(found[1]) > 23:
        return Fault(message=f"START_HOURS_RANGE is {text[:60]!a}, expected hours such as 3-22")
    return int(found[1])


def read_job(text: str, *, start_hour: int) -> AnacronJob | Fault:
    """The job of a line that is neither a comment nor a variable."""
    found = _LINE.fullmatch(text)
    if found is None:
        return Fault(
            message=f"{text[:60]!a} is neither a variable nor period, delay, identifier, command",
            hint="write such as: 7 25 cron.weekly run-parts /etc/cron.weekly",
        )
    period, delay, identifier, command = found.groups()
    if not (delay.isascii() and delay.isdigit()) or len(delay) > 6:
        return Fault(message=f"delay is {delay[:60]!a}, expected minutes")
    minutes = start_hour * 60 + int(delay)
    if minutes >= 24 * 60:
        return Fault(
            message=f"delay is {delay} minutes after {start_hour:02}:00, which is the next day",
            hint="write a shorter delay",
        )
    dates = _DATES.get(period)
    if dates is not None:
        trigger = f"{minutes % 60} {minutes // 60} {dates}"
    elif (
        period.isascii() and period.isdigit() and len(period) < 6 and 1 <= int(period) <= _MOST_DAYS
    ):
        trigger = f"every {int(period)}d"
    else:
        return Fault(
            message=f"period is {period[:60]!a}, expected a number of days, @daily, @weekly,"
            " @monthly or @yearly"
        )
    return AnacronJob(trigger=trigger, identifier=identifier, command=command.rstrip())
