"""Wait for the lock that another connection has: SQLite's busy handler."""

from __future__ import annotations

import os
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LONG_TRIES = 800  # about a second, with what each nap takes beside its millisecond
_on_long_wait: list[Callable[[Path], object]] = []  # at most one: the command line's
# The threads of this process that wait to write, by the path of the database.
_waiting: dict[Path, deque[LockType]] = {}


def tell_long_waits(tell: Callable[[Path], object]) -> None:
    """Call this when another connection's lock was waited for during about a second."""
    _on_long_wait[:] = [tell]


def wait_for_writer(waiting: deque[LockType], seconds: float) -> None:
    """Wait until another thread calls `wake_writer`, or so long."""
    bell = allocate_lock()
    bell.acquire()
    waiting.append(bell)
    bell.acquire(timeout=seconds)
    with suppress(ValueError):  # It was woken.
        waiting.remove(bell)


def wake_writer(waiting: deque[LockType]) -> None:
    """Wake the thread that has waited longest, if any."""
    with suppress(IndexError):
        waiting.popleft().release()


class BusyWait:
    """SQLite's busy handler of one connection.

    `waits` counts the naps; `failures` counts the locks that were found taken and are not recorded
    in the database yet.
    """

    def __init__(self, path: Path, *, most_s: float) -> None:
        self.waits = 0
        self.failures = 0
        self._path = path
        self.waiting = _waiting.setdefault(path, deque())
        self.wait_at_most(most_s)

    def wait_at_most(self, most_s: float) -> None:
        """Wait up to so long for each lock from now on; 0 does not wait."""
        self._tries = round(most_s * 1000)

    @contextmanager
    def waiting_at_most(self, most_s: float) -> Iterator[None]:
        """Wait up to so long for each lock within the block."""
        tries = self._tries
        self.wait_at_most(most_s)
        try:
            yield
        finally:
            self._tries = tries

    def nap(self, tries_before: int) -> bool:
        """Wait a moment; False to give up."""
        if tries_before >= self._tries:
            return False
        self.failures += tries_before == 0
        self.waits += 1
        if tries_before == _LONG_TRIES:
            for tell in _on_long_wait:
                tell(self._path)
        # A constant, slightly random nap. SQLite's own back-off gives one of eight processes nearly
        # all turns (measured), because whoever waited longest sleeps longest. A writer of this
        # process ends it: an engine and the threads that enqueue then lose no time.
        wait_for_writer(self.waiting, 0.0005 + os.urandom(1)[0] / 256_000)
        return True
