"""The run that a function gets, with progress and state; its arguments; and middleware.

The arguments of a run are its payload: a JSON object by name, or an array in order. People can
write one too: `edgecron run NAME --payload`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, MutableMapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import datetime
from inspect import Parameter, isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import json_text
from edgecron.base.errors import Cancelled, InvalidInput
from edgecron.base.units import from_ms
from edgecron.embedding.failures import RetryRules
from edgecron.supervisor.environment import idempotency_key

if TYPE_CHECKING:
    from edgecron.model.run import Upstream
    from edgecron.supervisor.calls import Call


class RunContext:
    """The run that a function is called for. A function gets it as its first parameter:

        @scheduler.job("@daily")
        def copy(run: RunContext, folder: str = "/srv") -> int:
            run.progress(0.4, "copied 12 of 30")

    Any thread can call its methods until the function has returned.
    """

    __slots__ = ("_call", "_state")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._state: State | None = None

    def __repr__(self) -> str:
        return f"<RunContext of run {self.id}, {self.schedule}, attempt {self.attempt}>"

    @property
    def id(self) -> int:
        """The id of the run, as `history` shows it."""
        return self._call.claim.execution_id

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return self._call.claim.schedule

    @property
    def plan_at(self) -> datetime:
        """Its plan time, aware, in UTC, however late it runs."""
        return from_ms(self._call.claim.plan_ms)

    @property
    def due_at(self) -> datetime:
        """When it could start: `plan_at` plus jitter, or plus the delay of a retry."""
        return from_ms(self._call.claim.due_ms)

    @property
    def cause(self) -> str:
        """Why the run exists: `schedule`, `catch_up`, `manual`, `retry`, and others."""
        return self._call.claim.cause.value

    @property
    def attempt(self) -> int:
        """1 for the first attempt, 2 for the first retry."""
        return self._call.claim.attempt

    @property
    def max_attempts(self) -> int:
        return self._call.claim.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        return self.attempt >= self.max_attempts

    @property
    def scope(self) -> tuple[str, str]:
        """The (kind, id) of its scope; ('global', '') without scopes."""
        return self._call.claim.scope_kind, self._call.claim.scope_id

    @property
    def payload(self) -> Any:
        """The arguments of the run as JSON has them: by name, or in order; None without any."""
        return self._call.payload

    @property
    def idempotency_key(self) -> str:
        """32 hexadecimal digits: the same for all attempts of one fire, different for others."""
        return idempotency_key(self._call.claim)

    @property
    def fence(self) -> int:
        """A number that grows with each run of the schedule.

        A store that keeps the largest number it saw can refuse a late write of an earlier run.
        """
        return self._call.claim.fence

    @property
    def upstream(self) -> Upstream | None:
        """The run before this one, if this one follows another schedule's: `name` of the schedule,
        number `run`, `status`, `reason`, `exit_code` and `error`.

        None for all other runs, and if retention has removed that run.
        """
        return self._call.claim.upstream

    @property
    def must_stop(self) -> bool:
        """Whether it was asked to stop, or its timeout is over: return soon, or raise.

        A function on a thread can't be ended from outside. A coroutine is also cancelled.
        """
        return self._call.must_stop

    def check(self) -> None:
        """Raise Cancelled if it must stop: for loops that have nothing to clean up."""
        if self._call.must_stop:
            reason = self._call.stop_reason
            why = "timeout" if reason is None else reason.value
            raise Cancelled(f"run {self.id} of {self.schedule!r} is to stop ({why})")

    def progress(self, fraction: float | None, text: str = "") -> None:
        """Report the progress: a fraction from 0 to 1, or None if unknown, and a few words.

        The dashboard and `status` show it live. At most one report a second is written, the newest;
        this never waits. Raises InvalidInput for any other value.
        """
        self._call.report_progress(fraction, text)

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The JSON values that the schedule keeps from run to run, by key.

        Changes are written in the transaction that records this run's success. If the run fails,
        is cancelled or interrupted, none of them is.
        """
        if self._state is None:
            self._state = State(self._call)
        return self._state


