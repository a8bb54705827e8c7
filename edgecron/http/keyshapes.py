"""The keys of a schedule's document, each with its shape.

What is written of a schedule has the keys of the TOML documents (`apply`, `export`, `edit`), and
so `every: "5m"`, `timeout: "1h"`: what people write in a file, they write here. What is read has
the fields of `list --json`, in which the same is `triggers`, `timeout_s`: for programs to compute
with. The two lists contradict each other nowhere, and each says a thing in one way; and because a
change is made to what was read, every schedule that is read holds its `document` too, which PUT
takes as it stands, and to which PATCH is a merge patch (RFC 7396). Two keys differ from TOML: the
default of `timezone` is UTC, and `payload` is a JSON value instead of its text.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.documents.keys import TRIGGERS
from edgecron.http.shapes import Shape, nullable
from edgecron.model import CatchUp, OnInterrupt, Overlap

DEFAULT_ZONE = "UTC"  # of every request that names no zone, or null
NAME: Shape = {
    "type": "string",
    "pattern": r"^(?![0-9]+$)[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}$",
    "format": "schedule-name",
    "description": "1 to 128 of A-Z a-z 0-9 _ - . starting with a letter or digit, and not digits"
    " alone",
}
ZONE: Shape = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9_+\-/]{1,64}$",
    "format": "time-zone",
    "description": "an IANA time zone, UTC, or local: that of the machine that runs it",
}
ZONE_OR_NULL: Shape = {
    **nullable(ZONE),
    "description": "the time zone of cron texts and of times without an offset; absent and null"
    " mean UTC",
}
TIME: Shape = {
    "type": "string",
    "minLength": 1,
    "maxLength": 100,
    "pattern": r"^[^\u0000]*$",
    "format": "when",
    "description": "RFC 3339, or local to `timezone`, or 'in 20m', 'tomorrow 09:00'",
}
_MOST_TEXT = 1024 * 1024
_PLAIN = r"^[^\u0000]*$"


def _text(words: str, *, kind: str | None = None, least: int = 1, most: int = 1000) -> Shape:
    shape = {
        "type": "string",
        "minLength": least,
        "maxLength": most,
        "pattern": _PLAIN,
        "description": words,
    }
    return shape if kind is None else {**shape, "format": kind}


def _duration(words: str, *, is_clearable: bool = False) -> Shape:
    pattern = r"^(0|0s|([0-9]{1,12}(ms|s|m|h|d|w))+%s)$" % ("|none" if is_clearable else "")
    return {
        "type": "string",
        "maxLength": 80,
        "pattern": pattern,
        "format": "duration-text",
        "description": f"{words}: a duration, such as 90s or 1h30m",
    }


def _count(least: int, most: int) -> Shape:
    return {"type": "integer", "minimum": least, "maximum": most}


def _choice(*choices: str) -> Shape:
    return {"type": "string", "enum": list(choices)}


def _or_several(shape: Shape, *, most: int) -> Shape:
    return {"anyOf": [shape, {"type": "array", "items": shape, "minItems": 1, "maxItems": most}]}


_SHAPES: Mapping[str, Shape] = {
    "description": _text("a note for people", kind="printable", most=4096),
    "cron": _or_several(_text("5 fields, 6, or @daily", kind="cron"), most=64),
    "every": _or_several(_text("15m, 15m from TIME, 1h after end", kind="every"), most=12),
    "at": _or_several(_text("a time: once", kind="when"), most=64),
    "allow_fast": {"type": "boolean", "description": "allow intervals under a second"},
    "on_boot": {"type": "boolean"},
    "after": _or_several(_text("NAME[:success|failure|any]", kind="after"), most=64),
    "timezone": ZONE_OR_NULL,
    "from": _text("not before", kind="when"),
    "until": _text("not after", kind="when"),
    "max_runs": _count(1, 1_000_000),
    "jitter": _duration("start up to this much later"),
    "command": {
        "type": "array",
        "minItems": 1,
        "prefixItems": [_text("the program", kind="argument", most=_MOST_TEXT)],
        "items": _text("an argument", least=0, most=_MOST_TEXT),
    },
    "shell": _text("a line for /bin/sh", kind="argument", most=_MOST_TEXT),
    "callable": _text("a function that a Python program registers", kind="argument"),
    "env": {
        "type": "object",
        "propertyNames": {
            "type": "string",
            "pattern": r"^(?!EDGECRON_)[^=\u0000]+$",
            "description": "a name without =, not beginning with EDGECRON_",
        },
        "additionalProperties": _text("a value", least=0, most=_MOST_TEXT),
    },
    "env_file": _text("a file of KEY=VALUE lines", most=4096),
    "cwd": _text("the folder to run in", most=4096),
    "user": _text("run as another user", kind="user", most=256),
    "stdin": {"type": "string", "maxLength": _MOST_TEXT},
    "payload": {"description": "any JSON value: the job's EDGECRON_PAYLOAD; null is none"},
    "catch_up": _choice(*CatchUp),
    "grace": _duration("how late is too late", is_clearable=True),
    "overlap": _choice(*Overlap),
    "max_running": _count(1, 1_000_000),
    "timeout": _duration("ended after", is_clearable=True),
    "kill_grace": _duration("between TERM and KILL"),
    "retries": _count(0, 1_000_000),
    "retry_delay": _duration("before the first retry"),
    "retry_factor": {"type": "number", "minimum": 1, "maximum": 100},
    "retry_max_delay": _duration("up to which the delay grows"),
    "on_interrupt": _choice(*OnInterrupt),
    "ok_codes": {"type": "array", "items": _count(0, 255), "minItems": 1, "maxItems": 256},
    "priority": {"anyOf": [_choice("low", "normal", "high"), _count(-1000, 1000)]},
    "group": _text("NAME, or NAME:N with how many of it run at once", kind="group", most=200),
    "needs": _or_several(_text("a condition", kind="condition"), most=64),
    "needs_deadline": _duration("how long after its time it waits"),
    "scope": _or_several(_text("KIND:ID, or global", kind="scope"), most=1000),
    "queue": _text("which program runs a callable", kind="printable", most=140),
    "enabled": {"type": "boolean"},
}

DOCUMENT: Shape = {
    "type": "object",
    "description": "A schedule as a person writes it: the keys of a TOML document. One of"
    f" {', '.join(TRIGGERS)} says when, one of command, shell and callable what. The time zone is"
    " UTC unless the document names another one.",
    "properties": _SHAPES,
    "additionalProperties": False,
}
NAMED_DOCUMENT: Shape = {
    **DOCUMENT,
    "properties": {"name": NAME, **_SHAPES},
    "required": ["name"],
}
# What is cleared has its default again.
PATCH: Shape = {
    "type": "object",
    "description": "A merge patch (RFC 7396) of a schedule's document: null clears a key.",
    "properties": {
        **{key: nullable(shape) for key, shape in _SHAPES.items()},
        "timezone": ZONE_OR_NULL,
        "env": nullable({**_SHAPES["env"], "additionalProperties": nullable({"type": "string"})}),
    },
    "additionalProperties": False,
}
