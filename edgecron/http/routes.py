"""The routes: the handler of each method and path, and what it takes and gives."""

from __future__ import annotations

from typing import Any

from edgecron.client.plain_forms import INSTANT, Shape
from edgecron.client.resource_functions import View
from edgecron.client.resources import API
from edgecron.http import runs, schedules
from edgecron.http.answer_objects import IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH
from edgecron.http.document_schema import DOCUMENT, NAME, NAMED_DOCUMENT, PATCH
from edgecron.http.messages import JSON, MERGE_PATCH, Handler, Operation, Parameter, Route
from edgecron.http.request_checks import RUN_ID, SWITCH
from edgecron.model.choices import Cause, Status

_ALL = f"{API}/schedules"
_ONE = f"{API}/schedules/{{name}}"
_RUN = f"{API}/runs/{{id}}"


def _limit(default: int, most: int) -> Parameter:
    shape: Shape = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter(name="limit", shape=shape, words=f"at most this number ({default})")


_BEFORE = Parameter(name="before", shape=RUN_ID, words="runs older than this one")
_CAUSE = Parameter(
    name="cause",
    shape={"type": "string", "enum": list(Cause)},
    words="only runs with these causes",
    is_repeated=True,
)
_TIME: Shape = {**INSTANT, "format": "date-time"}
_SINCE = Parameter(
    name="since",
    shape=_TIME,
    words="only runs that started at this time or later; for others their plan time",
)
_UNTIL = Parameter(
    name="until",
    shape=_TIME,
    words="only runs that started before this time",
)
_FORMER = Parameter(
    name="former", shape=SWITCH, words="runs of removed schedules of this name, too (false)"
)
_CHOICE = (
    Parameter(
        name="word",
        shape={"type": "string", "minLength": 1, "maxLength": 200},
        words="those with this word in name, group, description or job",
        is_repeated=True,
    ),
    Parameter(name="group", shape={"type": "string", "maxLength": 200}, words="those of a group"),
    Parameter(name="failed", shape=SWITCH, words="those whose last run failed (false)"),
    Parameter(name="paused", shape=SWITCH, words="those that are paused (false)"),
)
_VIEW = Parameter(
    name="view",
    shape={"type": "string", "enum": list(View)},
    words="`list`: the fields of list --json; `record`: all fields (list)",
)
_FILTER = Parameter(
    name="filter",
    shape={"type": "string", "maxLength": 1000},
    words="only schedules that match this filter, such as group:disk, as in the dashboard",
)
_SKIP = Parameter(
    name="skip",
    shape={"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0},
    words="skip this number of them (0)",
)
_STATUS = Parameter(
    name="status",
    shape={"type": "string", "enum": list(Status)},
    words="only runs with these statuses",
    is_repeated=True,
)
_SCHEDULE = Parameter(name="schedule", shape=NAME, words="only runs of this schedule")
_AFTER = Parameter(name="after", shape=NAME, words="those whose names come after this one")


_AT = Parameter(name="at", shape=_TIME, words="this time instead of the last run and the next one")
_COUNTED_SINCE = Parameter(name="since", shape=_TIME, words="count from this time on (7 days ago)")
_TREND = Parameter(name="trend", shape=SWITCH, words="compare with the month before (false)")
_LAST_EVENT = Parameter(
    name="Last-Event-ID",
    shape={"type": "string", "pattern": r"^(end|[0-9]{1,18})$"},
    words="send only events after this one",
)


def route(
    method: str, path: str, handle: Handler, *, is_streamed: bool = False, **operation: Any
) -> Route:
    """Return a route with its operation."""
    return Route(
        method=method,
        path=path,
        handle=handle,
        operation=Operation(**operation),
        is_streamed=is_streamed,
    )


_ACT: dict[str, Any] = {
    "tag": "schedules",
    "answers": {200: "Schedule"},
    "answer_headers": ("ETag",),
    "refusals": (404, 409, 422),
}
_SCHEDULES = (
    route(
        "GET",
        _ALL,
        schedules.list_schedules,
        name="listSchedules",
        words="Schedules, by name: the fields of list --json",
        tag="schedules",
        query=(_limit(100, 1000), _AFTER, *_CHOICE, _VIEW),
        answers={200: "Schedules"},
        answer_headers=("Link",),
    ),
    route(
        "POST",
        _ALL,
        schedules.post_schedule,
        name="postSchedule",
        words="Make a schedule; one that exists already stays as it is",
        tag="schedules",
        body=NAMED_DOCUMENT,
        is_body_needed=True,
        answers={201: "Schedule"},
        answer_headers=("ETag", "Location"),
        refusals=(409, 422),
    ),
    route(
        "GET",
        _ONE,
        schedules.get_schedule,
        name="getSchedule",
        words="All about a schedule: the fields of show --json, and its document",
        tag="schedules",
        headers=(IF_NONE_MATCH,),
        answers={200: "Schedule", 304: ""},
        answer_headers=("ETag",),
        refusals=(404,),
    ),
    route(
        "PUT",
        _ONE,
        schedules.put_schedule,
        name="putSchedule",
        words="Make a schedule, or replace its whole document",
        tag="schedules",
        headers=(IF_MATCH, IF_NONE_MATCH),
        body=DOCUMENT,
        is_body_needed=True,
        answers={200: "Schedule", 201: "Schedule"},
        answer_headers=("ETag", "Location", "Edgecron-Note"),
        refusals=(409, 412, 422),
    ),
    route(
        "PATCH",
        _ONE,
        schedules.patch_schedule,
        name="patchSchedule",
        words="Change what is given of a schedule; null clears a key",
        tag="schedules",
        headers=(IF_MATCH, IF_NONE_MATCH),
        body=PATCH,
        body_types=(MERGE_PATCH, JSON),
        is_body_needed=True,
        answers={200: "Schedule"},
        answer_headers=("ETag", "Edgecron-Note"),
        refusals=(404, 409, 412, 422),
    ),
    route(
        "DELETE",
        _ONE,
        schedules.delete_schedule,
        name="deleteSchedule",
        words="Remove a schedule: its queued runs are cancelled, its running runs finish",
        tag="schedules",
        headers=(IF_MATCH, IF_NONE_MATCH),
        answers={204: ""},
        refusals=(404, 409, 412),
    ),
    route(
        "POST",
        f"{_ONE}/fire",
        schedules.fire,
        name="fire",
        words="Run it now or later, in each of its scopes; its next time does not change",
        tag="schedules",
        headers=(IDEMPOTENCY_KEY,),
        body=schedules.FIRE,
        answers={202: "Fired"},
        answer_headers=("Location",),
        refusals=(404, 409, 422),
    ),
    route(
        "POST",
        f"{_ONE}/pause",
        schedules.pause,
        name="pause",
        words="Pause a schedule, without end or until a time",
        body=schedules.PAUSE,
        **_ACT,
    ),
    route(
        "POST",
        f"{_ONE}/resume",
        schedules.resume,
        name="resume",
        words="Resume a schedule; the times passed while it was paused are one skipped run",
        **_ACT,
    ),
    route(
        "POST",
        f"{_ONE}/reschedule",
        schedules.reschedule,
        name="reschedule",
        words="Move its next run to another time, once",
        body=schedules.RESCHEDULE,
        is_body_needed=True,
        **_ACT,
    ),
    route(
        "POST",
        f"{_ONE}/restore",
        schedules.restore,
        name="restore",
        words="Restore a removed schedule with its history; it runs from now on, unless paused",
        **_ACT,
    ),
    route(
        "GET",
        f"{_ONE}/runs",
        runs.list_runs,
        name="listRunsOfSchedule",
        words="Runs of a schedule, newest first: the fields of history --json",
        tag="runs",
        query=(_limit(100, 1000), _BEFORE, _SINCE, _UNTIL, _STATUS, _CAUSE, _FORMER),
        answers={200: "Runs"},
        answer_headers=("Link",),
        refusals=(404,),
    ),
    route(
        "GET",
        f"{_ONE}/why",
        runs.get_why,
        name="why",
        words="Why a schedule ran, did not run, or will not run: the fields of why --json",
        tag="schedules",
        query=(_AT,),
        answers={200: "Why"},
        refusals=(404, 422),
    ),
    route(
        "GET",
        f"{_ONE}/stats",
        runs.get_stats,
        name="statsOfSchedule",
        words="Counts, durations and delays of the runs of a schedule: the fields of stats --json",
        tag="schedules",
        query=(_COUNTED_SINCE, _TREND),
        answers={200: "Stats"},
        refusals=(404, 422),
    ),
    route(
        "GET",
        f"{_ONE}/next",
        runs.list_next,
        name="listNextOfSchedule",
        words="Fires of a schedule to come: the fields of next --json",
        tag="next",
        query=(_limit(10, 1000),),
        answers={200: "Fires"},
        refusals=(404, 422),
    ),
)
_RUNS = (
    route(
        "GET",
        f"{API}/runs",
        runs.list_runs,
        name="listRuns",
        words="Runs, newest first: the fields of history --json",
        tag="runs",
        query=(_limit(100, 1000), _BEFORE, _SINCE, _UNTIL, _STATUS, _CAUSE, _SCHEDULE, _FORMER),
        answers={200: "Runs"},
        answer_headers=("Link",),
        refusals=(404,),
    ),
    route(
        "GET",
        _RUN,
        runs.get_run,
        name="getRun",
        words="A run: the fields of history --json",
        tag="runs",
        answers={200: "Run"},
        refusals=(404,),
    ),
    route(
        "GET",
        f"{_RUN}/why",
        runs.get_why_of_run,
        name="whyRun",
        words="Why a run ran or did not run: the fields of why --json",
        tag="runs",
        answers={200: "Why"},
        refusals=(404,),
    ),
    route(
        "GET",
        f"{API}/stats",
        runs.get_stats,
        name="stats",
        words="Counts, durations and delays of runs by schedule: the fields of stats --json",
        tag="runs",
        query=(_COUNTED_SINCE, _TREND, _SCHEDULE),
        answers={200: "Stats"},
        refusals=(404, 422),
    ),
    route(
        "POST",
        f"{_RUN}/cancel",
        runs.cancel_run,
        name="cancelRun",
        words="Cancel a run: a running one is ended, and its end is recorded a moment later",
        tag="runs",
        answers={202: "Run"},
        refusals=(404, 409),
    ),
    route(
        "GET",
        f"{_RUN}/output",
        runs.get_output,
        name="getOutput",
        is_streamed=True,
        words="Get the output of a run up to now, as far as it is kept. With Accept:"
        " text/event-stream, edgecron sends the output as the run prints it",
        tag="runs",
        headers=(_LAST_EVENT,),
        answers={200: "Output"},
        refusals=(404,),
    ),
    route(
        "GET",
        f"{API}/next",
        runs.list_next,
        name="listNext",
        words="Fires to come, of all schedules or of some: the fields of next --json",
        tag="next",
        query=(_limit(10, 10_000), _SKIP, _SCHEDULE, _FILTER),
        refusals=(404, 422),
        answers={200: "Fires"},
    ),
)
_ABOUT = (
    route(
        "GET",
        "/healthz",
        runs.get_health,
        name="getHealth",
        words="Whether the database answers, and whether an engine is running",
        tag="about",
        answers={200: "Health", 503: "Health"},
    ),
)

# Prometheus has its own formats, and no OpenAPI.
_METRICS = Route(method="GET", path="/metrics", handle=runs.get_metrics)

# `app` adds the resources of edgecron's own clients, and the OpenAPI document.
ROUTES: tuple[Route, ...] = (*_SCHEDULES, *_RUNS, *_ABOUT, _METRICS)
