"""Turn errors into answers: a status, and the error as the command line's --json has it.

400: the request does not fit the OpenAPI document, or has an unknown time zone or an unreadable
time; it is wrong at any time. 422: the request can be read, and makes no sense: a time in the past,
or a document with a cron text of hour 25. The answer names each wrong key.
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
