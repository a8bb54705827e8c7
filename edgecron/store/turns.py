"""Turns: who of the threads of a process writes next to a database.

SQLite only says that somebody writes, and whoever asks again naps for a millisecond in between:
two of three runs that a program asked for one after the other had to (measured). Threads that wait
for each other here go on at once.
"""

from __future__ import annotations

import os
from _thread import RLock
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.store.forks import Identity

_turns: dict[Identity, RLock] = {}  # a few bytes for each file


def turn_of(identity: Identity | None) -> RLock:
    """The lock of those in this process who write to a file; its own where that has no name."""
    return RLock() if identity is None else _turns.setdefault(identity, RLock())


def give_away(turn: RLock) -> None:
    """Let others have their turn, where it is this thread's.

    An exception from outside, as Ctrl-C raises, may come when it is taken and nobody knows it yet:
    who then closes the connection gives it away.
    """
    with suppress(RuntimeError):  # It is not ours.
        turn.release()


# A fork copies those that other threads of the parent hold.
os.register_at_fork(after_in_child=_turns.clear)
