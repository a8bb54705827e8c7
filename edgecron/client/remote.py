"""The database of another machine, over its HTTP API: `RemoteClient`.

`protocol` says what each method does. Most of them are one request: see `asked`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from edgecron.base.checks import check_name
from edgecron.base.clock import Clock, ServerTime, SystemClock
from edgecron.base.errors import Conflict, InvalidName, MalformedCall, NotFound, NotSupported
from edgecron.base.units import format_duration_ms, from_ms
from edgecron.base.zones import local_zone_name
from edgecron.client.opening import TRIES
from edgecron.client.protocol import Client
from edgecron.client.remote_connection import (
    ChangeWatch,
    Connector,
    RemoteFollower,
    RemoteLaterRuns,
)
from edgecron.client.remote_link import NothingThere
from edgecron.client.resource_functions import View
from edgecron.client.resources import API_NAMES, resource_types
from edgecron.formats.document_tables import Action, Step
from edgecron.model.listing import (
    ALL_RUNS,
    Choice,
    RunChoice,
    RunPage,
    SchedulePage,
    SortBy,
    Standing,
)
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions

if TYPE_CHECKING:
    from edgecron.formats.document_tables import Document
    from edgecron.model.filters import Filter
    from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.simulation import Simulation
    from edgecron.views.busy import WeekHeat


# How many fires to come are asked for at a time: most want few, and who wants many wants all.
_PAGES = (32, 480, 4_500, 10_000)
_MOST_SCHEDULES = 500  # of a page
_MOST_RUNS = 1000  # of a page

P = ParamSpec("P")
R = TypeVar("R")


def asked(
    method: Callable[Concatenate[Client, P], R], *, what: str = ""
) -> Callable[Concatenate[RemoteClient, P], R]:
    """Make a method that asks the server for the resource of its name, with its arguments.

    A run is sent as its id. `what` names a resource that an older server lacks: then the method
    raises NotSupported.
    """
    name, code = method.__name__, method.__code__
    positional = code.co_varnames[1 : code.co_argcount]

    @wraps(method)
    def ask(client: RemoteClient, /, *args: P.args, **given: P.kwargs) -> R:
        renamed = API_NAMES.get(name, {})
        arguments = {
            renamed.get(key, key): one.id if isinstance(one, Execution) else one
            for key, one in {**dict(zip(positional, args, strict=False)), **given}.items()
        }
        try:
            found: R = client.request(name, **arguments)
        except NothingThere:
            if not what:
                raise
            raise NotSupported(
                f"the server is older: it has no {what}",
                hint="use the same version on both machines",
            ) from None
        return found

    return ask


def told(
    method: Callable[Concatenate[Client, P], R], part: str
) -> Callable[Concatenate[RemoteClient, P], R]:
    """Make a method that returns one part of the status of the server."""

    @wraps(method)
    def ask(client: RemoteClient, /, *_: P.args, **__: P.kwargs) -> R:
        found: R = client._status(part)
        return found

    return ask


def choice_fields(choice: Choice | None) -> dict[str, object]:
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

    def _status(self, part: str) -> Any:
        """Return one part of the status of the server."""
        return getattr(self.request("status", only=(part,)), part)

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
        self,
        name: str | None = None,
        *,
        matches: Filter | None = None,
        most_each: int | None = None,
    ) -> Iterator[UpcomingFire]:
        """Ask page by page: a change meanwhile can show a fire as it was, or twice."""
        skip = 0
        while True:
            limit = next((size for size in _PAGES if size > skip), _PAGES[-1])
            asked = {"schedule": name, "filter": matches, "skip": skip, "limit": limit}
            try:
                page: list[UpcomingFire] = self.request("next_fires", **asked, each=most_each)
            except MalformedCall:
                if most_each is None:
                    raise
                most_each = None  # An older server does not know it: it yields all fires.
                continue
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

    # Runs.

    execution = asked(Client.execution)
    run_page = asked(Client.run_page)
    run_bounds = asked(Client.run_bounds)
    waiting_runs = asked(Client.waiting_runs)
    last_run = asked(Client.last_run)
    last_failure = asked(Client.last_failure)
    output = asked(Client.output)
    cancel = asked(Client.cancel)
    next_attempt = asked(Client.next_attempt)
    spec_of = asked(Client.spec_of)
    is_supervised = asked(Client.is_supervised)

    def history(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> list[Execution]:
        return self.history_page(name, choice=choice, limit=limit).runs

    def history_page(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> RunPage:
        found, before_id = RunPage([], []), choice.before_id
        while len(found.runs) < limit:
            size = min(limit - len(found.runs), _MOST_RUNS)
            page: RunPage = self.request(
                "history_page",
                schedule=name,
                status=choice.statuses,
                cause=choice.causes,
                before=before_id,
                since=choice.since,
                until=choice.until,
                limit=size,
                former=choice.with_former,
            )
            found.runs.extend(page.runs)
            found.unreadable.extend(page.unreadable)
            if len(page.runs) < size:
                break
            before_id = page.runs[-1].id
        return found

    def follower(self, execution_id: int, *, position: int = 0) -> RemoteFollower:
        return RemoteFollower(
            self.request, self._connector.open(self._time), execution_id, position=position
        )

    def later_runs(self, name: str, *, known: Execution | None) -> RemoteLaterRuns:
        begun = self.request("begun_runs", name=name, known=None if known is None else known.id)
        return RemoteLaterRuns(self.request, self._connector.open(self._time), begun)

    def run_now(
        self, name: str, *, payload: str | None = None, options: RunOptions = AS_SCHEDULED
    ) -> list[Execution]:
        """Send a fresh key: if the answer is lost, the request can be repeated."""
        key = os.urandom(16).hex()
        return self.run_once(name, key=key, payload=payload, options=options)

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
        options: RunOptions = AS_SCHEDULED,
    ) -> list[Execution]:
        _check_schedule(name)
        found: list[Execution] = self._connection.ask_keyed(
            "run_once",
            name=name,
            key=key,
            payload_text=payload,
            asked_at=asked_at or self.now(),
            delay=_duration_text(options.delay_s),
            at=options.at,
            priority=options.priority,
            timeout=_duration_text(options.timeout_s),
            scope=None if options.scope is None else ":".join(options.scope).removesuffix(":"),
        )
        return found

    # Engines and the database.

    engines = asked(Client.engines)
    other_databases = asked(Client.other_databases)
    has_engine = asked(Client.has_engine)
    take_over = asked(Client.take_over)
    active_counts = told(Client.active_counts, "active")
    clock_state = told(Client.clock_state, "clock")
    count_schedules = told(Client.count_schedules, "counts")
    database_sizes = told(Client.database_sizes, "sizes")
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

    def is_clock_trusted(self) -> bool:
        return self.clock_state().is_trusted


def _check_schedule(name: str) -> None:
    """Raise NotFound for a name that no schedule can have, as on the machine of the database.

    The server would refuse the path as wrong input.
    """
    try:
        check_name(name, what="schedule name")
    except InvalidName:
        raise NotFound(f"there is no schedule {name!r}", hint="see: edgecron list") from None


def _duration_text(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration_ms(round(seconds * 1000))
