"""A database that is asked over the wire: by a server on this machine, or without any."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgecron.base.errors import EdgecronError
from edgecron.client import Client
from edgecron.client.remote import HttpLines, RemoteClient
from edgecron.client.remote_places import read_server
from edgecron.client.wire_answers import answer, answer_text, fault_text, read_question
from edgecron.client.wire_calls import Call
from support.http import serving

GOOD = b'{"value":[1,0,0],"now_ms":1763800000000}'  # to count_schedules


class NearLine:
    """A line to a Client of this process: what is asked becomes JSON, and so does its answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answer = b""

    def ask(self, call: Call, body: bytes) -> bytes:
        try:
            asked = read_question(call.name, body)
            found = answer_text(self._client, asked, answer(self._client, asked))
        except EdgecronError as error:
            found = fault_text(error)
        json.loads(found)
        return found

    def begin(self, call: Call, body: bytes, *, wait_s: float) -> None:
        self._answer = self.ask(call, body)

    def fileno(self) -> None:
        return None

    def finish(self, *, is_late: bool = False) -> bytes:
        return self._answer

    def interrupt(self) -> None:
        self._client.interrupt()

    def is_waited_for(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open but the Client, which others use."""


class NearLines:
    """Gives lines to a Client of this process."""

    place = "near"

    def __init__(self, client: Client) -> None:
        self._client = client

    def open(self) -> NearLine:
        return NearLine(self._client)


@contextmanager
def asked_over_http(database: Path, *, token: str | None = None) -> Iterator[RemoteClient]:
    """A client of a server of this database."""
    with serving(database, token=token) as api:
        server = read_server(f"http://127.0.0.1:{api.port}")
        with RemoteClient(HttpLines(server, token=token)) as client:
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
