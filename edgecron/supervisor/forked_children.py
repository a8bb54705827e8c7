"""Close locks and links in each child that this process forks.

A program with an engine can fork at any time, as multiprocessing does. A child that kept a lock and
outlived the program would make the engine look alive, and no other engine would take over its runs.
"""

from __future__ import annotations

import os
from _weakrefset import WeakSet  # of `weakref`, which is 80 KB
from typing import Protocol


class Closing(Protocol):
    def close_in_child(self) -> None:
        """Close the descriptors in the child, and send nothing."""


_CLOSING: WeakSet[Closing] = WeakSet()


def close_in_children(one: Closing) -> None:
    """Have an object close its descriptors in each child that is forked from now on."""
    _CLOSING.add(one)


def _close_all() -> None:
    for one in list(_CLOSING):
        one.close_in_child()
    _CLOSING.clear()


os.register_at_fork(after_in_child=_close_all)
