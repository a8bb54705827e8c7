"""The steps by which durations are counted: what an engine needs to know of what is measured.

A count belongs to the step whose largest value is the first that is not exceeded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Milliseconds. What is stored goes by these: one that is added splits what comes from then on.
DURATION_STEPS_MS = (
    *(10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
    *(14_400_000, 86_400_000),
)
LATE_STEPS_MS = (*(5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 3_600_000),)
_BEYOND = "more"


def step_of(value_ms: int, steps_ms: Sequence[int]) -> str:
    """The name of the step that a value belongs to."""
    place = bisect_left(steps_ms, value_ms)
    return str(steps_ms[place]) if place < len(steps_ms) else _BEYOND
