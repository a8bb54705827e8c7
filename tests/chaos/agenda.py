"""The events of a storm in the order of their times, also if the machine is late."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.faults import Undo

Begin = Callable[[], Undo | None]


@dataclass(order=True, frozen=True)
class _Event:
    at_s: float
    number: int  # of two at the same time, the first one added comes first
    begin: Begin
    lane: str | None = None
    lasts_s: float = 0.0


class Agenda:
    """Events and what undoes them.

    A fault can come late, and then lasts as planned. The next one of its lane waits until it is
    undone: two full disks, or a folder that is moved away twice, could not be undone.
    """

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._added = 0
        self._busy_s: dict[str, float] = {}  # when the last fault of a lane is undone

    def __bool__(self) -> bool:
        return bool(self._events)

    def add(
        self, at_s: float, begin: Begin, *, lane: str | None = None, lasts_s: float = 0.0
    ) -> None:
        """Add an event; of a fault, with its lane and how long it lasts."""
        heapq.heappush(self._events, _Event(at_s, self._added, begin, lane, lasts_s))
        self._added += 1

    def run_due(self, clock: Callable[[], float]) -> None:
        """Do what is due by a clock, in seconds since the storm began."""
        while self._events and self._events[0].at_s <= clock():
            event = heapq.heappop(self._events)
            free_s = 0.0 if event.lane is None else self._busy_s.get(event.lane, 0.0)
            if event.at_s < free_s:
                self.add(free_s, event.begin, lane=event.lane, lasts_s=event.lasts_s)
                continue
            undo = event.begin()
            if undo is None:
                continue
            until_s = clock() + event.lasts_s
            if event.lane is not None:
                self._busy_s[event.lane] = until_s
            self.add(until_s, _undoing(undo))


def _undoing(undo: Undo) -> Begin:
    return lambda: undo()
