"""Times to act at: the first comes first, one for each key, and none that was cleared is kept."""

from __future__ import annotations

import random

from edgecron.supervisor.reactor import Deadlines


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
