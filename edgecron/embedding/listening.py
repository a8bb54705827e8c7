"""What a program can be told of runs: a function that is called, or events to be waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput
from edgecron.embedding.program import Program

if TYPE_CHECKING:
    from edgecron.embedding.events import RunEvent, Wanted
    from edgecron.embedding.job import Scheduled
    from edgecron.embedding.subscribing import EventStream, Subscribers, Subscription


class Listener(Program):
    """A program that is told what becomes of runs, while an engine of it is at work."""

    _told: Subscribers | None = None  # before somebody wants to be

    def subscribe(
        self,
        callback: Callable[[RunEvent], object],
        *kinds: Wanted,
        job: Scheduled[Any] | str | None = None,
    ) -> Subscription:
        """Have a function called with what becomes of runs: of these kinds, or all; of one job.

            scheduler.subscribe(lambda event: alert(event.schedule, event.error), "failed")

        It is told what an engine of this process does, while one runs, on a thread of its own:
        what it raises is logged, and one that is slow holds up nobody. Raises InvalidInput for a
        kind that there is not.
        """
        from edgecron.embedding.events import wants_of
        from edgecron.embedding.signatures import is_coroutine_function

        if is_coroutine_function(callback):
            raise InvalidInput(
                f"{callback.__qualname__} is a coroutine, expected a function",
                hint="use: async for event in scheduler.events(...)",
            )
        return self._subscribers.subscribe(callback, wants_of(kinds, _name_of(job)))

    def events(self, *kinds: Wanted, job: Scheduled[Any] | str | None = None) -> EventStream:
        """The same for a coroutine, from now on, until the Scheduler stops:

        async for event in scheduler.events("finished", job="backup"): ...
        """
        from edgecron.embedding.events import wants_of
        from edgecron.embedding.subscribing import EventStream

        return EventStream(wants_of(kinds, _name_of(job)), self._subscribers)

    @property
    def _subscribers(self) -> Subscribers:
        """Those who are told of runs; loaded when there are some."""
        from edgecron.embedding.subscribing import Subscribers

        with self._lock:
            if self._told is None:
                self._told = Subscribers(
                    lambda run_id: self.run(run_id).execution, clock=self._clock
                )
            return self._told


def _name_of(job: Scheduled[Any] | str | None) -> str | None:
    return job if job is None or isinstance(job, str) else job.name
