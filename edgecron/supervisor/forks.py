"""What a child that this process forks must not hold: locks and links live on in it.

A program that an engine is part of may fork at any time, as multiprocessing does. Were the child to
outlive it, the engine would look alive for as long, and nobody would take over what it left.
"""

from __future__ import annotations

import os
from _weakrefset import WeakSet  # of `weakref`, all of which is 80 KB
from typing import Protocol


class Held(Protocol):
    def leave_to_parent(self) -> None:
        """Close the descriptors, in the child, without a word to anybody."""


_HELD: WeakSet[Held] = WeakSet()


def leave_in_children(held: Held) -> None:
    """Have it left to this process by each child that is forked from now on."""
    _HELD.add(held)


def _leave_all() -> None:
    for held in list(_HELD):
        held.leave_to_parent()
    _HELD.clear()


os.register_at_fork(after_in_child=_leave_all)
