"""The server of `edgecron mcp`: its tools, and the protocol on stdin and stdout.

`texts/tools.toml` describes the tools. All calls run on one thread, which owns the database.
"""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

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
from edgecron.base.files import package_text
from edgecron.cli.mcp_calls import (
    MOST_OUTPUT,
    OUTPUT_LINES,
    Answer,
    Arguments,
    Effect,
    Tool,
    ToolSession,
    add_schedule,
    call,
    edit_schedule,
    error_answer,
    read_output,
    with_instant,
    words_of,
)
from edgecron.cli.session import Session
from edgecron.http.document_schema import DOCUMENT, NAME, PATCH, SCOPE, TIME, ZONE, duration
from edgecron.model.choices import Status
from edgecron.model.options import OPTIONS
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import unreadable_words

if TYPE_CHECKING:
    from edgecron.client.plain_forms import Shape

_MOST_ID = 2**63 - 1
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
        instructions=" ".join(package_text("cli/texts/assistants.txt").split())
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
    if name in tools(may_change=True):
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


# Tools.


def tools(*, may_change: bool) -> dict[str, Tool]:
    """Return the offered tools by name."""
    return {tool.name: tool for tool in (*_READING, *(_CHANGING if may_change else ()))}


_WINDOWS = ("between", "not_between", "except")


def _command(
    name: str, *places: str, time: str | None = None, **options: str
) -> Callable[[ToolSession, Arguments], Any]:
    """Answer by a command: `places`, `options` and `time` name arguments that become words."""

    def answer(session: ToolSession, arguments: Arguments) -> Any:
        if time is not None:
            arguments = with_instant(session, arguments, time)
        return session.run_command(name, words_of(arguments, options, *places))

    return answer


def _list(session: ToolSession, arguments: Arguments) -> list[dict[str, Any]]:
    client = session.client()
    limit = arguments.get("limit", 50)
    found, unreadable = client.schedule_page(after=arguments.get("after"), limit=limit + 1)
    if unreadable:
        session.say(unreadable_words("schedule", unreadable))
    if len(found) > limit:
        session.say(f"there are more: list with after {found[limit - 1].name}")
    return [schedule_object(schedule) for schedule in found[:limit]]


def _show(session: ToolSession, arguments: Arguments) -> Any:
    return session.run_command(
        "show", ["--reveal", "--", arguments["name"]]
    )  # Hidden for all tools.


def _why(session: ToolSession, arguments: Arguments) -> Any:
    asked = with_instant(session, arguments, "time")
    place = "run" if "run" in asked else "time"
    return session.run_command("why", words_of(asked, {}, "name", place))


_RUN_OPTIONS = {
    name: f"--{name}" for name in ("payload", "at", "key", "priority", "timeout", "scope")
}


def _run(session: ToolSession, arguments: Arguments) -> Any:
    if "payload" in arguments:
        arguments = {**arguments, "payload": json.dumps(arguments["payload"])}
    arguments = with_instant(session, arguments, "at")
    return session.run_command("run", words_of(arguments, _RUN_OPTIONS, "name"))


def _takes(*required: str, **properties: Shape) -> Shape:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _count(most: int, words: str, *, default: int) -> Shape:
    return {
        "type": "integer", "minimum": 1, "maximum": most, "default": default, "description": words,
    }  # fmt: skip


_RUN: Shape = {
    "type": "integer", "minimum": 1, "maximum": _MOST_ID,
    "description": "a run's number, as `id` in history",
}  # fmt: skip
_SCHEDULE: Shape = {**NAME, "description": "the name of a schedule"}
_TIME: Shape = {
    **TIME,
    "description": "RFC 3339 with an offset, or 'in 20m'; or '2026-03-01 09:00', 'tomorrow 09:00',"
    " with timezone",
}
_ZONE: Shape = {**ZONE, "description": "the zone of a time without an offset: an IANA name"}
_DURATION: Shape = {
    "type": "string", "pattern": r"^([0-9]{1,6}[smhdw])+$", "maxLength": 40, "default": "7d",
    "description": "how far back, such as 12h or 30d",
}  # fmt: skip
_STATUSES: Shape = {
    "type": "array", "items": {"type": "string", "enum": list(Status)}, "minItems": 1,
    "maxItems": len(Status), "description": "of these only",
}  # fmt: skip
_STREAM: Shape = {"type": "string", "enum": ["stdout", "stderr"], "description": "one of them only"}

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(package_text("cli/texts/tools.toml"))


