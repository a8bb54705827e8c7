"""The protocol on stdin and stdout. All calls run on one thread, which owns the database."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as ToolWords

import edgecron
from edgecron.base.errors import EdgecronError, InvalidInput, NotSupported
from edgecron.cli.files import read_text
from edgecron.cli.mcp_calls import Answer, Effect, Tool, call, error_answer
from edgecron.cli.mcp_tools import is_known, tools
from edgecron.cli.session import Session

_THREAD = "edgecron-mcp"
_READ_ONLY = " You can read everything and change nothing."


def serve(cli: Session, *, may_change: bool, reveals: bool = False) -> None:
    """Serve on stdin and stdout until stdin ends. Nothing else may write to stdout."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix=_THREAD) as worker:
        try:
            server = server_of(cli, worker, may_change=may_change, reveals=reveals)
            asyncio.run(_serve(server))
        finally:
            worker.submit(cli.close).result()  # On the thread that opened it.


async def _serve(server: Server[Any]) -> None:
    """Serve until stdin ends and each request has its answer.

    The SDK drops calls that are in flight when its input ends. So its input ends a little later.
    """
    forward, requests = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, answered = anyio.create_memory_object_stream[SessionMessage](0)
    unanswered: set[object] = set()
    fewer = anyio.Event()

    async def read() -> None:
        async with forward:
            async for item in received:
                if isinstance(item, SessionMessage):
                    _expect(unanswered, item.message)
                await forward.send(item)
            while unanswered:
                await fewer.wait()

    async def write() -> None:
        nonlocal fewer
        async with sent:
            async for item in answered:
                await sent.send(item)
                if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                    unanswered.discard(item.message.id)
                    fewer.set()
                    fewer = anyio.Event()

    async with stdio_server() as (received, sent), anyio.create_task_group() as pumps:
        pumps.start_soon(read)
        pumps.start_soon(write)
        await server.run(requests, answers, server.create_initialization_options())


def _expect(unanswered: set[object], message: object) -> None:
    """Note a request. One that the client cancels possibly gets no answer."""
    if isinstance(message, JSONRPCRequest):
        unanswered.add(message.id)
    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        unanswered.discard((message.params or {}).get("requestId"))


def server_of(
    cli: Session, worker: ThreadPoolExecutor, *, may_change: bool, reveals: bool = False
) -> Server[Any]:
    """Return a server of a session's database; the worker's thread makes its calls one by one."""
    cli.origin = "mcp"  # of the changes that its tools make
    offered = tools(may_change=may_change)

    async def list_tools(_context: object, _params: object) -> ListToolsResult:
        return ListToolsResult(tools=[_words_of(tool) for tool in offered.values()])

    async def call_tool(_context: object, params: CallToolRequestParams) -> CallToolResult:
        tool = offered.get(params.name)
        if tool is None:
            return _result_of(error_answer(_refusal(params.name)))
        ask = partial(call, cli, tool, params.arguments, reveals=reveals)
        return _result_of(await asyncio.get_running_loop().run_in_executor(worker, ask))

    return Server(
        "edgecron",
        version=edgecron.__version__,
        title="edgecron",
        instructions=" ".join(read_text("texts/assistants.txt").split())
        + ("" if may_change else _READ_ONLY),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _words_of(tool: Tool) -> ToolWords:
    return ToolWords(
        name=tool.name,
        title=tool.title,
        description=tool.says,
        input_schema=dict(tool.shape),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.effect is Effect.NOTHING,
            destructive_hint=tool.effect is Effect.ENDS,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=tool.name in ("run", "add", "edit"),  # Jobs may do anything.
        ),
    )


def _refusal(name: str) -> EdgecronError:
    if is_known(name):
        return NotSupported(
            f"tool {name!r} changes something, which is not allowed here",
            hint="to allow it, start the server with: edgecron mcp --allow-changes",
        )
    return InvalidInput(f"there is no tool {name[:60]!a}", hint="see tools/list")


def _result_of(answer: Answer) -> CallToolResult:
    text = json.dumps(answer.content, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=answer.content,
        is_error=answer.is_error,
    )
