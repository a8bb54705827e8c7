"""Bring the schedules of a program to what its code declares, by name."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from edgecron.base.errors import AlreadyExists, Conflict
from edgecron.client.apply import Apply
from edgecron.client.opening import TRIES
from edgecron.model.choices import COMMAND_QUEUE

if TYPE_CHECKING:
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Wanted
    from edgecron.model.schedule import Schedule


class Declarations(Apply):
    """What a program declares at each start, however many of its processes do so at once."""

    def declare(self, wanted: Collection[Wanted], *, queue: str, origin: str) -> list[Schedule]:
        """Make and change schedules as a program declares them; those that it changed.

        What says the same already is left as it is, and fires for no time of the past. Raises
        AlreadyExists where a name is that of another kind of schedule, and InvalidInput.
        """
        self.finish_apply()
        for _ in range(TRIES):
            steps = self._plan_declared(wanted, queue=queue)
            if not steps:
                return []
            try:
                return self.apply(steps, origin=origin)
            except (AlreadyExists, Conflict) as error:
                # Another process of the program says the same at this moment.
                trouble = error
        raise trouble

    def _plan_declared(self, wanted: Collection[Wanted], *, queue: str) -> list[Step]:
        from edgecron.formats.document_plan import Action, compare_one

        steps: list[Step] = []
        for one in wanted:
            schedule = self.store.find_schedule(one.spec.name)
            if schedule is not None:
                _refuse_other(schedule, one, queue=queue)
            step = compare_one(one, schedule)
            if step.action is not Action.KEEP:
                steps.append(step)
        return steps


def _refuse_other(schedule: Schedule, wanted: Wanted, *, queue: str) -> None:
    """Raise AlreadyExists where a schedule of this name is not this program's to change."""
    if schedule.spec.queue == (queue if wanted.spec.queue == queue else COMMAND_QUEUE):
        return
    kind, other = schedule.spec.job.kind, schedule.spec.queue
    what = f"a {kind}" if other == COMMAND_QUEUE else f"a {kind} of queue {other!r}"
    raise AlreadyExists(
        f"schedule {schedule.name!r} exists already, and it is {what}",
        hint=f"take another name, or remove it: edgecron rm {schedule.name}",
    )
