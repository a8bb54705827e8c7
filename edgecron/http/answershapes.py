"""What answers look like, as shapes: the fields of --json, as `objects` and `showing` give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgecron.http.keyshapes import DOCUMENT
from edgecron.http.shapes import Shape, nullable
from edgecron.model.choices import Cause, JobKind, Reason, Status
from edgecron.model.options import JOB_OPTIONS, POLICIES, Option, OptionType

_TEXT: Shape = {"type": "string"}
# A zone may be gone that was there when the schedule was written.
_ZONE: Shape = {"type": "string", "description": "an IANA time zone, UTC, or local"}
_TRUTH: Shape = {"type": "boolean"}
_COUNT: Shape = {"type": "integer", "minimum": 0}
_INTEGER: Shape = {"type": "integer"}
_SECONDS: Shape = {"type": "number", "minimum": 0}
_INSTANT: Shape = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z$",
    "description": "RFC 3339, in UTC",
}
_TEXTS: Shape = {"type": "array", "items": _TEXT}


def _choice(choices: Any) -> Shape:
    return {"type": "string", "enum": [str(choice) for choice in choices]}


def _record(fields: Mapping[str, Shape], *, words: str = "") -> Shape:
    """An object that has all of these fields. Later versions may give it more."""
    shape = {"type": "object", "properties": dict(fields), "required": list(fields)}
    return {**shape, "description": words} if words else shape


def _several(name: str) -> Shape:
    return {"type": "array", "items": _ref(name)}


def _ref(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


def _shape(option: Option) -> Shape:
    """What a value of an option looks like in an answer."""
    match option.type:
        case OptionType.DURATION | OptionType.FACTOR:
            shape: Shape = _SECONDS
        case OptionType.COUNT:
            shape = _COUNT if option.least >= 0 else _INTEGER
        case OptionType.CHOICE:
            shape = _choice(option.choices)
        case OptionType.CODES:
            shape = {"type": "array", "items": _COUNT}
        case OptionType.PRIORITY:
            shape = _INTEGER
        case OptionType.CONDITIONS:
            shape = _TEXTS
        case OptionType.VARIABLES:
            shape = {"type": "object", "additionalProperties": _TEXT}
        case OptionType.JSON:
            return {"description": "a JSON value, or null"}
        case _:
            return nullable(_TEXT)
    return nullable(shape) if option.is_clearable else shape


_POLICY_SHAPES = {option.field or "": _shape(option) for option in POLICIES}
_LISTED_SCHEDULE: Mapping[str, Shape] = {
    "name": _TEXT,
    "kind": _choice(JobKind),
    "job": {"anyOf": [_TEXTS, _TEXT]},
    "triggers": _TEXTS,
    "timezone": _ZONE,
    "enabled": _TRUTH,
    "paused_until": nullable(_INSTANT),
    "next_plan_at": nullable(_INSTANT),
    "next_run_at": nullable(_INSTANT),
    "last_run_at": nullable(_INSTANT),
    "last_status": nullable(_choice(Status)),
    "run_count": _COUNT,
    **_POLICY_SHAPES,
    "group": nullable(_TEXT),
    "group_max_running": nullable(_COUNT),
    "queue": _TEXT,
    "description": nullable(_TEXT),
    "scopes": {"type": "array", "items": _record({"kind": _TEXT, "id": _TEXT})},
    "from_at": nullable(_INSTANT),
    "until_at": nullable(_INSTANT),
    "max_runs": nullable(_COUNT),
    "trigger_error": nullable(_TEXT),
    "vanished_at": nullable(_INSTANT),
    "id": _COUNT,
    "revision": _COUNT,
    "created_at": _INSTANT,
    "updated_at": _INSTANT,
}
_SCHEDULE: Mapping[str, Shape] = {
    **_LISTED_SCHEDULE,
    **{option.name: _shape(option) for option in JOB_OPTIONS},
    "is_timezone_default": _TRUTH,
    "counts": {"type": "object", "additionalProperties": _COUNT},
    "last_success_at": nullable(_INSTANT),
    "last_error": nullable(_TEXT),
    "next_source": nullable(_TEXT),
    "decided_until": _INSTANT,
    "last_execution_id": nullable(_COUNT),
    "planned_count": _COUNT,
    "pruned_until": nullable(_INSTANT),
    "is_done": _TRUTH,
    "is_active": _TRUTH,
    "gone_upstreams": _TEXTS,
    "upcoming": _several("Fire"),
    "document": _ref("Document"),
}
_RUN: Mapping[str, Shape] = {
    "id": _COUNT,
    "schedule": _TEXT,
    "timezone": nullable(_ZONE),
    "scope_kind": _TEXT,
    "scope_id": _TEXT,
    "plan_at": _INSTANT,
    "due_at": _INSTANT,
    "fire_key": _TEXT,
    "cause": _choice(Cause),
    "attempt": _COUNT,
    "max_attempts": _COUNT,
    "status": _choice(Status),
    "reason": nullable(_choice(Reason)),
    "exit_code": nullable(_INTEGER),
    "started_at": nullable(_INSTANT),
    "finished_at": nullable(_INSTANT),
    "duration_ms": nullable(_COUNT),
    "engine_id": nullable(_COUNT),
    "missed_from_at": nullable(_INSTANT),
    "missed_to_at": nullable(_INSTANT),
    "missed_count": nullable(_COUNT),
    "error_msg": nullable(_TEXT),
    "flags": _TEXTS,
    "result": {"description": "the JSON that it left, or null"},
    "error_code": nullable(_TEXT),
    "trigger_text": nullable(_TEXT),
    "waiting_for": nullable(_TEXT),
    "wait_until": nullable(_INSTANT),
    "payload": {"description": "a JSON value, or null"},
    "progress": nullable(_record({"fraction": nullable(_SECONDS), "text": nullable(_TEXT)})),
    "schedule_id": _COUNT,
    "revision": _COUNT,
    "priority": _INTEGER,
    "queued_at": nullable(_INSTANT),
    "claimed_at": nullable(_INSTANT),
    "supervisor_id": nullable(_TEXT),
    "cancel_requested_at": nullable(_INSTANT),
    "fence": nullable(_COUNT),
}
_FIRE: Mapping[str, Shape] = {
    "schedule": _TEXT,
    "timezone": nullable(_ZONE),
    "plan_at": _INSTANT,
    "due_at": _INSTANT,
    "source": nullable(_TEXT),
    "is_moved": _TRUTH,
}
_NEXT: Shape = {
    "anyOf": [_TEXT, {"type": "null"}],
    "description": "the path of the page that follows, null where this is the last",
}
_CHUNK: Shape = {
    "type": "object",
    "description": "Bytes as they came: `text` where they are UTF-8 by themselves, else `base64`.",
    "properties": {
        "stream": _choice(("stdout", "stderr")),
        "at": _INSTANT,
        "text": _TEXT,
        "base64": {"type": "string", "contentEncoding": "base64"},
    },
    "required": ["stream", "at"],
}
_PROBLEM: Shape = {
    "type": "object",
    "properties": {"key": nullable(_TEXT), "message": _TEXT, "hint": nullable(_TEXT)},
    "required": ["key", "message"],
}

ANSWERS: Mapping[str, Shape] = {
    "Document": DOCUMENT,
    "ListedSchedule": _record(_LISTED_SCHEDULE),
    "Schedules": _record(
        {"schedules": _several("ListedSchedule"), "next": _NEXT, "unreadable": _TEXTS},
        words="`unreadable` are the names of those whose rows make no sense.",
    ),
    "Schedule": _record(_SCHEDULE, words="`document` is what PUT takes, and PATCH changes."),
    "Run": _record(_RUN, words="One attempt of one fire, or a range of fires that did not run."),
    "Runs": _record(
        {
            "runs": _several("Run"),
            "next": _NEXT,
            "unreadable": {"type": "array", "items": _COUNT},
        },
        words="`unreadable` are the ids of the runs whose rows can't be read.",
    ),
    "Fired": _record({"runs": _several("Run")}),
    "Fire": _record(_FIRE),
    "Fires": _record({"fires": _several("Fire")}),
    "Chunk": _CHUNK,
    "Output": _record(
        {
            "run": _COUNT,
            "schedule": _TEXT,
            "timezone": nullable(_ZONE),
            "status": _choice(Status),
            "is_complete": _TRUTH,
            "dropped_bytes": _COUNT,
            "removed_at": nullable(_INSTANT),
            "chunks": _several("Chunk"),
        }
    ),
    "Health": _record(
        {
            "database": _choice(("ok", "busy", "unusable")),
            "engine": _choice(("working", "stalled", "none", "unknown")),
        }
    ),
    "Error": _record(
        {
            "error": {
                "type": "object",
                "properties": {
                    "code": _TEXT,
                    "message": _TEXT,
                    "hint": nullable(_TEXT),
                    "type": {"type": "string", "description": "the name of the Python exception"},
                    "problems": {"type": "array", "items": _PROBLEM},
                },
                "required": ["code", "message", "hint"],
            }
        }
    ),
}
