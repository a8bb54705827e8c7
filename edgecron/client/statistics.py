"""Count runs: over a time span for people, over all time for metrics."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware
from edgecron.base.units import from_ms, to_ms
from edgecron.client.schedules import Schedules
from edgecron.model.measures import EndedRun, Measures

if TYPE_CHECKING:
    from edgecron.model.measures import Measures
    from edgecron.views.statistics import Tallied


MOST_RUNS = 100_000  # that are looked at: a second, whatever the history holds
_MOST_OUTPUTS = 1_000


class Statistics(Schedules):
    """Counts, durations and lateness. Nothing is written."""

    def tallies(
        self,
        name: str | None = None,
        *,
        since: datetime,
        after: str | None = None,
        limit: int | None = None,
    ) -> Tallied:
        """How one schedule goes, or each of them, by what has ended since an instant.

        With `limit`, so many schedules, of names after one: their runs and no others are read.
        Removed schedules are among them. Raises NotFound.
        """
        from edgecron.store.sqlite.statistics import (
            find_ended,
            find_ended_of,
            find_named_page,
            find_names_of,
            find_output_sizes,
        )
        from edgecron.views.statistics import Tallied, spread, tally

        check_aware("since", since)
        since_ms = to_ms(since)
        schedule_id = None if name is None else self._past_id(name)
        database = self.store
        if schedule_id is None and limit is not None:
            names = find_named_page(database, since_ms=since_ms, after=after, limit=limit)
            each = MOST_RUNS // max(1, len(names))
            runs, cut_ms = find_ended_of(database, list(names), since_ms=since_ms, limit=each)
        else:
            names = find_names_of(database, schedule_id)
            runs, cut_ms = find_ended(database, schedule_id, since_ms=since_ms, limit=MOST_RUNS)
        grouped: dict[int, list[EndedRun]] = {}
        for run in runs:
            grouped.setdefault(run.schedule_id, []).append(run)
        # Of a name that was given again both are told as one.
        named: dict[str, list[EndedRun]] = {}
        for each, ended in grouped.items():
            if names[each] > (after or ""):
                named.setdefault(names[each], []).extend(ended)
        sizes = []
        if schedule_id is not None:
            sizes = find_output_sizes(database, schedule_id, since_ms=since_ms, limit=_MOST_OUTPUTS)
        return Tallied(
            since=since,
            cut_at=None if cut_ms is None else from_ms(cut_ms),
            by_name={each: tally(named[each]) for each in sorted(named)},
            total=tally(runs),
            output_bytes=spread(sizes),
        )

    def measures(self, *, per_schedule: bool = False) -> Measures:
        """Every schedule's counts and times, what is active, and how long and late runs were.

        With `per_schedule` also how long and late the runs of each schedule were.
        """
        from edgecron.store.sqlite.statistics import (
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
