"""Read the parameters of a job's function, and its arguments as a payload and back.

A payload is a JSON object of arguments by name, or an array of arguments in order. People can write
one too: `edgecron run NAME --payload`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput
from edgecron.base.json_texts import json_text
from edgecron.embedding.context import RunContext

if TYPE_CHECKING:
    from edgecron.supervisor.calls import Call

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def is_generator_function(function: Callable[..., object]) -> bool:
    """Report whether a call only returns a generator, synchronous or not."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def wants_context(function: Callable[..., object]) -> bool:
    """Report whether the first parameter of a function is annotated as a RunContext."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    annotation = None if first is None else first.annotation
    if isinstance(annotation, str):
        # Annotations are not evaluated: `RunContext`, `edgecron.RunContext`.
        return annotation.strip("'\"").rpartition(".")[2] == RunContext.__name__
    return annotation is RunContext


class Arguments:
    """A job's function and its arguments: from a call to a payload, and from a payload to a call.

    `job` is the name that errors mention.
    """

    def __init__(self, function: Callable[..., Any], *, job: str) -> None:
        self.function = function
        self._job = job
        try:
            signature = inspect.signature(function)
        except ValueError:
            what = "a class" if isinstance(function, type) else "a function"
            raise InvalidInput(
                f"job {job!r} is {what} whose parameters can't be read",
                hint="call it in a function of your own, and make that function the job",
            ) from None
        self._has_context = wants_context(function)
        parameters = list(signature.parameters.values())[self._has_context :]
        self._signature = signature.replace(parameters=parameters)
        self._are_named = all(one.kind in _NAMED for one in parameters)

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
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"job {self._job!r} takes {self._signature}: {error}") from None
        if not args and not kwargs:
            return None
        if self._are_named:
            given: object = bound
        elif kwargs:
            if args:
                raise InvalidInput(
                    f"job {self._job!r} has positional and keyword arguments, expected one kind",
                    hint="for a function with *args or /, give all arguments in one way",
                )
            given = dict(kwargs)
        else:
            given = list(args)
        return json_text(given, what=f"job {self._job!r}: arguments")

    def check(self, payload: str | None) -> None:
        """Raise InvalidInput if the function can't be called with a payload."""
        args, kwargs = self.read(payload)
        try:
            self._signature.bind(*args, **kwargs)
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
