"""Waiting for a run on a journey: time passes, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.units import from_ms
from edgecron.embedding.waiting import Waits
from edgecron.model.choices import ACTIVE, Status

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.embedding.pool import ClientPool
    from edgecron.model.run import Execution

Move = Callable[[int | None], bool]  # to the next event, before an instant; False where none is


class JourneyWaits(Waits):
    """`move` goes on to what happens next."""

    def __init__(self, pool: ClientPool, *, clock: Clock, move: Move) -> None:
        super().__init__(pool, clock=clock)
        self._pool = pool
        self._clock = clock
        self._move = move

    def wait(self, execution: Execution, *, timeout_s: float | None) -> Execution:
        """Let time pass until a run has ended. Raises TimeoutError where nothing ends it."""
        until_ms = None if timeout_s is None else self._clock.now_ms() + round(timeout_s * 1000)
        while True:
            can_move = self._move(until_ms)
            execution = self.look(execution)
            if execution.status not in ACTIVE:
                return execution
            if not can_move:
                raise TimeoutError(
                    f"run {execution.id} of {execution.schedule!r} is {execution.status} at"
                    f" {from_ms(self._clock.now_ms())}, and nothing that is to come ends it"
                )

    async def wait_async(self, execution: Execution) -> Execution:
        return self.wait(execution, timeout_s=None)

    def cancel(self, execution_id: int) -> Execution:
        with self._pool.client() as client:
            if client.execution(execution_id).status is not Status.RUNNING:
                return client.cancel(execution_id)
            client.store.request_cancel(execution_id, now_ms=self._clock.now_ms())
            return client.execution(execution_id)
