"""Make the schedules of a program what its code declares, by name.

A program declares its schedules at each start, also if many of its processes start together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import AlreadyExists, Conflict, NotFound
from edgecron.client.apply import Apply
from edgecron.client.opening import TRIES
from edgecron.formats.document_plan import Action, compare_one
from edgecron.model.choices import COMMAND_QUEUE
from edgecron.model.engine import offer_of

if TYPE_CHECKING:
    from edgecron.client.schedule_changes import ScheduleChanges
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Wanted
    from edgecron.model.schedule import Schedule


def declare(
    database: ScheduleChanges, wanted: Collection[Wanted], *, queue: str, origin: str
) -> list[Schedule]:
    """Make and change schedules as a program declares them, and return the changed ones.

    A schedule that says the same already stays. Raises AlreadyExists if a name belongs to a
    schedule of another kind, and InvalidInput.
    """
    apply = Apply(database)
    apply.finish()
    for _ in range(TRIES):
        steps = _plan_declared(database, wanted, queue=queue)
        if not steps:
            return []
        try:
            return apply.carry_out(steps, origin=origin)
        except (AlreadyExists, Conflict) as error:
            # Another process of the program declares the same at this moment.
            trouble = error
    raise trouble


def _plan_declared(
    database: ScheduleChanges, wanted: Collection[Wanted], *, queue: str
) -> list[Step]:

    steps: list[Step] = []
    for one in wanted:
        schedule = database.store.find_schedule(one.spec.name)
        if schedule is not None:
            _refuse_other(schedule, one, queue=queue)
        step = compare_one(one, schedule)
        if step.action is not Action.KEEP:
            steps.append(step)
    return steps


def prune_declared(
    database: ScheduleChanges,
    wanted: Collection[Wanted],
    *,
    queue: str,
    origin: str,
    spares_others: bool,
) -> list[str]:
    """Remove schedules that a program made and no longer declares, and return their names.

    With `spares_others`, keep those that another running version of the program may need.
    """
    names = {one.spec.name for one in wanted}
    made = {name for name, made_by in database.store.find_origins().items() if made_by == origin}
    gone = sorted((made | set(database.store.find_names_in_queue(queue))) - names)
    if spares_others and gone:
        needed = _needed_by_others(database, wanted, queue=queue)
        found = (database.store.find_schedule(name) for name in gone)
        gone = [one.spec.name for one in found if one is not None and not needed(one)]
    removed = []
    for name in gone:
        with suppress(NotFound):  # Another worker of the program was first.
            database.remove(name)
            removed.append(name)
    return removed


def _needed_by_others(
    database: ScheduleChanges, wanted: Collection[Wanted], *, queue: str
) -> Callable[[Schedule], bool]:
    """Return a test whether another running version may need a schedule that is not wanted here.

    For a command, any other version counts: nothing tells which version declared it.
    """
    alive = [one.info for one in database.engines() if one.is_alive and queue in one.info.queues]
    jobs = [one.spec for one in wanted if one.spec.queue == queue]
    ours = {offer_of(one.job.kind, one.job.argv[0], schedule=one.name) for one in jobs}
    has_other = any(set(info.offers or ()) != ours for info in alive)

    def is_needed(schedule: Schedule) -> bool:
        if schedule.spec.queue != queue:
            return has_other
        return any(info.takes(queue, schedule.offer) for info in alive)

    return is_needed


def _refuse_other(schedule: Schedule, wanted: Wanted, *, queue: str) -> None:
    """Raise AlreadyExists if a schedule of this name does not belong to this program."""
    if schedule.spec.queue == (queue if wanted.spec.queue == queue else COMMAND_QUEUE):
        return
    kind, other = schedule.spec.job.kind, schedule.spec.queue
    what = f"a {kind}" if other == COMMAND_QUEUE else f"a {kind} of queue {other!r}"
    raise AlreadyExists(
        f"schedule {schedule.name!r} exists already, and it is {what}",
        hint=f"take another name, or remove it: edgecron rm {schedule.name}",
    )
