"""Answer requests about schedules and plans.

Each function is a resource: it gets a Client and the parameters, looks once, and returns whole
values. Its first line describes it in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple
from edgecron.model.listing import Choice
from edgecron.model.run import Execution

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client import Client
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Document
    from edgecron.model.filters import Filter
    from edgecron.model.listing import ScheduleLine, SchedulePage, SortBy, Standing
    from edgecron.model.schedule import Imported, Schedule, ScheduleSpec
    from edgecron.planning.backfill import Backfill
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.triggers.base import Trigger
    from edgecron.views.busy import WeekHeat
    from edgecron.views.explanation import Explanation
    from edgecron.views.outlook import Foreseen, Outlook
    from edgecron.views.statistics import Tallied


def schedule(client: Client, *, name: str) -> Schedule:
    """All about a schedule."""
    return client.schedule(name)


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


def schedule_order(
    client: Client,
    *,
    sort: SortBy | None = None,
    is_descending: bool = False,
    filter: Filter | None = None,
) -> list[int]:
    """The ids of the schedules that a filter lets through, in an order."""
    return list(client.schedule_order(sort, is_descending=is_descending, matches=filter))


def schedule_lines(client: Client, *, ids: Sequence[int]) -> list[ScheduleLine]:
    """Schedules of these ids as lines of a list, with their newest runs."""
    return client.schedule_lines(ids)


def first_schedule_lines(client: Client, *, limit: int) -> list[ScheduleLine]:
    """The first schedules by name as lines of a list."""
    return client.first_schedule_lines(limit)


class NamedId(NamedTuple):
    """The id and the name of a schedule."""

    id: int
    name: str


def schedule_names(client: Client) -> list[NamedId]:
    """The id and the name of each schedule."""
    return [NamedId(id_, name) for id_, name in client.names_of_all()]


def schedule_ids_named(client: Client, *, filter: Filter) -> list[int]:
    """The ids of schedules, removed ones too, whose names a filter lets through."""
    return list(client.schedule_ids_named(filter))


def nearest_names(client: Client, *, letters: str, limit: int) -> list[str]:
    """The names of schedules nearest to some letters."""
    return client.nearest_names(letters, limit=limit)


def outlook(client: Client, *, name: str, upcoming: int = 5) -> Outlook:
    """What will happen next to a schedule, and why."""
    return client.outlook(name, upcoming=upcoming)


def explain(client: Client, *, name: str, at: datetime) -> Explanation:
    """Why a schedule ran, did not run, or will not run at a time."""
    return client.explain(name, at)


def find_dependents(client: Client, *, name: str) -> list[str]:
    """The names of the schedules that follow or need it."""
    return client.find_dependents(name)


def state(client: Client, *, name: str) -> dict[str, str]:
    """What its job remembers from one run to the next: texts of JSON by key."""
    return client.state(name)


def count_state(client: Client, *, name: str) -> int:
    """How many keys its job remembers."""
    return client.count_state(name)


def triggers(client: Client, *, schedule: Schedule) -> list[Trigger]:
    """The triggers of a schedule, expanded, as it is given."""
    return client.triggers(schedule)


def triggers_at(client: Client, *, name: str, at: datetime) -> list[Trigger]:
    """The triggers that it had at a time, expanded."""
    return client.triggers_at(name, at)


def last_run(client: Client, *, name: str) -> Execution:
    """Its newest run that was started, else its newest run."""
    return client.last_run(name)


class Removal(NamedTuple):
    """A removed schedule."""

    schedule_id: int
    removed_at: datetime


def removals(client: Client, *, name: str) -> list[Removal]:
    """The id and the time of each removed schedule of this name, newest first."""
    return [Removal(id_, at) for id_, at in client.removals(name)]


def removed_at(client: Client, *, name: str) -> datetime | None:
    """When the schedule of this name was removed; null if it is there."""
    return client.removed_at(name)


def next_fires(
    client: Client,
    *,
    schedule: str | None = None,
    filter: Filter | None = None,
    skip: int = 0,
    limit: int = 10,
) -> list[UpcomingFire]:
    """Fires to come."""
    return list(islice(client.next_fires(schedule, matches=filter), skip, skip + limit))


def foresee(
    client: Client,
    *,
    spec: ScheduleSpec,
    schedule: Schedule | None = None,
    upcoming: int = 10,
) -> Foreseen:
    """What would come of a specification that is not written yet."""
    return client.foresee(spec, schedule=schedule, upcoming=upcoming)


def week_heat(client: Client, *, zone: str | None = None) -> WeekHeat:
    """How many fires each hour of the next week has."""
    for found in client.week_heat(zone):
        if found is not None:
            return found
    raise AssertionError("the week has no end")


def tallies(
    client: Client,
    *,
    since: datetime,
    schedule: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Tallied:
    """What the runs since a time amount to, per schedule and in total."""
    return client.tallies(schedule, since=since, after=after, limit=limit)


def add_all(
    client: Client, *, specs: Sequence[ScheduleSpec], origin: str = "http"
) -> list[Schedule]:
    """Make schedules of specifications: all of them, or none."""
    return client.add_all(specs, origin=origin)


def edit_once(
    client: Client, *, name: str, schedule: Schedule, spec: ScheduleSpec, origin: str = "http"
) -> Schedule | None:
    """Change a schedule from the revision that was read; null if it was changed since."""
    return client.edit_once(schedule, spec, origin=origin)


def remove(client: Client, *, name: str) -> None:
    """Remove a schedule."""
    client.remove(name)


def remove_unreadable(client: Client, *, name: str) -> bool:
    """Remove a schedule that can't be read any more."""
    return client.remove_unreadable(name)


