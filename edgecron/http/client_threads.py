"""The server's threads, each with its own Client: workers, a watch of changes, streams of outputs.

A worker starts when there is a task, and ends when it was idle for a while: an idle server has no
thread and no open database. The output of a run is streamed as server-sent events:

    id: 1042
    event: output
    data: {"stream":"stdout","at":"2026-11-20T08:00:00.250Z","dropped_bytes":0,"text":"copied\\n"}

`status` comes first and with each change, `end` last; both hold the run. `failure` holds an error,
if the database becomes unusable. The id is the number of bytes that the run had printed by then, on
both streams. A client that reconnects with Last-Event-ID continues there, and gets 204 after the
end. `dropped_bytes` is the number of bytes before a chunk that were not kept.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgecron.base.errors import DatabaseUnusable, EdgecronError
from edgecron.client.record_forms import chunk_fields
from edgecron.http.access import Limits
from edgecron.http.messages import error_answer, json_bytes, overloaded
from edgecron.http.schedules import shown_runs
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.client.following import LocalFollower, Piece


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
    if not client.is_there():
        raise DatabaseUnusable(
            f"there is no database {client.place}",
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


EVENTS = "text/event-stream"
END = "end"  # the id of the last event
_COMMENT = b": still here\n\n"


class Streams:
    """The open streams, a bounded number. `close` ends them all."""

    def __init__(self, opened: Opened, limits: Limits) -> None:
        self._opened = opened
        self._limits = limits
        self._lock = threading.Lock()
        self._open: set[RunStream] = set()
        self._is_closed = False

    def open(self, execution_id: int, *, position: int) -> RunStream:
        """Open the stream of a run from a position. Raises Refused if there are too many."""
        with self._lock:
            if self._is_closed:
                raise overloaded("the server is stopping")
            if len(self._open) >= self._limits.streams:
                raise overloaded(f"{self._limits.streams} streams are open already")
            stream = RunStream(
                self._opened,
                execution_id,
                position=position,
                keep_alive_ms=round(self._limits.keep_alive_s * 1000),
                closed=self._open.discard,
            )
            self._open.add(stream)
            return stream

    def close(self) -> None:
        """End all streams and join their threads."""
        with self._lock:
            self._is_closed = True
            left = list(self._open)
        for stream in left:
            stream.wake()
        for stream in left:
            stream.join()


class RunStream:
    """The events of one run, in batches. `wake` ends it, from any thread."""

    def __init__(
        self,
        opened: Opened,
        execution_id: int,
        *,
        position: int,
        keep_alive_ms: int,
        closed: Callable[[RunStream], object],
    ) -> None:
        self._opened = opened
        self._execution_id = execution_id
        self._position = position
        self._keep_alive_ms = keep_alive_ms
        self._closed = closed
        self._told: Status | None = None
        self._has_ended = False
        self._client: Client | None = None
        self._follower: LocalFollower | None = None
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()
        self._is_woken = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edgecron-http-stream")

    async def begin(self) -> None:
        """Find the run. Raises NotFound."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._begin)

    async def batch(self) -> bytes | None:
        """Return the next events, or a comment if there were none for a while; None after the end.

        If the database becomes unusable, that is the last event.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._batch_or_error)

    def wake(self) -> None:
        """End the stream immediately. Harmless if it has ended."""
        with self._lock:
            if not self._is_woken:
                self._is_woken = True
                os.close(self._end)  # The other end is readable from now on.

    def close(self) -> None:
        """End the stream; its thread closes the database a moment later."""
        self.wake()
        with suppress(RuntimeError):  # It was closed before.
            self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def join(self) -> None:
        """Wait for its thread."""
        self.close()
        self._thread.shutdown(wait=True)

    def _begin(self) -> None:
        self._client = self._opened()
        need_database(self._client)
        self._client.execution(self._execution_id)
        self._follower = self._client.follower(self._execution_id, position=self._position)

    def _batch_or_error(self) -> bytes | None:
        try:
            return self._batch()
        except EdgecronError as error:
            self._has_ended = True
            return b"event: failure\ndata: %s\n\n" % error_answer(error).body

    def _batch(self) -> bytes | None:
        assert self._client is not None
        assert self._follower is not None
        client, follower = self._client, self._follower
        until_ms = client.clock.monotonic_ms() + self._keep_alive_ms
        while not (self._has_ended or self._is_woken):
            run = client.execution(self._execution_id)
            events = b"".join(self._events(client, follower, run))
            if events:
                return events
            if client.clock.monotonic_ms() >= until_ms:
                return _COMMENT
            if follower.is_due_for_check and run.status is Status.RUNNING:
                client.take_over()  # There may be no engine to record its end.
            due_s = (run.due_at - client.now()).total_seconds()
            follower.wait([self._ended], until_s=due_s if run.status is Status.QUEUED else 0.0)
        return None

    def _events(self, client: Client, follower: LocalFollower, run: Execution) -> Iterator[bytes]:
        """Yield what is new of a run."""
        is_active = run.status in ACTIVE
        if is_active and run.status is not self._told:
            yield _event("status", _shown(client, run), position=self._position)
        self._told = run.status
        yield from self._output(follower.read(run) if is_active else follower.read_stored())
        if not is_active:
            self._has_ended = True
            yield _event(END, _shown(client, run), position=END)

    def _output(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        for dropped_bytes, chunk in pieces:
            self._position += dropped_bytes + len(chunk.content)
            shown = chunk_fields(chunk) | {"dropped_bytes": dropped_bytes}
            yield _event("output", shown, position=self._position)

    def _close(self) -> None:
        if self._follower is not None:
            self._follower.close()
        if self._client is not None:
            self._client.close()
        os.close(self._ended)
        self._closed(self)


def _shown(client: Client, run: Execution) -> dict[str, Any]:
    [shown] = shown_runs(client, [run])
    return shown


def _event(name: str, content: object, *, position: int | str) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        str(position).encode(),
        name.encode(),
        json_bytes(content),
    )


_HEADERS = (
    (b"content-type", EVENTS.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would buffer it
)


class EventsResponse(Response):
    """Send a stream, and close it when it ends or its client disconnects."""

    def __init__(self, stream: RunStream) -> None:
        super().__init__()
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_wait_until_gone(receive))
        gone.add_done_callback(lambda _: self._stream.wake())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
            # A HEAD has no body.
            while scope["method"] != "HEAD" and (events := await self._stream.batch()) is not None:
                await send({"type": "http.response.body", "body": events, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._stream.close()


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
