"""Turns: who of the threads of a process writes next to a database.

SQLite only says that somebody writes, and whoever asks again naps for a millisecond in between:
two of three runs that a program asked for one after the other had to (measured). Threads that wait
for each other here go on at once.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _thread import LockType

    from edgecron.store.forks import Identity

# By process, since a fork copies those that its parent holds. A few bytes for each file.
_turns: dict[tuple[int, Identity], LockType] = {}


def turn_of(identity: Identity | None) -> LockType:
    """The lock of those in this process who write to a file; its own where that has no name."""
    if identity is None:
        return allocate_lock()
    return _turns.setdefault((os.getpid(), identity), allocate_lock())
