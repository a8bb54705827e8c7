"""Describe answers in JSON Schema: the fields of --json, as `answer_objects` makes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from edgecron.client.plain_forms import INSTANT, INTEGER, TEXT, Shape, nullable, reference
from edgecron.client.record_forms import run_shapes
from edgecron.client.schedule_forms import schedule_shapes
from edgecron.http.document_schema import DOCUMENT
from edgecron.model.choices import Status
from edgecron.model.options import JOB_OPTIONS

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

ANSWERS: Mapping[str, Shape] = {
    "Document": DOCUMENT,
    "ListedSchedule": _record({key: _SCHEDULE[key] for key in _SCHEDULE if key not in _DETAILS}),
    "Schedules": _record(
        {"schedules": _several("ListedSchedule"), "next": _NEXT, "unreadable": _TEXTS},
        words="`unreadable` has the names of schedules whose rows can't be read.",
    ),
    "Schedule": _record(
        _SCHEDULE,
        optional=_TEXT_FIELDS,
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
