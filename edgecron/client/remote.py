"""The database of another machine, over its HTTP API: `RemoteClient`.

`protocol` says what each method does. Most of them are one request: see `asked`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict, MalformedCall
from edgecron.base.zones import local_zone_name
from edgecron.client.opening import TRIES
from edgecron.client.protocol import Client
from edgecron.client.remote_requests import ChangeWatch, RemoteRuns, asked, choice_fields, told
from edgecron.client.resource_functions import ScheduleCounts, Sizes, View
from edgecron.formats.document_plan import Action, Step
from edgecron.model.listing import Choice, SchedulePage, SortBy, Standing

if TYPE_CHECKING:
    from edgecron.formats.document_plan import Document
    from edgecron.model.filters import Filter
    from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.simulation import Simulation
    from edgecron.views.busy import WeekHeat


# How many fires to come are asked for at a time: most want few, and who wants many wants all.
_PAGES = (32, 480, 4_500, 10_000)
_MOST_SCHEDULES = 500  # of a page


class RemoteClient(RemoteRuns):
    """The database of another machine, as a Client is one of this machine. For one thread.

    Each method can raise ServerUnavailable, and what the Client there raises.
    """

    # Schedules.

    schedule = asked(Client.schedule)
    state = asked(Client.state)
    count_state = asked(Client.count_state)
    acknowledged = asked(Client.acknowledged, what="list of acknowledged failures")
    triggers = asked(Client.triggers)
    triggers_at = asked(Client.triggers_at)
    find_dependents = asked(Client.find_dependents)
    removals = asked(Client.removals)
    removed_at = asked(Client.removed_at)
    schedule_lines = asked(Client.schedule_lines)
    first_schedule_lines = asked(Client.first_schedule_lines)
    schedule_names = asked(Client.schedule_names)
    nearest_names = asked(Client.nearest_names)
    outlook = asked(Client.outlook)
    foresee = asked(Client.foresee)
    explain = asked(Client.explain)
    timeline = asked(Client.timeline, what="timeline")
    tallies = asked(Client.tallies)

    def schedules(self) -> list[Schedule]:
        page = self.schedule_page()
        for name in page.unreadable:
            self.schedule(name)  # raises what is wrong with it
        return page.schedules

    def definitions(self) -> list[Definition]:
        return [schedule.definition for schedule in self.schedules()]

    def schedule_page(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> SchedulePage:
        """Ask page by page, so that no answer is too large."""
        found = SchedulePage([], [])
        count = 0
        while limit is None or count < limit:
            size = _MOST_SCHEDULES if limit is None else min(limit - count, _MOST_SCHEDULES)
            page: SchedulePage = self.request(
                "schedule_page",
                after=after or None,
                limit=size,
                view=View.RECORD,
                **choice_fields(choice),
            )
            found.schedules.extend(page.schedules)
            found.unreadable.extend(page.unreadable)
            names = page.names
            count += len(names)
            if len(names) < size:
                break
            after = names[-1]
        return found

    def standings(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Standing]:
        found: list[Standing] = self.request(
            "standings", after=after, limit=limit, **choice_fields(choice)
        )
        return found

    def schedule_order(
        self,
        sort: SortBy | None = None,
        *,
        is_descending: bool = False,
        matches: Filter | None = None,
    ) -> array[int]:
        found = self.request(
            "schedule_order", sort=sort, is_descending=is_descending, filter=matches
        )
        return array("q", found)

    def schedule_ids_named(self, matches: Filter) -> array[int]:
        return array("q", self.request("schedule_ids_named", filter=matches))

    def next_fires(
        self, name: str | None = None, *, matches: Filter | None = None
    ) -> Iterator[UpcomingFire]:
        """Ask page by page: a change meanwhile can show a fire as it was, or twice."""
        skip = 0
        while True:
            limit = next((size for size in _PAGES if size > skip), _PAGES[-1])
            page: list[UpcomingFire] = self.request(
                "next_fires", schedule=name, filter=matches, skip=skip, limit=limit
            )
            yield from page
            skip += len(page)
            if len(page) < limit:
                return

    def week_heat(
        self, zone: str | None = "local", *, most_per_hour: int | None = None
    ) -> Iterator[WeekHeat | None]:
        """`local` is the zone of this machine."""
        zone = local_zone_name() if zone == "local" else zone
        found: WeekHeat
        try:
            found = self.request("week_heat", zone=zone, most_per_hour=most_per_hour)
        except MalformedCall:
            if most_per_hour is None:
                raise
            # An older server does not know the limit: it counts all schedules.
            found = self.request("week_heat", zone=zone)
        yield found

    def simulate(
        self, *, from_at: datetime, until_at: datetime, document: Document | None = None
    ) -> Iterator[Simulation | None]:
        found: Simulation = self.request(
            "simulate", from_at=from_at, until_at=until_at, document=document
        )
        yield found

    # Changes of schedules.

    add_all = asked(Client.add_all)
    pause = asked(Client.pause)
    resume = asked(Client.resume)
    reschedule = asked(Client.reschedule)
    remove_unreadable = asked(Client.remove_unreadable)
    undo_removal = asked(Client.undo_removal)
    changes = asked(Client.changes)
    notices = asked(Client.notices)
    last_changed = asked(Client.last_changed)
    plan_undo = asked(Client.plan_undo)
    undo = asked(Client.undo)
    limit_group = asked(Client.limit_group)
    acknowledge = asked(Client.acknowledge, what="list of acknowledged failures")
    plan_document = asked(Client.plan_document)
    check = asked(Client.check)
    plan_backfill = asked(Client.plan_backfill)
    imported = asked(Client.imported)
    note_imported = asked(Client.note_imported)

    def add(self, spec: ScheduleSpec, *, origin: str = "python") -> Schedule:
        return self.add_all([spec], origin=origin)[0]

    def edit(
        self,
        name: str,
        change: Callable[[ScheduleSpec], ScheduleSpec],
        *,
        origin: str = "python",
    ) -> Schedule:
        """`change` is called here, on the schedule as it is there."""
        for _ in range(TRIES):
            schedule = self.schedule(name)
            changed = self.edit_once(schedule, change(schedule.spec), origin=origin)
            if changed is not None:
                return changed
        raise Conflict(f"another program is changing schedule {name!r}", hint="try again")

    def edit_once(
        self, schedule: Schedule, spec: ScheduleSpec, *, origin: str = "python"
    ) -> Schedule | None:
        found: Schedule | None = self.request(
            "edit_once", name=schedule.name, schedule=schedule, spec=spec, origin=origin
        )
        return found

    def remove(self, name: str) -> Schedule:
        schedule = self.schedule(name)
        self.request("remove", name=name)
        return schedule

    def apply(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """Send the steps, without those that leave a schedule as it is."""
        wanted = [step for step in steps if step.action is not Action.LEAVE]
        found: list[Schedule] = self.request("apply", steps=wanted, origin=origin)
        return found

    def backfill(
        self,
        name: str,
        from_at: datetime,
        to_at: datetime,
        *,
        priority: int | None = None,
        on_progress: Callable[[int, int], object] = lambda done, count: None,
    ) -> list[int]:
        """`on_progress` is called once, at the end."""
        found: list[int] = self.request(
            "backfill", name=name, from_at=from_at, to_at=to_at, priority=priority
        )
        if found:
            on_progress(len(found), len(found))
        return found

    # Engines and the database.

    engines = asked(Client.engines)
    other_databases = asked(Client.other_databases)
    has_engine = asked(Client.has_engine)
    take_over = asked(Client.take_over)
    active_counts = told(Client.active_counts, "active")
    clock_state = told(Client.clock_state, "clock")
    disk_problem = told(Client.disk_problem, "disk_problem")
    late_places = told(Client.late_places, "late_places")
    local_zone = told(Client.local_zone, "local_zone")
    schedule_health = told(Client.schedule_health, "schedule_health")

    def change_mark(self) -> int:
        """Return the mark as the server last told it; the server reports a change itself."""
        if self._changes is None:
            mark = self.request("change_mark")
            self._changes = ChangeWatch(mark, self._connector.open(self._time))
        return self._changes.mark()

    def lock_waits(self) -> int:
        """Return 0: the server's waits are not seen from here."""
        return 0

    def count_schedules(self) -> tuple[int, int, int]:
        counts: ScheduleCounts = self._status("counts")
        return counts.schedules, counts.broken, counts.vanished

    def is_clock_trusted(self) -> bool:
        return self.clock_state().is_trusted

    def database_sizes(self) -> tuple[int, int]:
        sizes: Sizes = self._status("sizes")
        return sizes.database_bytes, sizes.wal_bytes
