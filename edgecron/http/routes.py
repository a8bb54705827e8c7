"""The routes: the handler of each method and path, and what it takes and gives."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from edgecron.client.plain_forms import INSTANT, Shape
from edgecron.client.resource_functions import View
from edgecron.client.resources import API
from edgecron.http import runs, schedules
from edgecron.http.document_schema import DOCUMENT, NAME, NAMED_DOCUMENT, PATCH
from edgecron.http.messages import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    JSON,
    MERGE_PATCH,
    Handler,
    Operation,
    Parameter,
    Route,
)
from edgecron.http.request_checks import RUN_ID, SWITCH
from edgecron.http.resources import camel
from edgecron.model.choices import Cause, Status

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
    name, tag = name or camel(handle.__name__), tag or path.split("/")[1]
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
        words="Pause a schedule, without end or until a time",
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
        query=(_limit(10, 10_000), _SKIP, _SCHEDULE, _FILTER),
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

# `app` adds the resources of edgecron's own clients, and the OpenAPI document.
ROUTES: tuple[Route, ...] = (*_SCHEDULES, *_RUNS, _HEALTH, _METRICS)
