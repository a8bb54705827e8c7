"""Forks of this process: its open files and threads in the child.

A program with an engine can fork at any time, as multiprocessing does. A child that kept a lock and
outlived the program would make the engine look alive, and no other engine would take over its runs.

SQLite keeps in memory which locks a process has on a file. A forked child believes that these locks
are its own, although the kernel gave them to the parent. If it opened the file again, it would
share that memory. It would then read and write without locks, or wait forever for a transaction of
its parent (both measured).
"""

from __future__ import annotations

import os
from _thread import RLock
from _weakrefset import WeakSet  # of `weakref`, which is 80 KB
from typing import Protocol

_MOST_WAIT_S = 5.0  # that a fork waits for each object in use


class Forked(Protocol):
    def reset_in_child(self) -> None:
        """Close or forget, in the child, what belongs to the parent."""


class Held(Protocol):
    """An object that no other thread should use during a fork."""

    in_use: RLock  # held by the thread that uses it

    def reset_in_child(self, *, was_in_use: bool) -> None:
        """Close or forget, in the child, what belongs to the parent.

        `was_in_use`: another thread used it for longer than the fork waited.
        """


# Held by a thread while it imports the store: a child that is forked during the import would wait
# forever for it.
loading = RLock()
_changing = RLock()
_forked: WeakSet[Forked] = WeakSet()
_known: WeakSet[Held] = WeakSet()
_locks: list[RLock] = []  # that a fork holds
_held: list[tuple[Held, bool]] = []  # during a fork, with whether another thread uses it


def reset_in_children(one: Forked) -> None:
    """Call its `reset_in_child` in each child that is forked from now on."""
    with _changing:
        _forked.add(one)


def hold_in_forks(one: Held) -> None:
    """Hold its lock during each fork from now on, and reset it in the child."""
    with _changing:
        _known.add(one)


def _hold_all() -> None:
    _hold(_changing)
    for one in list(_known):
        is_held = _hold(one.in_use)
        _held.append((one, not is_held))
    # Last: a thread that has a connection in use can import a module.
    _hold(loading)


def _hold(lock: RLock) -> bool:
    is_held = lock.acquire(timeout=_MOST_WAIT_S)
    if is_held:
        _locks.append(lock)
    return is_held


def _release_in_parent() -> None:
    _held.clear()
    while _locks:
        _locks.pop().release()


def _reset_in_child() -> None:
    for one, was_in_use in _held:
        one.reset_in_child(was_in_use=was_in_use)
    _known.clear()
    for each in list(_forked):
        each.reset_in_child()
    _release_in_parent()


os.register_at_fork(
    before=_hold_all, after_in_parent=_release_in_parent, after_in_child=_reset_in_child
)
