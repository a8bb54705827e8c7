"""Handlers of schedules: list, read, make, change, remove, run, pause, move, restore.

With them what answers show of schedules, runs and fires.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from edgecron.base.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Unreadable
from edgecron.base.units import parse_instant
from edgecron.base.value_texts import read_time
from edgecron.base.values import replace
from edgecron.base.zones import check_zone
from edgecron.client.plain_forms import INSTANT, Shape
from edgecron.client.record_forms import plain_text, run_fields, schedule_fields
from edgecron.client.resource_functions import View
from edgecron.client.resources import API
from edgecron.formats.document_schedule import read_table
from edgecron.formats.document_tables import (
    Action,
    Step,
    Wanted,
    compare_one,
    refuse,
    schedule_table,
)
from edgecron.formats.option_texts import read_run_options
from edgecron.http.document_schema import (
    DEFAULT_ZONE,
    DOCUMENT,
    SCOPE,
    TIME,
    ZONE_OR_NULL,
    duration,
)
from edgecron.http.messages import (
    Answer,
    ApiRequest,
    Conditions,
    find_key,
    is_known,
    json_answer,
    json_bytes,
    read_conditions,
    revision_of,
    tag_of,
)
from edgecron.model.listing import Choice
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.views.changes import kept_words
from edgecron.views.json_objects import fire_object, schedule_object

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.model.run import Execution
    from edgecron.planning.forecast import UpcomingFire


S = TypeVar("S", "Schedule", "Schedule | None")
ORIGIN = "http"
_TRIES = 5
_LIMIT = 100
_UPCOMING = 5


def list_schedules(client: Client, request: ApiRequest) -> Answer:
    """Answer a page of schedules by name, and the names of unreadable ones."""
    limit: int = request.first("limit", _LIMIT)
    after: str = request.first("after", "")
    client.take_over()  # As in `get_schedule`.
    choice = Choice(
        words=tuple(request.query.get("word", ())),
        group=request.first("group"),
        is_failed=request.is_on("failed"),
        is_paused=request.is_on("paused"),
    )
    shown = schedule_fields if request.first("view") == View.RECORD else listed_schedule
    found = client.schedule_page(after=after, limit=limit + 1, choice=choice)
    names = found.names
    page, following = set(names[:limit]), None
    if len(names) > limit:
        following = next_page(request, limit=limit, after=names[limit - 1])
    return paged(
        "schedules",
        [shown(schedule) for schedule in found.schedules if schedule.name in page],
        following,
        unreadable=[name for name in found.unreadable if name in page],
    )


def get_schedule(client: Client, request: ApiRequest) -> Answer:
    client.take_over()  # A run that ended without an engine must not look active.
    answer = schedule_answer(client, client.schedule(request.words["name"]))
    tag = answer.headers["etag"]
    if is_known(tag, request.headers):
        return Answer(status=304, media_type=None, headers={"etag": tag})
    return answer


def post_schedule(client: Client, request: ApiRequest) -> Answer:
    """Make a schedule with the name in its document. Raises AlreadyExists."""
    document = dict(request.content)
    name = document.pop("name")
    [made] = client.apply((plan_new(name, document, now=client.now()),), origin=ORIGIN)
    location = f"{request.root}{request.path}/{name}"
    return schedule_answer(client, made, status=201, location=location)


def put_schedule(client: Client, request: ApiRequest) -> Answer:
    """Make a schedule, or replace its document.

    Missing keys get their defaults; `enabled`, as with `apply`, stays as it is.
    """

    def plan(schedule: Schedule | None) -> Step:
        name, content = request.words["name"], request.content
        return compare_one(_read_document(name, content, schedule, now=client.now()), schedule)

    step = _carry_out(client, request, client.store.find_schedule, plan)
    is_new = step.schedule is None
    return _changed_answer(
        client,
        step,
        status=201 if is_new else 200,
        location=f"{request.root}{request.path}" if is_new else None,
    )


def patch_schedule(client: Client, request: ApiRequest) -> Answer:
    """Change the given keys of a schedule; null clears a key."""

    def plan(schedule: Schedule) -> Step:
        return plan_patch(schedule, request.content, now=client.now())

    step = _carry_out(client, request, client.schedule, plan)
    return _changed_answer(client, step)


def delete_schedule(client: Client, request: ApiRequest) -> Answer:
    """Remove a schedule: queued runs are cancelled, running ones finish, the history stays."""
    name = request.words["name"]

    def plan(schedule: Schedule) -> Step:
        return Step(action=Action.REMOVE, name=name, schedule=schedule)

    try:
        _carry_out(client, request, client.schedule, plan)
    except Unreadable:
        if not client.remove_unreadable(name):
            raise
    return Answer(status=204, media_type=None)


def _carry_out(
    client: Client, request: ApiRequest, find: Callable[[str], S], plan: Callable[[S], Step]
) -> Step:
    """Find the schedule of a request, plan its change and apply that; return the step.

    If others change the schedule meanwhile, this plans again. Raises Conflict after some tries, and
    Refused if the conditions of the request do not hold.
    """
    name, conditions = request.words["name"], read_conditions(request.headers)
    for _ in range(_TRIES):
        schedule = find(name)
        conditions.check(schedule)
        step = plan(schedule)
        if _is_applied(client, step, conditions):
            return step
    raise Conflict(f"another program is changing schedule {name!r}", hint="try again")


def plan_new(name: str, document: Mapping[str, Any], *, now: datetime) -> Step:
    """Plan a schedule with a new name. Raises UnknownTimezone and InvalidDocument."""
    return compare_one(_read_document(name, document, None, now=now), None)


def plan_patch(schedule: Schedule, patch: Mapping[str, Any], *, now: datetime) -> Step:
    """Plan a change of the given keys; null clears a key. Raises as `plan_new`."""
    table = merge(document_of(schedule), patch)
    wanted = _read_document(schedule.name, table, schedule, now=now)
    if wanted.enabled is None:
        wanted = replace(wanted, enabled=True)  # The key was cleared or missing.
    return compare_one(wanted, schedule)


def _read_document(
    name: str, document: Mapping[str, Any], schedule: Schedule | None, *, now: datetime
) -> Wanted:
    """Read a document. Raises UnknownTimezone, and InvalidDocument with all problems."""
    table = table_of(document)
    check_zone(table["timezone"])
    known = () if schedule is None else schedule.spec.triggers
    wanted, problems = read_table(name, table, now=now, known=known)
    if wanted is None:
        raise refuse(problems, "")
    return wanted


def table_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a JSON document into the table of a TOML document.

    The zone is UTC unless the document names one, and a payload becomes the text of its JSON.
    Null clears both. JSON does not tell 1.0 from 1, so whole numbers become integers, except in a
    payload.
    """
    table: dict[str, Any] = _whole({**document, "payload": None})
    payload = document.get("payload")
    if payload is None:
        del table["payload"]
    else:
        table["payload"] = plain_text(payload)
    table["timezone"] = table.get("timezone") or DEFAULT_ZONE
    return table


