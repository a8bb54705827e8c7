"""Stand-ins for an engine at rest and for its supervisor: their locks are held, the doorbell is
heard, and who asks for what a run prints is answered."""

from __future__ import annotations

import base64
import os
import select
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

from edgecron.base import sockets
from edgecron.engine.state_folder import Doorbell, EngineFiles
from edgecron.model.run import OutputChunk
from edgecron.supervisor import protocol
from edgecron.supervisor.protocol import Kind, Phase
from edgecron.supervisor.state_files import lock_path, prepare_state_dir, socket_path, take_lock

Said = Mapping[str, Sequence[OutputChunk]]


class Attendants:
    """There within `with`. `said` is what each run has printed, by its lease token.

    `engine_key` None: only the supervisor is. Neither starts or ends anything: whoever has a run
    cancelled is told that it will be, and waits in vain.
    """

    def __init__(
        self, state_dir: Path, *, engine_key: str | None, supervisor_id: str, said: Said
    ) -> None:
        self._state_dir = state_dir
        self._engine_key = engine_key
        self._supervisor_id = supervisor_id
        self._said = said
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = prepare_state_dir(self._state_dir)
            lock = lock_path(folder, self._supervisor_id)
            stack.callback(os.close, take_lock(lock))
            stack.callback(lock.unlink)
            path = socket_path(folder, self._supervisor_id)
            listener = stack.enter_context(sockets.listen(path))
            stack.callback(path.unlink)
            bell = None
            if self._engine_key is not None:
                place = EngineFiles(folder, self._engine_key)
                stack.callback(place.close)
                bell = place.doorbell
            stopped, stop = socket.socketpair()
            stack.enter_context(stopped)
            attending = _Attending(listener, bell=bell, stopped=stopped, said=self._said)
            thread = Thread(target=attending.run, name="attendants")
            thread.start()
            stack.callback(thread.join)
            stack.callback(stop.close)  # Called first: it ends the thread.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


class _Attending:
    """What the thread does, until the other end of `stopped` is closed."""

    def __init__(
        self, listener: socket.socket, *, bell: Doorbell | None, stopped: socket.socket, said: Said
    ) -> None:
        self._listener = listener
        self._bell = bell
        self._stopped = stopped
        self._said = said
        self._guests: dict[int, tuple[socket.socket, protocol.FrameReader]] = {}

    def run(self) -> None:
        while self._turn():
            pass
        for guest, _ in self._guests.values():
            guest.close()

    def _turn(self) -> bool:
        """Wait for whoever comes, and see to them; False at the end."""
        fixed: list[Any] = [
            self._listener,
            self._stopped,
            *([] if self._bell is None else [self._bell]),
        ]
        ready: list[Any]
        ready, _, _ = select.select([*fixed, *self._guests], [], [])
        for one in ready:
            if one is self._bell and self._bell is not None:
                self._bell.clear()
            elif one is self._listener:
                self._welcome()
            elif isinstance(one, int):
                self._answer(one)
        return self._stopped not in ready

    def _welcome(self) -> None:
        guest, _ = self._listener.accept()
        hello = {"version": protocol.PROTOCOL_VERSION, "pid": os.getpid()}
        self._guests[guest.fileno()] = guest, protocol.FrameReader()
        self._send(guest, Kind.HELLO, hello)

    def _answer(self, fileno: int) -> None:
        guest, reader = self._guests[fileno]
        try:
            content = guest.recv(protocol.READ_BYTES)
        except ConnectionResetError:
            content = b""
        if not content:
            del self._guests[fileno]
            guest.close()
        for kind, body in reader.feed(content):
            self._send(guest, *self._answer_to(kind, body))

    def _answer_to(self, kind: Kind, body: Any) -> tuple[Kind, Any]:
        if kind is Kind.OUTPUT:
            return kind, self._output(body["token"], body["position"])
        if kind in (Kind.CANCEL, Kind.REVOKE):
            return kind, {token: self._phase(token) for token in body}
        if kind is Kind.STATUS:
            return kind, [[[token, os.getpid(), 0] for token in self._said], [], True]
        return Kind.REFUSED, f"{kind} is not for who only attends"

    def _output(self, token: str, position: int) -> list[object]:
        """What it has printed from a position on; of one that is followed, more never comes."""
        chunks, at = [], 0
        for chunk in self._said.get(token, ()):
            rest = chunk.content[max(position - at, 0) :]
            at += len(chunk.content)
            if rest:
                chunks.append([chunk.stream, chunk.at_ms, base64.b64encode(rest).decode()])
        return [self._phase(token), position, chunks]

    def _phase(self, token: str) -> Phase:
        return Phase.RUNNING if token in self._said else Phase.UNKNOWN

    def _send(self, guest: socket.socket, kind: Kind, body: Any) -> None:
        try:
            guest.sendall(protocol.encode(kind, body), sockets.SEND_FLAGS)
        except ConnectionError:
            return  # It has left; its end is read as such.
