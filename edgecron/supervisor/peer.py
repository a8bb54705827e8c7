"""The supervisor's end of a link: frames in and out of a socket, never waiting for the other."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from edgecron.supervisor import protocol
from edgecron.supervisor.protocol import Kind
from edgecron.supervisor.reactor import READ, WRITE, Reactor


class Peer:
    """What the engine says goes to `on_message`; what it is told waits for room in the socket."""

    def __init__(
        self,
        link: socket.socket,
        reactor: Reactor,
        *,
        on_message: Callable[[Kind, Any], None],
        most_bytes: int = protocol.MAX_FRAME_BYTES,
    ) -> None:
        self._link = link
        self._reactor = reactor
        self.on_message = on_message
        self._reader = protocol.FrameReader(most_bytes=most_bytes)
        self._writer = protocol.FrameWriter()
        self._waits_for_room = False
        self._is_heard = True
        self.is_connected = True
        link.setblocking(False)
        reactor.watch(link.fileno(), self._on_event)

    @property
    def has_unsent(self) -> bool:
        return bool(self._writer)

    def become_engine(self, on_message: Callable[[Kind, Any], None]) -> None:
        """Whoever is at the other end is the engine from now on."""
        self.on_message = on_message
        self._reader.most_bytes = protocol.MAX_FRAME_BYTES

    def send(self, kind: Kind, body: Any) -> None:
        """Queue a message, or drop it where the engine has gone: the journal has it then."""
        if self._is_heard:
            self._writer.put(protocol.encode(kind, body))

    def flush(self) -> None:
        """Give the socket what it takes now."""
        while self._writer:
            try:
                self._writer.sent(self._link.send(self._writer.next_bytes(), protocol.SEND_FLAGS))
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                # It reads no more. What it said before is still to be taken, up to its end.
                self._is_heard = False
                self._writer.clear()
        waits = bool(self._writer)
        if self.is_connected and waits is not self._waits_for_room:
            self._waits_for_room = waits
            events = READ | WRITE if waits else READ
            self._reactor.change(self._link.fileno(), self._on_event, events)

    def _on_event(self) -> None:
        if not self.is_connected:
            return
        try:
            content = self._link.recv(protocol.READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            content = b""
        if not content:
            self.disconnect()
            return
        try:
            for kind, body in self._reader.feed(content):
                if self.is_connected:
                    self.on_message(kind, body)
        except (protocol.BrokenProtocol, KeyError, TypeError, ValueError, OSError):
            # The engine sees its link close; its runs go on, and the journal tells their ends.
            self.disconnect()

    def disconnect(self) -> None:
        """Let go of the other side. What it was not sent yet is dropped."""
        if self.is_connected:
            self.is_connected = self._is_heard = False
            self._writer.clear()
            self._reactor.close(self._link.detach())
