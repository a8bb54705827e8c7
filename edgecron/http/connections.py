"""Bound what a connection takes: a slot, bytes and time.

uvicorn waits without end for the head of a request, and for a client that does not read. Both are
bounded here, bodies in `app`. uvicorn's loop also wakes ten times a second; this one sleeps until a
client asks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection
from contextlib import suppress
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from edgecron.http.access import SLOT, Limits, Slot, Slots
from edgecron.http.messages import JSON, Refused, error_answer, overloaded

_QUEUED = 2048  # connections in the kernel that wait to be accepted
_ACCEPTED_AT_ONCE = 32  # then accepted connections are served first
_NO_DESCRIPTORS_S = 1.0  # before the next try to accept a connection
_REFUSED_AT_ONCE = 8  # while the owner is active
_REST = 4  # times as long as refusing took, while the owner is active
_CHECK_S = 0.001  # between two checks whether the owner is active

_LOGGER = logging.getLogger("edgecron.http")
_LOGGER.setLevel(logging.ERROR)  # Log defects, not what clients send.


class BoundedProtocol(H11Protocol):
    """A connection that ends if its client takes too long, or another one needs its slot."""

    def __init__(self, *args: Any, server: Server, slot: Slot, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._server = server
        self._limits = server.limits
        self._slot = slot
        self.logger = _LOGGER
        self._head_deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._slot.hang_up = transport.abort
        if self._server.is_over or not self._server.slots.has(self._slot):
            # The server has ended all connections that it knew: nobody would answer this one. Or
            # another connection got this slot.
            transport.abort()
            return
        self.app_state = {**self.app_state, SLOT: self._slot}
        # Whatever the kernel does not take at once counts as unread.
        transport.set_write_buffer_limits(0)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop(self._head_deadline)
        self._drop(self._read_deadline)
        self._server.slots.leave(self._slot)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            # uvicorn's loop would wake ten times a second to set it.
            self.server_state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            super().data_received(data)
        if self._is_answering():
            if self.conn.their_state is not h11.SEND_BODY:
                self._note_wait(None)
            self._drop(self._head_deadline)
            self._head_deadline = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self._is_answering():
            self._note_wait(self.loop.time())
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note_wait(self.loop.time())
        if self._read_deadline is None:
            self._read_deadline = self.loop.call_later(self._limits.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._drop(self._read_deadline)
        self._read_deadline = None
        if self._is_answering():
            self._note_wait(None)
        super().resume_writing()

    def _note_wait(self, since_s: float | None) -> None:
        self._slot.waits_since_s = since_s

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless an answer is on its way already."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or self._is_answering():
            if self._is_answering():
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.abort()
            return
        words = "this is not an HTTP request, or its head is too large"
        self._refuse(Refused(400, "bad_request", words))

    def _refuse(self, refused: Refused) -> None:
        """Answer an error and end the connection."""
        answer = error_answer(refused)
        headers = [
            ("content-type", JSON),
            ("content-length", str(len(answer.body))),
            ("connection", "close"),
            *answer.headers.items(),
        ]
        reason = HTTPStatus(answer.status).phrase.encode()
        response = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        for event in (response, h11.Data(data=answer.body), h11.EndOfMessage()):
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
            words = f"the head took longer than {self._limits.head_s:g} s"
            self._refuse(Refused(408, "head_too_slow", words))
        else:
            self.transport.abort()

    @staticmethod
    def _drop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


class Server(uvicorn.Server):
    """Serves until `stop`, which any thread can call; sleeps while no request comes.

    It accepts connections itself: whose they are is known only then. Refusing strangers takes a
    bounded part of the time while the owner is active. With asyncio's own loop, a flood by another
    user left the owner 8 of 400 requests per second.
    """

    def __init__(
        self, config: uvicorn.Config, *, limits: Limits, users: Collection[int] | None
    ) -> None:
        config.http = BoundedProtocol
        super().__init__(config)
        self.limits = limits
        self.slots = Slots(limits, users=users)
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._joining: set[asyncio.Task[None]] = set()
        self.is_over = False
        self._over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._own_loop = asyncio.get_running_loop()
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or ():
            listener.setblocking(False)
            listener.listen(_QUEUED)
            self._listen(self._own_loop, listener)
        self.started = True

    def _listen(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        if not self.is_over:
            loop.add_reader(listener, self._accept, loop, listener)

    def _accept(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Accept some connections, and refuse those that get no slot."""
        begun_s = loop.time()
        refused = 0
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                link, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:  # There are no descriptors left.
                loop.remove_reader(listener)
                loop.call_later(_NO_DESCRIPTORS_S, self._listen, loop, listener)
                return
            link.setblocking(False)
            slot = self.slots.take(link, lambda: None, now_s=begun_s)
            if slot is not None:
                task = loop.create_task(self._join(loop, link, slot))
                self._joining.add(task)
                task.add_done_callback(self._joining.discard)
                continue
            _refuse(link)
            refused += 1
            if refused >= _REFUSED_AT_ONCE and self.slots.is_owner_active(begun_s):
                break
        if refused:
            end_s = loop.time()
            self._rest(loop, listener, end_s + (end_s - begun_s) * _REST)

    def _rest(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, until_s: float
    ) -> None:
        """Accept nothing until then, as long as the owner is active."""
        loop.remove_reader(listener)
        if loop.time() < until_s and self.slots.is_owner_active(loop.time()):
            loop.call_later(_CHECK_S, self._rest, loop, listener, until_s)
        else:
            self._listen(loop, listener)

    async def _join(self, loop: asyncio.AbstractEventLoop, link: socket.socket, slot: Slot) -> None:
        """Serve an accepted connection."""
        protocol = partial(
            BoundedProtocol,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=loop,
            server=self,
            slot=slot,
        )
        try:
            await loop.connect_accepted_socket(protocol, link)
        except OSError:  # The client has gone.
            self.slots.leave(slot)
            link.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for listener in sockets or ():
            loop.remove_reader(listener)
        # An accepted connection must join before the end: else nobody would end it.
        await asyncio.gather(*self._joining)
        await super().shutdown(sockets)

    async def main_loop(self) -> None:
        if not self.is_over:
            await self._over.wait()

    def stop(self) -> None:
        self.is_over = True
        if self._own_loop is not None:
            self._own_loop.call_soon_threadsafe(self._over.set)


def _refusal() -> bytes:
    answer = error_answer(overloaded("you have too many connections open, or open too many"))
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"content-type: {JSON}", f"content-length: {len(answer.body)}", "connection: close"]
    lines += [f"{name}: {text}" for name, text in answer.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + answer.body


_REFUSAL = _refusal()


def _refuse(link: socket.socket) -> None:
    """Refuse a connection without waiting for its client."""
    with suppress(OSError):  # The client has gone, or does not read.
        link.send(_REFUSAL)
    link.close()
