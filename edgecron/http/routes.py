"""The routes: the handler of each method and path, and what it takes and gives.

The routes of the resources of edgecron's own clients come from the table that both sides share.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from edgecron.client.plain_forms import INSTANT, Shape
from edgecron.client.resource_functions import View
from edgecron.client.resources import (
    API,
    MOST_WAIT_MS,
    RESOURCES,
    ResourceTypes,
    answer_object,
    read_arguments,
    resource_types,
)
from edgecron.http import runs, schedules
from edgecron.http.document_schema import DOCUMENT, NAME, NAMED_DOCUMENT, PATCH, ZONE
from edgecron.http.messages import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    JSON,
    MERGE_PATCH,
    Answer,
    ApiRequest,
    Handler,
    Operation,
    Parameter,
    PollAgain,
    Refused,
    Route,
    json_answer,
)
from edgecron.http.request_checks import (
    RUN_ID,
    SWITCH,
    WORDS,
    check_shape,
    load_content,
    path_value,
)
from edgecron.model.choices import Cause, Status

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.http.client_threads import ChangeWatch

_TIME: Shape = {**INSTANT, "format": "date-time"}
_SHORT: Shape = {"type": "string", "maxLength": 200}
_BEFORE = Parameter("before", RUN_ID, "runs older than this one")
_SINCE = Parameter(
    "since", _TIME, "only runs that started at this time or later; for others their plan time"
)
_UNTIL = Parameter("until", _TIME, "only runs that started before this time")
_FORMER = Parameter("former", SWITCH, "runs of removed schedules of this name, too (false)")
_CHOICE = (
    Parameter(
        "word",
        {"type": "string", "minLength": 1, "maxLength": 200},
        "those with this word in name, group, description or job",
        is_repeated=True,
    ),
    Parameter("group", _SHORT, "those of a group"),
    Parameter("failed", SWITCH, "those whose last run failed (false)"),
    Parameter("paused", SWITCH, "those that are paused (false)"),
)
_FILTER = Parameter(
    "filter",
    {"type": "string", "maxLength": 1000},
    "only schedules that match this filter, such as group:disk, as in the dashboard",
)
_SKIP = Parameter(
    "skip",
    {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0},
    "skip this number of them (0)",
)
_EACH = Parameter(
    "each",
    {"type": "integer", "minimum": 1, "maximum": 10_000},
    "at most this number of each schedule, if it is of all schedules",
)
_SCHEDULE = Parameter("schedule", NAME, "only runs of this schedule")
_AFTER = Parameter("after", NAME, "those whose names come after this one")
_AT = Parameter("at", _TIME, "this time instead of the last run and the next one")
_COUNTED_SINCE = Parameter("since", _TIME, "count from this time on (7 days ago)")
_TREND = Parameter("trend", SWITCH, "compare with the month before (false)")
_LAST_EVENT = Parameter(
    "Last-Event-ID",
    {"type": "string", "pattern": r"^(end|[0-9]{1,18})$"},
    "send only events after this one",
)


def _camel(name: str) -> str:
    """Return a name of Python as the OpenAPI document writes it: `list_runs`, `listRuns`."""
    first, *rest = name.split("_")
    return "".join([first, *(word.capitalize() for word in rest)])


def _limit(default: int, most: int) -> Parameter:
    shape: Shape = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter("limit", shape, f"at most this number ({default})")


def _choice(name: str, words: str, choices: type[StrEnum], *, is_repeated: bool) -> Parameter:
    shape: Shape = {"type": "string", "enum": list(choices)}
    return Parameter(name, shape, words, is_repeated=is_repeated)


_STATUS = _choice("status", "only runs with these statuses", Status, is_repeated=True)
_CAUSE = _choice("cause", "only runs with these causes", Cause, is_repeated=True)
_VIEW = _choice(
    "view",
    "`list`: the fields of list --json; `record`: all fields (list)",
    View,
    is_repeated=False,
)
_OF_RUNS = (_limit(100, 1000), _BEFORE, _SINCE, _UNTIL, _STATUS, _CAUSE)
# Of an answer with one schedule, or with a page.
_HEADERS = {"Schedule": ("ETag",), "Schedules": ("Link",), "Runs": ("Link",)}


def route(
    form: str,
    handle: Handler,
    *,
    words: str,
    name: str = "",
    tag: str = "",
    answer: str = "Schedule",
    status: int = 200,
    refusals: tuple[int, ...] = (404,),
    is_streamed: bool = False,
    **operation: Any,
) -> Route:
    """Return a route with its operation. `form` is its method and path, as people write it.

    `answer` is the schema of the usual answer, `status` its status. The default `name` is that of
    the handler, the default `tag` the first word of the path.
    """
    method, path = form.split()
    name, tag = name or _camel(handle.__name__), tag or path.split("/")[1]
    given = {"answers": {status: answer}, "answer_headers": _HEADERS.get(answer, ()), **operation}
    return Route(
        method=method,
        path=f"{API}{path}",
        handle=handle,
        operation=Operation(name=name, words=words, tag=tag, refusals=refusals, **given),
        is_streamed=is_streamed,
    )


_SCHEDULES = (
    route(
        "GET /schedules",
        schedules.list_schedules,
        words="Schedules, by name: the fields of list --json",
        answer="Schedules",
        query=(_limit(100, 1000), _AFTER, *_CHOICE, _VIEW),
        refusals=(),
    ),
    route(
        "POST /schedules",
        schedules.post_schedule,
        words="Make a schedule; one that exists already stays as it is",
        status=201,
        body=NAMED_DOCUMENT,
        is_body_needed=True,
        answer_headers=("ETag", "Location"),
        refusals=(409, 422),
    ),
    route(
        "GET /schedules/{name}",
        schedules.get_schedule,
        words="All about a schedule: the fields of show --json, and its document",
        headers=(IF_NONE_MATCH,),
        answers={200: "Schedule", 304: ""},
    ),
    route(
        "PUT /schedules/{name}",
        schedules.put_schedule,
        words="Make a schedule, or replace its whole document",
        headers=(IF_MATCH, IF_NONE_MATCH),
        body=DOCUMENT,
        is_body_needed=True,
        answers={200: "Schedule", 201: "Schedule"},
        answer_headers=("ETag", "Location", "Edgecron-Note"),
        refusals=(409, 412, 422),
    ),
    route(
        "PATCH /schedules/{name}",
        schedules.patch_schedule,
        words="Change what is given of a schedule; null clears a key",
        headers=(IF_MATCH, IF_NONE_MATCH),
        body=PATCH,
        body_types=(MERGE_PATCH, JSON),
        is_body_needed=True,
        answer_headers=("ETag", "Edgecron-Note"),
        refusals=(404, 409, 412, 422),
    ),
    route(
        "DELETE /schedules/{name}",
        schedules.delete_schedule,
        words="Remove a schedule: its queued runs are cancelled, its running runs finish",
        headers=(IF_MATCH, IF_NONE_MATCH),
        answers={204: ""},
        answer_headers=(),
        refusals=(404, 409, 412),
    ),
    route(
        "POST /schedules/{name}/fire",
        schedules.fire,
        words="Run it now or later, in each of its scopes; its next time does not change",
        answer="Fired",
        status=202,
        headers=(IDEMPOTENCY_KEY,),
        body=schedules.FIRE,
        answer_headers=("Location",),
        refusals=(404, 409, 422),
    ),
    route(
        "POST /schedules/{name}/pause",
        schedules.pause,
        words="Pause a schedule, without end or until a time; this cancels a move of its next run",
        body=schedules.PAUSE,
        refusals=(404, 409, 422),
    ),
    route(
        "POST /schedules/{name}/resume",
        schedules.resume,
        words="Resume a schedule; the times passed while it was paused are one skipped run",
        refusals=(404, 409, 422),
    ),
    route(
        "POST /schedules/{name}/reschedule",
        schedules.reschedule,
        words="Move its next run to another time, once",
        body=schedules.RESCHEDULE,
        is_body_needed=True,
        refusals=(404, 409, 422),
    ),
    route(
        "POST /schedules/{name}/restore",
        schedules.restore,
        words="Restore a removed schedule with its history; it runs from now on, unless paused",
        refusals=(404, 409, 422),
    ),
    route(
        "GET /schedules/{name}/runs",
        runs.list_runs,
        name="listRunsOfSchedule",
        words="Runs of a schedule, newest first: the fields of history --json",
        tag="runs",
        answer="Runs",
        query=(*_OF_RUNS, _FORMER),
    ),
    route(
        "GET /schedules/{name}/why",
        runs.get_why,
        name="why",
        words="Why a schedule ran, did not run, or will not run: the fields of why --json",
        answer="Why",
        query=(_AT,),
        refusals=(404, 422),
    ),
    route(
        "GET /schedules/{name}/stats",
        runs.get_stats,
        name="statsOfSchedule",
        words="Counts, durations and delays of the runs of a schedule: the fields of stats --json",
        answer="Stats",
        query=(_COUNTED_SINCE, _TREND),
        refusals=(404, 422),
    ),
    route(
        "GET /schedules/{name}/next",
        runs.list_next,
        name="listNextOfSchedule",
        words="Fires of a schedule to come: the fields of next --json",
        tag="next",
        answer="Fires",
        query=(_limit(10, 1000),),
        refusals=(404, 422),
    ),
)
_RUNS = (
    route(
        "GET /runs",
        runs.list_runs,
        words="Runs, newest first: the fields of history --json",
        answer="Runs",
        query=(*_OF_RUNS, _SCHEDULE, _FORMER),
    ),
    route(
        "GET /runs/{id}",
        runs.get_run,
        words="A run: the fields of history --json",
        answer="Run",
    ),
    route(
        "GET /runs/{id}/why",
        runs.get_why_of_run,
        name="whyRun",
        words="Why a run ran or did not run: the fields of why --json",
        answer="Why",
    ),
    route(
        "GET /stats",
        runs.get_stats,
        name="stats",
        words="Counts, durations and delays of runs by schedule: the fields of stats --json",
        tag="runs",
        answer="Stats",
        query=(_COUNTED_SINCE, _TREND, _SCHEDULE),
        refusals=(404, 422),
    ),
    route(
        "POST /runs/{id}/cancel",
        runs.cancel_run,
        words="Cancel a run: a running one is ended, and its end is recorded a moment later",
        answer="Run",
        status=202,
        refusals=(404, 409),
    ),
    route(
        "GET /runs/{id}/output",
        runs.get_output,
        words="Get the output of a run up to now, as far as it is kept. With Accept:"
        " text/event-stream, edgecron sends the output as the run prints it",
        answer="Output",
        is_streamed=True,
        headers=(_LAST_EVENT,),
    ),
    route(
        "GET /next",
        runs.list_next,
        words="Fires to come, of all schedules or of some: the fields of next --json",
        answer="Fires",
        query=(_limit(10, 10_000), _SKIP, _EACH, _SCHEDULE, _FILTER),
        refusals=(404, 422),
    ),
)
_HEALTH = Route(
    method="GET",
    path="/healthz",
    handle=runs.get_health,
    operation=Operation(
        name="getHealth",
        words="Whether the database answers, and whether an engine is running",
        tag="about",
        answers={200: "Health", 503: "Health"},
    ),
)
# Prometheus has its own formats, and no OpenAPI.
_METRICS = Route(method="GET", path="/metrics", handle=runs.get_metrics)


# The resources of edgecron's own clients.

# Parameters whose texts have a shape that their type does not tell.
_SHAPES: Mapping[str, Shape] = {"zone": ZONE, "schedule": NAME}
_WAIT = Parameter(
    name="wait_ms",
    shape={"type": "integer", "minimum": 0, "maximum": MOST_WAIT_MS, "default": 0},
    words="wait at most this long for news",
)


def make_routes(watch: ChangeWatch) -> tuple[Route, ...]:
    """Return all routes except that of the OpenAPI document, which `app` adds."""
    resources = (
        Route(
            method=resource.method,
            path=f"{API}{resource.path}",
            handle=partial(_answer, name=name, watch=watch),
            describe=partial(_describe, name),
            is_large=True,
        )
        for name, resource in RESOURCES.items()
        if not resource.is_shared
    )
    return (*_SCHEDULES, *_RUNS, _HEALTH, _METRICS, *resources)


def _answer(
    client: Client, request: ApiRequest, *, name: str, watch: ChangeWatch
) -> Answer | PollAgain:
    asked = resource_types(name)
    for word, text in request.words.items():
        if word in WORDS:
            check_shape(path_value(text, WORDS[word]), WORDS[word], where=word)
    query = [(key, text) for key, texts in request.query.items() for text in texts]
    wait_ms = _take_wait(query) if asked.resource.pause_s is not None else 0
    content = load_content(request.body) if request.body else {}
    if asked.resource.method == "GET" and request.body:
        raise Refused(400, "wrong_shape", "a body is not allowed here", hint="send no body")
    arguments = read_arguments(asked, words=request.words, query=query, content=content)
    found = _find_answer(client, asked, arguments, watch)
    answer = json_answer(answer_object(asked, found))
    if found is not None or asked.resource.pause_s is None:
        return answer
    return PollAgain(pause_s=asked.resource.pause_s, wait_s=wait_ms / 1000, at_end=answer)


def _take_wait(query: list[tuple[str, str]]) -> int:
    """Remove `wait_ms` from a query. Raises Refused if it is not a number within its bounds."""
    texts = [text for key, text in query if key == _WAIT.name]
    query[:] = [(key, text) for key, text in query if key != _WAIT.name]
    if not texts:
        return 0
    text = texts[0]
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    if len(texts) > 1 or not is_number or int(text) > MOST_WAIT_MS:
        raise Refused(
            400,
            "wrong_shape",
            f"parameter wait_ms is {text[:60]!a}, expected a number from 0 to {MOST_WAIT_MS}",
        )
    return int(text)


def _find_answer(
    client: Client, asked: ResourceTypes, arguments: dict[str, Any], watch: ChangeWatch
) -> Any:
    """Answer. A change mark is the server's: the Client of each thread would have its own."""
    if asked.resource.name == "change_mark":
        return watch.mark()
    if asked.resource.name == "await_change":
        mark = watch.mark()
        return None if mark == arguments["mark"] else mark
    return asked.ask(client, arguments)


