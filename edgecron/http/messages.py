"""Requests, answers and errors as handlers see them, and routes: no sockets, no framework.

Status 400: the request does not fit the OpenAPI document, or has an unknown time zone or an
unreadable time; it is wrong at any time. 422: the request can be read, and makes no sense: a time
in the past, or a document with a cron text of hour 25. The answer names each wrong key.

With them the tags (ETag), conditions (If-Match) and keys (Idempotency-Key) of their headers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from zlib import crc32

from edgecron.base.errors import (
    AlreadyExists,
    Conflict,
    DatabaseBusy,
    DatabaseUnusable,
    EdgecronError,
    InvalidInput,
    NotFound,
    NotSupported,
    QueryInterrupted,
    ServerUnavailable,
    SupervisorUnavailable,
    UnknownTimezone,
    UnreadableTime,
)
from edgecron.base.values import dataclass, field
from edgecron.client.plain_forms import Shape, error_object

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.model.schedule import Schedule


JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer, with its body as bytes."""

    status: int = 200
    body: bytes = b""
    media_type: str | None = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(
    content: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return an answer in JSON."""
    return Answer(status=status, body=json_bytes(content), headers=headers or {})


def json_bytes(content: object) -> bytes:
    """Write JSON in ASCII, so that no text of a job can break it."""
    return json.dumps(content, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request, read and checked against the schema of its route.

    `words` are the variable parts of its path, `query` the values of its parameters by name;
    `headers` have lower-case names. `content` is its JSON, None without a body or a schema for it;
    `body` are its bytes. `root` is the path under which the application is mounted, `path` the one
    below it.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, list[Any]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Any = None
    body: bytes = b""
    root: str = ""
    path: str = "/"

    def first(self, name: str, default: Any = None) -> Any:
        """Return the value of a parameter, or the default if it is missing."""
        found = self.query.get(name)
        return found[0] if found else default

    def is_on(self, name: str) -> bool:
        """Whether a parameter is given as `true`."""
        return bool(self.first(name) == "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class PollAgain:
    """No news yet: call the handler again after a pause, and answer `at_end` after `wait_s`.

    No thread is occupied meanwhile.
    """

    pause_s: float
    wait_s: float
    at_end: Answer


Handler = Callable[["Client", ApiRequest], Answer | PollAgain]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query, or a header. If `is_repeated`, it can be given several times."""

    name: str
    shape: Shape
    words: str
    is_repeated: bool = False
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The input and output of a route, for the OpenAPI document and the checks of requests.

    `answers` are schemas or their names by status, '' for an answer without a body. `words_of_path`
    are schemas of parts of the path that have no common one. `refusals` are the other statuses of
    this operation.
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
    """The handler of a method and a path, whose variable parts are in braces.

    A route without an `operation` checks its own requests, and is in the OpenAPI document only if
    it can `describe` itself. If `is_large`, it takes larger bodies. If `is_streamed`, it sends the
    run of its path as events to a client that accepts them.
    """

    method: str
    path: str
    handle: Handler
    operation: Operation | None = None
    describe: Callable[[], Operation] | None = None
    is_large: bool = False
    is_streamed: bool = False


# Errors.

RETRY_AFTER_S = 1
# The first that fits. A schedule that can't be read is not the client's fault.
_STATUSES: tuple[tuple[type[EdgecronError], int], ...] = (
    (ServerUnavailable, 409),  # The client has the resources of another version.
    (DatabaseUnusable, 503),
    (SupervisorUnavailable, 503),
    (QueryInterrupted, 503),
    (NotFound, 404),
    (AlreadyExists, 409),
    (Conflict, 409),
    (UnknownTimezone, 400),
    (UnreadableTime, 400),
    (InvalidInput, 422),
    (NotSupported, 501),
    (EdgecronError, 500),
)
_SOON_OVER = (DatabaseBusy, SupervisorUnavailable, QueryInterrupted)


class Refused(EdgecronError):
    """A request that is refused for its form or its sender.

    `status` is the HTTP status, `name` the code of the error.
    """

    def __init__(
        self,
        status: int,
        name: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.name = name
        self.headers = dict(headers or {})
        self._details = dict(details or {})

    @property
    def details(self) -> Mapping[str, Any]:
        return self._details


def overloaded(message: str) -> Refused:
    """Return the refusal of a request that can succeed a moment later."""
    return Refused(
        503,
        "overloaded",
        message,
        hint="try again in a moment",
        headers={"retry-after": str(RETRY_AFTER_S)},
    )


def error_answer(error: EdgecronError) -> Answer:
    """Return the answer for an error."""
    headers: dict[str, str] = {}
    if isinstance(error, Refused):
        status, code, headers = error.status, error.name, error.headers
    else:
        status = next(number for kind, number in _STATUSES if isinstance(error, kind))
        code = error.code
        if isinstance(error, _SOON_OVER):
            headers = {"retry-after": str(RETRY_AFTER_S)}
    body = {**error_object(error), "code": code}
    if isinstance(error, Refused):
        del body["type"]
    return json_answer({"error": body}, status=status, headers=headers)


_TAG = r'(W/)?"[!#-~]*"'
_TAGS = rf"^(\*|{_TAG}([ ]*,[ ]*{_TAG})*)$"
IF_MATCH = Parameter(
    name="If-Match",
    shape={"type": "string", "maxLength": 1000, "pattern": _TAGS, "format": "entity-tags"},
    words="act only if the schedule still has this ETag, else 412; *: only if it exists",
)
IF_NONE_MATCH = Parameter(
    name="If-None-Match",
    shape={"type": "string", "maxLength": 1000, "pattern": _TAGS, "format": "entity-tags"},
    words="for a read: 304 if it still has this ETag; for a write: *: only if it does not exist",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions of a write. A condition that the request does not have is None."""

    match: tuple[str, ...] | None = None
    none_match: tuple[str, ...] | None = None

    def check(self, schedule: Schedule | None) -> None:
        """Raise Refused if a schedule (None: there is none) does not meet the conditions."""
        if self.match is not None:
            is_there = schedule is not None and "*" in self.match
            if not is_there and (schedule is None or revision_of(schedule) not in self.match):
                raise lost(schedule)
        if self.none_match is not None and schedule is not None:
            is_there = "*" in self.none_match or revision_of(schedule) in self.none_match
            if is_there:
                raise lost(schedule)


def read_conditions(headers: Mapping[str, str]) -> Conditions:
    """Read the conditions of a write from its headers."""
    return Conditions(
        match=_revisions(headers.get("if-match")),
        none_match=_revisions(headers.get("if-none-match")),
    )


def is_known(tag: str, headers: Mapping[str, str]) -> bool:
    """Whether the client has the answer of a tag already."""
    given = headers.get("if-none-match")
    if given is None:
        return False
    return given.strip() == "*" or tag in re.findall(r'"[!#-~]*"', given)


def revision_of(schedule: Schedule) -> str:
    """Return the part of a tag that changes with the schedule."""
    return f"{schedule.id}.{schedule.revision}"


def tag_of(schedule: Schedule, shown: bytes) -> str:
    """Return the tag of a schedule and of all values shown with it."""
    return f'"{revision_of(schedule)}-{crc32(shown):08x}"'


def lost(schedule: Schedule | None) -> Refused:
    """Return the refusal for a condition that no longer holds."""
    if schedule is None:
        message = "there is no such schedule, but If-Match requires one"
    else:
        message = (
            f"schedule {schedule.name!r} is at revision {schedule.revision}:"
            " the condition of the request, If-Match or If-None-Match, does not hold"
        )
    return Refused(
        412,
        "precondition_failed",
        message,
        hint="read it again, and repeat with the ETag that it has then",
    )


def _revisions(given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    if given.strip() == "*":
        return ("*",)
    return tuple(tag.partition("-")[0] for tag in re.findall(r'"([!#-~]*)"', given))


# 1 to 255 characters, bare or as a String of structured fields (RFC 9651).
_BARE = r"[!#-~]([ -~]{0,253}[!-~])?"
_QUOTED = r'"([ !#-\[\]-~]|\\["\\]){1,255}"'
IDEMPOTENCY_KEY = Parameter(
    name="Idempotency-Key",
    shape={
        "type": "string",
        "minLength": 1,
        "maxLength": 512,
        "pattern": f"^({_BARE}|{_QUOTED})$",
        "format": "idempotency-key",
        "description": "1 to 255 printable characters of ASCII, in quotes or without",
    },
    words="a key of your own, for which the schedule fires once. If you repeat the request, such as"
    " after a lost answer, it returns the same runs as they are now, as long as the history holds"
    " them. Each schedule and scope has its own keys. The same key with another payload is 422"
    " idempotency_key_reused",
)


def find_key(headers: Mapping[str, str]) -> str | None:
    """Return the idempotency key of a request; None if it has none."""
    given = headers.get(IDEMPOTENCY_KEY.name.lower())
    if given is None or not given.startswith('"'):
        return given
    return re.sub(r"\\(.)", r"\1", given[1:-1])
