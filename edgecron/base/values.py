"""Frozen values: `dataclass` and `NamedTuple` as the standard library has them, at half the price.

Loading `dataclasses` loads `inspect`, `ast` and `dis`, and each class has six methods compiled: of
an engine that is a megabyte, and 25 ms of its start. Here one is compiled, `__init__`, and the
others are common to all. For type checkers, and for who asks a value about its fields (`replace`,
`asdict` and the like of the standard library), they are the dataclasses that they seem to be.

`typing.NamedTuple` compiles what each field is said to be, to keep it for ever: a kilobyte each.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_set = object.__setattr__
_ABSENT = object()
_KNOWN: dict[str, object] = {"_set": _set, "_absent": _ABSENT}  # of every `__init__`
_NAMES = "__value_names__"  # of a class: the names of its fields, in order
_DEFAULTS = "__value_defaults__"  # likewise: what some of them are where they are not given


class _Made:
    """A default that is made for each value."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def _field(*, default_factory: Callable[[], object]) -> Any:
    """A field whose default is made anew for each value."""
    return _Made(default_factory)


def _dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Any:
    """Make a class one of values, by the names that its body gives types.

    Raises what the standard library does for what can't be one: TypeError, and ValueError for a
    default that values would share and change.
    """

    def made_of(cls: type) -> type:
        names, defaults = _fields_of(cls, is_frozen=frozen)
        own = {name: vars(cls)[name] for name in cls.__annotations__ if name in vars(cls)}
        methods: dict[str, object] = {
            _NAMES: names,
            _DEFAULTS: defaults,
            "__match_args__": () if kw_only else names,
            "__init__": _compiled_init(cls, names, defaults, is_frozen=frozen, kw_only=kw_only),
        }
        common = _FROZEN if frozen else _CHANGING
        if slots:
            body = {name: one for name, one in vars(cls).items() if name not in own}
            return _with_slots(cls, methods | body, names=names, common=common)
        added = {**methods, **common}
        added = {name: one for name, one in added.items() if name not in vars(cls)}
        for name, one in added.items():
            setattr(cls, name, one)
        for name, one in own.items():
            if isinstance(one, _Made):
                delattr(cls, name)
        return cls

    return made_of


def _replace(self: Any, /, **changes: Any) -> Any:
    """The same value but for these fields; checked, as each is at its birth."""
    for name in getattr(self, _NAMES):
        if name not in changes:
            changes[name] = getattr(self, name)
    return self.__class__(**changes)


def is_value(kind: type) -> bool:
    """Whether a class is one of values."""
    return hasattr(kind, _NAMES)


def names_of(kind: type) -> tuple[str, ...]:
    """The names of a value's fields, in order."""
    found: tuple[str, ...] = getattr(kind, _NAMES)
    return found


def _fields_of(cls: type, *, is_frozen: bool) -> tuple[tuple[str, ...], dict[str, object]]:
    """Names and defaults of a class's fields, those that it inherits first."""
    names: dict[str, None] = {}
    defaults: dict[str, object] = {}
    for base in cls.__mro__[:0:-1]:
        inherited = vars(base).get(_NAMES)
        if inherited is None:
            continue
        setter: object = base.__setattr__
        if (setter is _refuse_set) != is_frozen:
            one, other = ("frozen", "non-frozen") if is_frozen else ("non-frozen", "frozen")
            raise TypeError(
                f"{cls.__qualname__}: cannot inherit {one} dataclass from a {other} one"
            )
        names |= dict.fromkeys(inherited)
        defaults |= vars(base)[_DEFAULTS]
    for name in cls.__annotations__:
        names[name] = None
        if name in vars(cls):
            defaults[name] = default = vars(cls)[name]
            if default.__class__.__hash__ is None:  # What can be changed has none.
                raise ValueError(
                    f"{cls.__qualname__}: mutable default {type(default)} for field {name} is not"
                    " allowed: use default_factory"
                )
    return tuple(names), defaults