def _whole(value: Any) -> Any:
    """Return a value with whole numbers as integers."""
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_applied(client: Client, step: Step, conditions: Conditions) -> bool:
    """Carry out a step; False if the schedule has changed since it was read."""
    try:
        client.apply((step,), origin=ORIGIN)
    except (AlreadyExists, Conflict):
        current = client.store.find_schedule(step.name)
        conditions.check(current)
        read = None if step.schedule is None else revision_of(step.schedule)
        if read == (None if current is None else revision_of(current)):
            raise
        return False
    return True


def _changed_answer(
    client: Client,
    step: Step,
    *,
    status: int = 200,
    location: str | None = None,
) -> Answer:
    """Answer a schedule after a step; the header Edgecron-Note says if it keeps former secrets."""
    answer = schedule_answer(client, client.schedule(step.name), status=status, location=location)
    words = kept_words(step.changes, forget=f"edgecron prune --forget {step.name}")
    if words is None:
        return answer
    return replace(answer, headers={**answer.headers, "edgecron-note": ascii(words)[1:-1]})


def merge(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def paged(
    kind: str, objects: list[dict[str, Any]], following: str | None, **more: object
) -> Answer:
    """Answer a page, with the path of the next one in its body and as a link."""
    headers = {} if following is None else {"link": f'<{following}>; rel="next"'}
    return json_answer({kind: objects, "next": following, **more}, headers=headers)


def next_page(request: ApiRequest, **query: object) -> str:
    """Return the path of the next page: the same request with these parameters."""
    words = {**request.query, **{name: [value] for name, value in query.items()}}
    return f"{request.root}{quote(request.path)}?{urlencode(words, doseq=True)}"


FIRE: Shape = {
    "type": "object",
    "properties": {
        "payload": {"description": "any JSON value, null too, instead of the schedule's payload"},
        "payload_text": {
            "type": "string",
            "format": "json",
            "description": "the same as text, which the job gets exactly as it is",
        },
        "asked_at": {
            "type": "string",
            "pattern": INSTANT["pattern"],
            "format": "date-time",
            "description": "of a request that is repeated, the server's time at the first one",
        },
        "delay": duration("run it so much later"),
        "at": {**TIME, "description": f"run it at this time. {TIME['description']}"},
        "timezone": ZONE_OR_NULL,
        "priority": DOCUMENT["properties"]["priority"],
        "timeout": duration("end this run and its retries after this time"),
        "scope": {**SCOPE, "description": "run it only in this scope, such as device:plc3"},
    },
    "additionalProperties": False,
}
PAUSE: Shape = {
    "type": "object",
    "properties": {"until": TIME, "timezone": ZONE_OR_NULL},
    "additionalProperties": False,
}
RESCHEDULE: Shape = {
    "type": "object",
    "properties": {"time": TIME, "timezone": ZONE_OR_NULL},
    "required": ["time"],
    "additionalProperties": False,
}


def fire(client: Client, request: ApiRequest) -> Answer:
    """Run a schedule, once per scope, and once for a key; its next time does not change."""
    said = request.content or {}
    payload = plain_text(said["payload"]) if "payload" in said else said.get("payload_text")
    asked_at = parse_instant(said["asked_at"]) if "asked_at" in said else None
    name, key, zone = request.words["name"], find_key(request.headers), _zone(said)
    check_zone(zone)
    options = read_run_options(said, timezone=zone, now=client.now())
    if key is None:
        runs = client.run_now(name, payload=payload, options=options)
    else:
        runs = client.run_once(name, key=key, payload=payload, asked_at=asked_at, options=options)
    headers = {"location": f"{request.root}{API}/runs/{runs[0].id}"} if len(runs) == 1 else {}
    return json_answer({"runs": shown_runs(client, runs)}, status=202, headers=headers)


def pause(client: Client, request: ApiRequest) -> Answer:
    """Pause a schedule, without end or until a time."""
    said = request.content or {}
    check_zone(_zone(said))
    until = _time(client, said, "until") if "until" in said else None
    return schedule_answer(client, client.pause(request.words["name"], until=until))


def resume(client: Client, request: ApiRequest) -> Answer:
    """Resume a schedule; times that passed meanwhile become one skipped run."""
    return schedule_answer(client, client.resume(request.words["name"]))


def restore(client: Client, request: ApiRequest) -> Answer:
    """Restore a schedule as it was when it was last removed, with its history."""
    [schedule] = client.undo_removal(request.words["name"])
    return schedule_answer(client, schedule)


def reschedule(client: Client, request: ApiRequest) -> Answer:
    """Move the next run of a schedule to another time, once."""
    name = request.words["name"]
    client.schedule(name)  # Report a missing schedule before a wrong time.
    return schedule_answer(client, client.reschedule(name, _time(client, request.content, "time")))


def _time(client: Client, said: dict[str, Any], key: str) -> datetime:
    """Read a time in the zone that comes with it. Raises UnknownTimezone and InvalidTime."""
    zone = _zone(said)
    check_zone(zone)
    return read_time(said[key], what=key, timezone=zone, now=client.now())


def _zone(said: dict[str, Any]) -> str:
    """Return the zone of a request's times."""
    return said.get("timezone") or DEFAULT_ZONE


# What answers show of schedules, runs and fires.


def zone_of(spec: ScheduleSpec) -> str:
    """Return the zone of a schedule's times."""
    return spec.timezone or DEFAULT_ZONE


def listed_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as lists show it."""
    return schedule_object(schedule) | {"timezone": zone_of(schedule.spec)}


def shown_schedule(client: Client, schedule: Schedule) -> dict[str, Any]:
    """Return all about a schedule, with the document that PUT takes."""
    fires: list[UpcomingFire] = []
    with suppress(InvalidInput, NotFound):  # Its trigger_error says what can't be read.
        fires += islice(client.next_fires(schedule.name), _UPCOMING)
    zone = zone_of(schedule.spec)
    return schedule_fields(schedule) | {
        "upcoming": [fire_object(fire) | {"timezone": zone} for fire in fires],
        "document": document_of(schedule),
    }


def document_of(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as PUT takes it: with its time zone, and its payload as JSON."""
    document = schedule_table(schedule) | {"timezone": zone_of(schedule.spec)}
    if schedule.spec.job.payload is not None:
        document["payload"] = payload_value(schedule.spec.job.payload)
    return document


def payload_value(text: str | None) -> Any:
    """Return the JSON value of a payload, or a text that is not JSON: only SQL can write it."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def schedule_answer(
    client: Client, schedule: Schedule, *, status: int = 200, location: str | None = None
) -> Answer:
    """Return the answer that shows a schedule, with its ETag."""
    shown = shown_schedule(client, schedule)
    headers = {"etag": tag_of(schedule, json_bytes(shown))}
    if location is not None:
        headers["location"] = location
    return json_answer(shown, status=status, headers=headers)


def shown_runs(client: Client, runs: Iterable[Execution]) -> list[dict[str, Any]]:
    """Return runs as lists show them."""
    zones: dict[tuple[int, int], str | None] = {}
    shown = []
    for run in runs:
        key = (run.schedule_id, run.revision)
        if key not in zones:
            spec = client.spec_of(run)
            zones[key] = None if spec is None else zone_of(spec)
        shown.append(run_fields(run) | {"timezone": zones[key]})
    return shown


def shown_fires(client: Client, fires: Sequence[UpcomingFire]) -> list[dict[str, Any]]:
    """Return fires to come, as lists show them."""
    zones: dict[str, str | None] = {}
    for fire in fires:
        if fire.schedule not in zones:
            zones[fire.schedule] = None
            with suppress(NotFound):  # The schedule was removed since.
                zones[fire.schedule] = zone_of(client.schedule(fire.schedule).spec)
    return [fire_object(fire) | {"timezone": zones[fire.schedule]} for fire in fires]
