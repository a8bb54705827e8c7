"""Read schedules: their definitions, how they stand, and their next fires."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput
from edgecron.base.units import DAY_MS, from_ms, to_ms
from edgecron.base.zones import local_zone_name
from edgecron.client.opening import OpenDatabase
from edgecron.model.conditions import read_needs
from edgecron.model.listing import (
    Acknowledged,
    Choice,
    NamedId,
    Removal,
    ScheduleLine,
    SchedulePage,
    SortBy,
    Standing,
)
from edgecron.planning.forecast import UpcomingFire, fires_of, fires_within, in_order
from edgecron.planning.next_fire import NextFire, next_after_pause
from edgecron.store.sql.schedule_lists import (
    find_first_lines,
    find_jobs,
    find_lines,
    find_names,
    find_nearest_names,
    find_order,
    find_order_of,
)

if TYPE_CHECKING:
    from edgecron.model.choices import Status
    from edgecron.model.filters import Filter
    from edgecron.model.schedule import Definition, Schedule
    from edgecron.planning.next_fire import Timing
    from edgecron.triggers import Trigger

_DUE_WITHIN_MS = 7 * DAY_MS  # the fires in which a filter by the time of day looks


class Schedules(OpenDatabase):
    """Reads of schedules. Nothing here changes one, or loads what does."""

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name.

        Raises Unreadable if one of them can't be read; see `schedule_page`.
        """
        return self.store.find_schedules()

    def definitions(self) -> list[Definition]:
        """Return all schedules as documents define them, by name: cheaper than `schedules`."""
        return self.store.find_definitions()

    def schedule_page(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> SchedulePage:
        """Return the same schedules, and the names of those that can't be read."""
        return self.store.find_schedule_page(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def count_schedules(self) -> tuple[int, int, int]:
        """Return how many schedules there are, are broken, and are run by no program."""
        return self.store.count_schedules()

    def active_counts(self) -> dict[Status, int]:
        """Return how many runs are queued and running."""
        return self.store.count_active()

    def state(self, name: str) -> dict[str, str]:
        """Return what a schedule's job remembers between runs: texts of JSON by key."""
        return self.store.find_state(self.store.get_schedule(name).id)

    def count_state(self, name: str) -> int:
        """Return how many keys `state` has, without reading them."""
        return self.store.count_state(self.store.get_schedule(name).id)

    def acknowledged(self, schedule_ids: Sequence[int]) -> list[Acknowledged]:
        """Return which failures of these schedules a person has acknowledged, by their errors."""
        return self.store.find_acknowledged(schedule_ids)

    def standings(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Standing]:
        """Return how schedules stand: the few fields of a list, cheaper than `schedules`."""
        return self.store.find_standings(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises NotFound with a suggestion, or Unreadable."""
        return self.store.get_schedule(name)

    def triggers(self, schedule: Schedule) -> list[Trigger]:
        """Return the triggers of a schedule. Raises InvalidTrigger if they can't be read."""
        from edgecron.planning.times import (
            load_triggers,  # `list` starts a tenth faster without it.
        )

        return load_triggers(self.store.compiled_of(schedule))

    def timing(self, schedule: Schedule) -> Timing:
        """Return what decides the times of a schedule. Raises InvalidTrigger or UnknownTimezone."""
        from edgecron.planning.times import load_timing  # See `triggers`.

        return load_timing(schedule.spec, self.store.compiled_of(schedule), seed=self.store.seed)

    def next_fires(
        self,
        name: str | None = None,
        *,
        matches: Filter | None = None,
        most_each: int | None = None,
    ) -> Iterator[UpcomingFire]:
        """Yield the fires to come of one schedule, of all, or of those that a filter lets through.

        They come in the order in which they can start. A filter by the time of day finds those of
        the next seven days. Of all schedules, yield at most `most_each` fires of each.
        """
        if name is not None:
            schedule = self.store.get_schedule(name)
            yield from self._with_delayed(self.fires_of(schedule), schedule_id=schedule.id)
            return
        matches_name: Callable[[str], bool] | None = None
        if matches is not None and matches.has_commands:
            wanted = frozenset(self.schedule_ids_named(matches))
            names = {one.name for one in self.schedule_names() if one.id in wanted}
            matches_name = names.__contains__
        elif matches is not None and matches.has_names:
            matches_name = matches.matches_name
        coming = self.store.coming_schedules(matches=matches_name)
        fires_of, is_wanted = self._fires_for(matches)
        streams = in_order(coming, lambda schedule: islice(fires_of(schedule), most_each))
        fires = self._with_delayed(streams, matches=matches_name)
        yield from fires if is_wanted is None else filter(is_wanted, fires)

    def _fires_for(
        self, matches: Filter | None
    ) -> tuple[Callable[[Schedule], Iterator[UpcomingFire]], Callable[[UpcomingFire], bool] | None]:
        """Return what finds the fires of a schedule for a filter, and whether it wants one."""
        if matches is None or not matches.due_windows:
            return self._readable_fires_of, None
        from edgecron.planning.windows import Windows  # See `triggers`.

        within = Windows(matches.due_windows, (), (), local_zone_name())
        now_ms = self._clock.now_ms()
        spans = tuple(within.open_spans(now_ms, until_ms=now_ms + _DUE_WITHIN_MS))

        def fires_of(schedule: Schedule) -> Iterator[UpcomingFire]:
            with suppress(InvalidInput):  # As in `_readable_fires_of`.
                yield from fires_within(schedule, lambda: self.timing(schedule), within, spans)

        return fires_of, lambda fire: within.is_open(to_ms(fire.due_at))

    def find_after_pause(self, schedule: Schedule, *, until_ms: int) -> NextFire | None:
        """Return the next fire of a schedule that is paused until an instant."""
        return next_after_pause(
            self.timing(schedule),
            until_ms,
            decided_until_ms=to_ms(schedule.decided_until),
            planned_count=schedule.planned_count,
        )

    def _with_delayed(
        self,
        fires: Iterator[UpcomingFire],
        *,
        schedule_id: int | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> Iterator[UpcomingFire]:
        """Yield fires and the manual runs that are due later, in the order of their due times."""
        from edgecron.store.sql.due import find_delayed  # See `triggers`.

        now_ms = self._clock.now_ms()
        delayed = [
            UpcomingFire(
                schedule=name, plan_at=from_ms(plan_ms), due_at=from_ms(due_ms), source=None
            )
            for name, plan_ms, due_ms in find_delayed(
                self.store, now_ms=now_ms, schedule_id=schedule_id
            )
            if matches is None or matches(name)
        ]
        return merge(fires, delayed, key=attrgetter("due_at")) if delayed else fires

    def _readable_fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        # A schedule that can't be read, such as for an unknown zone, must not hide the others. The
        # engine marks it as broken at its next time.
        with suppress(InvalidInput):
            yield from self.fires_of(schedule)

    def fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        """Yield the fires to come of a schedule. Raises InvalidTrigger or UnknownTimezone."""
        return fires_of(schedule, lambda: self.timing(schedule))

    def removed_at(self, name: str) -> datetime | None:
        """Return when the schedule of this name was removed; None if it exists or never did."""
        if self.store.find_id(name) is not None:
            return None
        removals = self.removals(name)
        return removals[0].removed_at if removals else None

    def removals(self, name: str) -> list[Removal]:
        """Return every schedule of this name that was removed, newest first."""
        found = self.store.find_removals(name)
        return [Removal(schedule_id, from_ms(removed_ms)) for schedule_id, removed_ms in found]

    def past_id(self, name: str) -> int:
        """Return the id of a schedule, or of the one of this name that was removed last."""
        schedule_id = self.store.find_id(name)
        if schedule_id is not None:
            return schedule_id
        removals = self.store.find_removals(name)
        return removals[0][0] if removals else self.store.get_schedule(name).id

    def schedule_order(
        self,
        sort: SortBy | None = None,
        *,
        is_descending: bool = False,
        matches: Filter | None = None,
    ) -> array[int]:
        """Return the ids of the schedules that a filter lets through, in an order (default: name).

        Schedules without a value to sort by come last; equal ones are in the order of their names.
        """
        sort = sort or SortBy.NAME
        database = self.store
        if matches is None:
            return find_order(database, sort, is_descending=is_descending)
        found = find_order_of(
            database,
            sort,
            is_descending=is_descending,
            matches=matches.matches_schedule,
            now=self.now(),
        )
        if not matches.due_windows:
            return found
        wanted, (fires_of, _) = set(found), self._fires_for(matches)
        due = {
            schedule.id
            for schedule in self.store.coming_schedules()
            if schedule.id in wanted and next(fires_of(schedule), None) is not None
        }
        return array("q", (each for each in found if each in due))

    def schedule_lines(self, ids: Sequence[int]) -> list[ScheduleLine]:
        """Return schedules of these ids as lines of a list; removed ones are missing.

        Each costs some reads. `trigger_error` says what can't be read of a schedule.
        """
        return find_lines(self.store, ids)

    def first_schedule_lines(self, limit: int) -> list[ScheduleLine]:
        """Return the first schedules by name as lines of a list."""
        return find_first_lines(self.store, limit=limit)

    def schedule_names(self) -> list[NamedId]:
        """Return every schedule, removed ones included; see `schedule_ids_named`."""
        return [NamedId(schedule_id, name) for schedule_id, name in find_names(self.store)]

    def schedule_ids_named(self, matches: Filter) -> array[int]:
        """Return the ids of schedules that a filter lets through by name and command.

        Removed ones are included.
        """
        jobs = find_jobs(self.store) if matches.has_commands else {}
        return array(
            "q",
            (
                one.id
                for one in self.schedule_names()
                if matches.matches_name(one.name, job=jobs.get(one.id, ""))
            ),
        )

    def nearest_names(self, letters: str, *, limit: int) -> list[str]:
        """Return the names nearest to some letters, best first; without letters, all by name."""
        from edgecron.model.filters import rank_of

        return find_nearest_names(
            self.store,
            lambda name: rank_of(name, letters) if letters else 0,
            limit=limit,
        )

    def find_dependents(self, name: str) -> list[str]:
        """Return the names of schedules that follow this one or need its success."""
        needing = set()
        for one, needs in self.store.find_needs():
            with suppress(InvalidInput):  # An unreadable condition starts nothing.
                if any(condition.schedule == name for condition in read_needs(needs)):
                    needing.add(one)
        following = {one for one, upstream in self.store.find_upstreams() if upstream == name}
        return sorted((needing | following) - {name})


class FirstLines(Schedules):
    """Read the first lines of the timeline. It shows no triggers, so they stay as written."""

    def first_schedule_lines(self, limit: int) -> list[ScheduleLine]:
        return find_first_lines(self.store, limit=limit, describes=False)
