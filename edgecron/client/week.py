"""How busy the coming week is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgecron.base.units import to_ms
from edgecron.client.reading import Reading

if TYPE_CHECKING:
    from edgecron.views.busy import WeekHeat

_PAGE = 250  # two milliseconds or so between two looks at whether anybody still wants to know


class LookingAtWeek(Reading):
    """The week to come, over all schedules."""

    def week_heat(self, zone: str | None = "local") -> Iterator[WeekHeat | None]:
        """How many runs are to start in each hour of this day and the six after it, in a zone.

        Computed in slices: None after each that is not the last, and then the heat. What was
        changed meanwhile may be counted as it was. Raises UnknownTimezone.
        """
        from edgecron.views.busy import WeekTally
        from edgecron.views.busy_shapes import week_from

        tally = WeekTally(week_from(to_ms(self.now()), zone=zone))
        after_id: int | None = 0
        while after_id is not None:
            page, after_id = self.store.find_recurring(after_id=after_id, limit=_PAGE)
            for recurrence in page:
                tally.add(recurrence)
            if after_id is not None:
                yield None
        yield tally.result()
