"""Turn values into JSON and back, by their type hints; describe that JSON in JSON Schema.

A value or a named tuple is an object of its fields; `plain_forms` has the values that these consist
of. Schedules, runs and fires have the field names of `--json`: see `record_forms`.

Answers can come from another version. So unknown fields are ignored, an unknown choice (such as a
new status) stays a text, and a missing field has its default. In a request, an unknown field or
choice is refused, since ignoring it could change a job.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgecron.base.errors import MalformedCall
from edgecron.base.values import defaults_of, is_value, names_of
from edgecron.client import engine_health, following
from edgecron.client.plain_forms import (
    ABSENT,
    PLAIN_FORMS,
    Form,
    Shape,
    choice_form,
    nullable,
    reference,
    refuse,
)
from edgecron.engine import other_engines
from edgecron.formats import document_tables
from edgecron.model import choices, filters, listing, notices, run, schedule
from edgecron.model.options import FORMER_FIELDS, REMOVED_FIELDS
from edgecron.planning import corrections, forecast, simulation
from edgecron.triggers import Trigger
from edgecron.views import busy, outlook, statistics

# The objects of the schemas, by name; filled as forms are made.
SCHEMAS: dict[str, Shape] = {}
# Types with a form of their own, such as a schedule; `resources` fills it.
OWN_FORMS: dict[type, Callable[[], Form]] = {}


@cache
def form_of(hint: Any) -> Form:
    """Return the form of a type hint. Raises TypeError if its values have no form."""
    if hint in PLAIN_FORMS:
        return PLAIN_FORMS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(args)
    if origin is not None:
        return _container(hint, origin, args)
    if isinstance(hint, type):
        if hint in OWN_FORMS:
            return OWN_FORMS[hint]()
        if issubclass(hint, Enum):
            return choice_form(hint)
        if is_value(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields")):
            return _record(hint)
    raise TypeError(f"values of {hint!r} have no JSON form")


# Type hints of our modules.

# Signatures and fields mention classes of these modules that their own module imports for type
# checkers only. `array`, a list in JSON, is no generic type before Python 3.12.
_MODULES = (
    *(busy, choices, corrections, document_tables, engine_health, filters, following, forecast),
    *(listing, notices, other_engines, outlook, run, schedule, simulation, statistics),
)
_NAMES: Mapping[str, Any] = {
    **{
        name: one
        for module in _MODULES
        for name, one in vars(module).items()
        if isinstance(one, type) and one.__module__ == module.__name__
    },
    "Client": object,
    "Trigger": Trigger,
    "array": list,
    "datetime": datetime,
}


@cache
def hints_of(one: type | Callable[..., Any]) -> Mapping[str, Any]:
    """Return the type hints of a class's fields, or of a function's parameters and `return`."""
    return get_type_hints(one, localns={**_NAMES, **vars(sys.modules[one.__module__])})


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
    if is_strict and (unknown := value.keys() - known - REMOVED_FIELDS):
        raise MalformedCall(
            f"{where} has {min(unknown)[:60]!r}, which is unknown here",
            hint=f"known are: {', '.join(sorted(known))}",
        )


def given_fields(forms: Mapping[str, Form], found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields that an object has; the others keep their defaults."""
    return {
        name: form.decode(found[name], f"{where}.{name}", False)
        for name, form in forms.items()
        if name in found
    }


def object_form(
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
