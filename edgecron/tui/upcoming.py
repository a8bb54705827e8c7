"""What is to come: the next fires of all schedules in order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from itertools import islice
from math import inf
from typing import Any

from edgecron.api import Scheduler
from edgecron.safetext import clean
from edgecron.tui.coming import Coming
from edgecron.tui.lines import Column, Line
from edgecron.tui.pacing import Paced
from edgecron.tui.questions import AskingScreen
from edgecron.upcoming import UpcomingFire
from edgecron.words.phrases import is_overdue, moved_words
from edgecron.words.times import distance, near_time

_MOST = 1500
_MOST_LOOKED_AT = 5000

COLUMNS = (
    Column("IN", 10, 11),
    Column("TIME", 12, 12),
    Column("SCHEDULE", 12, 28, share=3),
    Column("BY", 10, 24, share=2, drop=1),
)


class UpcomingSource:
    """The next fires. `changed` is called when there is something else to show."""

    def __init__(
        self,
        screen: AskingScreen[Any],
        *,
        now: Callable[[], datetime],
        zone: tzinfo,
        changed: Callable[[], None],
    ) -> None:
        self._paced: Paced[Coming] = Paced(screen, "upcoming")
        self._now = now
        self._zone = zone
        self._changed = changed
        self.coming = Coming()

    @property
    def count(self) -> int:
        return len(self.coming.fires)

    def read(self) -> None:
        """Read the next fires anew."""

        self._paced.ask(_find_next, self._take)

    def _take(self, coming: Coming) -> None:
        self.coming = coming
        self._changed()

    def line(self, index: int) -> Line | None:
        fire = self.coming.fires[index]
        now, zone = self._now(), self._zone
        is_late = is_overdue(fire.due_at, now)
        note = moved_words(fire, zone=zone, now=now) if fire.is_moved else fire.source or ""
        return Line(
            key=_key(fire),
            cells=(
                (("overdue", "bad") if is_late else (distance(fire.due_at, now), "accent"),),
                ((near_time(fire.due_at, zone=zone, now=now), ""),),
                ((clean(fire.schedule), "bold"),),
                ((clean(note), "dim"),),
            ),
        )

    def index_of(self, key: int) -> int | None:
        for index, fire in enumerate(self.coming.fires):
            if _key(fire) == key:
                return index
        return None

    def nearest_s(self, first: int, last: int) -> float:
        now = self._now()
        seconds = (
            abs((fire.due_at - now).total_seconds()) for fire in self.coming.fires[first:last]
        )
        return min(seconds, default=inf)

    def all_keys(self) -> Sequence[int]:
        return ()

    def want(self, first: int, last: int) -> None:
        """All there is has been read."""


def _find_next(scheduler: Scheduler) -> Coming:
    """The next fires; of those of a schedule that are overdue the first one, as they become one."""
    now = scheduler.now()
    fires: list[UpcomingFire] = []
    overdue: set[str] = set()
    for fire in islice(scheduler.next_fires(), _MOST_LOOKED_AT):
        if is_overdue(fire.due_at, now):
            if fire.schedule in overdue:
                continue
            overdue.add(fire.schedule)
        fires.append(fire)
        if len(fires) == _MOST:
            return Coming(tuple(fires), has_more=True)
    return Coming(tuple(fires))


def _key(fire: UpcomingFire) -> int:
    return hash((fire.schedule, fire.plan_at))
