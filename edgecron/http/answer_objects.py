"""Schedules, runs and fires as answers show them: the fields of --json, each with its time zone.

Payloads are JSON values here, and texts of JSON in --json. Instants are RFC 3339 in UTC. `timezone`
is the zone of a schedule's times; of a run, the zone that its schedule had at that time, or null if
that was pruned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.client.record_forms import run_fields
from edgecron.client.schedule_forms import schedule_fields
from edgecron.formats.document_writing import schedule_table
from edgecron.http.document_schema import DEFAULT_ZONE
from edgecron.http.messages import Answer, json_answer, json_bytes
from edgecron.http.preconditions import tag_of
from edgecron.views.json_objects import fire_object, schedule_object

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire

_UPCOMING = 5


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
