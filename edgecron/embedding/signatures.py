"""Read the parameters of a job's function, and its arguments as a payload and back.

A payload is a JSON object of arguments by name, or an array of arguments in order. People can write
one too: `edgecron run NAME --payload`.

The code object of a plain function, as nearly all jobs are, tells its parameters. Only other
functions need `inspect`, which takes 2.7 MB and 10 ms: see "a program at rest" in the README.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from edgecron.base.errors import InvalidInput
from edgecron.embedding.context import RunContext
from edgecron.embedding.json_values import json_text

if TYPE_CHECKING:
    from edgecron.supervisor.calls import Call

# Of `co_flags`: https://docs.python.org/3/library/inspect.html#code-objects-bit-flags
_VARIADIC = 0x04 | 0x08
_GENERATOR = 0x20
_COROUTINE = 0x80
_ASYNC_GENERATOR = 0x200


class Signature(Protocol):
    """How a function can be called."""

    are_named: bool  # every argument can be given by its name

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by parameter. Raises TypeError if they don't fit."""


def signature_of(function: Callable[..., object], *, skips_first: bool) -> Signature:
    """Return the signature of a function, or of all but its first parameter."""
    if _is_plain(function):
        code = function.__code__
        is_named = not code.co_flags & _VARIADIC and not code.co_posonlyargcount
        if is_named and (code.co_argcount or not skips_first):
            return _Plain(function, skips_first=skips_first)
    return _Inspected(function, skips_first=skips_first)


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Report whether a call returns an awaitable."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & _COROUTINE)
    from inspect import iscoroutinefunction

    return iscoroutinefunction(function)


def is_generator_function(function: Callable[..., object]) -> bool:
    """Report whether a call only returns a generator, synchronous or not."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & (_GENERATOR | _ASYNC_GENERATOR))
    from inspect import isasyncgenfunction, isgeneratorfunction

    return isgeneratorfunction(function) or isasyncgenfunction(function)


def wants_context(function: Callable[..., object]) -> bool:
    """Report whether the first parameter of a function is annotated as a RunContext."""
    annotation = find_first_annotation(function)
    if isinstance(annotation, str):
        # Annotations are not evaluated: `RunContext`, `edgecron.RunContext`.
        return annotation.strip("'\"").rpartition(".")[2] == RunContext.__name__
    return annotation is RunContext


def find_first_annotation(function: Callable[..., object]) -> object:
    """Return the annotation of the first parameter, possibly as text; None without one."""
    if _is_plain(function) and not function.__code__.co_flags & _VARIADIC:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return function.__annotations__.get(names[0]) if names else None
    from inspect import signature

    for parameter in signature(function).parameters.values():
        return None if parameter.annotation is parameter.empty else parameter.annotation
    return None


def _is_plain(function: object) -> TypeGuard[FunctionType]:
    """Report whether its code object tells all: a wrapper or a marked function has attributes."""
    return type(function) is FunctionType and not vars(function)


class _Plain:
    """The signature of a function whose parameters can all be given by name.

    Its errors have the words of `inspect`.
    """

    are_named = True

    def __init__(self, function: FunctionType, *, skips_first: bool) -> None:
        code = function.__code__
        count = code.co_argcount
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        defaults = function.__kwdefaults__ or {}
        optional = {*names[count - len(function.__defaults__ or ()) : count], *defaults}
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
    """The signature of any other function."""

    def __init__(self, function: Callable[..., object], *, skips_first: bool) -> None:
        from inspect import Parameter, signature

        named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        found = signature(function)
        parameters = list(found.parameters.values())[skips_first:]
        self._signature = found.replace(parameters=parameters)
        self.are_named = all(one.kind in named for one in parameters)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)


class Arguments:
    """A job's function and its arguments: from a call to a payload, and from a payload to a call.

    `job` is the name that errors mention.
    """

    def __init__(self, function: Callable[..., Any], *, job: str) -> None:
        self.function = function
        self._job = job
        self._has_context = wants_context(function)
        self._signature = signature_of(function, skips_first=self._has_context)

    def call(self, call: Call) -> Any:
        """Call the function for a run; return what it returns, for a coroutine its awaitable."""
        args, kwargs = self.read(call.claim.job.payload)
        if self._has_context:
            return self.function(RunContext(call), *args, **kwargs)
        return self.function(*args, **kwargs)

    def payload_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """Return the arguments of a call as JSON; None without arguments.

        Raises TypeError if they don't fit, InvalidInput for a value that JSON can't hold.
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
        """Raise InvalidInput if the function can't be called with a payload."""
        args, kwargs = self.read(payload)
        try:
            self._signature.bind(tuple(args), kwargs)
        except TypeError as error:
            raise InvalidInput(
                f"job {self._job!r} can't be called by its schedule: {error}",
                hint='give payload={"name": value}, or the parameter a default',
            ) from None

    def read(self, payload: str | None) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments that a payload holds. Raises InvalidInput for any other JSON."""
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
