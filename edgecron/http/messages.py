"""A request as handlers see it, and what is to be known of a route: no sockets, no framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.values import dataclass, field
from edgecron.client.json_forms import Shape

if TYPE_CHECKING:
    from edgecron.client import Client


JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered: `body` as it is, of that type."""

    status: int = 200
    body: bytes = b""
    media_type: str | None = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(
    content: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """An answer in JSON."""
    return Answer(status=status, body=json_bytes(content), headers=headers or {})


def json_bytes(content: object) -> bytes:
    """JSON as it goes out: ASCII, so that no text of a job's can break it."""
    return json.dumps(content, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request, all of which has been read, and is of the shape that its route says.

    `words` are those of its path, `query` its parameters by name, each with its values, `headers`
    are by their names in small letters. `content` is its JSON, None where it has no body or its
    route says nothing of one; `body` is as it came. `root` is the path under which the application
    is mounted, `path` the one below it.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, list[Any]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Any = None
    body: bytes = b""
    root: str = ""
    path: str = "/"

    def first(self, name: str, default: Any = None) -> Any:
        """The value of a parameter; of one that is not given, the default."""
        found = self.query.get(name)
        return found[0] if found else default

    def is_on(self, name: str) -> bool:
        """Whether a parameter that is true or false is given as true."""
        return bool(self.first(name) == "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """There is nothing yet: it is asked again after a pause, for so long, and then `at_end` is the
    answer. Meanwhile it keeps no worker from others."""

    pause_s: float
    wait_s: float
    at_end: Answer


Handler = Callable[["Client", Ask], Answer | Later]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a query, or a header. One that `is_repeated` may be given several times."""

    name: str
    shape: Shape
    words: str
    is_repeated: bool = False
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a route takes and gives: the OpenAPI document says it, and the door checks it.

    `answers` are shapes or their names by status, '' for an answer without a body;
    `words_of_path` are the shapes of words of the path that have no common one; `refusals` are
    the statuses beside these that are this operation's own.
    """

    name: str
    words: str
    tag: str
    words_of_path: Mapping[str, Shape] = field(default_factory=dict)
    query: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body: Shape | None = None
    body_types: tuple[str, ...] = ("application/json",)
    is_body_needed: bool = False
    answers: Mapping[int, str | Shape] = field(default_factory=dict)
    answer_headers: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Who answers a method of a path, which has its words in braces.

    A route without an `operation` checks its own requests, and is in the OpenAPI document only if
    it can `describe` itself. A route that `is_large` takes larger bodies. A route that
    `is_streamed` sends the run of its path as events to a client that accepts these.
    """

    method: str
    path: str
    handle: Handler
    operation: Operation | None = None
    describe: Callable[[], Operation] | None = None
    is_large: bool = False
    is_streamed: bool = False
