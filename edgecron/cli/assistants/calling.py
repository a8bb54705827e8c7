"""A call of a tool, and its answer: bounded, cleaned, without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from edgecron.cli.assistants.collecting import ToolSession
from edgecron.errors import EdgecronError
from edgecron.safetext import clean

if TYPE_CHECKING:
    from edgecron.cli.assistants.reading import Arguments
    from edgecron.cli.assistants.tools import Tool
    from edgecron.cli.session import Session

MOST_BYTES = 64 * 1024  # of an answer: it becomes a part of what an assistant has to read
_MOST_TEXT = 4_000  # characters of one value, where its tool says nothing else
_HIDDEN = "***"


class Answer(NamedTuple):
    """What a tool answers: an object, and whether that is an error."""

    content: dict[str, Any]
    is_error: bool = False


def call(cli: Session, tool: Tool, given: object) -> Answer:
    """Do what a tool does. What goes wrong is an answer, too, with a code and a hint."""
    from edgecron.cli.assistants.reading import check_arguments

    session = ToolSession(cli)
    try:
        return _answer(session, tool, check_arguments(given, tool.shape))
    except EdgecronError as error:
        return error_answer(error)
    except OSError as error:
        from edgecron.words.phrases import os_words

        return error_answer(EdgecronError(os_words(error)))


def error_answer(error: EdgecronError) -> Answer:
    """An error, as --json has it."""
    body = {"code": error.code, "message": error.message, "hint": error.hint, **error.details}
    return Answer({"error": shown(body)}, is_error=True)


def _answer(session: ToolSession, tool: Tool, arguments: Arguments) -> Answer:
    from edgecron.timetext import format_instant
    from edgecron.triggers import local_zone_name

    found = tool.answer(session, arguments)
    items = shown(found, most=tool.most_text)
    content = {
        "now": format_instant(session.client().now()),
        "timezone": local_zone_name(),
        "answer": items,
        "left_out": 0,
        "notes": [shown(note) for note in session.notes],
    }
    if isinstance(items, list):
        _bound(content, items)
    return Answer(content)


def _bound(content: dict[str, Any], items: list[Any]) -> None:
    """Leave out the last items where there are too many for one answer, and say how many."""
    room = MOST_BYTES
    for number, item in enumerate(items):
        room -= len(json.dumps(item))
        if room < 0 and number:
            content["left_out"] = len(items) - number
            content["notes"].append(
                f"{len(items) - number} more are left out: ask for fewer, or for one schedule"
            )
            del items[number:]
            return


def shown(value: Any, *, most: int = _MOST_TEXT) -> Any:
    """A value without what a terminal would obey, its texts bounded, its secrets hidden."""
    if isinstance(value, str):
        text = clean(value, keep="\n\t")
        left = len(text) - most
        return text if left <= 0 else f"{text[:most]}[... {left} more characters]"
    if isinstance(value, Mapping):
        found = {clean(str(key)): shown(one, most=most) for key, one in value.items()}
        if isinstance(value.get("env"), Mapping):
            found["env"] = _hide_secrets(found["env"])
        return found
    if isinstance(value, list | tuple):
        return [shown(one, most=most) for one in value]
    return value


def _hide_secrets(env: Mapping[str, Any]) -> dict[str, Any]:
    from edgecron.documents.values import is_secret_name

    return {name: _HIDDEN if is_secret_name(name) else value for name, value in env.items()}