def _tool(
    name: str,
    answer: Callable[[ToolSession, Arguments], Any],
    shape: Shape,
    **more: Any,
) -> Tool:
    """Return a tool with its texts."""
    title, says = _TEXTS[name]["title"], " ".join(_TEXTS[name]["says"].split())
    return Tool(name, title, says, shape, answer, **more)


_READING = (
    _tool("list", _list, _takes(after=_SCHEDULE, limit=_count(200, "at most N", default=50))),
    _tool("show", _show, _takes("name", name=_SCHEDULE)),
    _tool(
        "next",
        _command("next", "name", limit="-n"),
        _takes(name=_SCHEDULE, limit=_count(200, "how many", default=10)),
    ),
    _tool(
        "history",
        _command("history", "name", status="--status", limit="-n", before="--before"),
        _takes(
            name=_SCHEDULE,
            status=_STATUSES,
            limit=_count(200, "how many", default=20),
            before={**_RUN, "description": "runs older than this one"},
        ),
    ),
    _tool(
        "logs",
        read_output,
        _takes(
            "run",
            run={"anyOf": [_RUN, _SCHEDULE], "description": "a run's number, or a schedule"},
            lines=_count(2_000, "the last N lines", default=OUTPUT_LINES),
            stream=_STREAM,
        ),
        most_text=MOST_OUTPUT,
    ),
    _tool("why", _why, _takes("name", name=_SCHEDULE, time=_TIME, timezone=_ZONE, run=_RUN)),
    _tool("status", _command("status"), _takes()),
    _tool(
        "stats", _command("stats", "name", since="--since"), _takes(name=_SCHEDULE, since=_DURATION)
    ),
    _tool("doctor", _command("doctor"), _takes()),
    _tool(
        "check",
        _command(
            "check",
            "text",
            timezone="--tz",
            limit="-n",
            **{key: OPTIONS[key].option for key in _WINDOWS},
        ),
        _takes(
            "text",
            "timezone",
            text={"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^-]"},
            timezone=ZONE,
            limit=_count(50, "how many times", default=5),
            **{key: DOCUMENT["properties"][key] for key in _WINDOWS},
        ),
    ),
)

_CHANGING = (
    _tool(
        "run",
        _run,
        _takes(
            "name",
            name=_SCHEDULE,
            payload={"description": "any JSON value, instead of the schedule's payload"},
            at=_TIME,
            timezone=_ZONE,
            key={
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "description": "a key of your own: a second call with it returns the first run",
            },
            priority=DOCUMENT["properties"]["priority"],
            timeout=duration("end this run and its retries after this time"),
            scope={**SCOPE, "description": "only this scope of the schedule"},
        ),
        effect=Effect.ADDS,
        is_idempotent=False,
    ),
    _tool(
        "pause",
        _command("pause", "name", time="until", until="--until"),
        _takes("name", name=_SCHEDULE, until=_TIME, timezone=_ZONE),
        effect=Effect.CHANGES,
    ),
    _tool(
        "resume",
        _command("resume", "name", now="--now"),
        _takes("name", name=_SCHEDULE, now={"type": "boolean", "default": False}),
        effect=Effect.CHANGES,
        is_idempotent=False,
    ),
    _tool(
        "reschedule",
        _command("reschedule", "name", "time", time="time"),
        _takes("name", "time", name=_SCHEDULE, time=_TIME, timezone=_ZONE),
        effect=Effect.CHANGES,
    ),
    _tool("cancel", _command("cancel", "run"), _takes("run", run=_RUN), effect=Effect.ENDS),
    _tool(
        "add",
        add_schedule,
        {
            **_takes("name", "timezone", name=NAME, **DOCUMENT["properties"]),
            "description": DOCUMENT["description"],
        },
        effect=Effect.ADDS,
        is_idempotent=False,
    ),
    _tool(
        "edit",
        edit_schedule,
        _takes("name", name=_SCHEDULE, **PATCH["properties"]),
        effect=Effect.ENDS,
    ),
    _tool(
        "rm",
        _command("rm", "name"),
        _takes("name", name=_SCHEDULE),
        effect=Effect.ENDS,
        is_idempotent=False,
    ),
    _tool(
        "undo",
        _command("undo", "name"),
        _takes("name", name=_SCHEDULE),
        effect=Effect.ENDS,
        is_idempotent=False,
    ),
)
