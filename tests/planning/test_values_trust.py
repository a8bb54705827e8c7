"""Which clocks are believed, and what is held where they are not."""

from __future__ import annotations

import pytest

from edgecron.base.units import DAY_MS, HOUR_MS
from edgecron.model.choices import Hold
from edgecron.planning.corrections import (
    BUILT_MS,
    is_large,
    is_trusted,
    is_worth_writing,
    resolve_hold,
    resolve_mark_ms,
)

MARK_MS = BUILT_MS + 100 * DAY_MS


@pytest.mark.parametrize(
    ("off_ms", "expected"),
    [
        (-300_001, False),
        (-300_000, True),
        (0, True),
        (400 * DAY_MS, True),
        (400 * DAY_MS + 1, False),
    ],
)
@pytest.mark.parametrize("is_synchronised", [False, None])
def test_a_clock_that_nothing_keeps_right_is_believed_near_the_mark(
    off_ms: int, expected: bool, is_synchronised: bool | None
) -> None:
    now_ms = MARK_MS + off_ms

    trusted = is_trusted(now_ms, mark_ms=MARK_MS, is_synchronised=is_synchronised)

    assert trusted is expected


@pytest.mark.parametrize("now_ms", [0, MARK_MS, MARK_MS + 30_000 * DAY_MS])
def test_a_clock_that_is_kept_right_is_always_believed(now_ms: int) -> None:
    assert is_trusted(now_ms, mark_ms=MARK_MS, is_synchronised=True)


def test_the_mark_is_never_before_the_release() -> None:
    assert resolve_mark_ms(None) == BUILT_MS
    assert resolve_mark_ms(0) == BUILT_MS
    assert resolve_mark_ms(MARK_MS) == MARK_MS


def test_a_correction_is_large_beyond_three_hours_both_ways() -> None:
    assert not is_large(3 * HOUR_MS)
    assert not is_large(-3 * HOUR_MS)
    assert is_large(3 * HOUR_MS + 1)
    assert is_large(-3 * HOUR_MS - 1)


@pytest.mark.parametrize(
    ("behind_ms", "is_busy", "expected"),
    [
        (HOUR_MS - 1, True, False),
        (HOUR_MS, True, True),
        (HOUR_MS, False, False),
        (DAY_MS, False, True),
        (-300_001, False, True),  # it lies in the future, where it does harm
        (-1000, True, False),
    ],
)
def test_the_mark_is_rarely_written(behind_ms: int, is_busy: bool, expected: bool) -> None:
    wanted = is_worth_writing(MARK_MS + behind_ms, stored_ms=MARK_MS, is_busy=is_busy)

    assert wanted is expected


def test_by_a_clock_of_before_the_release_the_mark_is_put_right_once() -> None:
    early_ms = BUILT_MS - 30 * DAY_MS

    assert is_worth_writing(early_ms, stored_ms=BUILT_MS + DAY_MS, is_busy=False)
    assert not is_worth_writing(early_ms, stored_ms=early_ms, is_busy=True)


@pytest.mark.parametrize(
    ("waited_ms", "clock_wait_ms", "expected"),
    [
        (0, 0, Hold.CALENDAR),
        (599_999, 600_000, Hold.ALL),
        (600_000, 600_000, Hold.CALENDAR),
        (10 * DAY_MS, None, Hold.ALL),
    ],
)
def test_after_the_wait_only_calendar_times_are_held(
    waited_ms: int, clock_wait_ms: int | None, expected: Hold
) -> None:
    hold = resolve_hold(is_trusted=False, waited_ms=waited_ms, clock_wait_ms=clock_wait_ms)

    assert hold is expected
    assert (
        resolve_hold(is_trusted=True, waited_ms=waited_ms, clock_wait_ms=clock_wait_ms)
        is Hold.NOTHING
    )
