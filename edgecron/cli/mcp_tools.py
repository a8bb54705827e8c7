"""The table of tools: arguments and answer of each. `texts/tools.toml` describes them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgecron.cli.files import read_text
from edgecron.cli.mcp_calls import (
    MOST_OUTPUT,
    OUTPUT_LINES,
    Arguments,
    Effect,
    Tool,
    ToolSession,
    add_schedule,
    edit_schedule,
    read_output,
    with_instant,
    words_of,
)
from edgecron.http.document_schema import DOCUMENT, NAME, PATCH, SCOPE, TIME, ZONE, duration
from edgecron.model.choices import Status
from edgecron.model.options import OPTIONS
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import unreadable_words

if TYPE_CHECKING:
    from edgecron.client.plain_forms import Shape

_MOST_ID = 2**63 - 1


def tools(*, may_change: bool) -> dict[str, Tool]:
    """Return the offered tools by name."""
    return {tool.name: tool for tool in (*_READING, *(_CHANGING if may_change else ()))}


def is_known(name: str) -> bool:
    """Return whether a tool exists, offered or not."""
    return name in tools(may_change=True)


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

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(read_text("texts/tools.toml"))


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
