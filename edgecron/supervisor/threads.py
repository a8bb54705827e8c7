"""Worker threads: as many as are busy, and one more that waits for work.

A thread that takes the last waiting thread's place starts another one before it works, so that work
that blocks never delays other work. Short work is done by a few threads: a thread of its own takes
40 microseconds more for each call. For the same reason, at most one sleeping thread is woken at a
time. It wakes the next one before it works, if pieces are left.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Generic, TypeVar

from edgecron.base.clock import Clock

_MOST_WAITING = 8  # a thread that would wait beside that many others ends

T = TypeVar("T")


class Workers(Generic[T]):
    """Calls `work` with each piece, on threads called `name`. `work` never raises.

    The first thread starts with the first piece.
    """

    def __init__(self, work: Callable[[T], object], *, name: str, clock: Clock) -> None:
        self._work = work
        self._name = name
        self._clock = clock
        self._lock = threading.RLock()  # guards everything below
        # `with` takes the lock itself: through its condition, that takes twice as long.
        self._changed = threading.Condition(self._lock)
        self._pieces: deque[T] = deque()
        self._threads: set[threading.Thread] = set()
        self._waiting = 0  # threads that wait for a piece, or are on their way to it
        self._sleeping = 0  # threads that wait and were not woken
        self._is_coming = False  # a woken thread is on its way
        self._started = 0
        self._is_closed = False

    def put(self, pieces: Collection[T]) -> None:
        """Have pieces worked on, after all earlier pieces were begun.

        Raises RuntimeError if there is no thread and none can be started.
        """
        if not pieces:
            return
        with self._lock:
            if not self._threads:
                self._start_thread()
            self._pieces.extend(pieces)
            self._wake_one()

    def close(self, *, wait_ms: int) -> int:
        """Finish all pieces, end the threads, and wait for them.

        Returns the number of threads that are still busy after `wait_ms`.
        """
        with self._lock:
            self._is_closed = True
            self._sleeping = 0
            self._changed.notify_all()
        until_ms = self._clock.monotonic_ms() + wait_ms
        while threads := self._list_threads():  # a thread can have started another one
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            threads[0].join(left_ms / 1000)
        return len(threads)

    def _list_threads(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._threads)

    def _start_thread(self) -> None:
        self._started += 1
        # A daemon: a call that hangs must not keep the interpreter from its end. `close` joins.
        thread = threading.Thread(
            target=self._run, name=f"{self._name}-{self._started}", daemon=True
        )
        thread.start()
        self._waiting += 1
        self._threads.add(thread)

    def _run(self) -> None:
        try:
            piece = self._wait_for_piece()
            while piece is not None:
                self._work(piece)
                try:
                    # Without the lock: threads that work on short pieces would wait for each other.
                    # A thread for the remaining pieces is already on its way.
                    piece = self._pieces.popleft()
                except IndexError:
                    piece = self._wait_for_piece(has_worked=True)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _wake_one(self) -> None:
        if self._sleeping and not self._is_coming:
            self._sleeping -= 1
            self._is_coming = True
            self._changed.notify()

    def _wait_for_piece(self, *, has_worked: bool = False) -> T | None:
        """Wait for a piece. None if this thread is to end."""
        with self._lock:
            self._waiting += has_worked
            piece = self._pop()
            while piece is None and not self._is_closed and self._waiting <= _MOST_WAITING:
                self._sleeping += 1
                self._changed.wait()
                self._is_coming = False
                piece = self._pop()
            self._waiting -= 1
            if piece is None:
                return None
            if self._pieces:
                self._wake_one()
            if not self._waiting:
                # If the system has no thread left, pieces wait for one of those that exist.
                with suppress(RuntimeError):
                    self._start_thread()
            return piece

    def _pop(self) -> T | None:
        try:
            return self._pieces.popleft()
        except IndexError:
            return None
