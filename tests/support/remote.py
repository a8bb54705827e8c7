"""A database that is asked over the wire: by a server on this machine, or without any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgecron.api import Client
from edgecron.errors import EdgecronError
from edgecron.remote.client import HttpLines, RemoteClient
from edgecron.remote.places import read_server
from edgecron.wire.answering import answer, answer_text, fault_text, read_question
from edgecron.wire.calls import Call
from support.http import serving


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
