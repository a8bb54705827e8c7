"""Schedules as objects of a program: `Scheduled` for any, `Job` for a decorated function."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import update_wrapper
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from edgecron.base.checks import check_type, json_text
from edgecron.base.errors import InvalidInput
from edgecron.embedding.concurrency import beside, beside_loop, engine_logger
from edgecron.embedding.context import Arguments, RunContext
from edgecron.embedding.enqueuing import CALL_OPTIONS, PLAIN, CallOptions, read_call, take_call
from edgecron.embedding.run import Run, Waits
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice

if TYPE_CHECKING:
    from typing import Unpack

    from edgecron.client import Client
    from edgecron.embedding.concurrency import ClientPool
    from edgecron.embedding.enqueuing import Enqueue, Enqueuer, ManyKeywords
    from edgecron.model.schedule import Schedule

P = ParamSpec("P")  # the function's parameters
Q = ParamSpec("Q")  # its parameters without the context: the arguments of a run
R = TypeVar("R", covariant=True)  # what the function returns
T = TypeVar("T")  # the result of a run: for a coroutine, what it returns when awaited


class Declaring(Protocol):
    """The parts of a program that its schedules need."""

    pool: ClientPool
    waits: Waits
    queue: str
    enqueuer: Enqueuer

    def keep_declared(self) -> None:
        """Write the declarations that the database might not hold."""

    @property
    def origin(self) -> str:
        """The origin of its changes, for people."""

    def find_declaration(self, name: str) -> str | None:
        """Return file and line at which it declares a schedule; None if it does not."""

    def forget_added(self, name: str) -> None:
        """Forget how it added a schedule: that schedule was changed or removed."""


class Scheduled(Generic[T]):
    """A schedule by its name: read it, and act on it."""

    def __init__(self, name: str, program: Declaring) -> None:
        self.name = name
        self._program = program

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @contextmanager
    def _client(self) -> Iterator[Client]:
        """Lend a Client of a database that has all declarations."""
        self._program.keep_declared()
        with self._program.pool.client() as client:
            yield client

    @property
    def schedule(self) -> Schedule:
        """The whole schedule. Raises NotFound if it was removed."""
        with self._client() as client:
            return client.schedule(self.name)

    def next_runs(self, count: int = 5) -> list[datetime]:
        """Return when its next runs can start, as aware UTC datetimes; fewer if fewer are left."""
        _check_whole("count", count)
        with self._client() as client:
            return [fire.due_at for fire in islice(client.next_fires(self.name), count)]

    def history(
        self,
        *,
        status: str | Collection[str] = (),
        limit: int = 20,
        before: int | None = None,
    ) -> list[Run[T]]:
        """Return its runs, newest first: all, or those of one status or several.

        `before` is a run id: the page starts with the next older run. The logger `edgecron` warns
        of each unreadable run. Raises InvalidInput for an unknown status or a bad limit.
        """
        _check_whole("limit", limit)
        if before is not None:
            _check_whole("before", before)
        statuses = _statuses(status)
        choice = RunChoice(statuses=statuses, before_id=before)
        with self._client() as client:
            found = client.history_page(self.name, choice=choice, limit=limit)
        for run_id in found.unreadable:
            engine_logger().warning("run %d of job %s can't be read", run_id, self.name)
        return [Run(one, self._program.waits) for one in found.runs]

    def pause(self, until: datetime | None = None) -> None:
        """Hold runs that have not started, until an aware instant or without end."""
        with self._client() as client:
            client.pause(self.name, until=until)

    def resume(self) -> None:
        """Let it fire again. The times that passed meanwhile become one skipped range."""
        with self._client() as client:
            client.resume(self.name)

    def reschedule(self, run_at: datetime) -> None:
        """Move its next run to another time, once. The run after it follows the trigger."""
        with self._client() as client:
            client.reschedule(self.name, run_at)

    def state(self) -> dict[str, Any]:
        """Return a copy of what its runs have stored: see RunContext.state."""
        with self._client() as client:
            return {key: json.loads(text) for key, text in client.state(self.name).items()}

    def fire(self, payload: object = None) -> list[Run[T]]:
        """Run it now, once for each of its scopes. Its next time does not change.

        For a schedule without scopes, `run_now` returns the only run. `payload` is JSON for this
        fire only; None is the schedule's own. A run is `skipped` if an earlier one is active and
        the overlap policy skips it.
        """
        return self._fire([payload_json(payload)], is_one=False)

    # The same for coroutines: each call runs on a thread beside the event loop.

    async def aschedule(self) -> Schedule:
        """`schedule`, for a coroutine."""
        return await beside(lambda: self.schedule)

    anext_runs = beside_loop(next_runs)
    ahistory = beside_loop(history)
    apause = beside_loop(pause)
    aresume = beside_loop(resume)
    areschedule = beside_loop(reschedule)
    astate = beside_loop(state)

    async def afire(self, payload: object = None) -> list[Run[T]]:
        """`fire`, for a coroutine."""
        return await beside(self._fire_and_read, payload_json(payload), is_one=False)

    def _fire(
        self,
        payloads: Sequence[str | None],
        *,
        is_one: bool,
        call: CallOptions = PLAIN,
    ) -> list[Run[T]]:
        self._program.keep_declared()
        run_ids = self._program.enqueuer.enqueue(self.name, payloads, call=call, is_one=is_one)
        return [Run(one, self._program.waits) for one in run_ids]

    def _fire_one(self, payload: str | None, call: CallOptions = PLAIN) -> Run[T]:
        [run] = self._fire([payload], is_one=True, call=call)
        return run

    def _fire_and_read(self, payload: str | None, *, is_one: bool) -> list[Run[T]]:
        """Fire, and read each run: its properties then need no database on the event loop."""
        return _read_all(self._fire([payload], is_one=is_one))

    async def _afire_one(self, payload: str | None, call: CallOptions = PLAIN) -> Run[T]:
        return await beside(lambda: _read_all([self._fire_one(payload, call)])[0])


class Job(Scheduled[T], Generic[P, Q, R, T]):
    """A function with a schedule. Calling the job is a plain call of the function.

    `Q` are its parameters without a context, `T` is the result of its runs.
    """

    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str,
        arguments: Arguments,
        program: Declaring,
        is_process: bool,
    ) -> None:
        super().__init__(name, program)
        self.function = function
        self.arguments = arguments
        self.is_process = is_process  # each run is a process of its own
        update_wrapper(self, function, updated=())
        # Other attributes of the function, such as marks of other libraries, but none of ours.
        for key, value in getattr(function, "__dict__", {}).items():
            # hasattr(self, key) would read properties, which read the database.
            if key not in vars(self) and not hasattr(type(self), key):
                setattr(self, key, value)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def run_now(self, *args: Q.args, **kwargs: Q.kwargs) -> Run[T]:
        """Have an engine run it now with these arguments: `enqueue` without options of its own.

        Its next time does not change. Without arguments, the run gets those of the schedule. Raises
        TypeError if the function can't be called with the arguments, InvalidInput for an argument
        that JSON can't hold, or if the job has several scopes: see `fire`.
        """
        return self._fire_one(self.arguments.payload_of(args, kwargs))

    async def arun_now(self, *args: Q.args, **kwargs: Q.kwargs) -> Run[T]:
        """`run_now`, for a coroutine: `run = await job.arun_now()`, then `await run`."""
        return await self._afire_one(self.arguments.payload_of(args, kwargs))

    @property
    def enqueue(self) -> Enqueue[Q, Run[T]]:
        """Have an engine run it with these arguments, now or later; return the run.

            load.enqueue("users", delay="5m", key="users-today")

        It is written before the call returns, and survives restarts. Beside the arguments, give
        options of this run:

        - `delay`, or `at` (an aware datetime): when it is due. Until then it takes no place.
        - `key`: a second call with this key returns the first run, as long as the history holds
          that run. Each schedule and scope has its own keys. Other arguments raise KeyReused.
        - `priority`, `timeout`: of this run and its retries, instead of the job's.
        - `scope`: which of the job's scopes. It is needed if the job has several.

        Raises what `run_now` does. Raises InvalidInput if the function has a parameter with the
        name of an option.
        """
        return self._enqueue

    @property
    def aenqueue(self) -> Enqueue[Q, Coroutine[Any, Any, Run[T]]]:
        """`enqueue`, for a coroutine: `run = await job.aenqueue()`, then `await run`."""
        return self._aenqueue

    def _enqueue(self, *args: Any, **kwargs: Any) -> Run[T]:
        call = self._read_call(kwargs)
        return self._fire_one(self.arguments.payload_of(args, kwargs), call)

    async def _aenqueue(self, *args: Any, **kwargs: Any) -> Run[T]:
        call = self._read_call(kwargs)
        return await self._afire_one(self.arguments.payload_of(args, kwargs), call)

    def enqueue_many(
        self, calls: Iterable[object], **options: Unpack[ManyKeywords]
    ) -> list[Run[T]]:
        """Enqueue many calls in one transaction; return their runs in order.

            load.enqueue_many([("users", 3), {"table": "orders"}, "prices"])

        A call is a tuple of arguments in order, a dict by name, or one argument. `options` hold
        for all calls: those of `enqueue`, without `key`. If a call is wrong, none is enqueued.
        """
        payloads = [self.arguments.payload_of(*_arguments_of(one)) for one in calls]
        return self._fire(payloads, is_one=True, call=read_call(options))

    async def aenqueue_many(
        self, calls: Iterable[object], **options: Unpack[ManyKeywords]
    ) -> list[Run[T]]:
        """`enqueue_many`, for a coroutine."""
        return await beside(lambda: _read_all(self.enqueue_many(calls, **options)))

    def _read_call(self, kwargs: dict[str, Any]) -> CallOptions:
        """Take the options out of the arguments of a call."""
        if kwargs.keys().isdisjoint(CALL_OPTIONS):
            return PLAIN
        self.arguments.refuse_names(CALL_OPTIONS)
        return take_call(kwargs)


class Decorate(Protocol):
    """The type of `@scheduler.job(...)`: functions and coroutines, with or without a context."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext, Q], Coroutine[Any, Any, T]], /
    ) -> Job[Concatenate[RunContext, Q], Q, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext, Q], R], /
    ) -> Job[Concatenate[RunContext, Q], Q, R, R]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Job[P, P, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Job[P, P, R, R]: ...


def _arguments_of(call: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of one of many calls."""
    if isinstance(call, tuple):
        return call, {}
    return ((), call) if isinstance(call, dict) else ((call,), {})


def _read_all(runs: list[Run[T]]) -> list[Run[T]]:
    """Read each run: its properties then need no database on the event loop."""
    for run in runs:
        _ = run.execution
    return runs


def payload_json(payload: object) -> str | None:
    """Return a payload as JSON; None without one. Raises InvalidInput."""
    return None if payload is None else json_text(payload, what="payload")


def _check_whole(what: str, number: object) -> None:
    """Raise InvalidInput unless it is a whole number from 0: SQLite takes -1 for no limit."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise InvalidInput(
            f"{what} is {number!r:.60}, expected a whole number from 0", hint=f"such as {what}=20"
        )


def _statuses(status: str | Collection[str]) -> tuple[Status, ...]:
    check_type(
        "status", status, str, list, tuple, set, frozenset,
        expected="text, or a list of texts", hint=f"such as status='{Status.FAILED}'",
    )  # fmt: skip
    texts = (status,) if isinstance(status, str) else status
    for text in texts:
        if text not in tuple(Status):
            raise InvalidInput(
                f"status {text!r:.60} is unknown", hint=f"expected one of {', '.join(Status)}"
            )
    return tuple(Status(text) for text in texts)
