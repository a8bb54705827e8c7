"""The threads of the server, each with its own Client: workers run handlers, one watches changes.

A worker starts when there is a task, and ends when it was idle for a while: an idle server has no
thread and no open database.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from edgecron.base.errors import DatabaseUnusable, EdgecronError
from edgecron.base.paths import is_there
from edgecron.http.messages import overloaded

if TYPE_CHECKING:
    from edgecron.client import Client


_T = TypeVar("_T")
_MOST_THREADS = 4
_MOST_WAITING = 64  # further requests get 503
_IDLE_S = 2.0
_END_S = 5.0  # longer than a handler waits for a lock
_INTERRUPT_S = 0.1

Opened = Callable[[], "Client"]
_Task = tuple[Callable[["Client"], Any], "Future[Any]"]


def need_database(client: Client) -> None:
    """Raise DatabaseUnusable if there is no database: the request is not wrong."""
    if not is_there(client.path):
        raise DatabaseUnusable(
            f"there is no database {client.path}",
            hint="check that its engine is running: edgecron daemon",
        )


class Workers:
    """A few threads that take tasks in order. `close` ends them."""

    def __init__(
        self, opened: Opened, *, most_threads: int = _MOST_THREADS, idle_s: float = _IDLE_S
    ) -> None:
        self._opened = opened
        self._idle_s = idle_s
        self._most_threads = most_threads
        self._tasks: deque[_Task] = deque()
        self._news = threading.Condition()
        self._threads: dict[threading.Thread, Client | None] = {}
        self._live = 0  # threads that still take tasks
        self._idle = 0
        self._is_closed = False

    def submit(self, task: Callable[[Client], _T]) -> Future[_T]:
        """Run a task with a Client on a thread. Raises Refused if too many tasks wait."""
        future: Future[_T] = Future()
        with self._news:
            if self._is_closed:
                raise overloaded("the server is stopping")
            if len(self._tasks) >= _MOST_WAITING:
                raise overloaded(f"{_MOST_WAITING} requests are waiting already")
            self._tasks.append((task, future))
            if self._idle < len(self._tasks) and self._live < self._most_threads:
                self._live += 1
                thread = threading.Thread(target=self._work, name="edgecron-http-worker")
                self._threads[thread] = None
                thread.start()
            else:
                self._news.notify()
        return future

    def close(self) -> None:
        """Interrupt running tasks and join the threads. Closing twice is harmless."""
        with self._news:
            self._is_closed = True
            left, self._tasks = list(self._tasks), deque()
            self._news.notify_all()
            threads = list(self._threads)
        for _, future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(overloaded("the server is stopping"))
        for thread in threads:
            for _ in range(round(_END_S / _INTERRUPT_S)):
                self._interrupt()
                thread.join(_INTERRUPT_S)
                if not thread.is_alive():
                    break

    def _interrupt(self) -> None:
        with self._news:
            clients = list(self._threads.values())
        for client in clients:
            if client is not None:
                client.interrupt()

    def _work(self) -> None:
        own = threading.current_thread()
        client: Client | None = None
        try:
            while (found := self._take()) is not None:
                task, future = found
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    if client is None:
                        client = self._threads[own] = self._opened()
                    future.set_result(task(client))
                except BaseException as error:  # noqa: BLE001 - the future raises it
                    if client is not None and isinstance(error, DatabaseUnusable):
                        client.close()  # The file or its log may have been replaced.
                    future.set_exception(error)
        finally:
            if client is not None:
                client.close()
            with self._news:
                self._threads.pop(own, None)

    def _take(self) -> _Task | None:
        """Return the next task; None if this thread is to end."""
        with self._news:
            self._idle += 1
            try:
                self._news.wait_for(lambda: self._tasks or self._is_closed, timeout=self._idle_s)
            finally:
                self._idle -= 1
            if self._tasks:
                return self._tasks.popleft()
            # Now, not after closing the database: a new task meanwhile needs another thread.
            self._live -= 1
            return None


_LOOK_S = 0.25
_MOST_LOOKS = 40  # without a request in between; then the thread ends
_BASE_BITS = 48


class ChangeWatch:
    """Checks a database from the first request until some time after the last one.

    A mark is the same for all threads of the server.
    """

    def __init__(self, opened: Callable[[], Client]) -> None:
        self._opened = opened
        self._bell = threading.Condition()
        self._thread: threading.Thread | None = None
        self._mark: int | None = None
        self._error: EdgecronError | None = None
        self._looks = 0
        self._is_closed = False

    def mark(self) -> int:
        """Return a number that changes with each commit, and after a time without checks.

        Raises what the checking Client raises.
        """
        with self._bell:
            self._looks = 0
            if self._thread is None and not self._is_closed:
                self._mark = self._error = None
                self._thread = threading.Thread(target=self._look, name="edgecron-http-watch")
                self._thread.start()
            self._bell.wait_for(
                lambda: self._mark is not None or self._error is not None or self._is_closed
            )
            if self._error is not None:
                raise self._error
            return self._mark or 0

    def close(self) -> None:
        """End the thread. Closing twice is harmless."""
        with self._bell:
            self._is_closed = True
            self._bell.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _look(self) -> None:
        try:
            with self._opened() as client:
                self._follow(client)
        except EdgecronError as error:
            with self._bell:
                self._error = error
        finally:
            with self._bell:
                self._thread = None
                self._bell.notify_all()

    def _follow(self, client: Client) -> None:
        seen = client.change_mark()
        with self._bell:
            # A mark that no client has seen: changes since the last thread are unknown.
            self._mark = int.from_bytes(os.urandom(_BASE_BITS // 8))
            self._bell.notify_all()
        while True:
            with self._bell:
                self._looks += 1
                if self._is_closed or self._looks > _MOST_LOOKS:
                    return
                self._bell.wait_for(lambda: self._is_closed, timeout=_LOOK_S)
            found = client.change_mark()
            if found != seen:
                seen = found
                with self._bell:
                    self._mark = (self._mark or 0) + 1
