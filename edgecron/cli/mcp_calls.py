"""Call a tool and answer: bounded, cleaned, without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import EdgecronError, os_words
from edgecron.base.safetext import clean
from edgecron.base.units import format_instant
from edgecron.base.values import NamedTuple
from edgecron.cli.mcp_session import ToolSession, check_arguments
from edgecron.triggers import local_zone_name
from edgecron.views.json_objects import mask_values

if TYPE_CHECKING:
    from edgecron.cli.mcp_session import Arguments
    from edgecron.cli.mcp_tools import Tool
    from edgecron.cli.session import Session

MOST_SIZE = 64 * 1024  # letters of an answer, all of which an assistant reads
_MOST_TEXT = 4_000  # characters of one value (default of a tool)
_TIGHTER = (400, 60)  # for an object that is still too large


class Answer(NamedTuple):
    """The answer of a tool: an object, or an error."""

    content: dict[str, Any]
    is_error: bool = False


def call(cli: Session, tool: Tool, given: object, *, reveals: bool = False) -> Answer:
    """Call a tool. An error is an answer, too, with a code and a hint.

    Values of environment, payload and stdin are hidden unless `reveals` is set.
    """
    session = ToolSession(cli)
    try:
        arguments = check_arguments(given, tool.shape)
        return _answer(session, tool, arguments, reveals=reveals)
    except EdgecronError as error:
        return error_answer(error)
    except OSError as error:
        return error_answer(EdgecronError(os_words(error)))


def error_answer(error: EdgecronError) -> Answer:
    """Return an error as --json shows it."""
    body = {"code": error.code, "message": error.message, "hint": error.hint, **error.details}
    return Answer({"error": shown(body)}, is_error=True)


def _answer(session: ToolSession, tool: Tool, arguments: Arguments, *, reveals: bool) -> Answer:
    found = tool.answer(session, arguments)
    items = _fitted(found if reveals else mask_values(found), most=tool.most_text)
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


def _fitted(found: Any, *, most: int) -> Any:
    """Shorten texts and lists until the largest object fits into an answer."""
    each = found if isinstance(found, list) else [found]
    for bound in (most, most // 4, *_TIGHTER):
        items = [shown(one, most=bound) for one in each]
        if max((_size_of(item) for item in items), default=0) <= MOST_SIZE:
            break
    return items if isinstance(found, list) else items[0]


def _bound(content: dict[str, Any], items: list[Any]) -> None:
    """Drop the last items that do not fit into an answer, and note how many."""
    room = MOST_SIZE
    for number, item in enumerate(items):
        room -= _size_of(item)
        if room < 0 and number:
            content["left_out"] = len(items) - number
            content["notes"].append(
                f"{len(items) - number} more are left out: ask for fewer, or for one schedule"
            )
            del items[number:]
            return


def _size_of(item: object) -> int:
    return len(json.dumps(item, ensure_ascii=False))


def shown(value: Any, *, most: int = _MOST_TEXT) -> Any:
    """Clean a value of control codes; bound its texts and lists to `most` characters or items."""
    if isinstance(value, str):
        text = clean(value, keep="\n\t")
        left = len(text) - most
        return text if left <= 0 else f"{text[:most]}[... {left} more characters]"
    if isinstance(value, Mapping):
        names = list(value)[:most]
        return {clean(str(name)): shown(value[name], most=most) for name in names}
    if isinstance(value, list | tuple):
        items = [shown(one, most=most) for one in value[:most]]
        left = len(value) - most
        return items if left <= 0 else [*items, f"[... {left} more]"]
    return value
