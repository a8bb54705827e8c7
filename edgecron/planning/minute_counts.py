"""Count how many runs start and are active in each minute of a day. Pure.

A day is one large integer with 32 bits for each of its minutes. So the runs of a schedule cost one
addition per day, however many they are: a year of 500 schedules and 34 million runs takes 4 s.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate

from edgecron.base.units import DAY_MS, MINUTE_MS
from edgecron.base.values import NamedTuple

PILE_UP = 3  # schedules that start in the same minute
_MINUTES = DAY_MS // MINUTE_MS
_DAY_BITS = _MINUTES * 32
_DAY_MASK = (1 << _DAY_BITS) - 1
_BUSIEST = 5  # minutes of each day whose schedules are kept


class Lanes(NamedTuple):
    """How many runs start and are active in each minute of a day: 32 bits per minute."""

    starting: int
    active: int


NO_LANES = Lanes(0, 0)


def count_lanes(starts: Sequence[int], ends: Sequence[int]) -> Lanes:
    """`starts` and `ends` are milliseconds since the day began."""
    # A run that ends with a minute is not active in the next one.
    last = [max(end - 1, at) // MINUTE_MS for at, end in zip(starts, ends, strict=True)]
    size = max(_MINUTES, max(last) + 2)
    starting, changes = array("I", bytes(4 * size)), array("q", bytes(8 * size))
    for at in starts:
        starting[at // MINUTE_MS] += 1
        changes[at // MINUTE_MS] += 1
    for minute in last:
        changes[minute + 1] -= 1
    active = array("I", accumulate(changes))
    return Lanes(
        int.from_bytes(starting.tobytes(), "little"), int.from_bytes(active.tobytes(), "little")
    )


@lru_cache(maxsize=4096)  # Most schedules start at the same times on most days.
def regular_lanes(starts: tuple[int, ...], duration_ms: int) -> Lanes:
    return count_lanes(starts, [at + duration_ms for at in starts])


def count_cut(cut: Sequence[tuple[int, int]]) -> int:
    """Count the minutes in which runs are no longer active because they were replaced."""
    total = 0
    for at, end in cut:
        first, last = (at - 1) // MINUTE_MS + 1, (end - 1) // MINUTE_MS
        minutes = array("I", [0] * first + [1] * (last + 1 - first))
        total += int.from_bytes(minutes.tobytes(), "little")
    return total


class Peak:
    """The sum of all runs by minute, and the busiest minute."""

    def __init__(self) -> None:
        self.most = 0
        self.most_at_ms = 0
        self._sum = 0

    def add(self, lanes: int) -> None:
        self._sum += lanes

    def close(self, day_ms: int) -> array[int]:
        """Return the counts of the minutes of a day; what lies after it counts for the next."""
        counts = array("I")
        counts.frombytes((self._sum & _DAY_MASK).to_bytes(_DAY_BITS // 8, "little"))
        self._sum >>= _DAY_BITS
        most = max(counts)
        if most > self.most:
            self.most = most
            self.most_at_ms = day_ms + counts.index(most) * MINUTE_MS
        return counts


class PileUps:
    """Minutes in which several schedules start, by the schedules."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], list[int]] = {}

    def add(
        self, day_ms: int, counts: Sequence[int], begun: Sequence[tuple[str, list[int]]]
    ) -> None:
        """Add the minutes of a day in which most runs start."""
        busiest = nlargest(_BUSIEST, range(len(counts)), key=counts.__getitem__)
        for minute in sorted(busiest):
            if counts[minute] < PILE_UP:
                continue
            at_ms = day_ms + minute * MINUTE_MS
            names = tuple(name for name, starts in begun if _has_start(starts, at_ms))
            if len(names) >= PILE_UP:
                found = self._found.setdefault(names, [at_ms, day_ms, 0])
                found[2] += found[1] != day_ms or not found[2]
                found[1] = day_ms

    def busiest(self, most: int) -> list[tuple[tuple[str, ...], int, int]]:
        """Return (names, first minute, days): most schedules first, then the most frequent."""
        found = [(names, at_ms, days) for names, (at_ms, _, days) in self._found.items()]
        found.sort(key=lambda one: (-len(one[0]), -one[2], one[1]))
        return found[:most]


def _has_start(starts: Sequence[int], minute_ms: int) -> bool:
    index = bisect_left(starts, minute_ms)
    return index < len(starts) and starts[index] < minute_ms + MINUTE_MS
