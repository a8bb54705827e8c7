"""JSON of schedules, runs, fires, output, filters and notices: fields of `--json`, recorded values.

The texts of a payload and of a result are JSON values here. `payload_text` and `result_text` are
given only if the text is not the plain form of that value. `calendar_days` has the days that were
read from the calendars of `except_days`, and is given only if there are such calendars. A compiled
trigger names the zone of this machine in the place of `local`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any

from edgecron.base.checks import read_json_text
from edgecron.base.errors import UnknownTimezone
from edgecron.base.units import format_ms, parse_instant, to_ms
from edgecron.base.window_texts import days_of, is_read, source_of, with_days
from edgecron.base.zones import LOCAL, check_zone, local_zone_name
from edgecron.client.json_forms import form_of, given_fields, hints_of, object_form
from edgecron.client.plain_forms import INSTANT, TEXT, Form, Shape, nullable, refuse
from edgecron.model.choices import JobKind
from edgecron.model.filters import Filter, parse_filter
from edgecron.model.job import Job
from edgecron.model.notices import Notice, NoticeEvent, NoticeStatus
from edgecron.model.options import JOB_OPTIONS, POLICIES, Policies
from edgecron.model.run import Execution, OutputChunk, Stream
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.forecast import UpcomingFire
from edgecron.triggers import Trigger
from edgecron.triggers.grammar import from_json
from edgecron.views.json_objects import fire_object, notice_object

_UTC = "UTC"
_ANY_JSON = {"description": "a JSON value, or null"}
_PAYLOAD_SHAPES: Mapping[str, Shape] = {
    "payload": _ANY_JSON,
    "payload_text": {"type": "string", "description": "the payload exactly as written"},
}


def plain_text(value: object) -> str:
    """The text of a JSON value if nothing says how it was written."""
    return json.dumps(value)


def text_fields(name: str, text: str | None) -> dict[str, Any]:
    """A text of JSON as its value, and as itself if the value does not tell it."""
    if text is None:
        return {name: None}
    try:
        value = read_json_text(text)
    except (ValueError, RecursionError):  # Only SQL can write such a text.
        return {name: text, f"{name}_text": text}
    is_plain = value is not None and plain_text(value) == text
    return {name: value} if is_plain else {name: value, f"{name}_text": text}


def _text_of(found: Mapping[str, Any], name: str) -> str | None:
    """The text of JSON that `text_fields` made these fields of."""
    text = found.get(f"{name}_text")
    if text is not None:
        return str(_TEXT.decode(text, f"{name}_text", False))
    value = found.get(name)
    return None if value is None else plain_text(value)


_TEXT = form_of(str)
_CALENDAR_DAYS = form_of(dict[str, list[str]])


# Specifications: what a person writes.

_SPEC_HINTS = {
    "timezone": str | None,
    "queue": str,
    "group": str | None,
    "description": str | None,
    "from_at": hints_of(ScheduleSpec)["from_at"],
    "until_at": hints_of(ScheduleSpec)["until_at"],
    "max_runs": int | None,
}
_REQUIRED_OF_SPEC = ("name", "kind", "job", "triggers")


def specification_fields(spec: ScheduleSpec) -> dict[str, Any]:
    """A specification, flat: the fields that `show --json` has."""
    spec_forms, policy_forms, job_forms = _forms()
    is_command = spec.job.kind is JobKind.COMMAND
    return {
        "name": spec.name,
        "kind": spec.job.kind.value,
        "job": list(spec.job.argv) if is_command else spec.job.argv[0],
        "triggers": list(spec.triggers),
        **{name: form.encode(getattr(spec, name)) for name, form in spec_forms.items()},
        "timezone": spec.timezone or _UTC,
        "is_timezone_default": spec.timezone is None,
        "scopes": [{"kind": kind, "id": id_} for kind, id_ in spec.scopes],
        **{name: form.encode(getattr(spec.policies, name)) for name, form in policy_forms.items()},
        **{name: form.encode(getattr(spec.job, name)) for name, form in job_forms.items()},
        **text_fields("payload", spec.job.payload),
        **_calendar_fields(spec.policies.except_days),
    }


def _calendar_fields(except_days: Sequence[str]) -> dict[str, Any]:
    """Days and calendars as a person wrote them, and the days of each calendar that was read."""
    read = {source_of(text): days_of(text) for text in except_days if is_read(text)}
    shown = {"except_days": [source_of(text) for text in except_days]}
    return shown | ({"calendar_days": read} if read else {})


def _with_calendars(policies: dict[str, Any], found: Mapping[str, Any], where: str) -> None:
    """Put the days of calendars back behind their names."""
    days = _CALENDAR_DAYS.decode(found.get("calendar_days", {}), f"{where}.calendar_days", False)
    if days:
        policies["except_days"] = tuple(
            with_days(text, days[text]) if text in days else text
            for text in policies.get("except_days", ())
        )


def _specification_from(found: Mapping[str, Any], where: str) -> ScheduleSpec:
    spec_forms, policy_forms, job_forms = _forms()
    kind = form_of(JobKind).decode(found["kind"], f"{where}.kind", False)
    is_command = kind is JobKind.COMMAND
    argv = form_of(tuple[str, ...]) if is_command else _TEXT
    job = argv.decode(found["job"], f"{where}.job", False)
    given = given_fields(spec_forms, found, where)
    policies = given_fields(policy_forms, found, where)
    _with_calendars(policies, found, where)
    if found.get("is_timezone_default") or given.get("timezone") is None:
        given["timezone"] = None
    return ScheduleSpec(
        name=_TEXT.decode(found["name"], f"{where}.name", False),
        triggers=form_of(tuple[str, ...]).decode(found["triggers"], f"{where}.triggers", False),
        job=Job(
            kind=kind,
            argv=job if is_command else (job,),
            **given_fields(job_forms, found, where),
            payload=_text_of(found, "payload"),
        ),
        policies=Policies(**policies),
        **_scopes(found, where),
        **given,
    )


@cache
def _forms() -> tuple[Mapping[str, Form], Mapping[str, Form], Mapping[str, Form]]:
    jobs, policies = hints_of(Job), hints_of(Policies)
    fields = [option.field or "" for option in POLICIES]
    names = [option.name for option in JOB_OPTIONS if option.name != "payload"]
    return (
        {name: form_of(hint) for name, hint in _SPEC_HINTS.items()},
        {field: form_of(policies[field]) for field in fields},
        {name: form_of(jobs[name]) for name in names},
    )


def _scopes(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "scopes" not in found:
        return {}
    one = form_of(list[dict[str, str]]).decode(found["scopes"], f"{where}.scopes", False)
    try:
        return {"scopes": tuple((scope["kind"], scope["id"]) for scope in one)}
    except KeyError:
        raise refuse(f"{where}.scopes", one, "objects with kind and id") from None


def specification_form() -> Form:
    """A ScheduleSpec. Encoding omits defaults, so that older versions read the specification."""

    def encode(spec: ScheduleSpec) -> dict[str, Any]:
        found = specification_fields(spec)
        if found.pop("is_timezone_default"):
            del found["timezone"]
        plain = specification_fields(
            ScheduleSpec(name=spec.name, triggers=(), job=Job(kind=spec.job.kind, argv=("x",)))
        )
        kept = ("name", "kind", "job", "triggers", "timezone", "payload_text")
        return {key: one for key, one in found.items() if key in kept or one != plain.get(key)}

    return object_form(
        ScheduleSpec,
        "Specification",
        "A schedule as a person wrote it, with the fields of show --json. A missing field has its"
        " default.",
        shapes=_specification_shapes(),
        required=_REQUIRED_OF_SPEC,
        encode=encode,
        decode=_specification_from,
        is_request=True,
    )


def _specification_shapes() -> dict[str, Any]:
    spec_forms, policy_forms, job_forms = _forms()
    texts = form_of(list[str]).shape
    return {
        "name": TEXT,
        "kind": form_of(JobKind).shape,
        "job": {"anyOf": [texts, TEXT]},
        "triggers": texts,
        **{name: form.shape for name, form in {**spec_forms, **policy_forms, **job_forms}.items()},
        "is_timezone_default": {
            "type": "boolean",
            "description": "no time zone was given, so UTC holds",
        },
        "scopes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"kind": TEXT, "id": TEXT},
                "required": ["kind", "id"],
            },
        },
        **_PAYLOAD_SHAPES,
        "calendar_days": {
            "type": "object",
            "additionalProperties": texts,
            "description": "the days that were read from each calendar of except_days",
        },
    }


# Schedules: a specification, and what the database keeps about it.


def schedule_fields(schedule: Schedule) -> dict[str, Any]:
    """Return all that is known of a schedule, without the fires to come."""
    return specification_fields(schedule.spec) | {
        name: form.encode(getattr(schedule, name)) for name, form in _schedule_forms().items()
    }


@cache
def _schedule_forms() -> Mapping[str, Form]:
    return {name: form_of(hint) for name, hint in hints_of(Schedule).items() if name != "spec"}


def schedule_shapes() -> dict[str, Shape]:
    """Return the schemas of the fields of a schedule."""
    return _specification_shapes() | {name: one.shape for name, one in _schedule_forms().items()}


def schedule_form() -> Form:
    """A Schedule."""
    forms = _schedule_forms()

    def decode(value: Mapping[str, Any], where: str) -> Schedule:
        given: dict[str, Any] = {name: None for name, form in forms.items() if form.default is None}
        given |= {"planned_count": 0, "counts": {}}
        given |= given_fields(forms, value, where)
        given.setdefault("decided_until", given["created_at"])
        return Schedule(spec=_specification_from(value, where), **given)

    return object_form(
        Schedule,
        "ScheduleRecord",
        "A schedule with its state: the fields of show --json, and what the engine"
        " keeps about its past and its next time.",
        shapes=schedule_shapes(),
        required=(
            *_REQUIRED_OF_SPEC,
            *("id", "enabled", "revision", "run_count", "created_at", "updated_at"),
        ),
        encode=schedule_fields,
        decode=decode,
    )


# Triggers.


def _encode_trigger(value: Any) -> Any:
    found = value.to_json()
    if found["timezone"] == LOCAL:
        with suppress(UnknownTimezone):  # A rule without a name: there is no other word for it.
            found["timezone"] = check_zone(local_zone_name())
    return found


def _decode_trigger(value: Any, where: str, is_strict: bool) -> Any:
    if not isinstance(value, dict):
        raise refuse(where, value, "a compiled trigger")
    return from_json(value)


def trigger_form() -> Form:
    """A compiled trigger."""
    return Form(
        _encode_trigger,
        _decode_trigger,
        {"type": "object", "description": "a trigger, expanded into the times that it has"},
    )


# Runs.


def run_fields(run: Execution) -> dict[str, Any]:
    """Return a run with the names of `history --json`, its JSON as values, and what is kept."""
    return {
        **{name: form.encode(getattr(run, name)) for name, form in _run_forms().items()},
        **text_fields("payload", run.payload),
        **text_fields("result", run.result),
    }


@cache
def _run_forms() -> Mapping[str, Form]:
    hints = hints_of(Execution)
    return {name: form_of(hints[name]) for name in hints if name not in ("payload", "result")}


def run_shapes() -> dict[str, Shape]:
    """Return the schemas of the fields of a run."""
    return {
        **{name: form.shape for name, form in _run_forms().items()},
        **_PAYLOAD_SHAPES,
        "result": _ANY_JSON,
        "result_text": {"type": "string", "description": "the result exactly as written"},
    }


def run_form() -> Form:
    """An Execution."""
    forms = _run_forms()
    defaults: dict[str, Any] = {name: None for name, form in forms.items() if form.default is None}
    defaults |= {"scope_kind": "global", "scope_id": "", "fire_key": "", "flags": ()}
    defaults |= {"schedule_id": 0, "revision": 0, "priority": 0}

    def decode(value: Mapping[str, Any], where: str) -> Execution:
        return Execution(
            **{**defaults, **given_fields(forms, value, where)},
            payload=_text_of(value, "payload"),
            result=_text_of(value, "result"),
        )

    return object_form(
        Execution,
        "RunRecord",
        "One attempt of one fire, or a range of fires that did not run: the fields of history"
        " --json, and what the engine keeps about it.",
        shapes=run_shapes(),
        required=(
            *("id", "schedule", "plan_at", "due_at", "cause", "attempt", "max_attempts", "status"),
        ),
        encode=run_fields,
        decode=decode,
    )


# Fires, output, filters, notices.


def fire_form() -> Form:
    """An UpcomingFire, as `next --json` has it."""
    forms = {name: form_of(hint) for name, hint in hints_of(UpcomingFire).items()}
    return object_form(
        UpcomingFire,
        "FireRecord",
        "A fire to come, as next --json has it.",
        shapes={name: form.shape for name, form in forms.items()},
        required=("schedule", "plan_at", "due_at"),
        encode=fire_object,
        decode=lambda value, where: UpcomingFire(
            **{"source": None, **given_fields(forms, value, where)}
        ),
    )


def chunk_fields(chunk: OutputChunk) -> dict[str, Any]:
    """Return a chunk, with its bytes as `text` if they are UTF-8, else as `base64`."""
    shown = {"stream": chunk.stream.name.lower(), "at": format_ms(chunk.at_ms)}
    try:
        return shown | {"text": chunk.content.decode()}
    except UnicodeDecodeError:
        return shown | {"base64": b64encode(chunk.content).decode()}


def chunk_form() -> Form:
    """An OutputChunk."""
    streams = {stream.name.lower(): stream for stream in Stream}

    def decode(value: Mapping[str, Any], where: str) -> OutputChunk:
        try:
            text = value.get("text")
            content = b64decode(value["base64"], validate=True) if text is None else text.encode()
            return OutputChunk(
                stream=streams[value["stream"]],
                at_ms=to_ms(parse_instant(value["at"])),
                content=content,
            )
        except (KeyError, AttributeError, TypeError, ValueError):
            raise refuse(where, value, "a chunk with stream, at, and text or base64") from None

    return object_form(
        OutputChunk,
        "OutputChunk",
        "Bytes as the job printed them: `text` if these are UTF-8, else `base64`.",
        shapes={
            "stream": {"type": "string", "enum": list(streams)},
            "at": INSTANT,
            "text": TEXT,
            "base64": {"type": "string", "contentEncoding": "base64"},
        },
        required=("stream", "at"),
        encode=chunk_fields,
        decode=decode,
    )


def filter_form() -> Form:
    """A Filter: the text that a person wrote."""
    words = "words, and terms such as group:disk or status:failed, as in the dashboard"
    return Form(
        lambda value: value.text,
        lambda value, where, is_strict: parse_filter(_TEXT.decode(value, where, is_strict)),
        {"type": "string", "description": words},
    )


_NOTICE_FIELDS: Mapping[str, Any] = {
    "id": int,
    "rule": str,
    "event": NoticeEvent,
    "at": datetime,
    "schedule": str | None,
    "run_id": int | None,
    "is_reminder": bool,
    "status": NoticeStatus,
    "due_at": datetime | None,
    "tries": int,
    "sent_at": datetime | None,
    "message": str | None,
    "error": str | None,
}


def notice_form() -> Form:
    """A Notice, as `notices --json` has it."""
    forms = {name: form_of(hint) for name, hint in _NOTICE_FIELDS.items()}

    def decode(value: Mapping[str, Any], where: str) -> Notice:
        given: dict[str, Any] = {
            _NOTICE_NAMES.get(name, name): to_ms(one) if isinstance(one, datetime) else one
            for name, one in given_fields(forms, value, where).items()
        }
        return Notice(
            **given,
            detail={key: one for key, one in value.items() if key not in forms},
        )

    return object_form(
        Notice,
        "Notice",
        "A notice as notices --json has it. The text of a message comes from `sentence`, `trouble`"
        " and `output_tail`; `run` is the run as it was then.",
        shapes={
            **{name: form.shape for name, form in forms.items()},
            "title": TEXT,
            "sentence": TEXT,
            "trouble": TEXT,
            "output_tail": {"type": "array", "items": TEXT},
            "fire_count": {"type": "integer"},
            "since": nullable(INSTANT),
            "engine_status": TEXT,
            "run": {"type": "object"},
        },
        required=tuple(forms),
        encode=notice_object,
        decode=decode,
    )


_NOTICE_NAMES = {
    "at": "at_ms",
    "due_at": "due_ms",
    "run_id": "execution_id",
    "sent_at": "sent_ms",
}

RECORD_FORMS: Mapping[type, Callable[[], Form]] = {
    Execution: run_form,
    Filter: filter_form,
    Notice: notice_form,
    OutputChunk: chunk_form,
    Schedule: schedule_form,
    ScheduleSpec: specification_form,
    Trigger: trigger_form,
    UpcomingFire: fire_form,
}
