"""Queue the writers of a database: threads of this process, and other processes.

SQLite only reports that somebody writes, so a waiting process naps for a millisecond and asks
again. Two of three runs that a program queued in a row had to nap (measured). Threads of one
process therefore wait for each other here, without naps.
"""

from __future__ import annotations

import os
import time
from _thread import RLock  # what `threading` gives, which takes 1 ms to load
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.store.sqlite.sqlite_errors import busy

if TYPE_CHECKING:
    from edgecron.store.sqlite.forks import Identity

_TURN_MS = 100  # somebody may want to know that we still wait
_LONG_TRIES = 800  # about a second, with what each nap takes beside its millisecond
_turns: dict[Identity, RLock] = {}  # a few bytes for each file
_tell_wait: list[Callable[[Path], object]] = []  # at most one: the command line's


def tell_long_waits(tell: Callable[[Path], object]) -> None:
    """Have this called once another process's lock was waited for about a second."""
    _tell_wait[:] = [tell]


class WriterQueue:
    """The waits of one connection for others who write, up to `most_s` each.

    `waits` is how often one of them was waited for, some milliseconds each time; `failures` how
    often another's lock was found, and not put down yet.
    """

    def __init__(self, path: Path, identity: Identity | None, *, most_s: float) -> None:
        self.waits = 0
        self.failures = 0
        self._path = path
        self.wait_at_most(most_s)
        # Its own where the file has no name.
        self._lock = RLock() if identity is None else _turns.setdefault(identity, RLock())

    def wait_at_most(self, most_s: float) -> None:
        """Wait so long from now on."""
        self._tries = max(1, round(most_s * 1000))

    @contextmanager
    def waiting_at_most(self, most_s: float) -> Iterator[None]:
        """Wait so long, within."""
        tries = self._tries
        self.wait_at_most(most_s)
        try:
            yield
        finally:
            self._tries = tries

    def nap(self, tries_before: int) -> bool:
        """SQLite's busy handler: wait a moment for another process; False to give up."""
        # A constant, slightly random nap: SQLite's own back-off gives one of eight processes
        # nearly all of the turns (measured), because whoever waited longest sleeps longest.
        if self._tries == 0:
            return False
        self.failures += tries_before == 0
        if tries_before >= self._tries:
            return False
        self.waits += 1
        if tries_before == _LONG_TRIES:
            for tell in _tell_wait:
                tell(self._path)
        from random import random  # nearly nobody has to wait

        time.sleep(0.0005 + random() * 0.001)
        return True

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Be the one of our process who writes. Raises DatabaseBusy where others keep on."""
        if not self._lock.acquire(blocking=False):
            self._wait()
        try:
            yield
        finally:
            self.give_away()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Give up at once, within, where somebody else writes; it is not counted either."""
        tries, self._tries = self._tries, 0
        try:
            yield
        finally:
            self._tries = tries

    def give_away(self) -> None:
        """Let others have their turn, where it is this thread's.

        An exception from outside, as Ctrl-C raises, may come when it is taken and nobody knows it
        yet: who then closes the connection gives it away.
        """
        with suppress(RuntimeError):  # It is not ours.
            self._lock.release()

    def _wait(self) -> None:
        self.failures += self._tries > 0
        for _ in range(0, self._tries, _TURN_MS):
            self.waits += 1
            if self._lock.acquire(timeout=_TURN_MS / 1000):
                return
        raise busy(self._path)


# A fork copies those that other threads of the parent hold.
os.register_at_fork(after_in_child=_turns.clear)
