"""What a command has left as its result; and, where it is a function of a program that runs in a
process of its own, what comes with it.

Such a one leaves `{"edgecron": {"result": ..., "state": {"key": "text of JSON" or null}}}`, and
nothing beside it; `"progress": {"fraction": 1, "text": ""}` may be there, too. If it raised, it
leaves `"error": {"code": "ValueError", "message": "ValueError: no"}` and no result. If its result
is not JSON, it leaves `"lost": true`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgecron.base.errors import InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.model.reports import (
    MOST_STATE_KEYS,
    Progress,
    check_state_key,
    check_state_value,
    progress_text,
)
from edgecron.supervisor.results import MARKER

_PARTS = {"result", "state", "progress", "error", "lost"}
_MOST_LETTERS = 2_000  # of what a row says about an exception


class Left(NamedTuple):
    """What a run has left: its result as a text of JSON, changes of state, its last progress."""

    result: str | None = None
    state: Mapping[str, str | None] | None = None
    progress: str | None = None
    error: tuple[str, str] | None = None  # what it raised: the type, and the message
    is_lost: bool = False  # its result is not JSON


def split_result(text: str | None) -> Left | None:
    """What a text of JSON holds that a run has left; None where it is marked and malformed."""
    if text is None or f'"{MARKER}"' not in text:
        return Left(result=text)
    try:
        body = json.loads(text)
        if not isinstance(body, dict) or set(body) != {MARKER}:
            return Left(result=text)
        return _left(body[MARKER])
    except (InvalidInput, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _left(parts: dict[str, Any]) -> Left:
    if not set(parts) <= _PARTS:
        raise ValueError("expected result, state, progress, error and lost")
    result, state, progress = (parts.get(part) for part in ("result", "state", "progress"))
    return Left(
        result=None if result is None else _storable(result),
        state=None if state is None else _changes(state),
        progress=None if progress is None else progress_text(Progress(**progress)),
        error=_error(parts.get("error")),
        is_lost=parts.get("lost") is True,
    )


def _error(error: Any) -> tuple[str, str] | None:
    if error is None:
        return None
    code, message = str(error["code"]), str(error["message"])
    (code + message).encode()
    return code[:_MOST_LETTERS], message[:_MOST_LETTERS]


def _storable(result: Any) -> str:
    text = json.dumps(result, ensure_ascii=False)
    text.encode()  # Half a surrogate pair is a value of JSON, and none that a row can hold.
    return text


def _changes(state: Any) -> dict[str, str | None] | None:
    if not isinstance(state, dict) or len(state) > MOST_STATE_KEYS:
        raise ValueError("expected an object of as many keys as a state may have")
    for key, value in state.items():
        check_state_key(key)
        if value is not None:
            check_state_value(key, value)
    return state or None
