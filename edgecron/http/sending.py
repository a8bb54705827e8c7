"""A stream of events as an ASGI answer, which ends with whoever reads it."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edgecron.http.streams import EVENTS, RunStream

_HEADERS = (
    (b"content-type", EVENTS.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would keep it back
)


class EventsResponse(Response):
    """Sends what a stream has, and closes it. Its client's end is its own, at once."""

    def __init__(self, stream: RunStream) -> None:
        super().__init__()
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_wait_until_gone(receive))
        gone.add_done_callback(lambda _: self._stream.wake())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
            # A HEAD has no body, and is not waited for.
            while scope["method"] != "HEAD" and (events := await self._stream.batch()) is not None:
                await send({"type": "http.response.body", "body": events, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._stream.close()


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
