"""Answer requests about schedules and plans.

Each function is a resource: it gets a Client and the parameters, looks once, and returns whole
values. Its first line describes it in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.checks import check_range
from edgecron.base.values import NamedTuple, dataclass, names_of, replace
from edgecron.client.following import BegunRuns, LocalLaterRuns
from edgecron.formats.option_texts import read_run_options
from edgecron.model.choices import Cause, Status
from edgecron.model.listing import Choice, RunChoice, RunPage, SchedulePage, Standing
from edgecron.model.run import Execution, OutputChunk
from edgecron.planning.corrections import ClockState
from edgecron.views.outlook import LatePlaces
from edgecron.views.schedule_health import ScheduleHealth

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.formats.document_tables import Document, Step
    from edgecron.model.filters import Filter
    from edgecron.model.job import Job
    from edgecron.model.options import Policies
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.simulation import Simulation
    from edgecron.views.busy import WeekHeat


V = TypeVar("V", "ScheduleSpec", "Job", "Policies")


class View(StrEnum):
    """How much a list of schedules shows of each."""

    LIST = "list"  # the fields of list --json
    RECORD = "record"  # all that is known of it


def schedule_page(
    client: Client,
    *,
    after: str | None = None,
    limit: int = 100,
    word: tuple[str, ...] = (),
    group: str | None = None,
    failed: bool = False,
    paused: bool = False,
    view: View = View.LIST,
) -> SchedulePage:
    """List schedules by name, and the names of unreadable ones."""
    choice = Choice(word, group, failed, paused)
    return client.schedule_page(after=after, limit=limit, choice=choice)


def standings(
    client: Client,
    *,
    after: str | None = None,
    limit: int | None = None,
    word: tuple[str, ...] = (),
    group: str | None = None,
    failed: bool = False,
    paused: bool = False,
) -> list[Standing]:
    """How schedules stand, in few fields: next and last run, paused, broken or done."""
    choice = Choice(word, group, failed, paused)
    return client.standings(after=after, limit=limit, choice=choice)


def next_fires(
    client: Client,
    *,
    schedule: str | None = None,
    filter: Filter | None = None,
    skip: int = 0,
    limit: int = 10,
    each: int | None = None,
) -> list[UpcomingFire]:
    """Fires to come."""
    fires = client.next_fires(schedule, matches=filter, most_each=each)
    return list(islice(fires, skip, skip + limit))


def week_heat(
    client: Client, *, zone: str | None = None, most_per_hour: int | None = None
) -> WeekHeat:
    """How many fires each hour of the next week has."""
    slices = client.week_heat(zone, most_per_hour=most_per_hour)
    return next(found for found in slices if found is not None)


def simulate(
    client: Client, *, from_at: datetime, until_at: datetime, document: Document | None = None
) -> Simulation:
    """What the schedules, or those of a document, would do."""
    slices = client.simulate(from_at=from_at, until_at=until_at, document=document)
    return next(found for found in slices if found is not None)


def edit_once(
    client: Client, *, name: str, schedule: Schedule, spec: ScheduleSpec, origin: str = "http"
) -> Schedule | None:
    """Change a schedule from the revision that was read; null if it was changed since.

    An older client does not know every option. So what it leaves as it read it stays as it is here.
    """
    stored = client.schedule(name)
    if (stored.id, stored.revision) != (schedule.id, schedule.revision):
        return None
    read, kept = schedule.spec, stored.spec
    changed = replace(
        _changed(kept, read, spec),
        job=_changed(kept.job, read.job, spec.job),
        policies=_changed(kept.policies, read.policies, spec.policies),
    )
    return client.edit_once(stored, changed, origin=origin)


def _changed(kept: V, read: V, wanted: V) -> V:
    """Return a value with the fields that differ between two others."""
    fields = {
        name: getattr(wanted, name)
        for name in names_of(type(kept))
        if getattr(wanted, name) != getattr(read, name)
    }
    return replace(kept, **fields)


def remove(client: Client, *, name: str) -> None:
    """Remove a schedule."""
    client.remove(name)


# Plans.


def check(client: Client, *, step: Step) -> None:
    """Check a step of a plan, such as its times, without a change."""
    client.check(step)


_MOST_BYTES = 512 * 1024  # of output in one answer, unless a single chunk is longer


def history_page(
    client: Client,
    *,
    schedule: str | None = None,
    status: tuple[Status, ...] = (),
    cause: tuple[Cause, ...] = (),
    before: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    former: bool = False,
) -> RunPage:
    """Runs, newest first, and the ids of unreadable ones."""
    choice = RunChoice(
        statuses=status,
        causes=cause,
        before_id=before,
        since=since,
        until=until,
        with_former=former,
    )
    return client.history_page(schedule, choice=choice, limit=limit)


class Piece(NamedTuple):
    """A chunk, and the number of bytes before it that were printed and not kept."""

    dropped_bytes: int
    chunk: OutputChunk


class Printed(NamedTuple):
    """The output of a run from a position on.

    `run` is as it was before the output was read; `has_more`: it has printed more by now.
    """

    run: Execution
    chunks: tuple[Piece, ...]
    has_more: bool


def printed(client: Client, *, execution_id: int, position: int = 0) -> Printed:
    """The output of a run from a position on, stored or live."""
    check_range("position", position, 0, 2**62)
    run = client.execution(execution_id)
    pieces: list[Piece] = []
    size_bytes = 0
    with client.follower(execution_id, position=position) as follower:
        for skipped, chunk in follower.read_kept(run, most_bytes=_MOST_BYTES):
            if pieces and size_bytes + len(chunk.content) > _MOST_BYTES:
                return Printed(run, tuple(pieces), has_more=True)
            pieces.append(Piece(skipped, chunk))
            size_bytes += len(chunk.content)
    return Printed(run, tuple(pieces), has_more=size_bytes >= _MOST_BYTES)


def await_printed(
    client: Client, *, execution_id: int, position: int, status: Status
) -> Printed | None:
    """The same as soon as there is anything new, or its status is another one."""
    found = printed(client, execution_id=execution_id, position=position)
    return found if found.chunks or found.run.status is not status else None


def begun_runs(client: Client, *, name: str, known: int | None = None) -> BegunRuns:
    """A cursor behind the runs of a schedule that have begun by now."""
    run = None if known is None else client.execution(known)
    return client.begun_runs(name, known=run)


class Begun(NamedTuple):
    """A run that has begun, and the cursor behind it."""

    run: Execution
    told: BegunRuns


def await_begun(client: Client, *, told: BegunRuns) -> Begun | None:
    """The first run that begins after a cursor, and the cursor behind it."""
    later = LocalLaterRuns(client.store, told)
    found = later.find_next()
    return None if found is None else Begun(found, later.told)


def run_once(
    client: Client,
    *,
    name: str,
    key: str,
    payload_text: str | None = None,
    asked_at: datetime | None = None,
    delay: str | None = None,
    at: datetime | None = None,
    priority: int | None = None,
    timeout: str | None = None,
    scope: str | None = None,
) -> list[Execution]:
    """Run a schedule now or later, once for a key."""
    options = read_run_options(
        {"delay": delay, "at": at, "priority": priority, "timeout": timeout, "scope": scope},
        timezone=None,
        now=client.now(),
    )
    return client.run_once(name, key=key, payload=payload_text, asked_at=asked_at, options=options)


# About the database and its engines.


class ScheduleCounts(NamedTuple):
    """How many schedules there are, and how many of them are broken or run by no program."""

    schedules: int
    broken: int
    vanished: int


class Sizes(NamedTuple):
    """Sizes of the database and of its write-ahead log."""

    database_bytes: int
    wal_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    """The parts that were asked for; the others are null."""

    now: datetime
    counts: ScheduleCounts | None = None
    active: dict[Status, int] | None = None
    late_places: LatePlaces | None = None
    clock: ClockState | None = None
    local_zone: str | None = None
    sizes: Sizes | None = None
    schedule_health: ScheduleHealth | None = None
    disk_problem: str | None = None


def status(client: Client, *, only: tuple[str, ...] = ()) -> DatabaseStatus:
    """Engines, clock, counts and sizes: the parts that are asked for."""
    read: dict[str, Callable[[], Any]] = {
        "counts": lambda: ScheduleCounts(*client.count_schedules()),
        "active": client.active_counts,
        "late_places": client.late_places,
        "clock": client.clock_state,
        "local_zone": client.local_zone,
        "sizes": lambda: Sizes(*client.database_sizes()),
        "schedule_health": client.schedule_health,
        "disk_problem": client.disk_problem,
    }
    wanted = set(only) or set(read)
    found: dict[str, Any] = {name: one() for name, one in read.items() if name in wanted}
    return DatabaseStatus(now=client.now(), **found)


def await_change(client: Client, *, mark: int) -> int | None:
    """The number as soon as it is another one than `mark`."""
    found = client.change_mark()
    return None if found == mark else found
