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
from contextlib import suppress
from email.utils import format_datetime
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from edgecron.base.clock import Clock
from edgecron.base.units import from_ms
from edgecron.http.asking import JSON
from edgecron.http.limits import Limits
from edgecron.http.refusing import RETRY_AFTER_S, Refused, error_answer, overloaded
from edgecron.http.shares import SEAT, Seat, Shares

_TAKEN_AT_ONCE = 32  # then those that are connected are served; others queue in the kernel
_QUEUED = 2048
_NO_DESCRIPTORS_S = 1.0  # after which it is tried again to take a connection
_TURNED_AWAY_AT_ONCE = 8  # while the owner is answered
_REST = 4  # times as long as turning away took, while the owner is answered
_LOOK_S = 0.001  # after which it is looked whether the owner is answered
_TURNED_AWAY = error_answer(overloaded("you have too many connections open, or open too many")).body
_TURNED_AWAY = (
    b"HTTP/1.1 503 Unavailable\r\ncontent-type: %s\r\ncontent-length: %d\r\nretry-after: %d\r\n"
    b"connection: close\r\n\r\n%s" % (JSON.encode(), len(_TURNED_AWAY), RETRY_AFTER_S, _TURNED_AWAY)
)

_LOGGER = logging.getLogger("edgecron.http")
_LOGGER.setLevel(logging.ERROR)  # Defects are told, and not what anybody sends.


class BoundedProtocol(H11Protocol):
    """A connection that ends where its client takes too long, or another one needs its place.

    `seat` is its place among all connections of its server, `shares` are theirs, and `is_over`
    tells whether the server has been told to stop.
    """

    def __init__(
        self,
        *args: Any,
        seat: Seat,
        limits: Limits,
        shares: Shares,
        clock: Clock,
        is_over: Callable[[], bool],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._seat = seat
        self._limits = limits
        self._shares = shares
        self._clock = clock
        self._is_over = is_over
        self.logger = _LOGGER
        self._head_deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, SEAT: self._seat}
        self._seat.hang_up = transport.abort
        if self._is_over() or not self._seat.is_taken:
            # Another connection has its place already. Or the server has stopped just now and
            # ended all that it knew of: nobody would ever answer this one.
            transport.abort()
            return
        # Whatever the kernel does not take at once counts as unread.
        transport.set_write_buffer_limits(0)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop(self._head_deadline)
        self._drop(self._read_deadline)
        self._shares.leave(self._seat)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            # Of every answer; uvicorn sets it ten times a second, for which it would have to wake.
            now = from_ms(self._clock.now_ms())
            date = format_datetime(now, usegmt=True).encode()
            self.server_state.default_headers = [(b"date", date)]
            super().data_received(data)
        if self._is_answering():
            if self.conn.their_state is not h11.SEND_BODY:
                self._seat.waits_since_s = None
            self._drop(self._head_deadline)
            self._head_deadline = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_answering():
            self._seat.waits_since_s = self.loop.time()
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._seat.waits_since_s = self.loop.time()
        if self._read_deadline is None:
            self._read_deadline = self.loop.call_later(self._limits.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._drop(self._read_deadline)
        self._read_deadline = None
        if self._is_answering():
            self._seat.waits_since_s = None
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

    def __init__(self, config: uvicorn.Config, *, shares: Shares) -> None:
        super().__init__(config)
        self._shares = shares
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._incoming: set[asyncio.Task[Any]] = set()
        self.is_over = False
        self._over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._own_loop = asyncio.get_running_loop()
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or ():
            listener.setblocking(False)
            listener.listen(_QUEUED)
            self._listen(listener)
        self.started = True

    def _listen(self, listener: socket.socket) -> None:
        if not self.is_over and self._own_loop is not None:
            self._own_loop.add_reader(listener, self._take_in, self._own_loop, listener)

    def _rest(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, until_s: float
    ) -> None:
        """Take no connection in until then, but only while a request of the owner is answered."""
        if loop.time() < until_s and self._shares.is_own_busy(loop.time()):
            loop.remove_reader(listener)
            loop.call_later(_LOOK_S, self._rest, loop, listener, until_s)
        else:
            self._listen(listener)

    def _take_in(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Take connections in, so many at once, and turn away those that get no place.

        Whose they are is known once they are taken in. So turning strangers away is bounded while
        the owner is being answered, and costs next to nothing.
        """
        begun_s = loop.time()
        turned_away = 0
        for _ in range(_TAKEN_AT_ONCE):
            try:
                link, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                loop.remove_reader(listener)
                loop.call_later(_NO_DESCRIPTORS_S, self._listen, listener)
                return
            link.setblocking(False)
            seat = self._shares.take(link, now_s=begun_s)
            if seat is None:
                _turn_away(link)
                turned_away += 1
                if turned_away >= _TURNED_AWAY_AT_ONCE and self._shares.is_own_busy(begun_s):
                    break
            else:
                task = loop.create_task(self._connect(loop, link, seat))
                self._incoming.add(task)
                task.add_done_callback(self._incoming.discard)
        if turned_away:
            end_s = loop.time()
            self._rest(loop, listener, end_s + (end_s - begun_s) * _REST)

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, link: socket.socket, seat: Seat
    ) -> None:
        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                _loop=loop,
                seat=seat,
            )
            return made

        try:
            await loop.connect_accepted_socket(protocol, link)
        except OSError:  # It has gone already.
            self._shares.leave(seat)
            link.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for listener in sockets or ():
            loop.remove_reader(listener)
        # Whoever was taken in becomes a connection first: it is told that the server stops.
        await asyncio.gather(*self._incoming)
        await super().shutdown(sockets)

    async def main_loop(self) -> None:
        if not self.is_over:
            await self._over.wait()

    def stop(self) -> None:
        self.is_over = True
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self._over.set)


def _turn_away(link: socket.socket) -> None:
    """Say that there is no place, as far as that goes without waiting, and hang up."""
    with suppress(OSError):  # The client has gone, or does not listen: nobody is left to tell.
        link.send(_TURNED_AWAY)
    link.close()
