"""What may not fire, because the clock can't be trusted; `trust` decides."""

from __future__ import annotations

from enum import StrEnum


class Hold(StrEnum):
    """How much is held."""

    NOTHING = "nothing"  # the clock is trusted
    CALENDAR = "calendar"  # the wait is over: what counts elapsed time runs, cron and `at` do not
    ALL = "all"  # the wait lasts, or has no end