class State(MutableMapping[str, Any]):
    """The state of a schedule in one run. A value that is read is a copy."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._call.state[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self._call.set_state(key, json_text(value, what=f"state {key!r}"))

    def __delitem__(self, key: str) -> None:
        if key not in self._call.state:
            raise KeyError(key)
        self._call.delete_state(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._call.state)

    def __len__(self) -> int:
        return len(self._call.state)


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


_NO_RULES = RetryRules()


class Arguments:
    """A job's function and its arguments: from a call to a payload, and from a payload to a call.

    `job` is the name that errors mention. `middleware` is around each call for a run, and `rules`
    decide about exceptions.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        job: str,
        middleware: Middleware,
        rules: RetryRules = _NO_RULES,
    ) -> None:
        self.function = function
        self._job = job
        self._middleware = middleware
        self._gives_up = rules.gives_up
        self._is_coroutine = inspect.iscoroutinefunction(function)
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
        call.gives_up = self._gives_up
        args, kwargs = self.read(call.claim.job.payload)
        if not self._middleware:
            if self._has_context:
                return self.function(RunContext(call), *args, **kwargs)
            return self.function(*args, **kwargs)
        run = RunContext(call)
        if self._has_context:
            args = [run, *args]
        around = self._middleware.acall if self._is_coroutine else self._middleware.call
        return around(run, lambda: self.function(*args, **kwargs))

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

    def refuse_names(self, names: Collection[str]) -> None:
        """Raise InvalidInput if the function has a parameter with one of these names."""
        for name in names:
            if name in self._signature.parameters:
                raise InvalidInput(
                    f"{self._job!r} has the parameter {name!r}, which is an option of enqueue",
                    hint=f"rename the parameter, such as {name}_",
                )

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


# As a context manager, and as an asynchronous one. One of them is None.
_Around = tuple[
    Callable[[object], AbstractContextManager[Any]] | None,
    Callable[[object], AbstractAsyncContextManager[Any]] | None,
]


class Middleware:
    """The middleware of a program, in the order of declaration: the first is the outermost."""

    def __init__(self) -> None:
        self._functions: tuple[Callable[..., Any], ...] = ()
        self._all: tuple[_Around, ...] = ()  # for each function

    def add(self, function: Callable[..., Any]) -> None:
        """Add a generator function. Raises InvalidInput for another value.

        A function of the same module and name, such as of a cell that is run again, is replaced.
        """
        if isgeneratorfunction(function):
            one: _Around = (contextmanager(function), None)
        elif isasyncgenfunction(function):
            one = (None, asynccontextmanager(function))
        else:
            raise InvalidInput(
                f"middleware is {function!r:.60}, expected a generator function",
                hint="such as def timed(run), with one yield: the function is called there",
            )

        places = [at for at, other in enumerate(self._functions) if _is_again(function, other)]
        at = places[0] if places else len(self._functions)
        self._functions = (*self._functions[:at], function, *self._functions[at + 1 :])
        self._all = (*self._all[:at], one, *self._all[at + 1 :])

    def __bool__(self) -> bool:
        return bool(self._all)

    def call(self, run: object, function: Callable[[], object]) -> object:
        """Call a function within the middleware, but not within asynchronous middleware."""
        with ExitStack() as stack:
            for plain, _ in self._all:
                if plain is not None:
                    stack.enter_context(plain(run))
            return function()
        return None  # A middleware has caught the exception.

    async def acall(self, run: object, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Call a coroutine function within the middleware, and await it."""
        async with AsyncExitStack() as stack:
            for plain, asynchronous in self._all:
                if asynchronous is not None:
                    await stack.enter_async_context(asynchronous(run))
                elif plain is not None:
                    stack.enter_context(plain(run))
            return await function()
        return None  # A middleware has caught the exception.


def _is_again(new: Callable[..., Any], old: Callable[..., Any]) -> bool:
    """Report whether a top-level function was defined again; one within a function is another."""
    names = [(one.__module__, one.__qualname__) for one in (new, old)]
    return names[0] == names[1] and "<locals>" not in new.__qualname__
