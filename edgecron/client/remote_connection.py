"""Connections to a server over HTTP: ask, wait for news, and follow changes and runs.

A read is repeated until a server answers. A change is repeated only if the server certainly did not
receive it.
"""

from __future__ import annotations

import select
import socket
import threading
import time as system_time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import TYPE_CHECKING, Any

from edgecron import __version__
from edgecron.base.clock import ServerTime
from edgecron.base.errors import (
    EdgecronError,
    InvalidInput,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.base.units import parse_instant, to_ms
from edgecron.base.values import NamedTuple
from edgecron.client.remote_link import (
    LOOK,
    NOT_KNOWN,
    Link,
    Server,
    ServerWait,
    connection_error,
    judge,
)
from edgecron.client.resources import (
    TIME_HEADER,
    Request,
    read_answer,
    resource_types,
    write_request,
)
from edgecron.model.choices import Status

if TYPE_CHECKING:
    from edgecron.client.following import BegunRuns, Piece
    from edgecron.client.resource_functions import Begun, Printed
    from edgecron.model.run import Execution

LOST_S = 15.0  # without an answer to `begin`: the server is gone
_MOST_BODY_BYTES = 256 * 1024 * 1024
# A connection that waits for its server tries again after these pauses.
_FIRST_WAIT_S = 0.25
_LAST_WAIT_S = 5.0
# If the answer to a request with a key is lost, the request is repeated for this long.
REPEAT_MS = 15_000
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 2.0


class Connector(NamedTuple):
    """Settings of a connection to a server. `wait` None reports a lost server immediately."""

    server: Server
    token: str | None = None
    wait: ServerWait | None = None

    @property
    def place(self) -> str:
        """Where the database is, for people."""
        return self.server.url

    def open(self, time: ServerTime) -> ServerConnection:
        """Return a connection of its own. It connects with the first request."""
        return ServerConnection(self, time)


class ServerConnection:
    """One connection, kept between requests; one request at a time.

    For one thread, except `interrupt`.
    """

    def __init__(self, connector: Connector, time: ServerTime) -> None:
        self._server = connector.server
        self._token = connector.token
        self._wait = connector.wait
        self._time = time
        self._link = Link(connector.server)
        self._begun: Request | None = None
        self._begun_ms = 0
        self._may_be_heard = False  # the last request
        self._lock = threading.Lock()
        self._is_asking = False
        self._is_interrupted = False
        self._is_broken_off = threading.Event()

    def ask(self, name: str, /, **arguments: Any) -> Any:
        """Ask for a resource by its name, and return the value of its answer.

        Raises ServerUnavailable, QueryInterrupted, and the error that the server answers.
        """
        body = self._ask_and_wait(write_request(name, arguments))
        return read_answer(resource_types(name), body)

    def ask_keyed(self, name: str, /, **arguments: Any) -> Any:
        """Ask for something that is done once per key: repeat the request if its answer was lost.

        Raises ServerLost if the server might have done it and no answer confirms it.
        """
        self._is_broken_off.clear()
        lost: ServerLost | None = None
        pause_s, until_ms = _FIRST_PAUSE_S, 0
        while True:
            try:
                return self.ask(name, **arguments)
            except QueryInterrupted:
                raise
            except ServerLost as error:
                if lost is None:
                    if isinstance(error, ServerUnheard):
                        raise
                    lost, until_ms = error, self._time.boottime_ms() + REPEAT_MS
            except EdgecronError as error:
                if lost is None:
                    raise
                raise ServerLost(f"{error.message}; {NOT_KNOWN}", hint=LOOK) from error
            if not self._must_wait() and self._time.boottime_ms() >= until_ms:
                raise lost
            if self._is_broken_off.wait(pause_s):
                raise QueryInterrupted(f"the request to {self._server.url} was interrupted")
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    def get(self, path: str, *, accept: str | None = None) -> bytes:
        """Return what the server has at a path outside its API, such as /metrics."""
        with self._own_errors(is_write=False):
            self._drop_stale()
            self._send("GET", path, headers={} if accept is None else {"Accept": accept})
            return self._receive(is_write=False)

    # Requests whose answers wait for news.

    @property
    def is_begun(self) -> bool:
        """Whether there is an answer to come."""
        return self._begun is not None

    def begin(self, name: str, /, *, wait_s: float, **arguments: Any) -> None:
        """Ask for news: the server answers them immediately, and null after `wait_s`."""
        self._begun = write_request(name, arguments, wait_ms=round(wait_s * 1000))
        self._begun_ms = self._time.boottime_ms()
        with suppress(ServerLost):  # `finish` asks again.
            self.send_request(self._begun)

    def poll(self, also: Sequence[int] = (), *, timeout_s: float = LOST_S) -> tuple[set[int], bool]:
        """Wait for the answer to `begin`, or until one of these descriptors is readable.

        Return the readable descriptors, and whether to call `finish`.
        """
        if self._link.sock is None:
            return set(), True
        own = self._link.sock.fileno()
        poller = select.poll()
        for fd in (own, *also):
            poller.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poller.poll(timeout_s * 1000)}
        if not ready and self._time.boottime_ms() - self._begun_ms >= LOST_S * 1000:
            self._link.close()  # The server is gone: `finish` asks again.
            return set(), True
        return ready - {own}, own in ready

    def finish(self, name: str, /) -> Any:
        """Return the answer to `begin`. Asks again, without waiting for news, if it was lost."""
        request, self._begun = self._begun, None
        assert request is not None
        try:
            body = self.receive_answer(request)
        except ServerLost:
            body = self._ask_and_wait(request.without_wait())
        return read_answer(resource_types(name), body)

    def interrupt(self) -> None:
        """From any thread: let the current `ask` raise QueryInterrupted."""
        self._is_broken_off.set()
        with self._lock:
            link = self._link.latest
            if self._is_asking and link is not None:
                self._is_interrupted = True
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Drop the connection and what was begun. The next request connects again."""
        self._begun = None
        self._link.close()

    # Requests and answers.

    def send_request(self, request: Request) -> None:
        """Send a request. Raises ServerLost."""
        with self._own_errors(is_write=request.is_write):
            self._drop_stale()
            self._send_request(request)

    def receive_answer(self, request: Request) -> bytes:
        """Return the body of the answer. Raises ServerUnavailable."""
        with self._own_errors(is_write=request.is_write):
            return self._receive(is_write=request.is_write)

    def exchange(self, request: Request) -> bytes:
        """Send a request and return the body of its answer.

        Raises ServerUnavailable, and QueryInterrupted.
        """
        with self._lock:
            self._is_asking, self._is_interrupted = True, False
        try:
            with self._own_errors(is_write=request.is_write):
                return self._exchange(request)
        finally:
            with self._lock:
                self._is_asking = self._is_interrupted = False

    def _ask_and_wait(self, request: Request) -> bytes:
        pause_s = _FIRST_WAIT_S
        while True:
            try:
                body = self.exchange(request)
            except ServerLost as error:
                may_be_done = request.is_write and not isinstance(error, ServerUnheard)
                wait = self._wait
                if may_be_done or wait is None or not wait.must_wait(error.message):
                    raise
            else:
                if self._wait is not None:
                    self._wait.note_answer(self._server.url)
                return body
            system_time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_WAIT_S)

    def _must_wait(self) -> bool:
        """Return whether to wait for a server that does not answer."""
        wait = self._wait
        return wait is not None and wait.must_wait(f"{self._server.url} does not answer")

    def _exchange(self, request: Request) -> bytes:
        self._drop_stale()
        was_open = self._link.sock is not None
        try:
            self._send_request(request)
            return self._receive(is_write=request.is_write)
        except (BrokenPipeError, ConnectionResetError):
            # The server dropped the kept connection just when it was used again. A change is not
            # sent twice: the server may have received it.
            if not was_open or self._is_interrupted or request.is_write:
                raise
        self._link.close()
        self._send_request(request)
        return self._receive(is_write=request.is_write)

    def _drop_stale(self) -> None:
        """Close a connection that the server has closed, or on which something came unasked."""
        if self._link.sock is not None:
            poller = select.poll()
            poller.register(self._link.sock, select.POLLIN)
            if poller.poll(0):
                self._link.close()

    def _send_request(self, request: Request) -> None:
        headers = {"Accept": "application/json"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.key is not None:
            key = request.key.replace("\\", "\\\\").replace('"', '\\"')
            headers["Idempotency-Key"] = f'"{key}"'
        self._send(request.method, request.target, headers=headers, body=request.body)

    def _send(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> None:
        own = {"User-Agent": f"edgecron/{__version__}"}
        if self._token is not None:
            own["Authorization"] = f"Bearer {self._token}"
        self._may_be_heard = False
        if self._link.sock is None:
            self._link.connect()
        self._may_be_heard = True
        self._link.request(method, self._server.base + target, body, {**own, **headers})

    def _receive(self, *, is_write: bool) -> bytes:
        if self._link.sock is None:
            raise RemoteDisconnected("the connection was closed")
        response = self._link.getresponse()
        if (response.length or 0) > _MOST_BODY_BYTES:
            raise ServerUnavailable("the answer is too large")
        body = response.read(_MOST_BODY_BYTES + 1) if response.length is None else response.read()
        if self._is_interrupted:  # A body without a length looks whole.
            raise ConnectionResetError("the answer was interrupted")
        if len(body) > _MOST_BODY_BYTES:
            raise ServerUnavailable("the answer is too large")
        content = judge(
            self._server.url,
            status=response.status,
            body=body,
            has_token=self._token is not None,
            is_write=is_write,
        )
        self._note_time(response.getheader(TIME_HEADER))
        return content

    def _note_time(self, text: str | None) -> None:
        if text is None:
            return
        try:
            self._time.note(to_ms(parse_instant(text)))
        except InvalidInput as error:
            raise ServerUnavailable(f"the time of the answer can't be read: {error}") from error

    @contextmanager
    def _own_errors(self, *, is_write: bool) -> Iterator[None]:
        """Close a connection that failed, and raise an error of ours."""
        try:
            try:
                yield
            except IncompleteRead:
                raise ConnectionResetError("the connection was closed within an answer") from None
        except OSError as error:
            self._link.close()
            if self._is_interrupted:
                words = f"the request to {self._server.url} was interrupted"
                raise QueryInterrupted(words) from None
            raise connection_error(
                self._server, error, is_write=is_write, may_be_heard=self._may_be_heard
            ) from error
        except HTTPException as error:
            self._link.close()
            raise ServerUnavailable("the server there does not speak HTTP") from error
        except BaseException:
            # Also an interrupt: the next request must not get the answer to this one.
            self._link.close()
            raise


# What follows the database over a connection of its own.

_HELD_S = 5.0  # how long the server holds a request for news; it answers a change immediately
# While the server holds a request, the client can't check whether anything looks after the run.
_HELD_QUEUED_S = 2.0
_Ask = Callable[..., Any]


class ChangeWatch:
    """Know whether the database has changed, at no cost: the server holds a request until then."""

    def __init__(self, mark: int, connection: ServerConnection) -> None:
        self._mark = mark
        self._connection = connection

    def mark(self) -> int:
        """Return the newest mark. Raises ServerLost if the server no longer answers."""
        connection = self._connection
        if connection.is_begun:
            _, is_answered = connection.poll(timeout_s=0)
            if not is_answered:
                return self._mark
            found: int | None = connection.finish("await_change")
            self._mark = self._mark if found is None else found
        connection.begin("await_change", wait_s=_HELD_S, mark=self._mark)
        return self._mark

    def close(self) -> None:
        self._connection.close()


class RemoteFollower:
    """The output of a run on another machine: a Follower."""

    def __init__(
        self, ask: _Ask, connection: ServerConnection, execution_id: int, *, position: int
    ) -> None:
        self._ask = ask
        self._connection = connection
        self.execution_id = execution_id
        self._position = position
        self._status: Status | None = None  # of the run, as last read
        self._pieces: list[Piece] = []  # received, and not read yet
        self.is_silent = False  # the last wait ended without news

    def __enter__(self) -> RemoteFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_due_for_check(self) -> bool:
        """Whether nothing was heard for a while: check whether anything looks after the run."""
        return self.is_silent

    def read(self, execution: Execution) -> list[Piece]:
        """Return what came since the last call; `execution` is the run as it is now."""
        self._status = execution.status
        found, self._pieces = self._pieces, []
        return found

    def read_kept(self, execution: Execution) -> list[Piece]:
        """Return what the run has printed so far, if it is still kept."""
        found = self.read(execution)
        self._connection.close()  # Its request asks for the same output.
        has_more = True
        while has_more:
            printed: Printed = self._ask(
                "printed", execution_id=self.execution_id, position=self._position
            )
            found += self._take(printed)
            has_more = printed.has_more
        return found

    def read_stored(self) -> Iterator[Piece]:
        """Return the rest, after the end of the run was recorded."""
        yield from self.read_kept(self._ask("execution", execution_id=self.execution_id))

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there can be news, or one of these descriptors is readable; return those."""
        connection = self._connection
        if not connection.is_begun:
            status = self._status or Status.QUEUED
            least_s = _HELD_QUEUED_S if status is Status.QUEUED else _HELD_S
            connection.begin(
                "await_printed",
                wait_s=min(max(least_s, until_s), _HELD_S),
                execution_id=self.execution_id,
                position=self._position,
                status=status,
            )
        ready, is_answered = connection.poll(also)
        self.is_silent = False
        if is_answered:
            printed: Printed | None = connection.finish("await_printed")
            self.is_silent = printed is None
            if printed is not None:
                self._pieces += self._take(printed)
                self._status = printed.run.status
        return ready

    def _take(self, printed: Printed) -> list[Piece]:
        pieces: list[Piece] = [(skipped, chunk) for skipped, chunk in printed.chunks]
        self._position += sum(skipped + len(chunk.content) for skipped, chunk in pieces)
        return pieces


class RemoteLaterRuns:
    """The runs of a schedule on another machine: LaterRuns."""

    is_due_for_check = True  # each wait is long

    def __init__(self, ask: _Ask, connection: ServerConnection, told: BegunRuns) -> None:
        self._ask = ask
        self._connection = connection
        self._told = told
        self._begun: Begun | None = None

    def wait(self) -> None:
        """Sleep until a run may have begun."""
        if self._begun is None:
            self._connection.begin("await_begun", wait_s=_HELD_S, told=self._told)
            self._connection.poll()
            self._begun = self._connection.finish("await_begun")

    def find_next(self) -> Execution | None:
        """Return the next run that has begun, each once; None if there is none yet."""
        found: Begun | None = self._begun or self._ask("await_begun", told=self._told)
        self._begun = None
        if found is None:
            return None
        self._told = found.told
        return found.run
