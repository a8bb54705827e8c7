"""Measuring: what is counted of all that ever ran, whatever the history costs to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.client.reading import Reading

if TYPE_CHECKING:
    from edgecron.model.measures import Measures


class Measuring(Reading):
    """What a scrape reads. It changes nothing."""

    def measures(self, *, per_schedule: bool = False) -> Measures:
        """Every schedule's counts and times, what is active, and how long and late runs were.

        With `per_schedule` also how long and late the runs of each schedule were.
        """
        from edgecron.model.measures import Measures
        from edgecron.store.statistics import (
            count_active,
            find_by_schedule,
            find_durations,
            find_lateness,
            find_lock_failures,
            find_measured,
        )

        database = self.store
        return Measures(
            schedules=find_measured(database, now_ms=self._clock.now_ms()),
            active=count_active(database),
            duration=find_durations(database),
            late=find_lateness(database),
            lock_failures=find_lock_failures(database),
            by_schedule=find_by_schedule(database) if per_schedule else None,
        )
