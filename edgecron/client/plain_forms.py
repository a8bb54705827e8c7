"""How plain values look as JSON: numbers, texts, instants, bytes, choices, and errors.

Instants are RFC 3339 with Z, bytes are base64, a choice is its value. An unknown choice of an
answer, such as a new status, stays a text; in a request it is refused.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from pathlib import Path
from types import NoneType
from typing import Any

from edgecron.base import errors
from edgecron.base.errors import (
    EdgecronError,
    InvalidFile,
    InvalidInput,
    MalformedCall,
    ServerUnavailable,
)
from edgecron.base.units import format_instant
from edgecron.base.values import NamedTuple

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


TEXT: Shape = {"type": "string"}
INTEGER: Shape = {"type": "integer"}
INSTANT: Shape = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z$",
    "description": "RFC 3339 in UTC, such as 2026-11-20T08:00:00Z",
}
_NULL = _plain(NoneType, {"type": "null"}, "null")
PLAIN_FORMS: dict[Any, Form] = {
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


def choice_form(kind: type[Enum]) -> Form:
    """Return the form of a choice, which is its value in JSON."""
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


# Errors.

_KINDS: Mapping[str, type[EdgecronError]] = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EdgecronError)
}


def error_object(error: EdgecronError) -> dict[str, Any]:
    """Return an error as --json shows it, with the name of its Python type."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "type": type(error).__name__,
        **error.details,
    }


def read_error(content: object) -> EdgecronError | None:
    """Return the error that an object stands for; None if it is none of ours.

    A type that this version does not know is read by its code.
    """
    if not isinstance(content, Mapping):
        return None
    message, hint = content.get("message"), content.get("hint")
    if not isinstance(message, str) or not (hint is None or isinstance(hint, str)):
        return None
    kind = _KINDS.get(str(content.get("type")))
    if kind is None and "type" in content:
        code = content.get("code")
        kind = next((one for one in _KINDS.values() if vars(one).get("code") == code), None)
    if kind is None and content.get("code") == "wrong_shape":  # such as a name with a blank
        return InvalidInput(message, hint=hint)
    if kind is None and content.get("code") == "unknown_parameter":  # of an older server
        return MalformedCall(message, hint=hint)
    if kind is None:
        # Of the server itself, such as one that is overloaded.
        return ServerUnavailable(message, hint=hint)
    if issubclass(kind, InvalidFile):
        problems = [one for one in content.get("problems") or () if isinstance(one, dict)]
        return kind(message, hint=hint, problems=problems)
    return kind(message, hint=hint)