def _compiled_init(
    cls: type,
    names: tuple[str, ...],
    defaults: dict[str, object],
    *,
    is_frozen: bool,
    kw_only: bool,
) -> object:
    given, lines = [], []
    known = dict(_KNOWN) if defaults else _KNOWN
    for name in names:
        default = defaults.get(name, _ABSENT)
        value = name
        if isinstance(default, _Made):
            known[f"_make_{name}"] = default.make
            given.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        elif name in defaults:
            known[f"_default_{name}"] = default
            given.append(f"{name}=_default_{name}")
        elif given and not kw_only and "=" in given[-1]:
            raise TypeError(
                f"{cls.__qualname__}: non-default field {name!r} cannot follow a default one"
            )
        else:
            given.append(name)
        lines.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    star = "*, " if kw_only and given else ""
    text = f"def __init__(self, {star}{', '.join(given)}): {'; '.join(lines) or 'pass'}"
    found: dict[str, Any] = {}
    exec(text, known, found)
    init = found["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _with_slots(
    cls: type, body: dict[str, object], *, names: tuple[str, ...], common: dict[str, object]
) -> type:
    """The class anew: slots are made with it, and can't be added."""
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    body["__qualname__"] = cls.__qualname__  # or one in another class is not found by it
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    body = {name: one for name, one in body.items() if name not in ("__dict__", "__weakref__")}
    bases = cls.__bases__
    if bases == (object,):
        # From a base, which costs each of a hundred classes nothing.
        bases = (_FrozenValue if common is _FROZEN else _ChangingValue,)
    elif not any(is_value(base) for base in bases):
        body = {**common, **body}
    return type(cls)(cls.__name__, bases, body)


# What all values have in common.


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in getattr(self, _NAMES))
    return f"{type(self).__qualname__}({shown})"


def _all_of(self: Any) -> tuple[object, ...]:
    return tuple([getattr(self, name) for name in getattr(self, _NAMES)])


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _all_of(self) == _all_of(other)


def _hash(self: Any) -> int:
    return hash(_all_of(self))


def _refuse_set(self: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError  # a defect of the caller's, and so rare

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return list(_all_of(self))


def _set_state(self: Any, state: list[object]) -> None:
    for name, value in zip(getattr(self, _NAMES), state, strict=True):
        _set(self, name, value)


class _Seeming:
    """What `dataclasses` looks for in a class, made when it does so."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, cls: type) -> Any:
        from dataclasses import MISSING, make_dataclass
        from dataclasses import field as their_field

        types: dict[str, str] = {}
        for base in cls.__mro__[::-1]:
            types |= vars(base).get("__annotations__", {})
        defaults = {
            name: their_field(default_factory=one.make) if isinstance(one, _Made) else one
            for name, one in getattr(cls, _DEFAULTS).items()
        }
        fields = [(name, types[name], defaults.get(name, MISSING)) for name in names_of(cls)]
        setter: object = cls.__setattr__
        seeming = make_dataclass(cls.__name__, fields, kw_only=True, frozen=setter is _refuse_set)
        return getattr(seeming, self._name)


_COMMON: dict[str, object] = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__replace__": _replace,
    "__dataclass_fields__": _Seeming("__dataclass_fields__"),
    "__dataclass_params__": _Seeming("__dataclass_params__"),
}
_CHANGING: dict[str, object] = {**_COMMON, "__hash__": None}
_FROZEN: dict[str, object] = {
    **_COMMON,
    "__hash__": _hash,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _state,
    "__setstate__": _set_state,
}
_ChangingValue = type("_ChangingValue", (), {"__slots__": (), **_CHANGING})
_FrozenValue = type("_FrozenValue", (), {"__slots__": (), **_FROZEN})


class _NamedTupleMeta(type):
    """Makes a named tuple of the body of a class."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        # Python 3.14 may have a function that gives the annotations in their place.
        types = body.get("__annotations__") or type(name, (), dict(body)).__annotations__
        defaults = [body[each] for each in types if each in body]
        for each in [*types][len(types) - len(defaults) :]:
            if each not in body:
                raise TypeError(f"{name}: non-default field {each!r} cannot follow a default one")
        make: Any = namedtuple  # which type checkers take for a declaration
        made = make(name, types, defaults=defaults, module=body["__module__"])
        made.__annotations__ = types
        for each, one in body.items():
            if each not in types and each not in ("__module__", "__annotations__"):
                setattr(made, each, one)
        return made


class _NamedTuple:
    """What a class statement has for its base, to be made by the above."""

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (_NAMED,)


_NAMED = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import NamedTuple
else:
    dataclass, field, replace = _dataclass, _field, _replace
    NamedTuple = _NamedTuple()

__all__ = ["NamedTuple", "dataclass", "field", "is_value", "names_of", "replace"]
