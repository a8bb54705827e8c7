"""Values and hashes as the standard library has them, loaded faster.

With its values, `edgecron list` takes 1.4 times its processor time (25 ms more) and 1.6 MB more
memory. Importing `dataclasses` loads `inspect`, `ast` and `dis`, and each class compiles six
methods. Here a class compiles one, `__init__`, when it is first needed. With that, `edgecron
doctor` takes a tenth less. `typing.NamedTuple` costs a tenth of this.

Type checkers see the standard library's. So do `dataclasses.replace`, `asdict` and `fields`. Values
without slots can have cached properties, which are neither compared nor pickled.

`hashlib` loads OpenSSL, which adds 3.8 MB to the 30 MB of an engine, and 2.6 ms to each command.
The hashes come from Python's own modules.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

_set = object.__setattr__
_ABSENT = object()


class _Factory:
    """A default that is made for each value."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def _field(*, default_factory: Callable[[], object]) -> Any:
    """Declare a field whose default is made for each value."""
    return _Factory(default_factory)


class _DataclassView:
    """An attribute that `dataclasses` reads from a class, made when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, cls: type[_Value]) -> Any:
        from dataclasses import MISSING, make_dataclass
        from dataclasses import field as their_field

        types: dict[str, str] = {}
        for base in cls.__mro__[::-1]:
            types |= vars(base).get("__annotations__", {})
        defaults = {
            name: their_field(default_factory=one.make) if isinstance(one, _Factory) else one
            for name, one in cls._defaults.items()
        }
        fields = [(name, types[name], defaults.get(name, MISSING)) for name in cls._names]
        is_frozen = issubclass(cls, _FrozenValue)
        made = make_dataclass(cls.__name__, fields, kw_only=True, frozen=is_frozen)
        return getattr(made, self._name)


class _Value:
    """The base of all values: they are shown, compared and replaced by their fields."""

    __slots__ = ()
    if TYPE_CHECKING:
        _names: ClassVar[tuple[str, ...]]
        _defaults: ClassVar[dict[str, object]]
        _key_of: ClassVar[Callable[[object], object]]
        __hash__: Any
    else:  # Without annotations, which `get_type_hints` would take for fields.
        _names, _defaults, __hash__ = (), {}, None
    __dataclass_fields__ = _DataclassView("__dataclass_fields__")
    __dataclass_params__ = _DataclassView("__dataclass_params__")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__qualname__}({shown})"

    def __eq__(self, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(type(self)._key_of(self) == type(self)._key_of(other))

    def __replace__(self, /, **changes: Any) -> Any:
        for name in self._names:
            if name not in changes:
                changes[name] = getattr(self, name)
        return self.__class__(**changes)


class _FrozenValue(_Value):
    """A value that can be a key and does not change."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(type(self)._key_of(self))

    def __setattr__(self, name: str, value: object) -> None:
        from dataclasses import FrozenInstanceError  # rare: only a defect of the caller

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[object]:
        return [getattr(self, name) for name in self._names]

    def __setstate__(self, state: list[object]) -> None:
        for name, value in zip(self._names, state, strict=True):
            _set(self, name, value)


def _dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Any:
    """Make a class one of values, with the fields that its body annotates."""

    def make(cls: type) -> Any:
        own = cls.__annotations__
        inherited: tuple[str, ...] = getattr(cls, "_names", ())
        names = tuple(dict.fromkeys((*inherited, *own)))
        defaults = {**getattr(cls, "_defaults", {})}
        defaults |= {name: vars(cls)[name] for name in own if name in vars(cls)}
        slot_names = [name for name in own if name not in inherited]
        left_out = {*own, "__dict__", "__weakref__"}
        body = {name: one for name, one in vars(cls).items() if name not in left_out}
        body |= {
            "__qualname__": cls.__qualname__,
            "__slots__": tuple(slot_names if slots else [*slot_names, "__dict__"]),
            "__match_args__": () if kw_only else names,
            "_names": names,
            "_defaults": defaults,
            # Values are keys of caches: a getter in C is four times as fast as a loop.
            "_key_of": attrgetter(*names) if names else bool,
        }
        bases = tuple(base for base in cls.__bases__ if base is not object)
        if not any(issubclass(base, _Value) for base in bases):
            bases = (*bases, _FrozenValue if frozen else _Value)
        made: Any = type(cls)(cls.__name__, bases, body)
        made.__init__ = _Init(made, frozen=frozen, kw_only=kw_only)
        return made

    return make


