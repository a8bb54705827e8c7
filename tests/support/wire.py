"""A socket between clients and a PostgreSQL server, which cuts their connections on demand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

_NAME = ".s.PGSQL.5432"
_SYNC = b"S\x00\x00\x00\x04"  # ends some requests
_READY = b"Z\x00\x00\x00\x05"  # the server has answered a request, and waits for the next one


class Cut(Enum):
    """When the connection goes."""

    NEVER = "never"
    BEFORE = "before the server has the request"
    AFTER = "after the server has carried it out; nobody hears the answer"


# Says of each request when the connection goes.
Decide = Callable[[bytes], Cut]


class Wire:
    """Passes requests to the server in `server_folder`, as `decide` says."""

    def __init__(self, folder: Path, server_folder: Path) -> None:
        self.folder = folder
        self.decide: Decide = lambda _: Cut.NEVER
        self._server_path = str(server_folder / _NAME)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _NAME))
        self._listener.listen(64)
        self._links: list[_Link] = []
        self._threads = [self._start(self._accept)]

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def cut_all(self) -> None:
        """Cut the connections that there are."""
        for link in self._links:
            link.end()

    def _start(self, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name="wire", daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            link = _Link(self, client, self._server_path)
            self._links.append(link)
            self._threads += [self._start(link.pass_requests), self._start(link.pass_answers)]


class _Link:
    """One connection."""

    def __init__(self, wire: Wire, client: socket.socket, server_path: str) -> None:
        self._wire = wire
        self._client = client
        self._server = socket.socket(socket.AF_UNIX)
        with suppress(OSError):  # a server that is not there: the client hears the end
            self._server.connect(server_path)
        self._is_deaf = threading.Event()

    def pass_requests(self) -> None:
        try:
            while request := self._client.recv(1 << 20):
                cut = self._wire.decide(request)
                if cut is Cut.BEFORE:
                    break
                if cut is Cut.AFTER:
                    if not (request.startswith(b"Q") or request.endswith(_SYNC)):
                        break  # the server says nothing before it has the rest
                    self._is_deaf.set()
                self._server.sendall(request)
        except OSError:
            pass
        if not self._is_deaf.is_set():
            self.end()

    def pass_answers(self) -> None:
        try:
            while answer := self._server.recv(1 << 20):
                if not self._is_deaf.is_set():
                    self._client.sendall(answer)
                elif _READY in answer:
                    break
        except OSError:
            pass
        self.end()

    def end(self) -> None:
        for one in (self._client, self._server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
