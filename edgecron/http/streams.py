"""Stream the output of a run as server-sent events, each stream on its own thread.

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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgecron.base.errors import EdgecronError
from edgecron.client.record_forms import chunk_fields
from edgecron.http.access import Limits
from edgecron.http.answer_objects import shown_runs
from edgecron.http.messages import error_answer, json_bytes, overloaded
from edgecron.http.workers import Opened, need_database
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.client.following import LocalFollower, Piece


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
