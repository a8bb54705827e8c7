"""Write the OpenAPI document from the routes and schemas that requests are checked by.

The schemas of answers are here, too: the fields of --json, as `schedules` shows them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgecron import __version__
from edgecron.base.zones import LOCAL, zone_names
from edgecron.client.json_forms import SCHEMAS
from edgecron.client.plain_forms import INSTANT, INTEGER, TEXT, Shape, nullable, reference
from edgecron.client.record_forms import run_shapes, schedule_shapes
from edgecron.client.resources import API, RESOURCES, resource_types
from edgecron.http.access import OPEN_PATHS
from edgecron.http.client_threads import EVENTS
from edgecron.http.document_schema import DOCUMENT, ZONE
from edgecron.http.messages import (
    JSON,
    Answer,
    ApiRequest,
    Operation,
    Parameter,
    Route,
    json_answer,
)
from edgecron.http.request_checks import WORDS
from edgecron.model.choices import Status
from edgecron.model.options import JOB_OPTIONS
from edgecron.views.outlook import Verdict

if TYPE_CHECKING:
    from edgecron.client import Client


# A zone can be gone that existed when the schedule was written.
_ZONE: Shape = {"type": "string", "description": "an IANA time zone, UTC, or local"}
_TRUTH: Shape = {"type": "boolean"}
_TEXTS: Shape = {"type": "array", "items": TEXT}


def _choice(choices: Any) -> Shape:
    return {"type": "string", "enum": [str(choice) for choice in choices]}


def _record(
    fields: Mapping[str, Shape], *, optional: Collection[str] = (), words: str = ""
) -> Shape:
    """Return the schema of an object with these fields. Later versions can add fields."""
    required = [name for name in fields if name not in optional]
    shape = {"type": "object", "properties": dict(fields), "required": required}
    return {**shape, "description": words} if words else shape


def _several(name: str) -> Shape:
    return {"type": "array", "items": reference(name)}


_TEXT_FIELDS = ("payload_text", "result_text")  # only if the value does not tell its text
_WITH_CALENDARS = ("calendar_days",)  # only if `except_days` names calendars
_SCHEDULE: Mapping[str, Shape] = {
    **schedule_shapes(),
    "timezone": _ZONE,
    "upcoming": _several("Fire"),
    "document": reference("Document"),
}
# What lists do not show.
_DETAILS = {
    *(option.name for option in JOB_OPTIONS),
    *("counts", "decided_until", "document", "gone_upstreams", "is_active", "is_done"),
    "is_excluded",
    *("is_timezone_default", "last_error", "last_execution_id", "last_success_at", "next_source"),
    *("payload_text", "planned_count", "pruned_until", "upcoming"),
}
_FIRE: Mapping[str, Shape] = {
    "schedule": TEXT,
    "timezone": nullable(_ZONE),
    "plan_at": INSTANT,
    "due_at": INSTANT,
    "source": nullable(TEXT),
    "is_moved": _TRUTH,
}
_NEXT: Shape = {
    **nullable(TEXT),
    "description": "the path of the next page, null if this is the last",
}
_PROBLEM = _record(
    {"key": nullable(TEXT), "message": TEXT, "hint": nullable(TEXT)}, optional=("hint",)
)
_ERROR = _record(
    {
        "code": TEXT,
        "message": TEXT,
        "hint": nullable(TEXT),
        "type": {"type": "string", "description": "the name of the Python exception"},
        "problems": {"type": "array", "items": _PROBLEM},
    },
    optional=("type", "problems"),
)

_OBJECT: Shape = {"type": "object"}
_OF_A_TIME = ("plan_at", "due_at", "source", "previous_at", "next_at", "revision")
_WHY: Mapping[str, Shape] = {
    "schedule": TEXT,
    "at": nullable(INSTANT),
    "verdict": _choice((*Verdict, "now")),
    "answer": TEXT,
    "runs": _several("Run"),
    "outlook": nullable(_OBJECT),
    **{name: nullable(INSTANT) for name in ("plan_at", "due_at", "previous_at", "next_at")},
    "source": nullable(TEXT),
    "revision": INTEGER,
}
_NUMBER: Shape = {"type": "number"}
_SCHEDULE_STATS: Mapping[str, Shape] = {
    "schedule": nullable(TEXT),
    "since_at": INSTANT,
    "counted_from_at": INSTANT,
    **dict.fromkeys(
        ("runs", "success", "failed", "cancelled", "interrupted", "retries", "skipped"), INTEGER
    ),
    "success_rate": nullable(_NUMBER),
    "skipped_by_reason": _OBJECT,
    **{
        f"{what}_{how}_ms": nullable(INTEGER)
        for what in ("duration", "late")
        for how in ("median", "p95", "max")
    },
    "output_median_bytes": nullable(INTEGER),
    "output_max_bytes": nullable(INTEGER),
    "ever": nullable(_OBJECT),
    "trend": nullable(_OBJECT),
}

ANSWERS: Mapping[str, Shape] = {
    "Document": DOCUMENT,
    "ListedSchedule": _record(
        {key: _SCHEDULE[key] for key in _SCHEDULE if key not in _DETAILS}, optional=_WITH_CALENDARS
    ),
    "Schedules": _record(
        {"schedules": _several("ListedSchedule"), "next": _NEXT, "unreadable": _TEXTS},
        words="`unreadable` has the names of schedules whose rows can't be read.",
    ),
    "Schedule": _record(
        _SCHEDULE,
        optional=(*_TEXT_FIELDS, *_WITH_CALENDARS),
        words="`document` is what PUT takes, and PATCH changes.",
    ),
    "Run": _record(
        {**run_shapes(), "timezone": nullable(_ZONE)},
        optional=_TEXT_FIELDS,
        words="One attempt of one fire, or a range of fires that did not run.",
    ),
    "Runs": _record(
        {
            "runs": _several("Run"),
            "next": _NEXT,
            "unreadable": {"type": "array", "items": INTEGER},
        },
        words="`unreadable` are the ids of the runs whose rows can't be read.",
    ),
    "Fired": _record({"runs": _several("Run")}),
    "Fire": _record(_FIRE),
    "Fires": _record({"fires": _several("Fire")}),
    "Why": _record(
        _WHY,
        optional=("outlook", *_OF_A_TIME),
        words="`answer` says it in sentences. `outlook` is there without a time, `plan_at` to"
        " `revision` with one.",
    ),
    "Stats": _record(
        {"stats": _several("ScheduleStats")},
        words="For all schedules, the last object sums up all runs, and its schedule is null.",
    ),
    "ScheduleStats": _record(_SCHEDULE_STATS),
    "Output": _record(
        {
            "run": INTEGER,
            "schedule": TEXT,
            "timezone": nullable(_ZONE),
            "status": _choice(Status),
            "is_complete": _TRUTH,
            "dropped_bytes": INTEGER,
            "removed_at": nullable(INSTANT),
            "chunks": _several("OutputChunk"),
        }
    ),
    "Health": _record(
        {
            "database": _choice(("ok", "busy", "unusable")),
            "engine": _choice(("working", "stalled", "none", "unknown")),
        }
    ),
    "Error": _record({"error": _ERROR}),
}


_REFUSALS: Mapping[int, str] = {
    400: "the request does not have the shape shown here, or has an unknown time zone or time",
    401: "the token is missing, or wrong",
    403: "the request comes from a page of another site, or from another user of the machine",
    404: "there is no such schedule, or run",
    408: "the body came too slowly",
    409: "the state does not allow it, or another program is changing it",
    412: "the schedule no longer has this ETag",
    413: "the body is larger than 1 MiB, or 16 MiB for a call",
    414: "the path is too long",
    415: "the Content-Type is not JSON",
    421: "the host of the request is not a name of this server",
    422: "a value is invalid, or the Idempotency-Key belongs to another request",
    431: "the headers are larger than 16 KiB",
    501: "this machine, or this version, can't do that",
    503: "the database can't be used, or there are too many requests: see Retry-After",
}
_ALWAYS = (400, 401, 403, 414, 421, 431, 503)
_WITH_BODY = (408, 413, 415)
_HEADERS: Mapping[str, dict[str, Any]] = {
    "Edgecron-Note": {"description": "a warning that former secrets stay in the database"},
    "ETag": {"description": "the revision of the schedule, for If-Match and If-None-Match"},
    "Link": {"description": "the next page, rel=next"},
    "Location": {"description": "where it is now"},
}
_ABOUT = """\
The functions of the edgecron command line, for programs in any language. Fields are those of its
--json; a schedule is written with the keys of its TOML documents. Instants are RFC 3339 in UTC,
and every schedule says the time zone in which its times are meant: UTC unless you name another
one. A payload is any JSON value."""


_EVENTS = """\
Server-sent events: `status` and `end` with a run, `output` with a chunk and `dropped_bytes`, the \
number of bytes before it that were not kept. A stream continues after the id that you send as \
Last-Event-ID."""


def openapi_route(routes: Sequence[Route], *, has_token: bool) -> Route:
    """Return the route of the OpenAPI document."""
    described: list[dict[str, Any]] = []

    def get_openapi(client: Client, request: ApiRequest) -> Answer:
        if not described:
            described.append(describe(routes, has_token=has_token))
        return json_answer(described[0] | {"servers": [{"url": request.root or "/"}]})

    return Route(method="GET", path=f"{API}/openapi.json", handle=get_openapi)


def describe(routes: Iterable[Route], *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the routes that have an operation."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = route.describe() if route.describe is not None else route.operation
        if operation is not None:
            described = _operation(route, operation)
            if has_token and route.path in OPEN_PATHS:
                described["security"] = []
            paths.setdefault(route.path, {})[route.method.lower()] = described
    for name in RESOURCES:
        resource_types(name)  # This adds the objects that the resource takes and gives to SCHEMAS.
    document = {
        "openapi": "3.1.0",
        "info": {"title": "edgecron", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "security": [{"token": []}] if has_token else [],
        "components": {
            "schemas": {
                **SCHEMAS,
                **ANSWERS,
                "TimeZone": {**ZONE, "enum": [LOCAL, *sorted(zone_names())]},
            },
            "responses": {str(status): _refusal(words) for status, words in _REFUSALS.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    named: dict[str, Any] = _naming_zones(document)
    return named


def _naming_zones(value: Any) -> Any:
    """Replace each time zone by a reference to one list of all zones."""
    if value is ZONE:
        return {"$ref": "#/components/schemas/TimeZone"}
    if isinstance(value, Mapping):
        return {key: _naming_zones(one) for key, one in value.items()}
    return [_naming_zones(one) for one in value] if isinstance(value, list) else value


def _operation(route: Route, operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.words,
        "tags": [operation.tag],
        "parameters": [
            *(_path_word(word, operation) for word in re.findall(r"{(\w+)}", route.path)),
            *(_parameter(one, "query") for one in operation.query),
            *(_parameter(one, "header") for one in operation.headers),
        ],
        "responses": _responses(route, operation),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.is_body_needed,
            "content": {kind: {"schema": operation.body} for kind in operation.body_types},
        }
    return described


def _path_word(word: str, operation: Operation) -> dict[str, Any]:
    schema = WORDS.get(word) or operation.words_of_path[word]
    return {"name": word, "in": "path", "required": True, "schema": schema}


def _parameter(parameter: Parameter, place: str) -> dict[str, Any]:
    shape: Mapping[str, Any] = parameter.shape
    if parameter.is_repeated:
        shape = {"type": "array", "items": shape}
    return {
        "name": parameter.name,
        "in": place,
        "description": parameter.words,
        "required": parameter.is_required,
        "schema": shape,
    }


def _responses(route: Route, operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    statuses = {*_ALWAYS, *operation.refusals, *(_WITH_BODY if operation.body else ())}
    for status in sorted(statuses):
        found[str(status)] = {"$ref": f"#/components/responses/{status}"}
    for status, shape in operation.answers.items():
        found[str(status)] = _answer(shape, operation, is_good=status < 400)
    if route.is_streamed:
        found["200"]["content"][EVENTS] = {"schema": {"type": "string", "description": _EVENTS}}
        found["204"] = {"description": "there are no events after that one"}
    return dict(sorted(found.items()))


def _answer(shape: str | Shape, operation: Operation, *, is_good: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"description": "no content"}
    if shape:
        described["description"] = shape if isinstance(shape, str) else operation.words
        schema = reference(shape) if isinstance(shape, str) else shape
        described["content"] = {JSON: {"schema": schema}}
    if is_good and operation.answer_headers:
        described["headers"] = {
            header: {**_HEADERS[header], "schema": {"type": "string"}}
            for header in operation.answer_headers
        }
    return described


def _refusal(words: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": words, "content": {JSON: {"schema": schema}}}
