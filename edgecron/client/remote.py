"""The database of another machine, over its HTTP API: `RemoteClient`.

`protocol` says what each method does. Most of them are one request: see `_asked`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from edgecron.base.checks import check_name
from edgecron.base.clock import SystemClock
from edgecron.base.errors import Conflict, InvalidName, NotFound
from edgecron.base.units import from_ms
from edgecron.client.opening import TRIES
from edgecron.client.protocol import Client
from edgecron.client.remote_follow import ChangeWatch, RemoteFollower, RemoteLaterRuns
from edgecron.client.remote_server import ServerTime
from edgecron.client.resource_functions import View
from edgecron.client.resources import resource_types
from edgecron.formats.document_plan import Action
from edgecron.model.listing import RunPage, SchedulePage
from edgecron.triggers.zones import local_zone_name

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.client.remote_connection import Connector
    from edgecron.client.resource_functions import ScheduleCounts, Sizes
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Document
    from edgecron.model.choices import Cause, Status
    from edgecron.model.filters import Filter
    from edgecron.model.listing import Choice, SortBy, Standing
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
    from edgecron.planning.corrections import ClockState
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.simulation import Simulation
    from edgecron.views.busy import WeekHeat
    from edgecron.views.outlook import LatePlaces
    from edgecron.views.schedule_health import ScheduleHealth
    from edgecron.views.statistics import Tallied


# How many fires to come are asked for at a time: most want few, and who wants many wants all.
_PAGES = (32, 480, 4_500, 10_000)
_MOST_SCHEDULES = 500  # of a page
_MOST_RUNS = 1000

P = ParamSpec("P")
R = TypeVar("R")


def _asked(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[RemoteClient, P], R]:
    """Make a method that asks the server for the resource of its name, with its arguments."""
    name, code = method.__name__, method.__code__
    positional = code.co_varnames[1 : code.co_argcount]

    @wraps(method)
    def ask(client: RemoteClient, /, *args: P.args, **given: P.kwargs) -> R:
        found: R = client.request(name, **dict(zip(positional, args, strict=False)), **given)
        return found

    return ask


def _choice_fields(choice: Choice | None) -> dict[str, object]:
    """Return a choice as parameters of lists of schedules, without those that choose nothing."""
    if choice is None:
        return {}
    fields = {
        "word": choice.words,
        "group": choice.group,
        "failed": choice.is_failed,
        "paused": choice.is_paused,
    }
    return {name: value for name, value in fields.items() if value}


class RemoteClient:
    """The database of another machine, as a Client is one of this machine. For one thread.

    Nothing is connected before the first request. `time` is shared by the clients of one server.
    Each method can raise ServerUnavailable, and what the Client there raises.
    """

    def __init__(self, connector: Connector, *, time: ServerTime | None = None) -> None:
        self._connector = connector
        self._time = time or ServerTime(SystemClock())
        self._connection = connector.open(self._time)
        self._changes: ChangeWatch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None
        self._connection.close()

    @property
    def clock(self) -> Clock:
        return self._time

    @property
    def place(self) -> str:
        return self._connector.place

    def now(self) -> datetime:
        if not self._time.is_known:
            self._status("now")
        return from_ms(self._time.now_ms())

    def interrupt(self) -> None:
        self._connection.interrupt()

    def request(self, name: str, /, **arguments: Any) -> Any:
        """Ask for a resource by its name, and return the value of its answer."""
        if "name" in resource_types(name).resource.path_words:
            _check_schedule(arguments["name"])
        return self._connection.ask(name, **arguments)

    # Schedules.

    schedule = _asked(Client.schedule)
    state = _asked(Client.state)
    count_state = _asked(Client.count_state)
    triggers = _asked(Client.triggers)
    triggers_at = _asked(Client.triggers_at)
    find_dependents = _asked(Client.find_dependents)
    removals = _asked(Client.removals)
    removed_at = _asked(Client.removed_at)
    schedule_lines = _asked(Client.schedule_lines)
    first_schedule_lines = _asked(Client.first_schedule_lines)
    schedule_names = _asked(Client.schedule_names)
    nearest_names = _asked(Client.nearest_names)
    outlook = _asked(Client.outlook)
    foresee = _asked(Client.foresee)
    explain = _asked(Client.explain)

    def schedules(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Schedule]:
        page = self.schedule_page(after=after, limit=limit, choice=choice)
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
                **_choice_fields(choice),
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
            "standings", after=after, limit=limit, **_choice_fields(choice)
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

    def week_heat(self, zone: str | None = "local") -> Iterator[WeekHeat | None]:
        """`local` is the zone of this machine."""
        found: WeekHeat = self.request(
            "week_heat", zone=local_zone_name() if zone == "local" else zone
        )
        yield found

    def simulate(
        self, *, from_at: datetime, until_at: datetime, document: Document | None = None
    ) -> Iterator[Simulation | None]:
        found: Simulation = self.request(
            "simulate", from_at=from_at, until_at=until_at, document=document
        )
        yield found

    def tallies(
        self,
        name: str | None = None,
        *,
        since: datetime,
        after: str | None = None,
        limit: int | None = None,
        with_trends: bool = False,
    ) -> Tallied:
        found: Tallied = self.request(
            "tallies",
            schedule=name,
            since=since,
            after=after,
            limit=limit,
            with_trends=with_trends or None,  # An older server does not know it.
        )
        return found

    # Runs.

    execution = _asked(Client.execution)
    run_page = _asked(Client.run_page)
    run_bounds = _asked(Client.run_bounds)
    waiting_runs = _asked(Client.waiting_runs)
    last_run = _asked(Client.last_run)
    last_failure = _asked(Client.last_failure)
    output = _asked(Client.output)
    cancel = _asked(Client.cancel)

    def history(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> list[Execution]:
        return self.history_page(
            name,
            statuses=statuses,
            causes=causes,
            before_id=before_id,
            since=since,
            until=until,
            limit=limit,
            with_former=with_former,
        ).runs

    def history_page(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> RunPage:
        found = RunPage([], [])
        while len(found.runs) < limit:
            size = min(limit - len(found.runs), _MOST_RUNS)
            page: RunPage = self.request(
                "history_page",
                schedule=name,
                status=statuses,
                cause=causes,
                before=before_id,
                since=since,
                until=until,
                limit=size,
                former=with_former,
            )
            found.runs.extend(page.runs)
            found.unreadable.extend(page.unreadable)
            if len(page.runs) < size:
                break
            before_id = page.runs[-1].id
        return found

    def next_attempt(self, execution: Execution) -> Execution | None:
        found: Execution | None = self.request("next_attempt", execution_id=execution.id)
        return found

    def spec_of(self, execution: Execution) -> ScheduleSpec | None:
        found: ScheduleSpec | None = self.request("spec_of", execution_id=execution.id)
        return found

    def is_supervised(self, execution: Execution) -> bool:
        found: bool = self.request("is_supervised", execution_id=execution.id)
        return found

    def follower(self, execution_id: int, *, position: int = 0) -> RemoteFollower:
        return RemoteFollower(
            self.request, self._connector.open(self._time), execution_id, position=position
        )

    def later_runs(self, name: str, *, known: Execution | None) -> RemoteLaterRuns:
        begun = self.request("begun_runs", name=name, known=None if known is None else known.id)
        return RemoteLaterRuns(self.request, self._connector.open(self._time), begun)

    def run_now(self, name: str, *, payload: str | None = None) -> list[Execution]:
        """Send a fresh key: if the answer is lost, the request can be repeated."""
        return self.run_once(name, key=os.urandom(16).hex(), payload=payload)

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
    ) -> list[Execution]:
        _check_schedule(name)
        found: list[Execution] = self._connection.ask_keyed(
            "run_once",
            name=name,
            key=key,
            payload_text=payload,
            asked_at=asked_at or self.now(),
        )
        return found

    # Changes of schedules.

    add_all = _asked(Client.add_all)
    pause = _asked(Client.pause)
    resume = _asked(Client.resume)
    remove_unreadable = _asked(Client.remove_unreadable)
    undo_removal = _asked(Client.undo_removal)
    changes = _asked(Client.changes)
    last_changed = _asked(Client.last_changed)
    plan_undo = _asked(Client.plan_undo)
    undo = _asked(Client.undo)
    limit_group = _asked(Client.limit_group)
    plan_document = _asked(Client.plan_document)
    check = _asked(Client.check)
    plan_backfill = _asked(Client.plan_backfill)
    imported = _asked(Client.imported)
    note_imported = _asked(Client.note_imported)

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

    def reschedule(self, name: str, run_at: datetime) -> Schedule:
        found: Schedule = self.request("reschedule", name=name, time=run_at)
        return found

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

    engines = _asked(Client.engines)
    other_databases = _asked(Client.other_databases)
    has_engine = _asked(Client.has_engine)
    take_over = _asked(Client.take_over)

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

    def schedule_health(self, *, limit: int = 5) -> ScheduleHealth | None:
        found: ScheduleHealth | None = self._status("schedule_health")
        return found

    def active_counts(self) -> dict[Status, int]:
        found: dict[Status, int] = self._status("active")
        return found

    def late_places(self) -> LatePlaces:
        found: LatePlaces = self._status("late_places")
        return found

    def clock_state(self) -> ClockState:
        found: ClockState = self._status("clock")
        return found

    def is_clock_trusted(self) -> bool:
        return self.clock_state().is_trusted

    def local_zone(self) -> str | None:
        found: str | None = self._status("local_zone")
        return found

    def disk_problem(self) -> str | None:
        found: str | None = self._status("disk_problem")
        return found

    def database_sizes(self) -> tuple[int, int]:
        sizes: Sizes = self._status("sizes")
        return sizes.database_bytes, sizes.wal_bytes

    def _status(self, part: str) -> Any:
        return getattr(self.request("status", only=(part,)), part)


def _check_schedule(name: str) -> None:
    """Raise NotFound for a name that no schedule can have, as on the machine of the database.

    The server would refuse the path as wrong input.
    """
    try:
        check_name(name, what="schedule name")
    except InvalidName:
        raise NotFound(f"there is no schedule {name!r}", hint="see: edgecron list") from None
