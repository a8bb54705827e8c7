"""The JSON of schedules, runs, fires and output: the fields of `--json`, and also recorded values.

The texts of a payload and of a result are JSON values here. `payload_text` and `result_text` are
given only if the text is not the plain form of that value.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from edgecron.base.units import format_ms, parse_instant, to_ms
from edgecron.client.json_forms import (
    INSTANT,
    SCHEMAS,
    TEXT,
    Form,
    Shape,
    check_object,
    form_of,
    hints_of,
    nullable,
    reference,
    refuse,
)
from edgecron.model.choices import JobKind
from edgecron.model.claim import OutputChunk, Stream
from edgecron.model.filters import Filter, parse_filter
from edgecron.model.job import Job
from edgecron.model.notices import Notice, NoticeEvent, NoticeStatus
from edgecron.model.options import FORMER_FIELDS, JOB_OPTIONS, POLICIES, Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.forecast import UpcomingFire
from edgecron.views.json_objects import fire_object, notice_object

_UTC = "UTC"
_ANY_JSON = {"description": "a JSON value, or null"}


def plain_text(value: object) -> str:
    """The text of a JSON value if nothing says how it was written."""
    return json.dumps(value)


def _text_fields(name: str, text: str | None) -> dict[str, Any]:
    """A text of JSON as its value, and as itself if the value does not tell it."""
    if text is None:
        return {name: None}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # Only SQL can write such a text.
        return {name: text, f"{name}_text": text}
    is_plain = value is not None and plain_text(value) == text
    return {name: value} if is_plain else {name: value, f"{name}_text": text}


def _text_of(found: Mapping[str, Any], name: str) -> str | None:
    text = found.get(f"{name}_text")
    if text is not None:
        return str(_TEXT.decode(text, f"{name}_text", False))
    value = found.get(name)
    return None if value is None else plain_text(value)


_TEXT = form_of(str)


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
        **_text_fields("payload", spec.job.payload),
    }


def _specification_from(found: Mapping[str, Any], where: str) -> ScheduleSpec:
    spec_forms, policy_forms, job_forms = _forms()
    kind = form_of(JobKind).decode(found["kind"], f"{where}.kind", False)
    is_command = kind is JobKind.COMMAND
    argv = form_of(tuple[str, ...]) if is_command else _TEXT
    job = argv.decode(found["job"], f"{where}.job", False)
    given = _given(spec_forms, found, where)
    if found.get("is_timezone_default") or given.get("timezone") is None:
        given["timezone"] = None
    return ScheduleSpec(
        name=_TEXT.decode(found["name"], f"{where}.name", False),
        triggers=form_of(tuple[str, ...]).decode(found["triggers"], f"{where}.triggers", False),
        job=Job(
            kind=kind,
            argv=job if is_command else (job,),
            **_given(job_forms, found, where),
            payload=_text_of(found, "payload"),
        ),
        policies=Policies(**_given(policy_forms, found, where)),
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


def _given(forms: Mapping[str, Form], found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields that an object has; the others keep their defaults."""
    return {
        name: form.decode(found[name], f"{where}.{name}", False)
        for name, form in forms.items()
        if name in found
    }


