"""Times to act at: the first comes first, one for each key, and none that was cleared is kept."""

from __future__ import annotations

import random

from edgecron.supervisor.deadlines import Deadlines

DAY_MS = 86_400_000


def test_what_was_cleared_before_its_time_is_not_kept_for_that_long() -> None:
    deadlines = Deadlines()
    deadlines.set("live", 1_000_000)

    # As of a job each second with a time-out of a day, while another one runs.
    for number in range(10_000):
        deadlines.set(f"run {number}", DAY_MS + number * 1000)
        deadlines.clear(f"run {number}")

    assert deadlines.entry_count < 100
    assert deadlines.pop_due(2 * DAY_MS) == ["live"]
    assert deadlines.next_ms() is None


def test_a_time_that_is_set_again_and_again_is_one() -> None:
    deadlines = Deadlines()

    for at_ms in range(10_000):
        deadlines.set("again", DAY_MS - at_ms)

    assert deadlines.entry_count < 100
    assert deadlines.next_ms() == DAY_MS - 9_999
    assert deadlines.pop_due(DAY_MS) == ["again"]


def test_times_come_in_their_order_whatever_was_set_and_cleared_between() -> None:
    choice = random.Random(2026)
    deadlines = Deadlines()
    expected: dict[str, int] = {}

    for _ in range(5_000):
        key = f"key {choice.randrange(500)}"
        if choice.random() < 0.6:
            expected[key] = choice.randrange(1_000)
            deadlines.set(key, expected[key])
        else:
            expected.pop(key, None)
            deadlines.clear(key)

    assert deadlines.next_ms() == min(expected.values())
    due = deadlines.pop_due(500)
    assert [expected[key] for key in due] == sorted(expected[key] for key in due)
    assert set(due) == {key for key, at_ms in expected.items() if at_ms <= 500}
