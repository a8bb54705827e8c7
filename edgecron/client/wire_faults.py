"""Errors of ours as JSON, and back as the same types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgecron.base import errors
from edgecron.base.errors import EdgecronError, InvalidCrontab, InvalidDocument, ServerUnavailable

_WORDS = ("code", "message", "hint", "type")
_WITH_PROBLEMS = (InvalidCrontab, InvalidDocument)
_KINDS: Mapping[str, type[EdgecronError]] = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EdgecronError)
}


def fault_object(error: EdgecronError) -> dict[str, Any]:
    """An error as --json tells it, with its type."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "type": type(error).__name__,
        **error.details,
    }


def fault_of(told: object) -> EdgecronError | None:
    """The error that an object tells; None where it is none of ours."""
    if not isinstance(told, Mapping):
        return None
    message, hint = told.get("message"), told.get("hint")
    if not isinstance(message, str) or not (hint is None or isinstance(hint, str)):
        return None
    kind = _KINDS.get(str(told.get("type")))
    if kind is None:
        # Of the server itself, such as one that is overloaded.
        return ServerUnavailable(message, hint=hint)
    problems = told.get("problems")
    if issubclass(kind, _WITH_PROBLEMS):
        told_ones = [one for one in problems or () if isinstance(one, dict)]
        return kind(message, hint=hint, problems=told_ones)
    return kind(message, hint=hint)
