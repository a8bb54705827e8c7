"""Turn values into JSON and back, by their type hints; describe that JSON in JSON Schema.

Instants are RFC 3339 with Z, bytes are base64, a choice is its value, a value or a named tuple is
an object of its fields. Schedules, runs and fires have the field names of `--json`: see
`record_forms`. A compiled trigger names the zone of this machine in the place of `local`.

Answers can come from another version. So unknown fields are ignored, an unknown choice (such as a
new status) stays a text, and a missing field has its default. In a request, an unknown field or
choice is refused, since ignoring it could change a job.
"""

from __future__ import annotations

import math
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgecron.base.errors import MalformedCall, UnknownTimezone
from edgecron.base.units import format_instant
from edgecron.base.values import NamedTuple, defaults_of, is_value, names_of
from edgecron.client.engine_health import EngineState
from edgecron.client.following import BegunRuns
from edgecron.engine.other_engines import DatabaseCopy
from edgecron.formats.document_plan import Step
from edgecron.formats.document_values import Document
from edgecron.model.changes import Change, Undo
from edgecron.model.choices import Cause, Status
from edgecron.model.claim import Output, OutputChunk
from edgecron.model.filters import Filter
from edgecron.model.listing import (
    Choice,
    NamedId,
    Removal,
    RunBounds,
    RunPage,
    ScheduleLine,
    SchedulePage,
    SortBy,
    Standing,
)
from edgecron.model.notices import Notice
from edgecron.model.run import Execution
from edgecron.model.schedule import Imported, Schedule, ScheduleSpec
from edgecron.planning.backfill import Backfill
from edgecron.planning.corrections import ClockState
from edgecron.planning.forecast import UpcomingFire
from edgecron.planning.simulation import Simulation
from edgecron.triggers import Trigger
from edgecron.triggers.grammar import from_json
from edgecron.triggers.zones import LOCAL, check_zone, local_zone_name
from edgecron.views.busy import WeekHeat
from edgecron.views.explanation import Explanation
from edgecron.views.outlook import Foreseen, LatePlaces, Outlook
from edgecron.views.statistics import Tallied

Shape = Mapping[str, Any]
Encode = Callable[[Any], Any]
Decode = Callable[[Any, str, bool], Any]

ABSENT = object()  # the default of a field that has none
_MOST_SHOWN = 60
_INT_BITS = 63


class Form(NamedTuple):
    """How values of a type look as JSON.

    `encode` raises TypeError for another value, which is a defect of ours. `decode` takes the
    JSON, the name of its place for messages, and whether unknown fields are refused; it raises
    MalformedCall. `shape` is JSON Schema; `default` is what a missing field means.
    """

    encode: Encode
    decode: Decode
    shape: Shape
    default: Any = ABSENT


# The objects of the schemas, by name; filled as forms are made.
SCHEMAS: dict[str, Shape] = {}


