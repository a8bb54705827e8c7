"""The JSON of schedules and specifications: the fields of `show --json`, and recorded values.

The text of a payload is a JSON value here. `payload_text` is given only if the text is not the
plain form of that value. `calendar_days` has the days that were read from the calendars of
`except_days`, and is given only if there are such calendars. A compiled trigger names the zone of
this machine in the place of `local`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from edgecron.base.errors import UnknownTimezone
from edgecron.base.json_texts import read_json_text
from edgecron.base.zones import LOCAL, check_zone, local_zone_name
from edgecron.client.json_forms import form_of, given_fields, hints_of, object_form
from edgecron.client.plain_forms import TEXT, Form, Shape, refuse
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import JOB_OPTIONS, POLICIES, Policies
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.model.windows import days_of, is_read, source_of, with_days
from edgecron.triggers.grammar import from_json

_UTC = "UTC"
ANY_JSON = {"description": "a JSON value, or null"}


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


def text_of(found: Mapping[str, Any], name: str) -> str | None:
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
            payload=text_of(found, "payload"),
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
        "payload": ANY_JSON,
        "payload_text": {"type": "string", "description": "the payload exactly as written"},
        "calendar_days": {
            "type": "object",
            "additionalProperties": texts,
            "description": "the days that were read from each calendar of except_days",
        },
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
        given |= given_fields(forms, value, where)
        given.setdefault("decided_until", given["created_at"])
        return Schedule(spec=_specification_from(value, where), **given)

    return object_form(
        Schedule,
        "ScheduleRecord",
        "A schedule with its state: the fields of show --json, and what the engine"
        " keeps about its past and its next time.",
        shapes=schedule_shapes(),
        required=(*_REQUIRED_OF_SPEC, *_REQUIRED_OF_SCHEDULE),
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
