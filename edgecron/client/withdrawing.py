"""Withdrawing: what a program has made, and does not declare any more, is removed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound
from edgecron.client.writing import Writing

if TYPE_CHECKING:
    from edgecron.formats.document_values import Wanted
    from edgecron.model.schedule import Schedule


class Withdrawing(Writing):
    """What a program asks for when all of it is declared. It is seldom asked for."""

    def prune_declared(
        self, wanted: Collection[Wanted], *, queue: str, origin: str, spares_others: bool
    ) -> list[str]:
        """Remove what a program has made and does not declare any more; the names of those.

        With `spares_others` not what another version of it may need that is at work.
        """
        names = {one.spec.name for one in wanted}
        made = {name for name, made_by in self.store.find_origins().items() if made_by == origin}
        gone = sorted((made | set(self.store.find_names_in_queue(queue))) - names)
        if spares_others and gone:
            needed = self._needed_by_others(wanted, queue=queue)
            found = (self.store.find_schedule(name) for name in gone)
            gone = [one.spec.name for one in found if one is not None and not needed(one)]
        removed = []
        for name in gone:
            with suppress(NotFound):  # Another worker of the program was first.
                self.remove(name)
                removed.append(name)
        return removed

    def _needed_by_others(
        self, wanted: Collection[Wanted], *, queue: str
    ) -> Callable[[Schedule], bool]:
        """Whether an engine that is alive takes a schedule which is not wanted here; or, of what
        is no function, may do: nothing tells of which version that is."""
        from edgecron.model.engine import offer_of

        alive = [one.info for one in self.engines() if one.is_alive and queue in one.info.queues]
        jobs = [one.spec for one in wanted if one.spec.queue == queue]
        ours = {offer_of(one.job.kind, one.job.argv[0], schedule=one.name) for one in jobs}
        has_other = any(set(info.offers or ()) != ours for info in alive)

        def is_needed(schedule: Schedule) -> bool:
            if schedule.spec.queue != queue:
                return has_other
            return any(info.takes(queue, schedule.offer) for info in alive)

        return is_needed
