"""Decide how many runs can start now, how many to claim ahead, and which engine claims first.

Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from edgecron.model.engine import EngineInfo, Offers

_BURST_MS = 1000
# As many runs are claimed ahead as ended within this time, if these are as many as there are
# places. 1,000 functions at once take 350 ms with at most 64 ahead, and 280 ms with 160.
_AHEAD_MS = 100
_MOST_AHEAD = 128
_LEAST_ENDED = 8  # fewer runs do not show how long runs take
# Engines of one queue wake so long after each other for what is due. An engine that finds nothing
# left costs a sixth of that.
_TURN_MS = 8
_LAST_TURN_MS = 200


class Burst:
    """Limit how fast runs start: at most `most` within any second; None is no limit.

    Instants are monotonic.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken: deque[tuple[int, int]] = deque()  # (when, how many), the oldest first

    def free(self, now_ms: int) -> int | None:
        """How many runs can start now; None is no limit."""
        if self._most is None:
            return None
        while self._taken and now_ms - self._taken[0][0] >= _BURST_MS:
            self._taken.popleft()
        return max(0, self._most - sum(count for _, count in self._taken))

    def take(self, count: int, now_ms: int) -> None:
        """Note that so many runs have started."""
        if self._most is not None and count:
            self._taken.append((now_ms, count))

    def wait_ms(self, now_ms: int) -> int | None:
        """How long until one more run can start; None if one can start now."""
        if self.free(now_ms) != 0:
            return None
        return self._taken[0][0] + _BURST_MS - now_ms


class Reserve:
    """The runs to claim beyond the places of a runner, by how fast runs end.

    Instants are monotonic.
    """

    def __init__(self) -> None:
        self._ended_ms: deque[int] = deque()  # when the latest runs ended; newest last

    def note_end(self, now_ms: int) -> None:
        """Note that a run has ended."""
        self._ended_ms.append(now_ms)

    def clear(self) -> None:
        """Forget what ended: the runs that take the places now are longer."""
        self._ended_ms.clear()

    def size(self, now_ms: int, *, places: int | None) -> int:
        """How many runs to claim beyond the places: none, if they take a tenth of a second.

        None also if fewer runs than there are places ended just now. A runner that starts all runs
        immediately has no places (None), and no reserve.
        """
        while self._ended_ms and self._ended_ms[0] <= now_ms - _AHEAD_MS:
            self._ended_ms.popleft()
        ended = len(self._ended_ms)
        return min(ended, _MOST_AHEAD) if places and ended >= max(places, _LEAST_ENDED) else 0

    def lasts_ms(self, now_ms: int, *, places: int | None, unended: int) -> int:
        """For how long the reserve of so many unended runs keeps the places busy; 0 without one."""
        if places is None or not self.size(now_ms, places=places):
            return 0
        return max(0, (unended - places) * _AHEAD_MS // len(self._ended_ms))


def find_turn_ms(
    others: Iterable[EngineInfo],
    queue: str,
    due_ms: int,
    *,
    engine_id: int,
    offers: Offers | None,
) -> int:
    """How long after a due time this engine wakes, so that the first one claims undisturbed.

    Its turn is among the live engines that take jobs of the queue; `others` are all other engines
    that live. Each second has another order.
    """
    ids = [one.id for one in others if one.shares(queue, offers)]
    place = sum(one < engine_id for one in ids)
    turn = (place + due_ms // 1000) % (len(ids) + 1)
    return min(turn * _TURN_MS, _LAST_TURN_MS)
