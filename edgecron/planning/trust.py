"""Whether a clock can be believed, and what may fire by one that can't. Pure.

Believed is a clock that the kernel calls synchronised, or one that is plausible: near what is
known to have passed. That is the later of the day this edgecron was released and the trusted
mark in the database. The mark follows a synchronised clock; by any other it goes on by elapsed
time only, so that one boot in 2099 poisons nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime

import edgecron
from edgecron.base.units import to_ms
from edgecron.base.values import dataclass
from edgecron.model.choices import Hold

HOUR_MS = 3_600_000
LARGE_MS = 3 * HOUR_MS  # a correction of more than this is no adjustment, as cron(8) has it
CLOCK_WAIT_MS = 600_000
BUILT_MS = to_ms(datetime.fromisoformat(edgecron.__built__).replace(tzinfo=UTC))
# No edgecron ran before: a mark that is earlier was made by a clock that had never been set.
FIRST_MS = to_ms(datetime(2020, 1, 1, tzinfo=UTC))
_EARLY_MS = 300_000
_LATE_MS = 400 * 24 * HOUR_MS
_DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """How a clock stands: what it says, what has surely passed, and whether it is believed.

    It was set last at `set_at_ms`, as the new time has it, by `set_by_ms`: less than 0 is back.
    """

    now_ms: int
    mark_ms: int
    is_synchronised: bool | None
    is_trusted: bool
    set_at_ms: int | None = None
    set_by_ms: int | None = None


def resolve_mark_ms(stored_ms: int | None) -> int:
    """The instant that has surely passed: the trusted mark, or the release where that is later."""
    return BUILT_MS if stored_ms is None else max(BUILT_MS, stored_ms)


def is_plausible(now_ms: int, *, mark_ms: int) -> bool:
    """Whether a clock that nothing keeps right is near enough to what has surely passed."""
    return mark_ms - _EARLY_MS <= now_ms <= mark_ms + _LATE_MS


def resolve_margin_ms(now_ms: int, *, mark_ms: int) -> int:
    """By how much more a clock that nothing keeps right may run ahead and still be believed."""
    return mark_ms + _LATE_MS - now_ms


def is_trusted(now_ms: int, *, mark_ms: int, is_synchronised: bool | None) -> bool:
    """Whether fires may be decided by this clock."""
    return is_synchronised is True or is_plausible(now_ms, mark_ms=mark_ms)


def is_large(correction_ms: int) -> bool:
    """Whether a clock was corrected, by so much that stored times are computed anew."""
    return abs(correction_ms) > LARGE_MS


def is_worth_writing(mark_ms: int, *, stored_ms: int | None, is_busy: bool) -> bool:
    """Whether the mark in the database is so old that it is written anew; flash wears out.

    `is_busy`: something else was written just now. A mark in the future would do harm.
    """
    # By a clock of before the release, as tests have it, nothing is worth writing for long.
    behind_ms = max(mark_ms, BUILT_MS) - resolve_mark_ms(stored_ms)
    return behind_ms >= (HOUR_MS if is_busy else _DAY_MS) or behind_ms < -_EARLY_MS


def resolve_hold(*, is_trusted: bool, waited_ms: int, clock_wait_ms: int | None) -> Hold:
    """What is held after so long a wait; `clock_wait_ms` None waits without end."""
    if is_trusted:
        return Hold.NOTHING
    if clock_wait_ms is None or waited_ms < clock_wait_ms:
        return Hold.ALL
    return Hold.CALENDAR
