"""A request and its answer as handlers see them: no sockets, no threads, no framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgecron.api import Client
from edgecron.errors import InvalidInput

JSON = "application/json"
API = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request, all of which has been read.

    `words` are those of its path, `query` its parameters in their order, `headers` are by their
    names in small letters. `root` is the path under which the application is mounted.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    root: str = ""
    path: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered: `body` as it is, of that type."""

    status: int = 200
    body: bytes = b""
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Client, Ask], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Who answers a method of a path, which has its words in braces."""

    method: str
    path: str
    handle: Handler


def json_answer(
    content: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """An answer in JSON."""
    return Answer(status=status, body=json_bytes(content), headers=headers or {})


def json_bytes(content: object) -> bytes:
    """JSON as it goes out: ASCII, so that no text of a job's can break it."""
    return json.dumps(content, separators=(",", ":")).encode()


def read_json(body: bytes) -> Any:
    """What a body says. Raises InvalidInput, also for a key that is given twice."""
    try:
        return json.loads(body, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidInput("the body is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(
            f"the body is not JSON: {error}", hint='such as {"timezone": "Europe/Berlin"}'
        ) from None


def read_object(body: bytes) -> dict[str, Any]:
    """The object that a body is. Raises InvalidInput."""
    found = read_json(body)
    if not isinstance(found, dict):
        raise InvalidInput("the body is no JSON object", hint='such as {"description": "nightly"}')
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no value of it")
