"""Make the schedules of a program what its code declares, by name.

A program declares its schedules at each start, also if many of its processes start together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import AlreadyExists, Conflict, NotFound
from edgecron.client.apply import Apply
from edgecron.client.opening import TRIES
from edgecron.formats.document_tables import Action, Step, compare_one
from edgecron.model.choices import COMMAND_QUEUE
from edgecron.model.engine import IMPORTED

if TYPE_CHECKING:
    from edgecron.client.schedule_changes import ScheduleChanges
    from edgecron.formats.document_tables import Wanted
    from edgecron.model.schedule import Schedule


def declare(
    database: ScheduleChanges,
    wanted: Collection[Wanted],
    *,
    queue: str,
    origin: str,
    places: Mapping[str, str],
) -> list[Schedule]:
    """Make and change schedules as a program declares them, and return the changed ones.

    `places` has file and line of each declaration, by name. A schedule without a place was added:
    it is made if it is missing, and never changed. A schedule that says the same already stays.
    Raises AlreadyExists if a name belongs to a schedule of another kind, and InvalidInput.
    """

    def plan() -> list[Step]:
        steps = []
        for one in wanted:
            schedule = database.store.find_schedule(one.spec.name)
            place = places.get(one.spec.name)
            if schedule is not None and place is None:
                continue
            if schedule is not None:
                _refuse_other(schedule, one, queue=queue)
                _refuse_added(database, schedule, place=str(place))
            steps.append(compare_one(one, schedule))
        return steps

    return _carry_out(database, plan, origin=origin)


def add_one(
    database: ScheduleChanges, wanted: Wanted, *, queue: str, origin: str, replaces: bool
) -> None:
    """Add a schedule, or leave an equal one as it is.

    Raises AlreadyExists if the name belongs to a different schedule, unless this one `replaces` it;
    always if that schedule is of another kind. Raises InvalidInput.
    """

    def plan() -> list[Step]:
        schedule = database.store.find_schedule(wanted.spec.name)
        if schedule is not None:
            _refuse_other(schedule, wanted, queue=queue)
        step = compare_one(wanted, schedule)
        if step.action is Action.CHANGE and not replaces:
            raise _differs(database, step)
        return [step]

    _carry_out(database, plan, origin=origin)


def change_one(
    database: ScheduleChanges,
    name: str,
    change: Callable[[Schedule], Wanted],
    *,
    origin: str,
) -> None:
    """Change a schedule by `change`. Raises NotFound, InvalidInput, Conflict."""

    def plan() -> list[Step]:
        schedule = database.store.get_schedule(name)
        return [compare_one(change(schedule), schedule)]

    _carry_out(database, plan, origin=origin)


def _carry_out(
    database: ScheduleChanges, plan: Callable[[], list[Step]], *, origin: str
) -> list[Schedule]:
    apply = Apply(database)
    apply.finish()
    for _ in range(TRIES):
        steps = [step for step in plan() if step.action is not Action.KEEP]
        if not steps:
            return []
        try:
            return apply.carry_out(steps, origin=origin)
        except (AlreadyExists, Conflict) as error:
            # Another process of the program writes the same at this moment.
            trouble = error
    raise trouble


def prune_declared(
    database: ScheduleChanges, wanted: Collection[Wanted], *, queue: str, spares_others: bool
) -> list[str]:
    """Remove the functions that a program declared once and no longer declares; return their names.

    Added schedules stay. With `spares_others`, those stay that another running version of the
    program offers.
    """
    names = {one.spec.name for one in wanted}
    found = [
        database.store.find_schedule(name)
        for name in sorted(set(database.store.find_names_in_queue(queue)) - names)
    ]
    gone = [one for one in found if one is not None and one.offer != IMPORTED]
    if spares_others and gone:
        engines = [one.info for one in database.engines() if one.is_alive]
        gone = [one for one in gone if not any(info.takes(queue, one.offer) for info in engines)]
    removed = []
    for one in gone:
        with suppress(NotFound):  # Another worker of the program was first.
            database.remove(one.name)
            removed.append(one.name)
    return removed


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


def _refuse_added(database: ScheduleChanges, schedule: Schedule, *, place: str) -> None:
    """Raise AlreadyExists if a declared name belongs to an added function."""
    if schedule.offer == IMPORTED:
        raise AlreadyExists(
            f"schedule {schedule.name!r} is declared at {place}, and exists already:"
            f" it was added by {_made_by(database, schedule)}",
            hint=f"take another name, or remove it: edgecron rm {schedule.name}",
        )


def _differs(database: ScheduleChanges, step: Step) -> AlreadyExists:
    keys = ", ".join(one.key for one in step.changes)
    schedule = step.schedule
    maker = "" if schedule is None else f" ({_made_by(database, schedule)})"
    return AlreadyExists(
        f"schedule {step.name!r} exists already{maker}, and differs in: {keys}",
        hint="to replace it: add(..., replace=True); to change options: get(...).change(...)",
    )


def _made_by(database: ScheduleChanges, schedule: Schedule) -> str:
    return database.store.find_origins().get(schedule.name, "another program")
