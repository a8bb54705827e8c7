"""Declaring: the schedules of a program are brought to what its code says, by name."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from edgecron.api.applying import Applying
from edgecron.api.opening import TRIES
from edgecron.errors import AlreadyExists, Conflict

if TYPE_CHECKING:
    from edgecron.documents.comparing import Step
    from edgecron.documents.document import Wanted
    from edgecron.model import Schedule


class Declaring(Applying):
    """What a program says at each start, however many of its processes say it at once."""

    def declare(
        self, wanted: Collection[Wanted], *, queue: str, origin: str, is_all: bool = False
    ) -> list[Schedule]:
        """Make and change schedules as a program declares them; those that it changed.

        What says the same already is left as it is, and fires for no time of the past. Where it
        `is_all` that the program declares, what else is in `queue` goes to the queue of what
        nobody runs. Raises AlreadyExists where a name is that of another kind of schedule,
        and InvalidInput.
        """
        for _ in range(TRIES):
            steps = self._plan_declared(wanted, queue=queue, is_all=is_all)
            if not steps:
                return []
            try:
                return self.apply(steps, origin=origin)
            except (AlreadyExists, Conflict) as error:
                # Another process of the program says the same at this moment.
                trouble = error
        raise trouble

    def prune_declared(self, names: Collection[str], *, queue: str, origin: str) -> list[str]:
        """Remove what a program has made and does not declare any more; the names of those."""
        from edgecron.queues import VANISHED

        gone = {
            name
            for name, made_by in self.store.find_origins().items()
            if made_by == origin and name not in names
        }
        gone.update(self.store.find_names_in_queue(queue + VANISHED))
        gone.update(set(self.store.find_names_in_queue(queue)) - set(names))
        for name in sorted(gone):
            self.remove(name)
        return sorted(gone)

    def _plan_declared(self, wanted: Collection[Wanted], *, queue: str, is_all: bool) -> list[Step]:
        from dataclasses import replace

        from edgecron.documents.comparing import Action, compare_one
        from edgecron.documents.document import Wanted as Declared
        from edgecron.queues import VANISHED

        steps: list[Step] = []
        for one in wanted:
            schedule = self.store.find_schedule(one.spec.name)
            if schedule is not None:
                _refuse_other(schedule, one, queue=queue)
            step = compare_one(one, schedule)
            if step.action is not Action.KEEP:
                steps.append(step)
        declared = {one.spec.name for one in wanted}
        for name in self.store.find_names_in_queue(queue) if is_all else ():
            schedule = None if name in declared else self.store.find_schedule(name)
            if schedule is not None:
                spec = replace(schedule.spec, queue=queue + VANISHED)
                steps.append(compare_one(Declared(spec=spec), schedule))
        return steps


def _refuse_other(schedule: Schedule, wanted: Wanted, *, queue: str) -> None:
    """Raise AlreadyExists where a schedule of this name is not this program's to change."""
    from edgecron.model import COMMAND_QUEUE
    from edgecron.queues import VANISHED

    own = (queue, queue + VANISHED) if wanted.spec.queue == queue else (COMMAND_QUEUE,)
    if schedule.spec.queue in own:
        return
    kind, other = schedule.spec.job.kind, schedule.spec.queue
    what = f"a {kind}" if other == COMMAND_QUEUE else f"a {kind} of queue {other!r}"
    raise AlreadyExists(
        f"schedule {schedule.name!r} exists already, and it is {what}",
        hint=f"take another name, or remove it: edgecron rm {schedule.name}",
    )
