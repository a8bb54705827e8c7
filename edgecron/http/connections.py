"""What a connection may take: bytes, time, and of the places for others one.

uvicorn waits without end for the head of a request, and for a client that does not read. Both are
bounded here, the bodies in `app`. And its loop wakes ten times a second, which on a machine that
has nothing to do is the only thing that does; this one sleeps.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from edgecron.clock import Clock
from edgecron.http.answers import JSON
from edgecron.http.limits import Limits
from edgecron.http.refusing import Refused, error_answer
from edgecron.http.shares import Shares
from edgecron.peers import PEER, Peer
from edgecron.timetext import from_ms

# So many connections are taken in before those that are one too many are hung up: each of them is
# a descriptor of this process, which has commands to start. Others queue in the kernel meanwhile.
_TAKEN_AT_ONCE = 32
_QUEUED = 2048

_LOGGER = logging.getLogger("edgecron.http")
_LOGGER.setLevel(logging.ERROR)  # Defects are told, and not what anybody sends.


class BoundedProtocol(H11Protocol):
    """A connection that ends where its client takes too long, or is one too many.

    `shares` are those of all connections of its server, and `is_over` tells whether that has been
    told to stop.
    """

    def __init__(
        self,
        *args: Any,
        limits: Limits,
        shares: Shares,
        clock: Clock,
        is_over: Callable[[], bool],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._shares = shares
        self._clock = clock
        self._is_over = is_over
        self.logger = _LOGGER
        self._head_deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = Peer(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, PEER: peer}
        if self._is_over():
            # It was taken in just when the server stops, which has ended all that it knew of:
            # nobody would ever answer it, and whoever is at the other end would wait.
            transport.abort()
            return
        # Whatever the kernel does not take at once counts as unread.
        transport.set_write_buffer_limits(0)
        refusal = self._shares.take(self, peer.find_user)
        if refusal is not None:
            self._refuse(503, "overloaded", refusal)
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop(self._head_deadline)
        self._drop(self._read_deadline)
        self._shares.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            # Of every answer; uvicorn sets it ten times a second, for which it would have to wake.
            now = from_ms(self._clock.now_ms())
            date = format_datetime(now, usegmt=True).encode()
            self.server_state.default_headers = [(b"date", date)]
            super().data_received(data)
        if self._is_answering():
            self._drop(self._head_deadline)
            self._head_deadline = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_answering():
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_deadline is None:
            self._read_deadline = self.loop.call_later(self._limits.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._drop(self._read_deadline)
        self._read_deadline = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is told so, unless an answer is on its way already."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self._is_answering():
            if self._is_answering():
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.abort()
            return
        self._refuse(400, "bad_request", "this is no HTTP request, or its head is too large")

    def _refuse(self, status: int, name: str, message: str) -> None:
        body = error_answer(Refused(status, name, message)).body
        headers = [
            ("content-type", JSON),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        reason = {400: b"Bad Request", 408: b"Request Timeout"}.get(status, b"Unavailable")
        response = h11.Response(status_code=status, headers=headers, reason=reason)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            content = self.conn.send(event)
            if content:
                self.transport.write(content)
        self.transport.close()

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _await_head(self) -> None:
        self._drop(self._head_deadline)
        self._head_deadline = self.loop.call_later(self._limits.head_s, self._end_silence)

    def _end_silence(self) -> None:
        if self._is_answering() or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self._refuse(
                408, "head_too_slow", f"the head took longer than {self._limits.head_s:g} s"
            )
        else:
            self.transport.abort()

    @staticmethod
    def _drop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


class Server(uvicorn.Server):
    """Serves until `stop`, which may be called from any thread; asleep while nobody asks."""

    def __init__(self, config: uvicorn.Config) -> None:
        config.backlog = _TAKEN_AT_ONCE
        super().__init__(config)
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self.is_over = False
        self._over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_QUEUED)  # asyncio lets no more queue than it takes in at once.

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for listener in sockets or ():
            loop.remove_reader(listener)
        # Whom the loop has taken in becomes a connection first: where their server is closed in
        # between, asyncio forgets them and leaves their sockets open (python/cpython#109564), and
        # nobody at the other end would be told.
        await asyncio.sleep(0)
        await super().shutdown(sockets)

    async def main_loop(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        if not self.is_over:
            await self._over.wait()

    def stop(self) -> None:
        self.is_over = True
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self._over.set)
