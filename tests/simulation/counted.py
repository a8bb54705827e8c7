"""What schedules count of their runs agrees with the rows, those that were removed included."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.simulation.world import World

_STATUSES = ("success", "failed", "cancelled", "interrupted", "skipped")


def check_counts(world: World, rows: list[dict[str, Any]]) -> None:
    """Raise AssertionError where a schedule counts what has no row, or a row twice."""
    expected: Counter[tuple[int, str]] = Counter()
    for row in rows:
        expected[row["schedule_id"], row["status"]] += row["missed_count"] or 1
    counted = world.look(
        f"SELECT id, {', '.join(f'{status}_count' for status in _STATUSES)} FROM schedules"
    )
    for schedule_id, *counts in counted:
        for status, count in zip(_STATUSES, counts, strict=True):
            found = expected[schedule_id, status]
            assert count == found, f"I8 schedule {schedule_id} counts {count} {status}, has {found}"
