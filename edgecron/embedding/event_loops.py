"""Event loops of coroutines, and calls from them.

Coroutine jobs run on the program's loop within `async with`, else on a loop of our own. A call from
a coroutine runs on a thread beside its event loop, or waits only briefly on the loop.

asyncio takes 30 ms and 11 MB to load: a program without coroutines does not load it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Loops:
    """Finds the loop of coroutine jobs. Our own loop starts with the first coroutine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: AbstractEventLoop | None = None
        self._own: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def use(self, loop: AbstractEventLoop | None) -> None:
        """Run new coroutines on this loop; None is a loop of our own."""
        self._loop = loop

    def find(self) -> AbstractEventLoop:
        if self._loop is not None:
            return self._loop
        with self._lock:
            if self._own is None:
                import asyncio

                self._own = asyncio.new_event_loop()
                # Daemon: a coroutine that blocks must not keep the interpreter from ending.
                self._thread = threading.Thread(
                    target=self._own.run_forever, name="edgecron-asyncio", daemon=True
                )
                self._thread.start()
            return self._own

    def is_here(self) -> bool:
        """Report whether this thread runs the program's loop, or our own."""
        loops = self._loop, self._own
        if loops == (None, None):
            return False
        import asyncio

        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return running in loops

    def close(self, *, wait_s: float) -> None:
        """End our own loop, and wait up to `wait_s` for its thread."""
        with self._lock:
            own, thread, self._own, self._thread = self._own, self._thread, None, None
        if own is None or thread is None:
            return
        own.call_soon_threadsafe(own.stop)
        thread.join(wait_s)
        if not thread.is_alive():
            own.close()

    def reset_in_child(self) -> None:
        """Forget the loops, in a forked child."""
        self._lock = threading.Lock()
        self._loop = self._own = self._thread = None


P = ParamSpec("P")
R = TypeVar("R")

MOST_WAIT_S = 0.1  # for another's lock, on the thread of an event loop
AWAIT_HINT = (
    "in a coroutine, use the async form of the call: await job.arun_now(), job.apause(), ..."
)


def is_on_loop() -> bool:
    """Report whether this thread runs an event loop now, which a wait would freeze."""
    # Without asyncio there is no loop. A module that another thread is still loading is listed
    # already, without its names.
    running = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    return running is not None and running() is not None


async def beside(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function on a thread beside the loop.

    If the await is cancelled, the call continues and can take effect.
    """
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)
