"""The HTTP API over a real socket, asked as any program would."""

from __future__ import annotations

import http.client
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgecron.client import Client
from edgecron.http.access import Limits
from edgecron.http.serving import HttpService, TcpPlace
from tests.support.processes import Daemon

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
def serving(
    database: Path,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    users: Collection[int] | None = None,
) -> Iterator[Api]:
    """The API of a database, which is made where it is not there, at a port that was free."""
    with Client(database) as client:
        client.count_schedules()
    service = HttpService(
        database, TcpPlace("127.0.0.1", 0), token=token, limits=limits, users=users
    )
    try:
        service.start()
        yield Api(int(service.url.rpartition(":")[2]), token=token)
    finally:
        service.close()


def api_of(daemon: Daemon) -> Api:
    """The API that a daemon has said it serves."""
    host, _, port = url_of(daemon).rpartition(":")
    assert host == "http://127.0.0.1"
    return Api(int(port))


def url_of(daemon: Daemon) -> str:
    """Where a daemon says that it serves the API."""
    assert daemon.process.stderr is not None
    for line in iter(daemon.process.stderr.readline, b""):
        _, is_told, url = line.decode().rstrip("\n").partition("the HTTP API is at ")
        if is_told:
            return url
    raise AssertionError("it ended without serving the API")


class EventStream:
    """Server-sent events of a run, read one by one."""

    def __init__(self, api: Api, run: int, *, last_id: str | None = None) -> None:
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=BOUND_S)
        self._connection.request("GET", f"/api/v1/runs/{run}/output", headers=headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.media_type = self._answer.getheader("content-type")

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        while line := self._answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif fields:
                yield Event(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
                fields = {}

    def readline(self) -> str:
        """The next line as it comes."""
        return self._answer.readline().decode().rstrip("\n")

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class Event:
    id: str
    name: str
    told: dict[str, Any]
