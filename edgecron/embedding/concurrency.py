"""Threads, event loops and forks of a program.

Coroutine jobs run on the program's loop within `async with`, else on a loop of our own. A call from
a coroutine runs on a thread beside its event loop, or waits only briefly on the loop. asyncio takes
30 ms and 11 MB to load: a program without coroutines does not load it.

Each thread borrows a database connection.

A server that forks workers (gunicorn, uwsgi, multiprocessing) can use a Scheduler before the fork.
The child gets the Scheduler as if it were new: not started, with nothing open.

A fork waits until engines sleep. If a thread of the parent loads a module or holds a lock of
Python's, that thread does not exist in the child. It never releases the lock there: the child would
wait forever.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import RLock
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from edgecron.base.errors import DatabaseBusy

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from logging import Logger

    from edgecron.client import Client


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
S = TypeVar("S")

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


def beside_loop(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return a method for coroutines, which calls this one on a thread beside the loop."""

    @wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # By its name: a subclass can have another one.
        found: R = await beside(getattr(self, method.__name__), *args, **kwargs)
        return found

    call.__doc__ = f"`{method.__name__}`, for a coroutine."
    call.__name__ = f"a{method.__name__}"
    call.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{call.__name__}"
    return call


_KEPT = 4  # idle Clients that stay open


class ClientPool:
    """Lends Clients of one database. `opened` makes a Client, which opens the file on first use."""

    def __init__(self, opened: Callable[[], Client]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._idle: list[Client] = []

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Lend a Client to this thread while the block lasts.

        On the thread of an event loop, it waits only a moment for another process's lock.
        """
        with self._lock:
            lent_by = self._idle
            client = lent_by.pop() if lent_by else None
        client = client or self._opened()
        try:
            if is_on_loop():
                with client.waiting_at_most(MOST_WAIT_S):
                    yield client
            else:
                yield client
        except BaseException as error:
            # Its state is unknown: the next block gets a new one.
            client.close()
            if isinstance(error, DatabaseBusy) and is_on_loop():
                raise DatabaseBusy(error.message, hint=AWAIT_HINT) from error
            raise
        with self._lock:
            # Close it if the pool was closed, or left to our parent, meanwhile.
            is_kept = lent_by is self._idle and len(lent_by) < _KEPT
            if is_kept:
                self._idle.append(client)
        if not is_kept:
            client.close()

    def close(self) -> None:
        """Close the idle Clients. The next use opens the database again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def forget(self) -> None:
        """Forget the Clients without closing them, in a forked child: they are the parent's."""
        self._lock = threading.Lock()
        self._idle = []


_REST_WAIT_S = 5.0  # the wait of a fork for one engine


class Resting(Protocol):
    awake: RLock  # held by the engine's thread, except while it sleeps


_RESTING: WeakSet[Resting] = WeakSet()
_registered: list[bool] = []  # for each registration of our hooks: was logging loaded?
_held: list[RLock] = []  # during a fork


def wait_for_rest(one: Resting) -> None:
    """Make each fork from now on wait until it sleeps."""
    if not _registered:
        _register()
    _RESTING.add(one)


def engine_logger() -> Logger:
    """Return the log of engines within a program.

    An engine that is awake can log, so a fork must take our locks before those of `logging`. Of
    the hooks that run before a fork, the one that was registered last comes first.
    """
    from logging import getLogger  # 9 ms and 2.4 MB: loaded with the first line to log

    if _registered and not _registered[-1]:
        _register()
    return getLogger("edgecron")


def _register() -> None:
    # `logging` defines this name after it has registered its own hooks.
    _registered.append(hasattr(sys.modules.get("logging"), "getLogger"))
    os.register_at_fork(before=_hold, after_in_parent=_go_on, after_in_child=_forget)


def _hold() -> None:
    for one in list(_RESTING):
        if one.awake.acquire(timeout=_REST_WAIT_S):
            _held.append(one.awake)


def _go_on() -> None:
    while _held:
        _held.pop().release()


def _forget() -> None:
    _go_on()
    _RESTING.clear()