@cache
def form_of(hint: Any) -> Form:
    """Return the form of a type hint. Raises TypeError if its values have no form."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(args)
    if origin is not None:
        return _container(hint, origin, args)
    if isinstance(hint, type):
        if hint in OWN_FORMS:
            return OWN_FORMS[hint]()
        if issubclass(hint, Enum):
            return _choice(hint)
        if is_value(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields")):
            return _record(hint)
    raise TypeError(f"values of {hint!r} have no JSON form")


def refuse(where: str, value: object, expected: str) -> MalformedCall:
    """The error for JSON that is not as expected at a place."""
    shown = repr(value)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    return MalformedCall(f"{where} is {shown}, expected {expected}")


def nullable(shape: Shape) -> Shape:
    """The same, or null."""
    return {"anyOf": [shape, {"type": "null"}]}


def reference(name: str) -> Shape:
    """The schema of a named object."""
    return {"$ref": f"#/components/schemas/{name}"}


# Type hints of our modules.

# The classes that signatures and fields mention, but that their modules import for type checkers
# only. `array`, a list in JSON, is no generic type before Python 3.12.
_NAMES: Mapping[str, Any] = {
    "Client": object,
    "array": list,
    **{
        one.__name__: one
        for one in (
            *(Backfill, Cause, Choice, ClockState, DatabaseCopy, Document, EngineState, Execution),
            *(Explanation, Filter, Foreseen, Imported, LatePlaces, BegunRuns, NamedId, Outlook),
            *(Output, OutputChunk, Removal, RunBounds, RunPage, Schedule, ScheduleLine),
            *(SchedulePage, ScheduleSpec, SortBy, Standing, Status, Step, Tallied, Trigger),
            *(Change, Notice, Simulation, Undo, UpcomingFire, WeekHeat, datetime),
        )
    },
}


@cache
def hints_of(one: type | Callable[..., Any]) -> Mapping[str, Any]:
    """Return the type hints of a class's fields, or of a function's parameters and `return`."""
    return get_type_hints(one, localns={**_NAMES, **vars(sys.modules[one.__module__])})


# Plain values.


def _plain(kind: type, shape: Shape, expected: str, encode: Encode | None = None) -> Form:
    """A type that JSON has too. True is an int in Python, and no number here."""

    def check(value: Any) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"{value!r} is not {expected}")
        return value if encode is None else encode(value)

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        if type(value) is not kind or (type(value) is int and value.bit_length() > _INT_BITS):
            raise refuse(where, value, expected)
        return value

    return Form(check, decode, shape)


def _encode_float(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a finite number")
    return value


def _decode_float(value: Any, where: str, is_strict: bool) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _INT_BITS:
        return value
    raise refuse(where, value, "a number")


def _text(
    kind: type, shape: Shape, expected: str, *, write: Encode, read: Callable[[str], Any]
) -> Form:
    """A type that is a text in JSON; `read` raises ValueError for any other text."""

    def encode(value: Any) -> str:
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} is not {expected}")
        return str(write(value))

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        with suppress(ValueError, OverflowError):
            if type(value) is str:
                return read(value)
        raise refuse(where, value, expected)

    return Form(encode, decode, shape)


def _write_instant(value: datetime) -> str:
    if value.utcoffset() is None:
        raise TypeError(f"{value!r} is not an aware datetime")
    return format_instant(value)


def _read_instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    return found.astimezone(UTC)


def _read_path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    return Path(text)


def _encode_json(value: Any) -> Any:
    """A value that JSON has itself, such as a value of a document."""
    if value is None or type(value) in (bool, str, int):
        return value
    if type(value) is float:
        return _encode_float(value)
    if type(value) in (list, tuple):
        return [_encode_json(part) for part in value]
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {key: _encode_json(part) for key, part in value.items()}
    raise TypeError(f"{value!r} is not JSON")


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


TEXT: Shape = {"type": "string"}
INTEGER: Shape = {"type": "integer"}
INSTANT: Shape = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z$",
    "description": "RFC 3339 in UTC, such as 2026-11-20T08:00:00Z",
}
_NULL = _plain(NoneType, {"type": "null"}, "null")
_PLAIN: dict[Any, Form] = {
    NoneType: _NULL,
    None: _NULL,
    bool: _plain(bool, {"type": "boolean"}, "true or false"),
    int: _plain(int, INTEGER, "a whole number", int),
    str: _plain(str, TEXT, "a text", str.__str__),
    float: Form(_encode_float, _decode_float, {"type": "number"}),
    datetime: _text(
        datetime,
        INSTANT,
        "an RFC 3339 time with an offset",
        write=_write_instant,
        read=_read_instant,
    ),
    date: _text(
        date,
        {"type": "string", "format": "date"},
        "a date",
        write=date.isoformat,
        read=date.fromisoformat,
    ),
    bytes: _text(
        bytes,
        {"type": "string", "contentEncoding": "base64"},
        "base64",
        write=lambda value: b64encode(value).decode("ascii"),
        read=lambda text: b64decode(text, validate=True),
    ),
    Path: _text(Path, TEXT, "a path", write=str, read=_read_path),
    object: Form(_encode_json, lambda value, where, is_strict: value, {}),
    Any: Form(_encode_json, lambda value, where, is_strict: value, {}),
}
_TRIGGER = Form(
    _encode_trigger,
    _decode_trigger,
    {"type": "object", "description": "a trigger, expanded into the times that it has"},
)
# Types with a form of their own; `record_forms` adds some.
OWN_FORMS: dict[type, Callable[[], Form]] = {Trigger: lambda: _TRIGGER}


# Values made of others.


def _optional(members: tuple[Any, ...]) -> Form:
    """A value, or None. Nothing in JSON tells the members of other unions apart."""
    rest = [member for member in members if member is not NoneType]
    if len(rest) != 1 or len(rest) == len(members):
        raise TypeError(f"values of a union of {members!r} have no JSON form")
    inner = form_of(rest[0])

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        return None if value is None else inner.decode(value, where, is_strict)

    return Form(
        lambda value: None if value is None else inner.encode(value),
        decode,
        nullable(inner.shape),
        None,
    )


def _choice(kind: type[Enum]) -> Form:
    by_value = {member.value: member for member in kind}

    def encode(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return value.value

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        if type(value) in (str, int) and value in by_value:
            return by_value[value]
        if type(value) is str and issubclass(kind, StrEnum) and not is_strict:
            return _newer_choice(kind, value)
        raise refuse(where, value, f"one of {', '.join(map(str, by_value))}")

    name = "integer" if all(isinstance(value, int) for value in by_value) else "string"
    return Form(encode, decode, {"type": name, "enum": list(by_value)})


def _newer_choice(kind: type[StrEnum], text: str) -> StrEnum:
    """Make a choice that only a newer server knows: equal to no other, and shown as its text."""
    choice = str.__new__(kind, text)
    choice._name_ = choice._value_ = text
    return choice


def _list_of(value: Any, where: str) -> list[Any]:
    if type(value) is not list:
        raise refuse(where, value, "an array")
    return value


def _container(hint: Any, origin: Any, args: tuple[Any, ...]) -> Form:
    if origin is tuple and args[-1:] != (Ellipsis,):
        return _tuple(args)
    if issubclass(origin, Mapping):
        return _mapping(*args)
    if not issubclass(origin, Collection) or issubclass(origin, str):
        raise TypeError(f"values of {hint!r} have no JSON form")
    inner = form_of(args[0])
    make: Callable[[Iterable[Any]], Any] = list
    if issubclass(origin, (set, frozenset)):
        make = frozenset
    elif not issubclass(origin, list):
        make = tuple

    def encode(value: Any) -> Any:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise TypeError(f"{value!r} is not {hint!r}")
        found = [inner.encode(part) for part in value]
        return sorted(found) if make is frozenset else found

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        parts = _list_of(value, where)
        return make(
            inner.decode(part, f"{where}[{at}]", is_strict) for at, part in enumerate(parts)
        )

    return Form(encode, decode, {"type": "array", "items": inner.shape})


def _tuple(args: tuple[Any, ...]) -> Form:
    inner = [form_of(each) for each in args]

    def encode(value: Any) -> Any:
        if not isinstance(value, Sequence) or len(value) != len(inner):
            raise TypeError(f"{value!r} does not have {len(inner)} parts")
        return [one.encode(part) for one, part in zip(inner, value, strict=True)]

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        parts = _list_of(value, where)
        if len(parts) != len(inner):
            raise refuse(where, value, f"an array of {len(inner)}")
        found = zip(inner, parts, strict=True)
        return tuple(
            one.decode(part, f"{where}[{at}]", is_strict) for at, (one, part) in enumerate(found)
        )

    shape = {
        "type": "array",
        "prefixItems": [one.shape for one in inner],
        "minItems": len(inner),
        "maxItems": len(inner),
    }
    return Form(encode, decode, shape)


def _mapping(key_hint: Any, value_hint: Any) -> Form:
    key, inner = form_of(key_hint), form_of(value_hint)

    def encode(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is not a mapping")
        found = {key.encode(each): inner.encode(part) for each, part in value.items()}
        if not all(type(each) is str for each in found):
            raise TypeError(f"{value!r} has keys that are not texts")
        return found

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        if type(value) is not dict:
            raise refuse(where, value, "an object")
        return {
            key.decode(each, f"a key of {where}", is_strict): inner.decode(
                part, f"{where}.{each[:60]}", is_strict
            )
            for each, part in value.items()
        }

    return Form(encode, decode, {"type": "object", "additionalProperties": inner.shape})


# Fields that never leave the process in which the value was made.
_KEPT_HERE = {("Words", "timing"), ("Document", "notes"), ("Document", "templates")}


def _record(kind: Any) -> Form:
    """A value, or a named tuple, as an object of its fields. It makes its own checks when built."""
    is_tuple = issubclass(kind, tuple)
    hints = hints_of(kind)
    names = kind._fields if is_tuple else names_of(kind)
    defaults = kind._field_defaults if is_tuple else defaults_of(kind)
    inner = {
        name: form_of(hints[name]) for name in names if (kind.__name__, name) not in _KEPT_HERE
    }
    absent = {name: None for name in names if name not in inner}

    def encode(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return {name: one.encode(getattr(value, name)) for name, one in inner.items()}

    def decode(value: Any, where: str, is_strict: bool) -> Any:
        check_object(value, inner, where=where, is_strict=is_strict)
        found = dict(absent)
        for name, one in inner.items():
            if name in value:
                found[name] = one.decode(value[name], f"{where}.{name}", is_strict)
            elif name not in defaults:
                if one.default is ABSENT:
                    raise refuse(where, value, f"an object with {name}")
                found[name] = one.default
        return kind(**found)

    shape = {
        "type": "object",
        "properties": {name: one.shape for name, one in inner.items()},
        # A peer of another version can leave out the others, in requests too.
        "required": [
            name for name, one in inner.items() if name not in defaults and one.default is ABSENT
        ],
    }
    name = SCHEMA_NAMES.get(kind.__name__, kind.__name__)
    SCHEMAS[name] = shape
    return Form(encode, decode, reference(name))


# Words of the API in the place of names that are of our code.
SCHEMA_NAMES = {
    "Choice": "ScheduleChoice",
    "Tallied": "Statistics",
    "Tally": "RunStatistics",
    "DatabaseCopy": "OtherDatabase",
    "Document": "ScheduleFile",
    "Output": "StoredOutput",
    "Wanted": "WantedSchedule",
    "Words": "Definition",
}


def check_object(value: object, known: Collection[str], *, where: str, is_strict: bool) -> None:
    """Raise MalformedCall if a value is not an object, or has unknown fields and is a request."""
    if type(value) is not dict:
        raise refuse(where, value, "an object")
    if is_strict and (unknown := value.keys() - known):
        raise MalformedCall(
            f"{where} has {min(unknown)[:60]!r}, which is unknown here",
            hint=f"known are: {', '.join(sorted(known))}",
        )
