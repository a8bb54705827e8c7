"""The event loop of coroutines on a journey: `await asyncio.sleep(60)` takes a minute of its time.

Coroutines go on side by side, as they would. What is given to a thread (`asyncio.to_thread`) is
done at once, here; what waits for a socket or a pipe has a second of real time to come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from selectors import DefaultSelector, SelectorKey
from typing import Any

from edgecron.base.clock import Clock

_REAL_S = 1.0


class JourneyLoop(asyncio.SelectorEventLoop):
    """Runs until nothing can be done before time passes: see `drive`."""

    def __init__(self, clock: Clock) -> None:
        self._journey_clock = clock
        self.wait_s: float | None = None  # what it would wait for, None where that is nothing
        super().__init__(_Selector(self._hold))

    def time(self) -> float:
        return self._journey_clock.monotonic_ms() / 1000

    @property
    def wait_ms(self) -> int | None:
        """So long until there is something to do; None where nothing is to come by itself."""
        return None if self.wait_s is None else ceil(self.wait_s * 1000)

    def drive(self) -> None:
        """Do all that can be done now. Also where another loop of this thread is running."""
        outer = asyncio._get_running_loop()
        task = None if outer is None else asyncio.current_task(outer)
        if outer is not None and task is not None:
            # From Python 3.14 on a thread has one task that goes on, and not each of its loops.
            asyncio.tasks._leave_task(outer, task)
        asyncio._set_running_loop(None)
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and task is not None:
                asyncio.tasks._enter_task(outer, task)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  it is who awaits it whom it concerns
            future.set_exception(error)
        return future

    def _hold(self, timeout_s: float | None) -> None:
        self.wait_s = timeout_s
        self.stop()


class _Selector(DefaultSelector):
    """Does not wait for time. `hold` is called where there is nothing else to wait for."""

    def __init__(self, hold: Callable[[float | None], object]) -> None:
        super().__init__()
        self._hold = hold

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if len(self.get_map()) > 1:  # besides the one that wakes the loop
            ready = super().select(_REAL_S if timeout is None else min(timeout, _REAL_S))
        if not ready:
            self._hold(timeout)
        return ready
