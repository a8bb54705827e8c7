"""The JSON Schema of a schedule's document: what clients write.

A document has the keys of TOML documents (`apply`, `export`, `edit`), such as `every: "5m"` and
`timeout: "1h"`. Answers have the fields of `list --json`, such as `triggers` and `timeout_s`, and
also the `document`: PUT takes this document, and PATCH takes a merge patch (RFC 7396). Two keys
differ from TOML: the default of `timezone` is UTC, and `payload` is a JSON value instead of its
text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgecron.client.plain_forms import Shape, nullable
from edgecron.formats.document_tables import TRIGGERS
from edgecron.model.options import OPTIONS, RULE_NAME, Option, OptionType

DEFAULT_ZONE = "UTC"  # of a request without a zone
NAME: Shape = {
    "type": "string",
    "pattern": r"^(?![0-9]+$)[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}$",
    "format": "schedule-name",
    "description": "1 to 128 of A-Z a-z 0-9 _ - . starting with a letter or digit, not only digits",
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


SCOPE: Shape = _text("a scope of the schedule, such as device:pump-3", kind="scope")


def duration(words: str, *, is_clearable: bool = False) -> Shape:
    """Return the schema of a duration as text."""
    none = "|none" if is_clearable else ""
    return {
        "type": "string",
        "maxLength": 80,
        "pattern": rf"^(0|0s|([0-9]{{1,12}}(ms|s|m|h|d|w))+{none})$",
        "format": "duration-text",
        "description": f"{words}: a duration, such as 90s or 1h30m",
    }


def _integer(least: int, most: int) -> Shape:
    return {"type": "integer", "minimum": least, "maximum": most}


def _choice(*choices: str) -> Shape:
    return {"type": "string", "enum": list(choices)}


def _or_several(shape: Shape, *, most: int) -> Shape:
    return {"anyOf": [shape, {"type": "array", "items": shape, "minItems": 1, "maxItems": most}]}


_MOST_INTERVALS = 12  # of one schedule
_TEXT_LIMITS = {"shell": ("argument", _MOST_TEXT), "callable": ("argument", 1000)}
_RULES = {"type": "string", "pattern": f"^{RULE_NAME.pattern}(,{RULE_NAME.pattern})*$"}
_RULE = {"type": "string", "pattern": f"^{RULE_NAME.pattern}$"}
_COMMAND: Shape = {
    "type": "array",
    "minItems": 1,
    "prefixItems": [_text("the program", kind="argument", most=_MOST_TEXT)],
    "items": _text("an argument", least=0, most=_MOST_TEXT),
}
_VARIABLES: Shape = {
    "type": "object",
    "propertyNames": {
        "type": "string",
        "pattern": r"^(?!EDGECRON_)[^=\u0000]+$",
        "description": "a name without =, not beginning with EDGECRON_",
    },
    "additionalProperties": _text("a value", least=0, most=_MOST_TEXT),
}


def _triggers(option: Option) -> Shape:
    kind = "when" if option.name == "at" else option.name
    most = _MOST_INTERVALS if option.name == "every" else 64
    return _or_several(_text(option.words, kind=kind), most=most)


def _line(option: Option) -> Shape:
    kind, most = _TEXT_LIMITS.get(option.name, ("printable", 140))
    return _text(option.words, kind=kind, most=most)


def _lines(option: Option) -> Shape:
    if option.name == "description":
        return _text(option.words, kind="printable", most=4096)
    return {"type": "string", "maxLength": _MOST_TEXT, "description": option.words}


def _said(shape: Shape) -> Callable[[Option], Shape]:
    """Return a function that adds the words of an option to a schema."""
    return lambda option: {**shape, "description": option.words}


# The schema of an option in a document, by its type.
_BY_TYPE: Mapping[OptionType, Callable[[Option], Shape]] = {
    OptionType.TRIGGERS: _triggers,
    OptionType.COMMAND: _said(_COMMAND),
    OptionType.TEXT: _line,
    OptionType.LINES: _lines,
    OptionType.PATH: lambda one: _text(one.words, most=4096),
    OptionType.USER: lambda one: _text(one.words, kind="user", most=256),
    OptionType.JSON: lambda one: {"description": f"{one.words}: any JSON value; null is none"},
    OptionType.VARIABLES: _said(_VARIABLES),
    OptionType.TIME: lambda one: _text(one.words, kind="when"),
    OptionType.ZONE: lambda one: ZONE_OR_NULL,
    OptionType.DURATION: lambda one: duration(one.words, is_clearable=one.is_clearable),
    OptionType.COUNT: lambda one: _said(_integer(one.least, one.most))(one),
    OptionType.FACTOR: lambda one: _said({**_integer(one.least, one.most), "type": "number"})(one),
    OptionType.PRIORITY: lambda one: {
        "anyOf": [_choice("low", "normal", "high"), _integer(-one.most, one.most)],
        "description": one.words,
    },
    OptionType.CODES: _said(
        {"type": "array", "items": _integer(0, 255), "minItems": 1, "maxItems": 256}
    ),
    OptionType.RULES: lambda one: {
        "anyOf": [_said(_RULES)(one), {"type": "array", "items": _RULE, "maxItems": 64}]
    },
    OptionType.CHOICE: lambda one: _said(_choice(*one.choices))(one),
    OptionType.CONDITIONS: lambda one: _or_several(_text(one.words, kind="condition"), most=64),
    OptionType.WINDOWS: lambda one: _or_several(_text(one.words, most=64), most=64),
    OptionType.DAYS: lambda one: _or_several(_text(one.words, most=4096), most=64),
    OptionType.GROUP: lambda one: _text(one.words, kind="group", most=200),
    OptionType.SCOPES: lambda one: _or_several(_text(one.words, kind="scope"), most=1000),
    OptionType.SWITCH: _said({"type": "boolean"}),
}


_SHAPES: Mapping[str, Shape] = {name: _BY_TYPE[one.type](one) for name, one in OPTIONS.items()}

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
# Null restores the default.
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
