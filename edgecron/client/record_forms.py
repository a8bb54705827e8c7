"""The JSON of runs, fires, output and notices: fields of `--json`, recorded values.

The texts of a payload and of a result are JSON values here. `payload_text` and `result_text` are
given only if the text is not the plain form of that value.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from edgecron.base.units import format_ms, parse_instant, to_ms
from edgecron.client.json_forms import form_of, given_fields, hints_of, object_form
from edgecron.client.plain_forms import INSTANT, TEXT, Form, Shape, nullable, refuse
from edgecron.client.schedule_forms import (
    ANY_JSON,
    schedule_form,
    specification_form,
    text_fields,
    text_of,
    trigger_form,
)
from edgecron.model.filters import Filter, parse_filter
from edgecron.model.notices import Notice, NoticeEvent, NoticeStatus
from edgecron.model.run import Execution, OutputChunk, Stream
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.forecast import UpcomingFire
from edgecron.triggers import Trigger
from edgecron.views.json_objects import fire_object, notice_object

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
        "payload": ANY_JSON,
        "payload_text": {"type": "string", "description": "the payload exactly as written"},
        "result": ANY_JSON,
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
            payload=text_of(value, "payload"),
            result=text_of(value, "result"),
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


# Fires, output, filters.


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

    def encode(value: Any) -> Any:
        found: Filter = value
        return found.text

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        return parse_filter(form_of(str).decode(value, where, is_strict))

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
