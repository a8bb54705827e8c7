"""What goes wrong, as answers: a status, and the error as the command line's --json has it.

400 is a request that is not of the shape that the OpenAPI document says, or that names a time zone
that is not there or says a time that is none: it is wrong whenever and of whatever it is asked. 422
is one that can be read, and means nothing: a time that has passed, or a document that holds a cron
text whose hour is 25, of which each key that is wrong is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from edgecron.client.resources import error_object
from edgecron.http.messages import Answer, json_answer

RETRY_AFTER_S = 1
# The first that fits: a schedule that can't be read any more is no fault of who asks for it.
_STATUSES: tuple[tuple[type[EdgecronError], int], ...] = (
    (ServerUnavailable, 409),  # Who asks speaks of calls as another version has them.
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
    """A request that is refused for its form or its sender, whatever it asks for.

    `status` is that of HTTP, `name` the code of the error.
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
    """The refusal of what could be answered in a moment."""
    return Refused(
        503,
        "overloaded",
        message,
        hint="ask again in a moment",
        headers={"retry-after": str(RETRY_AFTER_S)},
    )


def error_answer(error: EdgecronError) -> Answer:
    """The answer that tells an error."""
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