def _describe(name: str) -> Operation:
    """Return the operation of a resource for the OpenAPI document."""
    asked = resource_types(name)
    resource = asked.resource
    query = [_WAIT] if resource.pause_s is not None else []
    body: Shape | None = None
    words = resource.path_words
    named = {key: form for key, form in asked.parameters.items() if key not in words.values()}
    if resource.method == "GET":
        for key, form in named.items():
            shape = form.shape["anyOf"][0] if "anyOf" in form.shape else form.shape
            shape = _SHAPES.get(key, shape)
            is_repeated = shape.get("type") == "array"
            query.append(
                Parameter(
                    name=key,
                    shape=shape["items"] if is_repeated else shape,
                    words=key.replace("_", " "),
                    is_repeated=is_repeated,
                    is_required=key in asked.required and "anyOf" not in form.shape,
                )
            )
    elif named:
        body = {
            "type": "object",
            "properties": {key: form.shape for key, form in named.items()},
            "required": sorted(
                key for key in named if key in asked.required and "anyOf" not in named[key].shape
            ),
            "additionalProperties": False,
        }
    answer = asked.answer.shape
    if resource.key:
        answer = {
            "type": "object",
            "properties": {resource.key: answer},
            "required": [resource.key],
        }
    elif answer == {"type": "null"}:
        answer = {"type": "object"}
    return Operation(
        name=_camel(name),
        words=asked.words.rstrip("."),
        tag=resource.tag,
        words_of_path={word: asked.parameters[key].shape for word, key in words.items()},
        query=tuple(query),
        body=body,
        is_body_needed=body is not None,
        answers={200: answer},
        refusals=(404, 409, 422, 501),
    )
