"""The HTTP API over a real socket, asked as any program would."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgecron.http.places import TcpPlace
from edgecron.http.serving import HttpService

BOUND_S = 20.0  # no answer takes so long


@dataclass(frozen=True)
class Told:
    """An answer: its status, its headers by small letters, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found


class Api:
    """Asks a server on this machine, each time over a new connection."""

    def __init__(self, port: int, *, token: str | None = None) -> None:
        self.port = port
        self.token = token

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Told:
        """`body` is sent as JSON, bytes as they are."""
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND_S)
        try:
            connection.request(method, path, body=content, headers=sent)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Told(answer.status, told, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Told:
        return self.ask("GET", path, headers=headers)


@contextmanager
def serving(database: Path, *, token: str | None = None) -> Iterator[Api]:
    """The API of a database, at a port that was free."""
    service = HttpService(database, TcpPlace("127.0.0.1", 0), token=token)
    try:
        service.start()
        yield Api(int(service.url.rpartition(":")[2]), token=token)
    finally:
        service.close()