def _scopes(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    if "scopes" not in found:
        return {}
    one = form_of(list[dict[str, str]]).decode(found["scopes"], f"{where}.scopes", False)
    try:
        return {"scopes": tuple((scope["kind"], scope["id"]) for scope in one)}
    except KeyError:
        raise refuse(f"{where}.scopes", one, "objects with kind and id") from None


def _form(
    kind: type,
    name: str,
    words: str,
    *,
    shapes: Mapping[str, Shape],
    required: Collection[str],
    encode: Callable[[Any], dict[str, Any]],
    decode: Callable[[Mapping[str, Any], str], Any],
    is_request: bool = False,
) -> Form:
    """Make the form of a type whose JSON is a named object.

    Unknown fields are ignored, unless `is_request`: other values always come from a server.
    """

    def encode_checked(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not of type {kind.__name__}")
        return encode(value)

    def decode_checked(value: Any, where: str, is_strict: bool) -> Any:
        if type(value) is dict:  # Peers of the release before write former names.
            value = {FORMER_FIELDS.get(key, key): one for key, one in value.items()}
        check_object(value, shapes, where=where, is_strict=is_strict and is_request)
        for key in required:
            if key not in value:
                raise refuse(where, value, f"an object with {key}")
        return decode(value, where)

    SCHEMAS[name] = {
        "type": "object",
        "description": words,
        "properties": shapes,
        "required": list(required),
    }
    return Form(encode_checked, decode_checked, reference(name))


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

    return _form(
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
        "payload": _ANY_JSON,
        "payload_text": {"type": "string", "description": "the payload exactly as written"},
    }


# Schedules: a specification, and what the database keeps about it.

_REQUIRED_OF_SCHEDULE = ("id", "enabled", "revision", "run_count", "created_at", "updated_at")


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
    own = {name: form.shape for name, form in _schedule_forms().items()}
    return {**_specification_shapes(), **own}


def schedule_form() -> Form:
    """A Schedule."""
    forms = _schedule_forms()

    def decode(value: Mapping[str, Any], where: str) -> Schedule:
        given: dict[str, Any] = {name: None for name, form in forms.items() if form.default is None}
        given |= {"planned_count": 0, "counts": {}}
        given |= _given(forms, value, where)
        given.setdefault("decided_until", given["created_at"])
        return Schedule(spec=_specification_from(value, where), **given)

    return _form(
        Schedule,
        "ScheduleRecord",
        "A schedule with its state: the fields of show --json, and what the engine"
        " keeps about its past and its next time.",
        shapes=schedule_shapes(),
        required=(*_REQUIRED_OF_SPEC, *_REQUIRED_OF_SCHEDULE),
        encode=schedule_fields,
        decode=decode,
    )


# Runs.


def run_fields(run: Execution) -> dict[str, Any]:
    """Return a run with the names of `history --json`, its JSON as values, and what is kept."""
    return {
        **{name: form.encode(getattr(run, name)) for name, form in _run_forms().items()},
        **_text_fields("payload", run.payload),
        **_text_fields("result", run.result),
    }


@cache
def _run_forms() -> Mapping[str, Form]:
    hints = hints_of(Execution)
    return {name: form_of(hints[name]) for name in hints if name not in ("payload", "result")}


def run_shapes() -> dict[str, Shape]:
    """Return the schemas of the fields of a run."""
    return {
        **{name: form.shape for name, form in _run_forms().items()},
        "payload": _ANY_JSON,
        "payload_text": {"type": "string", "description": "the payload exactly as written"},
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
            **{**defaults, **_given(forms, value, where)},
            payload=_text_of(value, "payload"),
            result=_text_of(value, "result"),
        )

    return _form(
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


# Fires, output, filters.


def fire_form() -> Form:
    """An UpcomingFire, as `next --json` has it."""
    forms = {name: form_of(hint) for name, hint in hints_of(UpcomingFire).items()}
    return _form(
        UpcomingFire,
        "FireRecord",
        "A fire to come, as next --json has it.",
        shapes={name: form.shape for name, form in forms.items()},
        required=("schedule", "plan_at", "due_at"),
        encode=fire_object,
        decode=lambda value, where: UpcomingFire(**{"source": None, **_given(forms, value, where)}),
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

    return _form(
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

    def encode(value: Any) -> Any:
        found: Filter = value
        return found.text

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        return parse_filter(_TEXT.decode(value, where, is_strict))

    shape = {
        "type": "string",
        "description": "words, and terms such as group:disk or status:failed, as in the dashboard",
    }
    return Form(encode, decode, shape)


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
            for name, one in _given(forms, value, where).items()
        }
        return Notice(
            **given,
            detail={key: one for key, one in value.items() if key not in forms},
        )

    return _form(
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
    UpcomingFire: fire_form,
}
