"""The end of the interpreter: engines that still run are stopped, within a bound."""

from __future__ import annotations

import atexit
import sys
from _weakrefset import WeakSet  # of `weakref`, all of which is 80 KB
from typing import Protocol


class Stopped(Protocol):
    def stop(self, wait: float | None = None) -> bool:
        """Stop an engine, and wait for its end."""


_RUNNING: WeakSet[Stopped] = WeakSet()


def stop_at_exit(one: Stopped) -> None:
    """Have it stopped where the program, or a child of multiprocessing, ends without doing so."""
    _RUNNING.add(one)
    # Such a child ends by os._exit, with no other word than this to what is within it.
    if "multiprocessing.util" in sys.modules:
        # Imported, and not taken from there: another thread may be half through it.
        from multiprocessing.util import Finalize

        Finalize(None, _stop_all, exitpriority=100)


def _stop_all() -> None:
    for one in list(_RUNNING):
        one.stop()


atexit.register(_stop_all)
