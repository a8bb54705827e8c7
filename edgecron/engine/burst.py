"""How fast runs may start: a bucket of tokens, each of which comes back a second after its use.

So no second holds more starts than there are tokens, and what is due together starts in bursts of
as many. Pure: instants come in as monotonic milliseconds.
"""

from __future__ import annotations

from collections import deque

_BACK_MS = 1000


class Burst:
    """`most` starts within any second; None is no limit."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._taken: deque[tuple[int, int]] = deque()  # (when, how many), the oldest first

    def free(self, now_ms: int) -> int | None:
        """How many may start now; None is no limit."""
        if self._most is None:
            return None
        while self._taken and now_ms - self._taken[0][0] >= _BACK_MS:
            self._taken.popleft()
        return max(0, self._most - sum(count for _, count in self._taken))

    def take(self, count: int, now_ms: int) -> None:
        """Note that so many have started."""
        if self._most is not None and count:
            self._taken.append((now_ms, count))

    def wait_ms(self, now_ms: int) -> int | None:
        """How long until one more may start; None where one may now."""
        if self.free(now_ms) != 0:
            return None
        return self._taken[0][0] + _BACK_MS - now_ms