def undo_removal(client: Client, *, name: str | None = None) -> list[Schedule]:
    """Restore the schedules that were removed last, or the one of this name."""
    return client.undo_removal(name)


def pause(client: Client, *, name: str, until: datetime | None = None) -> Schedule:
    """Pause a schedule, without end or until a time."""
    return client.pause(name, until=until)


def resume(client: Client, *, name: str) -> Schedule:
    """Resume a schedule."""
    return client.resume(name)


def reschedule(client: Client, *, name: str, time: datetime) -> Schedule:
    """Move the next run of a schedule to another time."""
    return client.reschedule(name, time)


def limit_group(client: Client, *, group: str, max_running: int | None) -> None:
    """Let at most N runs of a group run at the same time; null is no limit."""
    client.limit_group(group, max_running)


# Plans.


def plan_document(
    client: Client, *, document: Document, origin: str = "http", is_pruned: bool = False
) -> tuple[Step, ...]:
    """Compare a document with the schedules: what applying it would change."""
    return client.plan_document(document, origin=origin, is_pruned=is_pruned)


def check(client: Client, *, step: Step) -> None:
    """Check a step of a plan, such as its times, without a change."""
    client.check(step)


def apply(client: Client, *, steps: Sequence[Step], origin: str = "http") -> list[Schedule]:
    """Carry out the steps of a plan: all of them, or none."""
    return client.apply(steps, origin=origin)


def plan_backfill(client: Client, *, name: str, from_at: datetime, to_at: datetime) -> Backfill:
    """Past times of a schedule that have no success and no active run."""
    return client.plan_backfill(name, from_at, to_at)


def backfill(
    client: Client,
    *,
    name: str,
    from_at: datetime,
    to_at: datetime,
    priority: int | None = None,
) -> list[int]:
    """Queue runs for these times, and answer with their ids."""
    return client.backfill(name, from_at, to_at, priority=priority)


def imported(client: Client) -> list[Imported]:
    """Which schedules an import of a crontab made, and of which lines."""
    return client.imported()


def note_imported(client: Client, *, entries: Sequence[Imported]) -> None:
    """Record which schedules an import of a crontab made."""
    client.note_imported(entries)
