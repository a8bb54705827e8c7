"""What comes on stdin that is no message: who sent it is told, and so is who reads stderr.

The SDK drops it without a word, and an assistant's author would wait for an answer to it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream  # as the SDK's own `run` takes it

Item = SessionMessage | Exception


class Hearing:
    """The messages of a stream; `refused` is told what was none."""

    def __init__(
        self, received: ReadStream[Item], *, refused: Callable[[Exception], Awaitable[object]]
    ) -> None:
        self._received = received
        self._refused = refused

    @property
    def last_context(self) -> Any:
        """Of the sender of the last one, as the SDK's own streams tell it."""
        return getattr(self._received, "last_context", None)

    async def receive(self) -> Item:
        while isinstance(item := await self._received.receive(), Exception):
            await self._refused(item)
        return item

    async def aclose(self) -> None:
        await self._received.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while isinstance(item := await self._received.__anext__(), Exception):
            await self._refused(item)
        return item

    async def __aenter__(self) -> Self:
        await self._received.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._received.__aexit__(kind, error, traceback)


def refusal_of(error: Exception) -> JSONRPCError:
    """The answer to what is no message: of no request, since none could be read."""
    is_json = not _is_no_json(error)
    code = INVALID_REQUEST if is_json else PARSE_ERROR
    words = "is no message of the protocol" if is_json else "is no JSON"
    message = f"this line {words}, expected JSON-RPC 2.0, a message a line"
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))


def _is_no_json(error: Exception) -> bool:
    """Whether a line failed for its letters, and not for what it says: as pydantic tells it."""
    told = getattr(error, "errors", None)
    if told is None:
        return isinstance(error, json.JSONDecodeError)
    return any(one["type"] == "json_invalid" for one in told(include_url=False))
