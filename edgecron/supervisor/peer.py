"""The supervisor's side of a connection: frames in and out of a socket, without waiting."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from edgecron.supervisor import protocol
from edgecron.supervisor.protocol import Kind
from edgecron.supervisor.reactor import READ, WRITE, Reactor


class Peer:
    """Calls `on_message` for each message, and queues messages until the socket has room."""

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
        self._can_send = True
        self.is_connected = True
        link.setblocking(False)
        reactor.watch(link.fileno(), self._on_event)

    @property
    def has_unsent(self) -> bool:
        return bool(self._writer)

    def become_engine(self, on_message: Callable[[Kind, Any], None]) -> None:
        """Treat the other side as the engine from now on."""
        self.on_message = on_message
        self._reader.most_bytes = protocol.MAX_FRAME_BYTES

    def send(self, kind: Kind, body: Any) -> None:
        """Queue a message. It is dropped if the other side has gone: the journal has every end."""
        if self._can_send:
            self._writer.put(protocol.encode(kind, body))

    def flush(self) -> None:
        """Send what the socket takes now."""
        while self._writer:
            try:
                self._writer.sent(self._link.send(self._writer.next_bytes(), protocol.SEND_FLAGS))
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                # It reads no more. Its earlier messages are still to be read, up to the end.
                self._can_send = False
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
            # The engine sees the connection close. Its runs continue, and the journal has the ends.
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection, and drop what was not sent yet."""
        if self.is_connected:
            self.is_connected = self._can_send = False
            self._writer.clear()
            self._reactor.close(self._link.detach())
