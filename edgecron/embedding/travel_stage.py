"""What has been started and has not ended, in the order of its end."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from edgecron.base.clock import Clock
from edgecron.base.values import NamedTuple

Lasts = Callable[[str], int]  # how long the runs of a schedule last, in milliseconds


class _Turn(NamedTuple):
    at_ms: int  # by the monotonic clock
    number: int
    token: str
    work: Callable[[], object]


class Stage:
    """Does each piece of work when its time has come, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: list[_Turn] = []
        self._count = 0

    @property
    def next_ms(self) -> int | None:
        """When something is to be done next, by the monotonic clock; None where nothing is."""
        return self._turns[0].at_ms if self._turns else None

    def add(self, token: str, work: Callable[[], object], *, after_ms: int) -> None:
        """Have something done after so long; at once is in the next turn."""
        self._count += 1
        at_ms = self._clock.monotonic_ms() + after_ms
        heappush(self._turns, _Turn(at_ms, self._count, token, work))

    def hasten(self, token: str) -> None:
        """Have done at once what waits for its time under this token."""
        waiting = [turn for turn in self._turns if turn.token == token]
        self._turns = [turn for turn in self._turns if turn.token != token]
        for turn in waiting:
            self.add(token, turn.work, after_ms=0)
        self._turns.sort()

    def play(self) -> bool:
        """Do all whose time has come; whether that was anything."""
        has_played = False
        while self._turns and self._turns[0].at_ms <= self._clock.monotonic_ms():
            has_played = True
            heappop(self._turns).work()
        return has_played
