"""Times to act at, by key; the loop sleeps until the first of them and not a moment less."""

from __future__ import annotations

import heapq

# So many entries that are void may there be beyond the number of keys: a key has one that counts.
_MOST_VOID = 64


class Deadlines:
    """One time for each key, in monotonic milliseconds."""

    def __init__(self) -> None:
        self._at_ms: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def set(self, key: str, at_ms: int) -> None:
        """Act on the key at that time, instead of the one it had."""
        self._at_ms[key] = at_ms
        heapq.heappush(self._heap, (at_ms, key))
        self._drop_void()

    def clear(self, key: str) -> None:
        self._at_ms.pop(key, None)
        self._drop_void()

    @property
    def entry_count(self) -> int:
        """How many entries are kept, those that are void included."""
        return len(self._heap)

    def __contains__(self, key: str) -> bool:
        return key in self._at_ms

    def next_ms(self) -> int | None:
        """The first time, or None where nothing is to be done."""
        while self._heap:
            at_ms, key = self._heap[0]
            if self._at_ms.get(key) == at_ms:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now_ms: int) -> list[str]:
        """The keys whose time has come, which then have none."""
        due = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            key = heapq.heappop(self._heap)[1]
            del self._at_ms[key]
            due.append(key)
        return due

    def _drop_void(self) -> None:
        """Void entries go when their time has come: with far ones that may be never."""
        if len(self._heap) > 2 * len(self._at_ms) + _MOST_VOID:
            self._heap = [(at_ms, key) for key, at_ms in self._at_ms.items()]
            heapq.heapify(self._heap)
