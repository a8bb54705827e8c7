"""Read schedules: their definitions, how they stand, and their next fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from heapq import merge
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput
from edgecron.base.units import from_ms
from edgecron.client.opening import Engines
from edgecron.client.retiming import timing_of_stored
from edgecron.model.listing import NamedId, Removal, SortBy
from edgecron.model.schedule import Imported
from edgecron.planning.forecast import fires_of, in_order
from edgecron.planning.times import load_triggers
from edgecron.store.sqlite.schedule_lists import (
    find_first_lines,
    find_ids_named,
    find_lines,
    find_names,
    find_nearest_names,
    find_order,
    find_order_of,
)

if TYPE_CHECKING:
    from array import array

    from edgecron.model.filters import Filter
    from edgecron.model.listing import (
        Choice,
        ScheduleLine,
        SchedulePage,
        SortBy,
        Standing,
    )
    from edgecron.model.schedule import Imported, Schedule
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.next_fire import Timing
    from edgecron.triggers import Trigger


_MOST_NAMED = 500  # schedules whose fires are looked at one by one


class Schedules(Engines):
    """Reads of schedules. Nothing here changes one."""

    def schedules(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Schedule]:
        """Every schedule, by name, or those of a choice; or a page, of names after one.

        Raises Unreadable; see `schedule_page`.
        """
        return self.store.find_schedules(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def schedule_page(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> SchedulePage:
        """The same schedules, with the names of those whose rows can't be read."""
        return self.store.find_schedule_page(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def count_schedules(self) -> tuple[int, int, int]:
        """How many schedules there are, how many of them are broken, and how many nobody runs."""
        return self.store.count_schedules()

    def state(self, name: str) -> dict[str, str]:
        """What a schedule remembers from one run to the next: texts of JSON by key."""
        return self.store.find_state(self.store.get_schedule(name).id)

    def count_state(self, name: str) -> int:
        """How many keys that has."""
        return self.store.count_state(self.store.get_schedule(name).id)

    def standings(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Standing]:
        """How schedules stand: what a list shows of `schedules`, at a fraction of the cost."""
        return self.store.find_standings(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def schedule(self, name: str) -> Schedule:
        """The schedule of this name. Raises NotFound, with a suggestion."""
        return self.store.get_schedule(name)

    def triggers(self, schedule: Schedule) -> list[Trigger]:
        """The triggers of a schedule. Raises InvalidTrigger where they can't be read any more."""
        return load_triggers(self.store.compiled_of(schedule))

    def timing(self, schedule: Schedule) -> Timing:
        """What decides a schedule's times."""
        return timing_of_stored(self.store, schedule)

    def next_fires(
        self, name: str | None = None, *, matches: Filter | None = None
    ) -> Iterator[UpcomingFire]:
        """Fires to come, in the order in which they may start: of one schedule, or of all, or of
        those whose names a filter lets through."""
        if name is not None:
            yield from self._fires_of(self.store.get_schedule(name))
            return
        if matches is not None and matches.has_names:
            yield from self._fires_named(matches)
            return
        yield from in_order(self.store.coming_schedules(), self._readable_fires_of)

    def _fires_named(self, wanted: Filter) -> Iterator[UpcomingFire]:
        """The same of some: where they are few, each one's own, and no other is looked at."""
        names = find_nearest_names(
            self.store,
            lambda name: 0 if wanted.matches_name(name) else None,
            limit=_MOST_NAMED + 1,
        )
        if len(names) <= _MOST_NAMED:
            found = (self.store.find_schedule(name) for name in names)
            each = (self._readable_fires_of(one) for one in found if one is not None)
            yield from merge(*each, key=lambda fire: fire.due_at)
            return
        coming = self.store.coming_schedules(matches=wanted.matches_name)
        yield from in_order(coming, self._readable_fires_of)

    def _readable_fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        # One that can't be read, such as for a zone that is gone, must not hide the others. The
        # engine marks it broken at its next time, which is shown.
        with suppress(InvalidInput):
            yield from self._fires_of(schedule)

    def _fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        return fires_of(schedule, lambda: self.timing(schedule))

    def removed_at(self, name: str) -> datetime | None:
        """When the newest schedule of this name was removed; None where one lives, or none was."""
        if self.store.find_id(name) is not None:
            return None
        removed = self.store.find_removed(name)
        return None if removed is None else from_ms(removed[1])

    def imported(self) -> list[Imported]:
        """The schedules that imports of crontabs made, those removed since as well."""
        found = [
            Imported(schedule_id=schedule_id, source=source, imprint=imprint)
            for schedule_id, source, imprint in self.store.find_imported()
        ]
        found += [
            Imported(schedule_id=schedule_id, source=None, imprint=None, spec=spec)
            for schedule_id, spec in self.store.find_imported_before()
        ]
        return found

    def note_imported(self, entries: Sequence[Imported]) -> None:
        """Remember from which crontab lines schedules came, and what these say now."""
        self.store.note_imported(
            [(one.schedule_id, one.source or "", one.imprint or "{}") for one in entries]
        )

    def removals(self, name: str) -> list[Removal]:
        """Return every schedule of this name that was removed, newest first."""
        found = self.store.find_removals(name)
        return [Removal(schedule_id, from_ms(removed_ms)) for schedule_id, removed_ms in found]

    def _past_id(self, name: str) -> int:
        schedule_id = self.store.find_id(name)
        if schedule_id is not None:
            return schedule_id
        removed = self.store.find_removed(name)
        return self.store.get_schedule(name).id if removed is None else removed[0]

    def schedule_order(
        self,
        sort: SortBy | None = None,
        *,
        is_descending: bool = False,
        matches: Filter | None = None,
    ) -> array[int]:
        """The ids of all schedules, or of those that match, in order; by name where None is said.

        What has nothing to be sorted by comes last, either way; equals come by name.
        """
        sort = sort or SortBy.NAME
        database = self.store
        if matches is None:
            return find_order(database, sort, is_descending=is_descending)
        return find_order_of(
            database,
            sort,
            is_descending=is_descending,
            matches=matches.matches_schedule,
            now=self.now(),
        )

    def schedule_lines(self, ids: Sequence[int]) -> list[ScheduleLine]:
        """The lines of schedules, in this order; those that are gone are left out.

        For a screen of them: each costs some reads. What can't be read of a schedule is told in
        its `trigger_error`.
        """
        return find_lines(self.store, ids)

    def first_schedule_lines(self, limit: int) -> list[ScheduleLine]:
        """The lines of the schedules whose names come first, before any order is known."""
        return find_first_lines(self.store, limit=limit)

    def schedule_names(self) -> list[NamedId]:
        """Return every schedule, removed ones included; see `schedule_ids_named`."""
        return [NamedId(schedule_id, name) for schedule_id, name in find_names(self.store)]

    def schedule_ids_named(self, matches: Filter) -> array[int]:
        """The ids of the schedules, removed ones included, whose names a filter lets through.

        Of many it takes a tenth of the memory that all their names do.
        """
        return find_ids_named(self.store, matches.matches_name)

    def nearest_names(self, letters: str, *, limit: int) -> list[str]:
        """The names of the schedules that are nearest to what somebody has typed, equals by
        name. Without a letter all are."""
        from edgecron.model.filters import rank_of  # loads difflib: 1 ms of every `list`

        return find_nearest_names(
            self.store,
            lambda name: rank_of(name, letters) if letters else 0,
            limit=limit,
        )
