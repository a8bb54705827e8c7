"""A database that is asked over the wire: by a server on this machine, or without any."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl, unquote

from edgecron.base.clock import ServerTime
from edgecron.base.errors import EdgecronError
from edgecron.base.units import to_ms
from edgecron.client import Client
from edgecron.client.plain_forms import error_object
from edgecron.client.remote import RemoteClient
from edgecron.client.remote_connection import Connector, ServerConnection
from edgecron.client.remote_link import Server, read_server
from edgecron.client.resources import (
    API,
    KEY,
    RESOURCES,
    Request,
    answer_object,
    read_arguments,
    resource_types,
)
from tests.support.http import serving

# To count_schedules.
GOOD = b'{"now":"2025-11-22T08:26:40Z","counts":{"schedules":1,"broken":0,"vanished":0}}'


def near_answer(client: Client, request: Request) -> object:
    """Answer a request as a server does, without HTTP."""
    path, _, query = request.target.removeprefix(API).partition("?")
    for resource in RESOURCES.values():
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", resource.path)
        found = re.fullmatch(pattern, path)
        if found is not None and resource.method == request.method:
            break
    else:
        raise AssertionError(f"there is no resource at {request.method} {path}")
    asked = resource_types(resource.name)
    given = {} if request.key is None else {KEY: request.key}
    arguments = read_arguments(
        asked,
        words={key: unquote(word) for key, word in found.groupdict().items()},
        query=parse_qsl(query, keep_blank_values=True),
        content=json.loads(request.body or b"{}") | given,
    )
    return answer_object(asked, asked.ask(client, arguments))


class NearConnection(ServerConnection):
    """A connection to a Client of this process: requests and answers become JSON."""

    def __init__(self, client: Client, time: ServerTime) -> None:
        super().__init__(Connector(_NEAR), time)
        self._client = client
        self._answer = b""

    def exchange(self, request: Request) -> bytes:
        try:
            return json.dumps(near_answer(self._client, request)).encode()
        except EdgecronError as error:
            return json.dumps({"error": error_object(error)}).encode()

    def send_request(self, request: Request) -> None:
        self._answer = self.exchange(request.without_wait())

    def receive_answer(self, request: Request) -> bytes:
        return self._answer

    def interrupt(self) -> None:
        self._client.interrupt()


_NEAR = Server("near", "", 0, "")


class NearConnector:
    """Opens connections to a Client of this process."""

    place = _NEAR.url

    def __init__(self, client: Client) -> None:
        self._client = client

    def open(self, time: ServerTime) -> NearConnection:
        time.note(to_ms(self._client.now()))
        return NearConnection(self._client, time)


def near_client(client: Client) -> RemoteClient:
    """A client that asks a Client of this process."""
    return RemoteClient(cast("Connector", NearConnector(client)))


@contextmanager
def asked_over_http(database: Path, *, token: str | None = None) -> Iterator[RemoteClient]:
    """A client of a server of this database."""
    with serving(database, token=token) as api:
        server = read_server(f"http://127.0.0.1:{api.port}")
        with RemoteClient(Connector(server, token=token)) as client:
            yield client


def answer_of(body: bytes, *, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


@contextmanager
def answering(*connections: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with each connection in turn; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in connections:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link:
                    answer(link)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def said(*parts: bytes) -> Callable[[socket.socket], None]:
    """Hear a question, and say this."""

    def answer(link: socket.socket) -> None:
        for part in parts:
            link.recv(65_536)
            link.sendall(part)

    return answer
