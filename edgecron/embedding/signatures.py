"""What kind of function one is, and how it may be called.

Of plain functions, and nearly all jobs are such, their own words are read. All others are left to
`inspect`, which with `ast` and `dis` takes most of a megabyte for as long as the program lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Protocol, TypeGuard

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