class _Init:
    """The `__init__` of a class of values, which replaces itself when it is first looked up."""

    __slots__ = ("_cls", "_frozen", "_kw_only")

    def __init__(self, cls: Any, *, frozen: bool, kw_only: bool) -> None:
        self._cls = cls
        self._frozen = frozen
        self._kw_only = kw_only

    def __get__(self, instance: object, owner: type) -> Any:
        made = _compile_init(self._cls, frozen=self._frozen, kw_only=self._kw_only)
        self._cls.__init__ = made
        return made.__get__(instance, owner)


def _compile_init(cls: Any, *, frozen: bool, kw_only: bool) -> Any:
    names: tuple[str, ...] = cls._names
    defaults: dict[str, object] = cls._defaults
    known: dict[str, object] = {"_absent": _ABSENT}
    given, lines = [], []
    for name in names:
        value = name
        default = defaults.get(name)
        if isinstance(default, _Factory):
            known[f"_make_{name}"] = default.make
            given.append(f"{name}=_absent")
            value = f"_make_{name}() if {name} is _absent else {name}"
        elif name in defaults:
            known[f"_default_{name}"] = default
            given.append(f"{name}=_default_{name}")
        else:
            given.append(name)
        if frozen:
            # The setter of the slot takes a quarter less time than `object.__setattr__`.
            known[f"_set_{name}"] = getattr(cls, name).__set__
        lines.append(f"_set_{name}(self, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    star = "*, " if kw_only and given else ""
    text = f"def __init__(self, {star}{', '.join(given)}): {'; '.join(lines) or 'pass'}"
    found: dict[str, Any] = {}
    exec(text, known, found)
    init = found["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _replace(self: Any, /, **changes: Any) -> Any:
    """Copy a value with some fields changed. The copy is checked as a new value is."""
    return self.__replace__(**changes)


def is_value(kind: object) -> bool:
    """Whether a class is one of values."""
    return isinstance(kind, type) and issubclass(kind, _Value)


def names_of(kind: type) -> tuple[str, ...]:
    """List the names of a value's fields, in order."""
    found: tuple[str, ...] = kind._names  # type: ignore[attr-defined]
    return found


def defaults_of(kind: type) -> dict[str, object]:
    """Return the defaults of a value's fields, by name."""
    found: dict[str, object] = kind._defaults  # type: ignore[attr-defined]
    return found


class _NamedTupleMeta(type):
    """Makes a named tuple of the body of a class."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        # Python 3.14 can have a function that gives the annotations instead of them.
        types = body.get("__annotations__") or type(name, (), dict(body)).__annotations__
        defaults = [body[each] for each in types if each in body]
        make: Any = namedtuple  # which type checkers take for a declaration
        made = make(name, types, defaults=defaults, module=body["__module__"])
        made.__annotations__ = types
        for each, one in body.items():
            if each not in types and each not in ("__module__", "__annotations__"):
                setattr(made, each, one)
        return made


class _NamedTuple:
    """The base that a class statement names, replaced by a class of `_NamedTupleMeta`."""

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (_NAMED,)


_NAMED = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from hashlib import blake2b, sha256
    from typing import NamedTuple
else:
    dataclass, field, replace = _dataclass, _field, _replace
    NamedTuple = _NamedTuple()
    # Some distributions build Python without its own hashes.
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

__all__ = [
    "NamedTuple",
    "blake2b",
    "dataclass",
    "defaults_of",
    "field",
    "is_value",
    "names_of",
    "replace",
    "sha256",
]
