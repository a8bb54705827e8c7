"""Database connections for the threads of a program, and what a forked child begins anew.

A server that forks workers (gunicorn, uwsgi, multiprocessing) may have used a Scheduler before the
fork. The child finds the Scheduler as if it were new: not started, with nothing open.

A fork waits until engines rest. A thread that loads a module, or holds another lock of Python's,
does not exist in the child and never releases it there: the child would wait forever.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import RLock
from _weakrefset import WeakSet  # of `weakref`, all of which is 80 KB
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from edgecron.base.errors import DatabaseBusy
from edgecron.embedding.event_loops import AWAIT_HINT, MOST_WAIT_S, is_on_loop

if TYPE_CHECKING:
    from logging import Logger

    from edgecron.client import Client


_KEPT = 4  # so many wait for their next use


class ClientPool:
    """Lends Clients of one database. `opened` makes one; the file is opened when it is used.

    A fork leaves the parent's to the parent: see `forget`.
    """

    def __init__(self, opened: Callable[[], Client]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._idle: list[Client] = []

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A Client of this thread's own, for as long as the block lasts.

        On the thread of an event loop it waits only a moment for another's lock.
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
            # Whatever state it is in: the next one begins with a new one.
            client.close()
            if isinstance(error, DatabaseBusy) and is_on_loop():
                raise DatabaseBusy(error.message, hint=AWAIT_HINT) from error
            raise
        with self._lock:
            # Not where all were closed, or left to our parent, meanwhile.
            is_kept = lent_by is self._idle and len(lent_by) < _KEPT
            if is_kept:
                self._idle.append(client)
        if not is_kept:
            client.close()

    def close(self) -> None:
        """Close those that nobody uses; the next use opens the database anew."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def forget(self) -> None:
        """In a child that was forked: what the parent has open stays the parent's."""
        self._lock = threading.Lock()
        self._idle = []


_PATIENCE_S = 5.0  # a fork waits so long for an engine to rest


class Forked(Protocol):
    def begin_anew(self) -> None:
        """In the child: forget threads and connections, without a word to anybody."""


class Resting(Protocol):
    awake: RLock  # held by the thread of an engine but while it sleeps


_KNOWN: WeakSet[Forked] = WeakSet()
_RESTING: WeakSet[Resting] = WeakSet()
_registered: list[bool] = []  # each time that forks were told of us: whether logging was there
_held: list[RLock] = []  # as long as a fork goes on


def begin_anew_in_children(one: Forked) -> None:
    """Have it begin anew in each child that is forked from now on."""
    _KNOWN.add(one)


def wait_for_rest(one: Resting) -> None:
    """Have each fork from now on wait until it rests."""
    if not _registered:
        _register()
    _RESTING.add(one)


def engine_logger() -> Logger:
    """The log of engines within a program; loaded when there is something to tell.

    What is awake may log: its locks are to be taken after ours, by who forks. Of what is
    registered for that, the latest comes first.
    """
    from logging import getLogger

    if _registered and not _registered[-1]:
        _register()
    return getLogger("edgecron")


def _register() -> None:
    # Its last names are there only once its own locks are registered.
    _registered.append(hasattr(sys.modules.get("logging"), "getLogger"))
    os.register_at_fork(before=_hold, after_in_parent=_go_on, after_in_child=_forget)


def _hold() -> None:
    for one in list(_RESTING):
        if one.awake.acquire(timeout=_PATIENCE_S):
            _held.append(one.awake)


def _go_on() -> None:
    while _held:
        _held.pop().release()


def _forget() -> None:
    _go_on()
    _RESTING.clear()


def _begin_all() -> None:
    for one in list(_KNOWN):
        one.begin_anew()


os.register_at_fork(after_in_child=_begin_all)
