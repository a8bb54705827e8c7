"""Waiting for the end of a run: told by an engine of this process, else by looking now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict
from edgecron.model.choices import ACTIVE

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.embedding.pool import ClientPool
    from edgecron.engine.events import Event
    from edgecron.model.claim import Output, OutputChunk
    from edgecron.model.run import Execution

# Between two looks at a run that another process may end: what is short is seen soon, and what
# takes long costs little.
_FIRST_PAUSE_S = 0.01
_LAST_PAUSE_S = 0.5


class Waits:
    """Those who wait for runs of a program. `note` is told what its engine did.

    `holds_up` tells whether this thread can't wait without holding up the program's coroutines.
    """

    def __init__(
        self, pool: ClientPool, *, clock: Clock, holds_up: Callable[[], bool] = lambda: False
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._holds_up = holds_up
        self._lock = threading.Lock()
        self._wakers: dict[int, list[Callable[[], object]]] = {}

    def begin_anew(self) -> None:
        """In a forked child: nobody waits."""
        self._lock = threading.Lock()
        self._wakers = {}

    def note(self, event: Event) -> None:
        """Wake those who wait for the run that an event is about."""
        if event.execution_id in self._wakers:
            with self._lock:
                wakers = list(self._wakers.get(event.execution_id, ()))
            for wake in wakers:
                wake()

    def execution(self, execution_id: int) -> Execution:
        """A run as it is now."""
        with self._pool.client() as client:
            return client.execution(execution_id)

    def look(self, execution: Execution) -> Execution:
        """A run as it is now, or the attempt that has followed it."""
        with self._pool.client() as client:
            while True:
                execution = client.execution(execution.id)
                following = None
                if execution.status not in ACTIVE:
                    following = client.next_attempt(execution)
                if following is None:
                    return execution
                execution = following

    def wait(self, execution: Execution, *, timeout_s: float | None) -> Execution:
        """The last attempt of a run's fire, when it has ended.

        Raises TimeoutError, and Conflict where it would wait for what can't go on meanwhile.
        """
        until_ms = None if timeout_s is None else self._clock.monotonic_ms() + timeout_s * 1000
        pause_s = _FIRST_PAUSE_S
        while True:
            woken = threading.Event()
            with self._waiting(execution.id, woken.set):
                known_id, execution = execution.id, self.look(execution)
                if execution.status not in ACTIVE:
                    return execution
                if execution.id != known_id:
                    pause_s = _FIRST_PAUSE_S
                    continue  # A retry: it is that one whose end is waited for.
                left_s = pause_s
                if until_ms is not None:
                    left_s = (until_ms - self._clock.monotonic_ms()) / 1000
                    if left_s <= 0:
                        raise TimeoutError(
                            f"run {execution.id} of {execution.schedule!r} is"
                            f" {execution.status} after {timeout_s:g} s"
                        )
                if self._holds_up():
                    raise Conflict(
                        f"run {execution.id} of {execution.schedule!r} is {execution.status}, and"
                        " to wait for it here would hold up the event loop that it may need",
                        hint="await it instead: await run",
                    )
                woken.wait(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LAST_PAUSE_S)

    async def wait_async(self, execution: Execution) -> Execution:
        """The same, without holding up the event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        while True:
            woken = asyncio.Event()

            def wake(woken: asyncio.Event = woken) -> None:
                with suppress(RuntimeError):  # It was closed: nobody waits there any more.
                    loop.call_soon_threadsafe(woken.set)

            with self._waiting(execution.id, wake):
                known_id = execution.id
                execution = await asyncio.to_thread(self.look, execution)
                if execution.status not in ACTIVE:
                    return execution
                if execution.id != known_id:
                    pause_s = _FIRST_PAUSE_S
                    continue
                try:
                    await asyncio.wait_for(woken.wait(), pause_s)
                except TimeoutError:
                    pause_s = min(pause_s * 1.5, _LAST_PAUSE_S)

    @contextmanager
    def _waiting(self, execution_id: int, wake: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            self._wakers.setdefault(execution_id, []).append(wake)
        try:
            yield
        finally:
            with self._lock:
                wakers = self._wakers[execution_id]
                wakers.remove(wake)
                if not wakers:
                    del self._wakers[execution_id]

    def cancel(self, execution_id: int) -> Execution:
        with self._pool.client() as client:
            return client.cancel(execution_id)

    def output(self, execution_id: int) -> Output | None:
        with self._pool.client() as client:
            return client.output(execution_id)

    def chunks(self, execution: Execution) -> Sequence[OutputChunk]:
        """What a run has printed so far, as far as it is kept."""
        with self._pool.client() as client:
            stored = client.output(execution.id)
            if stored is not None:
                return stored.chunks
            return client.output_so_far(execution) if execution.status in ACTIVE else ()
