"""A connection to a server: HTTP/1.1 as far as our own server, and what may stand before it, speak
it.

Written out here since the standard library's client loads `ssl` and `email` before anything else,
which takes three times as long as a whole answer does.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron import __version__
from edgecron.base.errors import QueryInterrupted, ServerLost, ServerUnavailable, ServerUnheard
from edgecron.base.values import NamedTuple
from edgecron.client.remote_requests import LOOK, NOT_KNOWN, Reply, judge
from edgecron.client.remote_server import Server
from edgecron.client.resources import TIME_HEADER, Request

if TYPE_CHECKING:
    from pathlib import Path

CONNECT_S = 3.0
ANSWER_S = 60.0  # between two parts of an answer; that nobody is there is noticed sooner, below
_LOST_S = 9
_MOST_HEAD_BYTES = 64 * 1024
_MOST_BODY_BYTES = 256 * 1024 * 1024
_PART = 256 * 1024
_MOST_PATH_BYTES = 100  # of a Unix socket's address


class HttpLine:
    """A Line to a server, over one connection that is kept."""

    def __init__(self, server: Server, token: str | None) -> None:
        self._server = server
        self._token = token
        self._socket: socket.socket | None = None
        self._rest = b""  # that was received, and belongs to what follows
        self._lock = threading.Lock()
        self._is_asking = False
        self._is_interrupted = False
        self._may_be_heard = False  # what was asked last

    def ask(self, request: Request) -> Reply:
        with self._lock:
            self._is_asking, self._is_interrupted = True, False
        try:
            return self._ask(request)
        except OSError as error:
            self.close()
            if self._is_interrupted:
                raise QueryInterrupted(
                    f"what {self._server.url} was asked was broken off"
                ) from None
            raise self._lost(request, error) from error
        except ServerUnavailable:
            self.close()
            raise
        finally:
            with self._lock:
                self._is_asking = False

    def get(self, path: str, *, accept: str | None = None) -> bytes:
        """What the server has at a path beside its calls, such as /metrics; in the format that
        is accepted, None being its own."""
        try:
            self._drop_stale()
            head = () if accept is None else (f"Accept: {accept}",)
            self._send_request(f"GET {self._server.base}{path}", head)
            return self._receive().body
        except OSError as error:
            self.close()
            raise ServerLost(f"{self._server.url} {_os_words(error)}") from error
        except ServerUnavailable:
            self.close()
            raise

    def begin(self, request: Request) -> None:
        try:
            self._drop_stale()
            self._send(request)
        except OSError as error:
            self.close()
            raise self._lost(request, error) from error

    def fileno(self) -> int | None:
        return None if self._socket is None or self._rest else self._socket.fileno()

    def finish(self, *, is_late: bool = False) -> Reply:
        if is_late and self._socket is not None:
            self._socket.settimeout(0)
        try:
            reply = self._receive()
        except OSError as error:
            self.close()
            raise ServerLost(f"{self._server.url} {_os_words(error)}") from error
        except ServerUnavailable:
            self.close()
            raise
        if self._socket is not None:
            self._socket.settimeout(ANSWER_S)
        return reply

    def interrupt(self) -> None:
        with self._lock:
            if self._is_asking and self._socket is not None:
                self._is_interrupted = True
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def is_waited_for(self) -> bool:
        return False

    def close(self) -> None:
        with self._lock:
            link, self._socket, self._rest = self._socket, None, b""
        if link is not None:
            link.close()

    def _ask(self, request: Request) -> Reply:
        self._drop_stale()
        was_open = self._socket is not None
        try:
            self._send(request)
            return self._receive(is_write=request.is_write)
        except (BrokenPipeError, ConnectionResetError, _Unanswered):
            # It was given up by the server just when it was used again. What changes something is
            # not asked twice: it may have been heard.
            if not was_open or self._is_interrupted or request.is_write:
                raise
        self.close()
        self._send(request)
        return self._receive(is_write=request.is_write)

    def _drop_stale(self) -> None:
        """Close a connection that the server has closed, or on which something came unasked."""
        if self._socket is not None:
            poller = select.poll()
            poller.register(self._socket, select.POLLIN)
            if self._rest or poller.poll(0):
                self.close()

    def _send(self, request: Request) -> None:
        head = ["Accept: application/json"]
        if request.body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
        if request.key is not None:
            key = request.key.replace("\\", "\\\\").replace('"', '\\"')
            head.append(f'Idempotency-Key: "{key}"')
        what = f"{request.method} {self._server.base}{request.target}"
        self._send_request(what, head, request.body or b"")

    def _send_request(self, what: str, head: Sequence[str], body: bytes = b"") -> None:
        self._may_be_heard = False
        link = self._socket or self._connect()
        lines = [
            f"{what} HTTP/1.1",
            f"Host: {self._server.host_header}",
            f"User-Agent: edgecron/{__version__}",
            *head,
        ]
        if self._token is not None:
            lines.append(f"Authorization: Bearer {self._token}")
        self._may_be_heard = True
        link.sendall("\r\n".join([*lines, "", ""]).encode("ascii") + body)

    def _connect(self) -> socket.socket:
        server = self._server
        if server.path is not None:
            link = _connect_unix(server.path)
        else:
            link = socket.create_connection((server.host, server.port), timeout=CONNECT_S)
            _notice_loss(link)
            if server.is_tls:
                from edgecron.client.remote_tls import wrapped  # heavy, and for https alone

                link = wrapped(link, server)
        link.settimeout(ANSWER_S)
        with self._lock:
            self._socket = link
        return link

    def _receive(self, *, is_write: bool = False) -> Reply:
        reader = _Reader(self._socket, self._rest)
        head = reader.read_head()
        while 100 <= head.status < 200:
            head = reader.read_head()
        body = reader.read_body(head)
        self._rest = reader.rest
        if head.is_last:
            self.close()
        content = judge(
            self._server.url,
            status=head.status,
            body=body,
            has_token=self._token is not None,
            is_write=is_write,
        )
        return Reply(content, head.headers.get(TIME_HEADER.lower()))

    def _lost(self, request: Request, error: OSError) -> ServerLost:
        if request.is_write and self._may_be_heard:
            return ServerLost(
                f"{self._server.url} {_os_words(error)}; {NOT_KNOWN}",
                hint=LOOK,
            )
        kind = ServerLost if self._may_be_heard else ServerUnheard
        if self._server.path is not None:
            hint = f"is it served there? edgecron daemon --http unix:{self._server.path}"
        elif isinstance(error, (_Unanswered, ConnectionResetError)) and not self._server.is_tls:
            hint = "does it speak https there? give https://"
        else:
            hint = "is it served there? edgecron daemon --http, and the port of that"
        return kind(f"{self._server.url} {_os_words(error)}", hint=hint)


class _Unanswered(OSError):
    """The connection was closed before a byte of an answer came."""


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]
    is_last: bool  # the connection ends with it


class _Reader:
    """What comes over a connection, in the parts of an answer."""

    def __init__(self, link: socket.socket | None, rest: bytes) -> None:
        if link is None:
            raise _Unanswered("nothing was asked")
        self._link = link
        self.rest = rest

    def read_head(self) -> _Head:
        head = self._read_until(b"\r\n\r\n", most=_MOST_HEAD_BYTES).decode("latin-1")
        first, *lines = head.split("\r\n")
        version, _, told = first.partition(" ")
        if not version.startswith("HTTP/1.") or not told[:3].isdigit():
            raise ServerUnavailable("what answers there does not speak HTTP")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        is_last = version == "HTTP/1.0" or headers.get("connection", "").lower() == "close"
        return _Head(int(told[:3]), headers, is_last)

    def read_body(self, head: _Head) -> bytes:
        if "chunked" in head.headers.get("transfer-encoding", "").lower():
            return self._read_chunks()
        length = head.headers.get("content-length")
        if length is None and head.is_last:
            return self._read_to_end()
        return self._read(_number(length or "0", base=10))

    def _read_chunks(self) -> bytes:
        parts = bytearray()
        while True:
            line = self._read_until(b"\r\n", most=256).decode("latin-1")
            size = _number(line.partition(";")[0].strip(), base=16)
            if len(parts) + size > _MOST_BODY_BYTES:
                raise ServerUnavailable("the answer is too large")
            parts += self._read(size + 2)[:size]
            if size == 0:
                return bytes(parts)

    def _read(self, size: int) -> bytes:
        if size > _MOST_BODY_BYTES:
            raise ServerUnavailable("the answer is too large")
        parts = bytearray(self.rest)
        while len(parts) < size:
            parts += self._more()
        self.rest = bytes(parts[size:])
        return bytes(parts[:size])

    def _read_until(self, end: bytes, *, most: int) -> bytes:
        parts = bytearray(self.rest)
        while (at := parts.find(end)) < 0:
            if len(parts) > most:
                raise ServerUnavailable("what answers there does not speak HTTP")
            parts += self._more(is_first=not parts)
        self.rest = bytes(parts[at + len(end) :])
        return bytes(parts[:at])

    def _read_to_end(self) -> bytes:
        parts = bytearray(self.rest)
        while (part := self._link.recv(_PART)) and len(parts) <= _MOST_BODY_BYTES:
            parts += part
        self.rest = b""
        return bytes(parts)

    def _more(self, *, is_first: bool = False) -> bytes:
        part = self._link.recv(_PART)
        if not part:
            if is_first:
                raise _Unanswered("the connection was closed")
            raise ConnectionResetError("the connection was closed within an answer")
        return part


def _connect_unix(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > _MOST_PATH_BYTES:
        from edgecron.supervisor.addresses import connect  # heavy, and seldom needed

        return connect(path, timeout_s=CONNECT_S)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(os.fspath(path))
    except OSError:
        link.close()
        raise
    return link


def _number(text: str, *, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ServerUnavailable("what answers there does not speak HTTP") from None


def _notice_loss(link: socket.socket) -> None:
    """Let the kernel find out within seconds that nobody is there any more, asked or not."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 3),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _LOST_S * 1000),
    ):
        if hasattr(socket, name):
            with suppress(OSError):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _os_words(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "can't be reached: nobody knows that name"
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return "does not answer"
    if isinstance(error, _Unanswered):
        return "closed the connection without an answer"
    return f"can't be reached: {(error.strerror or str(error)).lower()}"
