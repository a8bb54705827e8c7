"""What a child that a program forks begins anew: connections, and an engine of its own.

A server that forks workers (gunicorn, uwsgi, multiprocessing) may have used a Scheduler before it
did. The child finds it as if it had just been made: not started, with nothing open.

A fork waits until engines rest. A thread that is loading a module, or that holds any other lock of
Python's, is not there to let go of it in the child, which would wait for ever.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock
from _weakrefset import WeakSet  # of `weakref`, all of which is 80 KB
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from logging import Logger

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
