"""Frozen values as JSON and back, driven by type hints. Strict: what is not as its hint says is
refused, in both directions.

Instants are RFC 3339 in UTC, bytes are base64, a choice is its value, a dataclass an object of all
its fields, a named tuple an array. A trigger is its compiled form, and `local`, which means another
zone on another machine, is the name of that zone.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from edgecron.base.errors import MalformedCall
from edgecron.base.values import NamedTuple, is_value, names_of
from edgecron.client.wire_hints import hints_of

_MOST_SHOWN = 60
_INT_BITS = 63


class Codec(NamedTuple):
    """How values of a hint become JSON, and JSON such values; `shape` is all of that as a text.

    `encode` raises TypeError for another value, which is a defect of ours; `decode` is told where
    in a body it stands, and raises MalformedCall.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]
    shape: str


@cache
def codec_of(hint: Any) -> Codec:
    """The codec of a type hint. Raises TypeError for one that nothing on the wire may be."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is not None:
        return _container(hint, origin, args)
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return _choice(hint)
        if is_value(hint):
            return _record(hint)
        if issubclass(hint, tuple) and hasattr(hint, "_fields"):
            return _named_tuple(hint)
        if hint.__name__ == "Trigger":
            return _TRIGGER
    raise TypeError(f"{hint!r} can't be on the wire")


def refuse(where: str, value: object, expected: str) -> MalformedCall:
    """The error for what is not as it should be at a place of a body."""
    shown = repr(value)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    return MalformedCall(f"{where} is {shown}, expected {expected}")


def _plain(kind: type, expected: str, encode: Callable[[Any], Any] | None = None) -> Codec:
    """A type that JSON has too. True is an int to Python, and none here."""

    def check(value: Any) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"{value!r} is not {expected}")
        return value if encode is None else encode(value)

    def decode(value: Any, where: str) -> Any:
        if type(value) is not kind or (type(value) is int and value.bit_length() > _INT_BITS):
            raise refuse(where, value, expected)
        return value

    return Codec(check, decode, kind.__name__)


def _encode_float(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a finite number")
    return value


def _decode_float(value: Any, where: str) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _INT_BITS:
        return value
    raise refuse(where, value, "a number")


def _encode_instant(value: Any) -> str:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise TypeError(f"{value!r} is not an aware datetime")
    return value.astimezone(UTC).isoformat()


def _decode_instant(value: Any, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(value) if type(value) is str else None
        if found is not None and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise refuse(where, value, "an RFC 3339 time with an offset")


def _encode_date(value: Any) -> str:
    if type(value) is not date:
        raise TypeError(f"{value!r} is not a date")
    return value.isoformat()


def _decode_date(value: Any, where: str) -> date:
    try:
        if type(value) is str:
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise refuse(where, value, "a date")


def _encode_bytes(value: Any) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"{value!r} is not bytes")
    return b64encode(value).decode("ascii")


def _decode_bytes(value: Any, where: str) -> bytes:
    try:
        if type(value) is str:
            return b64decode(value, validate=True)
    except ValueError:
        pass
    raise refuse(where, value, "base64")


def _decode_path(value: Any, where: str) -> Path:
    if type(value) is not str or not value or "\0" in value:
        raise refuse(where, value, "a path")
    return Path(value)


def _encode_json(value: Any) -> Any:
    """What JSON has itself, such as a value of a document."""
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
    from edgecron.base.errors import UnknownTimezone
    from edgecron.triggers.zones import LOCAL, check_zone, local_zone_name

    found = value.to_json()
    if found["timezone"] == LOCAL:
        with suppress(UnknownTimezone):  # A rule without a name: there is no other word for it.
            found["timezone"] = check_zone(local_zone_name())
    return found


def _decode_trigger(value: Any, where: str) -> Any:
    from edgecron.triggers.compiled import from_json

    if not isinstance(value, dict):
        raise refuse(where, value, "a compiled trigger")
    return from_json(value)


_PLAIN: dict[Any, Codec] = {
    NoneType: _plain(NoneType, "null"),
    None: _plain(NoneType, "null"),
    bool: _plain(bool, "true or false"),
    int: _plain(int, "a whole number", int),
    str: _plain(str, "a text", str.__str__),
    float: Codec(_encode_float, _decode_float, "float"),
    datetime: Codec(_encode_instant, _decode_instant, "datetime"),
    date: Codec(_encode_date, _decode_date, "date"),
    bytes: Codec(_encode_bytes, _decode_bytes, "bytes"),
    Path: Codec(lambda value: str(value), _decode_path, "path"),
    object: Codec(_encode_json, lambda value, where: value, "json"),
    Any: Codec(_encode_json, lambda value, where: value, "json"),
}
_TRIGGER = Codec(_encode_trigger, _decode_trigger, "trigger")


def _union(members: tuple[Any, ...]) -> Codec:
    """A value, or None. Of other unions nothing on the wire tells which of them is meant."""
    rest = [member for member in members if member is not NoneType]
    if len(rest) != 1 or len(rest) == len(members):
        raise TypeError(f"a union of {members!r} can't be on the wire")
    inner = codec_of(rest[0])
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda value, where: None if value is None else inner.decode(value, where),
        f"{inner.shape}?",
    )


def _choice(kind: type[Enum]) -> Codec:
    by_value = {member.value: member for member in kind}

    def encode(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return value.value

    def decode(value: Any, where: str) -> Any:
        if type(value) not in (str, int) or value not in by_value:
            raise refuse(where, value, f"one of {', '.join(map(str, by_value))}")
        return by_value[value]

    return Codec(encode, decode, f"{kind.__name__}({'|'.join(map(str, by_value))})")


def _list_of(value: Any, where: str) -> list[Any]:
    if type(value) is not list:
        raise refuse(where, value, "an array")
    return value


def _container(hint: Any, origin: Any, args: tuple[Any, ...]) -> Codec:
    if origin is tuple and args[-1:] != (Ellipsis,):
        return _tuple(args)
    if issubclass(origin, Mapping):
        return _mapping(*args)
    if not issubclass(origin, Collection) or issubclass(origin, str):
        raise TypeError(f"{hint!r} can't be on the wire")
    inner = codec_of(args[0])
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

    def decode(value: Any, where: str) -> Any:
        parts = _list_of(value, where)
        return make(inner.decode(part, f"{where}[{at}]") for at, part in enumerate(parts))

    return Codec(encode, decode, f"[{inner.shape}]")


def _tuple(args: tuple[Any, ...]) -> Codec:
    inner = [codec_of(each) for each in args]

    def encode(value: Any) -> Any:
        if not isinstance(value, Sequence) or len(value) != len(inner):
            raise TypeError(f"{value!r} does not have {len(inner)} parts")
        return [one.encode(part) for one, part in zip(inner, value, strict=True)]

    def decode(value: Any, where: str) -> Any:
        parts = _list_of(value, where)
        if len(parts) != len(inner):
            raise refuse(where, value, f"an array of {len(inner)}")
        found = zip(inner, parts, strict=True)
        return tuple(one.decode(part, f"{where}[{at}]") for at, (one, part) in enumerate(found))

    return Codec(encode, decode, f"({','.join(one.shape for one in inner)})")


def _mapping(key_hint: Any, value_hint: Any) -> Codec:
    key, inner = codec_of(key_hint), codec_of(value_hint)

    def encode(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is not a mapping")
        found = {key.encode(each): inner.encode(part) for each, part in value.items()}
        if not all(type(each) is str for each in found):
            raise TypeError(f"{value!r} has keys that are no texts")
        return found

    def decode(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise refuse(where, value, "an object")
        return {
            key.decode(each, f"a key of {where}"): inner.decode(part, f"{where}.{each[:60]}")
            for each, part in value.items()
        }

    return Codec(encode, decode, f"{{{key.shape}:{inner.shape}}}")


# What does not travel: it means something only where it was made.
_LEFT_OUT = {("Words", "timing")}


def _record(kind: Any) -> Codec:
    """A dataclass; its own checks are made when it is built."""
    hints = hints_of(kind)
    names = names_of(kind)
    inner = {
        name: codec_of(hints[name]) for name in names if (kind.__name__, name) not in _LEFT_OUT
    }
    absent = {name: None for name in names if name not in inner}

    def encode(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return {name: one.encode(getattr(value, name)) for name, one in inner.items()}

    def decode(value: Any, where: str) -> Any:
        if type(value) is not dict or value.keys() != inner.keys():
            raise refuse(where, value, f"an object of {', '.join(inner)}")
        found = {name: one.decode(value[name], f"{where}.{name}") for name, one in inner.items()}
        return kind(**found, **absent)

    shape = ",".join(f"{name}:{one.shape}" for name, one in inner.items())
    return Codec(encode, decode, f"{kind.__name__}{{{shape}}}")


def _named_tuple(kind: Any) -> Codec:
    hints = hints_of(kind)
    names = kind._fields
    parts = _tuple(tuple(hints[name] for name in names))

    def encode(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return parts.encode(value)

    return Codec(
        encode,
        lambda value, where: kind(*parts.decode(value, where)),
        f"{kind.__name__}{parts.shape}",
    )
