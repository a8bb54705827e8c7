"""What is done with a schedule: fired, held, let go, moved, restored."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from edgecron.base.units import parse_instant
from edgecron.client.json_forms import INSTANT
from edgecron.client.resources import API
from edgecron.formats.option_texts import read_time
from edgecron.http.answers import Answer, json_answer
from edgecron.http.asking import Ask
from edgecron.http.idempotency import find_key
from edgecron.http.keyshapes import DEFAULT_ZONE, TIME, ZONE_OR_NULL
from edgecron.http.schedules import payload_text
from edgecron.http.shapes import Shape
from edgecron.http.showing import schedule_answer, shown_runs
from edgecron.triggers import check_zone

if TYPE_CHECKING:
    from edgecron.client import Client

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


def fire(client: Client, ask: Ask) -> Answer:
    """Run it now, in each of its scopes, and once for a key; its next time does not change."""
    said = ask.content or {}
    payload = payload_text(said["payload"]) if "payload" in said else said.get("payload_text")
    asked_at = parse_instant(said["asked_at"]) if "asked_at" in said else None
    name, key = ask.words["name"], find_key(ask.headers)
    if key is None:
        runs = client.run_now(name, payload=payload)
    else:
        runs = client.run_once(name, key=key, payload=payload, asked_at=asked_at)
    headers = {"location": f"{ask.root}{API}/runs/{runs[0].id}"} if len(runs) == 1 else {}
    return json_answer({"runs": shown_runs(client, runs)}, status=202, headers=headers)


def pause(client: Client, ask: Ask) -> Answer:
    """Hold all that has not started, without end or until a time."""
    said = ask.content or {}
    check_zone(_zone(said))
    until = _time(client, said, "until") if "until" in said else None
    return schedule_answer(client, client.pause(ask.words["name"], until=until))


def resume(client: Client, ask: Ask) -> Answer:
    """Let it fire again from now on; what passed meanwhile is one skipped run."""
    return schedule_answer(client, client.resume(ask.words["name"]))


def restore(client: Client, ask: Ask) -> Answer:
    """Restore it as it was when it was removed last, with its history."""
    [schedule] = client.undo_removal(ask.words["name"])
    return schedule_answer(client, schedule)


def reschedule(client: Client, ask: Ask) -> Answer:
    """Move its next run to another time, once."""
    name = ask.words["name"]
    client.schedule(name)  # That there is none comes before what is wrong with the time.
    return schedule_answer(client, client.reschedule(name, _time(client, ask.content, "time")))


def _time(client: Client, said: dict[str, Any], key: str) -> datetime:
    """Read a time in the zone that comes with it. Raises UnknownTimezone and InvalidTime."""
    zone = _zone(said)
    check_zone(zone)
    return read_time(said[key], what=key, timezone=zone, now=client.now())


def _zone(said: dict[str, Any]) -> str:
    """The zone of a request's times."""
    return said.get("timezone") or DEFAULT_ZONE
