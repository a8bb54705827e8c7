"""Wait for descriptors, times and messages, all on the one thread of the supervisor.

`Reactor` waits by epoll, or by poll if there is none. `Deadlines` are times, and a `Peer` is the
supervisor's end of a connection.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterable
from typing import Any

from edgecron.base.sockets import SEND_FLAGS
from edgecron.supervisor import protocol
from edgecron.supervisor.protocol import Kind

READ = select.POLLIN
WRITE = select.POLLOUT
_MOST_SLEEP_S = 1_000_000.0  # epoll takes at most 24 days

_EPOLL = getattr(select, "epoll", None)


class Reactor:
    """Calls a function for each descriptor that is ready.

    Not `selectors`, which makes one more system call for each closed descriptor: an eighth of the
    time of a short command. The kernel forgets a closed descriptor by itself.
    """

    def __init__(self) -> None:
        self._poll = select.poll() if _EPOLL is None else _EPOLL()
        self._on_ready: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, on_ready: Callable[[], None], events: int = READ) -> None:
        self._poll.register(fd, events)
        self._on_ready[fd] = on_ready

    def change(self, fd: int, on_ready: Callable[[], None], events: int = READ) -> None:
        """Change the function or the events of a watched descriptor."""
        self._poll.modify(fd, events)
        self._on_ready[fd] = on_ready

    def close(self, fd: int) -> None:
        """Stop to watch a descriptor, and close it."""
        del self._on_ready[fd]
        if _EPOLL is None:
            self._poll.unregister(fd)
        os.close(fd)

    def turn(self, timeout_s: float | None) -> None:
        """Wait until a descriptor is ready or the time has passed, and call the functions.

        A function can be called for a descriptor that another one has just closed, or for a new
        descriptor of that number. It must then find nothing to read.
        """
        ready = self._poll.poll(self._timeout(timeout_s))
        for fd, _ in ready:
            on_ready = self._on_ready.get(fd)
            if on_ready is not None:
                on_ready()

    def _timeout(self, timeout_s: float | None) -> float | None:
        if timeout_s is None:
            return None
        bounded_s = min(max(timeout_s, 0.0), _MOST_SLEEP_S)
        # poll counts in milliseconds, epoll in seconds.
        return bounded_s * 1000 if _EPOLL is None else bounded_s


class Deadlines:
    """One time for each key, in monotonic milliseconds.

    To look at a thousand of them takes 30 microseconds: they need no order.
    """

    def __init__(self) -> None:
        self._at_ms: dict[str, int] = {}

    def set(self, key: str, at_ms: int) -> None:
        """Set the time of a key, which replaces an earlier one."""
        self._at_ms[key] = at_ms

    def clear(self, key: str) -> None:
        self._at_ms.pop(key, None)

    def hold(self, keys: Iterable[str], now_ms: int) -> dict[str, int]:
        """Remove keys, and return how long it was until the time of each that had one."""
        held = {key: self._at_ms.pop(key, None) for key in keys}
        return {key: max(0, at_ms - now_ms) for key, at_ms in held.items() if at_ms is not None}

    def __contains__(self, key: str) -> bool:
        return key in self._at_ms

    def next_ms(self) -> int | None:
        """Return the first time, None if there is none."""
        return min(self._at_ms.values(), default=None)

    def pop_due(self, now_ms: int) -> list[str]:
        """Remove and return the keys whose time has come, the earliest first."""
        due = sorted((at_ms, key) for key, at_ms in self._at_ms.items() if at_ms <= now_ms)
        for _, key in due:
            del self._at_ms[key]
        return [key for _, key in due]


class Peer:
    """Reads frames from a socket and writes frames to it, without waiting.

    It calls `on_message` for each message, and queues messages until the socket has room.
    """

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
                self._writer.sent(self._link.send(self._writer.next_bytes(), SEND_FLAGS))
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
