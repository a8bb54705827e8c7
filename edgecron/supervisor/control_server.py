"""Serve the supervisor's control socket: requests of every process of its user, engine or not."""

from __future__ import annotations

import contextlib
import errno
import os
from binascii import b2a_base64  # `base64` is much more
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from edgecron.supervisor import state_files
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Kind, Phase
from edgecron.supervisor.reactor import Peer, Reactor

MOST_CONNECTIONS = 64
MOST_REQUEST_BYTES = 4 * 1024 * 1024


class Controlled(Protocol):
    """The interface of a supervisor for its control socket."""

    def status(self) -> list[Any]: ...

    def cancel(self, tokens: list[str]) -> dict[str, Phase]: ...

    def revoke(self, tokens: list[str]) -> dict[str, Phase]: ...

    def read_output(self, token: str, position: int) -> tuple[Phase, Part]: ...

    def adopt(self, end: Peer) -> str | None: ...


class ControlServer:
    """Listens on the control socket, answers requests, and sends followers what a run prints."""

    def __init__(
        self,
        path: Path,
        reactor: Reactor,
        *,
        supervisor: Controlled,
        hello: Mapping[str, Any],
    ) -> None:
        self._path = path
        self._reactor = reactor
        self._supervisor = supervisor
        self._hello = hello
        self._connections: set[Peer] = set()
        self._followers: dict[Peer, tuple[str, int]] = {}  # token and position
        self._spare_fd: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._listener = state_files.listen(path)
        reactor.watch(self._listener.fileno(), self._on_connection)

    def flush(self) -> None:
        """Send new output to followers, and send what each socket takes now."""
        for end, (token, position) in list(self._followers.items()):
            # Only what the socket takes: a follower that does not read costs no memory.
            while not end.has_unsent and self._send_output(end, token, position, is_asked=False):
                if end not in self._followers:
                    break
                position = self._followers[end][1]
                end.flush()
        for end in list(self._connections):
            end.flush()
            if not end.is_connected:
                self._forget(end)

    def close(self) -> None:
        """Send the rest, and remove the socket."""
        self.flush()
        self._path.unlink(missing_ok=True)

    def _on_connection(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._refuse_connection()
            return
        if state_files.peer_uid(link) not in (0, os.geteuid()):
            link.close()
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            link.close()
            return
        end = Peer(
            link,
            self._reactor,
            on_message=lambda kind, body: self._on_message(end, kind, body),
            most_bytes=MOST_REQUEST_BYTES,
        )
        self._connections.add(end)
        end.send(Kind.HELLO, self._hello)

    def _refuse_connection(self) -> None:
        # Without a descriptor for it, the listener would stay ready and keep us from sleeping.
        if self._spare_fd is not None:
            os.close(self._spare_fd)
            self._spare_fd = None
        with contextlib.suppress(OSError):
            self._listener.accept()[0].close()
        with contextlib.suppress(OSError):  # another process was faster: the next call tries again
            self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _on_message(self, end: Peer, kind: Kind, body: Any) -> None:
        try:
            self._answer(end, kind, body)
        except Exception as error:  # noqa: BLE001 - a bad request must not end the runs
            end.send(Kind.REFUSED, f"{kind} failed: {error!r}")
            end.flush()
            end.disconnect()

    def _answer(self, end: Peer, kind: Kind, body: Any) -> None:
        if kind is Kind.OUTPUT:
            self._on_output(end, body)
        elif kind is Kind.ADOPT:
            refusal = self._supervisor.adopt(end)
            if refusal is None:
                self._forget(end)
            else:
                end.send(Kind.REFUSED, refusal)
        elif kind is Kind.STATUS:
            end.send(kind, self._supervisor.status())
        elif kind is Kind.CANCEL:
            end.send(kind, self._supervisor.cancel(body))
        elif kind is Kind.REVOKE:
            end.send(kind, self._supervisor.revoke(body))
        else:
            raise ValueError(f"a control socket can't answer {kind}")

    def _on_output(self, end: Peer, body: Mapping[str, Any]) -> None:
        token, position = str(body["token"]), int(body["position"])
        if position < 0:
            raise ValueError("position is below 0")
        if body["follow"]:
            self._followers[end] = (token, position)
        else:
            self._send_output(end, token, position, is_asked=True)

    def _send_output(self, end: Peer, token: str, position: int, *, is_asked: bool) -> bool:
        phase, part = self._supervisor.read_output(token, position)
        is_over = phase not in (Phase.WAITING, Phase.RUNNING)
        if not (is_asked or is_over or part.chunks):
            return False
        chunks = [
            (chunk.stream, chunk.at_ms, b2a_base64(chunk.content, newline=False).decode("ascii"))
            for chunk in part.chunks
        ]
        end.send(Kind.OUTPUT, [phase, part.position, chunks])
        if is_over:
            self._followers.pop(end, None)
        elif not is_asked:
            self._followers[end] = (token, part.next_position)
        return True

    def _forget(self, end: Peer) -> None:
        self._connections.discard(end)
        self._followers.pop(end, None)
