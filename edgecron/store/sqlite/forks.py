"""Protect open databases from a fork: none is in use meanwhile, and the child closes its copies.

SQLite keeps in memory which locks a process has on a file. A forked child believes that these locks
are its own, although the kernel gave them to the parent. If it opened the file again, it would
share that memory. It would then read and write without locks, or wait forever for a transaction of
its parent (both measured).
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Protocol
from weakref import WeakSet

Identity = tuple[int, int]  # device and inode

_MOST_WAIT_S = 5.0  # that a fork waits for each connection in use


class Forked(Protocol):
    """A connection that can be open when the process forks."""

    in_use: RLock  # held by the thread that is in SQLite or in a transaction
    identity: Identity | None  # of its file

    def leave_to_parent(self) -> bool:
        """Close it in the child, without changing a file; False if that is impossible."""


# Held by a thread while it imports the store: a child that is forked during the import would wait
# forever for it.
loading = RLock()
_changing = RLock()
_known: WeakSet[Forked] = WeakSet()
_held: list[RLock] = []  # during a fork
_quiet: list[Forked] = []
_busy: list[Forked] = []
_spoiled: set[Identity | None] = set()


def close_in_children(one: Forked) -> None:
    """Close this connection in each child that is forked from now on. Call before opening it."""
    with _changing:
        _known.add(one)


def is_spoiled(identity: Identity | None) -> bool:
    """Whether this process was forked while the file was in use: then it can't open the file."""
    return identity in _spoiled


def _hold_all() -> None:
    _hold(_changing)
    for one in list(_known):
        (_quiet if _hold(one.in_use) else _busy).append(one)
    # Last: a thread that has a connection in use can import a module.
    _hold(loading)


def _hold(lock: RLock) -> bool:
    is_held = lock.acquire(timeout=_MOST_WAIT_S)
    if is_held:
        _held.append(lock)
    return is_held


def _release_in_parent() -> None:
    _quiet.clear()
    _busy.clear()
    while _held:
        _held.pop().release()


def _reset_in_child() -> None:
    _spoiled.update(one.identity for one in _busy)
    _spoiled.update(one.identity for one in _quiet if not one.leave_to_parent())
    _known.clear()
    _release_in_parent()


os.register_at_fork(
    before=_hold_all, after_in_parent=_release_in_parent, after_in_child=_reset_in_child
)
