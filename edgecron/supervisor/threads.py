"""Worker threads that grow with what waits: one more for each that is kept busy, no more.

One thread at a time waits for work (it holds the baton). Who gets some passes the baton on before
the work is begun, so that work which blocks never keeps back what comes after it. While work is
short, the thread that has the interpreter goes from one piece to the next, and nobody is woken
or started for it: a thousand short calls take two or three threads, a thousand long ones a
thousand.
"""

from __future__ import annotations

import threading
from _queue import Empty, SimpleQueue  # `queue` has others besides, which nobody needs here
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from edgecron.base.clock import Clock

_SPARES = 8  # so many wait for work at most; who comes back to more of them ends

T = TypeVar("T")


class Workers(Generic[T]):
    """Calls `work` with each piece that is put, on threads called `name`. `work` never raises.

    No thread exists before the first piece.
    """

    def __init__(self, work: Callable[[T], object], *, name: str, clock: Clock) -> None:
        self._work = work
        self._name = name
        self._clock = clock
        self._pieces: SimpleQueue[T | None] = SimpleQueue()  # None: there will be no more
        self._baton = threading.Lock()
        self._counts = threading.Lock()
        self._spares = 0  # waiting for work, or on the way to it
        self._threads: set[threading.Thread] = set()
        self._started = 0

    @property
    def thread_count(self) -> int:
        """How many threads there are now."""
        return len(self._threads)

    def put(self, piece: T) -> None:
        """Have a piece worked on, after those that were put before it began.

        Raises RuntimeError, and nothing is put, where there is no thread and none can be started.
        """
        if not self._threads:
            self._grow()
        self._pieces.put(piece)

    def close(self, *, wait_ms: int) -> int:
        """End the threads that wait, wait so long for those that work; how many still do.

        What was put is worked on first.
        """
        self._pieces.put(None)
        until_ms = self._clock.monotonic_ms() + wait_ms
        while threads := self._listed():  # One of them may have started another meanwhile.
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            threads[0].join(left_ms / 1000)
        return len(threads)

    def _listed(self) -> list[threading.Thread]:
        with self._counts:
            return list(self._threads)

    def _grow(self) -> None:
        self._started += 1
        # Daemon: one that hangs must not keep the interpreter from its end. `close` joins.
        thread = threading.Thread(
            target=self._run, name=f"{self._name}-{self._started}", daemon=True
        )
        # Started before anybody finds it in the list: `close` can't wait for one that was not.
        with self._counts:
            thread.start()
            self._spares += 1
            self._threads.add(thread)

    def _run(self) -> None:
        try:
            while self._take_turn() and self._may_stay():
                pass
        finally:
            with self._counts:
                self._threads.discard(threading.current_thread())

    def _take_turn(self) -> bool:
        """Wait for a piece, and work on until none is left. False where there will be no more."""
        with self._baton:
            piece = self._pieces.get()
            with self._counts:
                self._spares -= 1
                is_last = not self._spares
            if is_last and piece is not None:
                # The next one waits for the baton, and so for us to be off to work. Where the
                # system has no thread left, what comes waits for one of those that there are.
                with suppress(RuntimeError):
                    self._grow()
        while piece is not None:
            self._work(piece)
            try:
                piece = self._pieces.get_nowait()
            except Empty:
                return True
        self._pieces.put(None)  # for the next one
        return False

    def _may_stay(self) -> bool:
        with self._counts:
            if self._spares >= _SPARES:
                return False
            self._spares += 1
            return True
