"""What a function takes, and its arguments as a payload and back.

A payload is an object of arguments by name, or an array of them in order. A person can write one
too: `edgecron run NAME --payload`.

A plain function, as nearly all jobs are, tells its parameters itself. Only others need `inspect`,
which with `ast` and `dis` takes most of a megabyte for as long as the program lives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Protocol, TypeGuard

from edgecron.base.errors import InvalidInput

# Of `co_flags`: https://docs.python.org/3/library/inspect.html#code-objects-bit-flags
_VARIADIC = 0x04 | 0x08
_GENERATOR = 0x20
_COROUTINE = 0x80
_ASYNC_GENERATOR = 0x200


class Signature(Protocol):
    """How a function may be called."""

    are_named: bool  # every argument may be given by its name

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by the names of their parameters. Raises TypeError where they don't fit."""


def signature_of(function: Callable[..., object], *, skips_first: bool) -> Signature:
    """The signature of a function, or of all but its first parameter."""
    if _is_plain(function):
        code = function.__code__
        is_named = not code.co_flags & _VARIADIC and not code.co_posonlyargcount
        if is_named and (code.co_argcount or not skips_first):
            return _Plain(function, skips_first=skips_first)
    return _Inspected(function, skips_first=skips_first)


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Whether to call it gives what is to be awaited."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & _COROUTINE)
    from inspect import iscoroutinefunction

    return iscoroutinefunction(function)


def is_generator_function(function: Callable[..., object]) -> bool:
    """Whether to call it does nothing until somebody goes through what it gives."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & (_GENERATOR | _ASYNC_GENERATOR))
    from inspect import isasyncgenfunction, isgeneratorfunction

    return isgeneratorfunction(function) or isasyncgenfunction(function)


def find_first_annotation(function: Callable[..., object]) -> object:
    """What its first parameter is said to be, a text where annotations are such; None: nothing."""
    if _is_plain(function) and not function.__code__.co_flags & _VARIADIC:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return function.__annotations__.get(names[0]) if names else None
    from inspect import signature

    for parameter in signature(function).parameters.values():
        said = parameter.annotation
        return None if said is parameter.empty else said
    return None


def _is_plain(function: object) -> TypeGuard[FunctionType]:
    """Whether its code says all of it: what wraps another one, or is marked, has attributes."""
    return type(function) is FunctionType and not vars(function)


class _Plain:
    """Of a function whose parameters may all be given by name; errors are worded as `inspect`'s."""

    are_named = True

    def __init__(self, function: FunctionType, *, skips_first: bool) -> None:
        code = function.__code__
        count = code.co_argcount
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        given = function.__kwdefaults__ or {}
        optional = {*names[count - len(function.__defaults__ or ()) : count], *given}
        self._ordered = names[skips_first:count]
        self._names = names[skips_first:]
        self._needed = [name for name in self._names if name not in optional]

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._ordered):
            raise TypeError("too many positional arguments")
        bound = dict(zip(self._ordered, args, strict=False))
        for name, value in kwargs.items():
            if name in bound:
                raise TypeError(f"multiple values for argument {name!r}")
            if name not in self._names:
                raise TypeError(f"got an unexpected keyword argument {name!r}")
            bound[name] = value
        for name in self._needed:
            if name not in bound:
                raise TypeError(f"missing a required argument: {name!r}")
        return {name: bound[name] for name in self._names if name in bound}


class _Inspected:
    """Of any other function."""

    def __init__(self, function: Callable[..., object], *, skips_first: bool) -> None:
        from inspect import Parameter, signature

        named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        found = signature(function)
        parameters = list(found.parameters.values())[skips_first:]
        self._signature = found.replace(parameters=parameters)
        self.are_named = all(one.kind in named for one in parameters)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)


MOST_BYTES = 64 * 1024
_MOST_DEPTH = 100


class Arguments:
    """What a function is called with, besides its context. `job` is named in errors."""

    def __init__(self, function: Callable[..., object], *, job: str, has_context: bool) -> None:
        self._job = job
        self.has_context = has_context
        self._signature = signature_of(function, skips_first=has_context)

    def payload_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """JSON of what the function is to be called with; None where that is nothing.

        Raises TypeError where it can't be called so, InvalidInput for what JSON does not hold.
        """
        bound = self._signature.bind(args, kwargs)
        if not args and not kwargs:
            return None
        if self._signature.are_named:
            given: object = bound
        elif kwargs:
            if args:
                raise InvalidInput(
                    f"job {self._job!r} is called with arguments in order and by name",
                    hint="a function with *args or / is called with one kind at a time",
                )
            given = dict(kwargs)
        else:
            given = list(args)
        return json_text(given, what=f"the arguments of job {self._job!r}")

    def check(self, payload: str | None) -> None:
        """Raise InvalidInput where the function can't be called with a payload."""
        args, kwargs = self.read(payload)
        try:
            self._signature.bind(tuple(args), kwargs)
        except TypeError as error:
            raise InvalidInput(
                f"job {self._job!r} can't be called by its schedule: {error}",
                hint='give payload={"name": value}, or the parameter a default',
            ) from None

    def read(self, payload: str | None) -> tuple[list[Any], dict[str, Any]]:
        """What to call the function with. Raises InvalidInput for any other JSON."""
        given = None if payload is None else json.loads(payload)
        if given is None:
            return [], {}
        if isinstance(given, dict):
            return [], given
        if isinstance(given, list):
            return given, {}
        raise InvalidInput(
            f"the payload of job {self._job!r} is {payload!r:.60}, expected an object or an array",
            hint='such as {"host": "plc2"}, or ["plc2"]',
        )


def json_text(value: object, *, what: str, most_bytes: int = MOST_BYTES) -> str:
    """A value as JSON, read back as the same (but that tuples become arrays).

    Raises InvalidInput for what JSON does not hold, naming where it stands, or for too much.
    """
    _check(value, what, 0)
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what}: a text holds half a character (a lone surrogate)") from None
    if size_bytes > most_bytes:
        raise InvalidInput(
            f"{what}: {size_bytes} bytes of JSON, expected at most {most_bytes}",
            hint="leave it in a file or a table, and give its name",
        )
    return text


def _check(value: object, where: str, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise InvalidInput(f"{where[:60]}...: nested too deeply, or within itself")
    match value:
        case None | bool() | str() | int():
            return
        case float():
            if value - value != 0:  # a NaN, or infinite
                raise InvalidInput(f"{where} is {value}, which is no number of JSON")
        case list() | tuple():
            for index, one in enumerate(value):
                _check(one, f"{where}[{index}]", depth + 1)
        case dict():
            for key, one in value.items():
                if not isinstance(key, str):
                    raise InvalidInput(f"{where} has the key {key!r:.60}, expected text")
                _check(one, f"{where}[{key!r:.40}]", depth + 1)
        case _:
            raise InvalidInput(
                f"{where} is {type(value).__qualname__}, which JSON does not hold",
                hint="give text, numbers, lists and dicts, such as str(path) or at.isoformat()",
            )
