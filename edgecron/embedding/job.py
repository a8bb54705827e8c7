"""One schedule, as its program has it in hand; and a function of the program that is one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from edgecron.base.errors import InvalidInput
from edgecron.embedding.event_loops import beside
from edgecron.model.choices import Status

if TYPE_CHECKING:
    from edgecron.embedding.pool import ClientPool
    from edgecron.embedding.run import Run
    from edgecron.embedding.signatures import Arguments
    from edgecron.embedding.waiting import Waits
    from edgecron.model.schedule import Schedule

P = ParamSpec("P")  # what the function is called with
Q = ParamSpec("Q")  # the same without its context: what a run is given
R = TypeVar("R", covariant=True)  # what the function returns
T = TypeVar("T")  # what a run of it results in: what a coroutine returns when it is awaited


class Ready(Protocol):
    """What a schedule in hand stands on."""

    pool: ClientPool
    waits: Waits

    def keep_declared(self) -> None:
        """Have the database say what was declared."""


class Scheduled(Generic[T]):
    """A schedule by its name: what is done with it, and what is known of it."""

    def __init__(self, name: str, ready: Ready) -> None:
        self.name = name
        self._ready = ready

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def schedule(self) -> Schedule:
        """All that is known of it. Raises NotFound where it was removed."""
        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            return client.schedule(self.name)

    def next_runs(self, count: int = 5) -> list[datetime]:
        """When its next runs may start, aware, in UTC; fewer where fewer are to come."""
        from itertools import islice

        _check_whole("count", count)
        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            return [fire.due_at for fire in islice(client.next_fires(self.name), count)]

    def history(
        self,
        *,
        status: str | Collection[str] = (),
        limit: int = 20,
        before: int | None = None,
    ) -> list[Run[T]]:
        """Its runs, newest first: those of one status or several; `before` goes on after an id.

        The logger `edgecron` warns of each run that can't be read.
        Raises InvalidInput for a status that there is not, or a limit that is no number.
        """
        from edgecron.embedding.pool import engine_logger
        from edgecron.embedding.run import Run

        _check_whole("limit", limit)
        if before is not None:
            _check_whole("before", before)
        statuses = _statuses((status,) if isinstance(status, str) else status)
        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            found = client.history_page(self.name, statuses=statuses, before_id=before, limit=limit)
        for run_id in found.unreadable:
            engine_logger().warning("run %d of job %s can't be read", run_id, self.name)
        return [Run(one, self._ready.waits) for one in found.runs]

    def pause(self, until: datetime | None = None) -> None:
        """Hold what has not started, without end or until an instant, which is aware."""
        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            client.pause(self.name, until=until)

    def resume(self) -> None:
        """Let it fire again; the times that passed meanwhile are one skipped range."""
        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            client.resume(self.name)

    def reschedule(self, run_at: datetime) -> None:
        """Let its next run start at another time, once; the one after it follows its trigger."""
        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            client.reschedule(self.name, run_at)

    def state(self) -> dict[str, Any]:
        """What it remembers from run to run: see RunContext.state. A copy."""
        import json

        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            return {key: json.loads(text) for key, text in client.state(self.name).items()}

    def fire(self, payload: object = None) -> list[Run[T]]:
        """Run it now, once for each of its scopes; its next time does not change.

        `run_now` is the same where there is one, and gives its run. `payload` is JSON for this
        fire alone; None is the schedule's own. A run may come back `skipped`, where one goes on
        and overlap leaves it out.
        """
        return self._fire(_payload_text(payload), is_one=False)

    # The same for coroutines: on a thread beside the event loop, which goes on meanwhile.

    async def aschedule(self) -> Schedule:
        """`schedule`, for a coroutine."""
        return await beside(lambda: self.schedule)

    async def anext_runs(self, count: int = 5) -> list[datetime]:
        """`next_runs`, for a coroutine."""
        return await beside(self.next_runs, count)

    async def ahistory(
        self,
        *,
        status: str | Collection[str] = (),
        limit: int = 20,
        before: int | None = None,
    ) -> list[Run[T]]:
        """`history`, for a coroutine."""
        return await beside(self.history, status=status, limit=limit, before=before)

    async def apause(self, until: datetime | None = None) -> None:
        """`pause`, for a coroutine."""
        await beside(self.pause, until)

    async def aresume(self) -> None:
        """`resume`, for a coroutine."""
        await beside(self.resume)

    async def areschedule(self, run_at: datetime) -> None:
        """`reschedule`, for a coroutine."""
        await beside(self.reschedule, run_at)

    async def astate(self) -> dict[str, Any]:
        """`state`, for a coroutine."""
        return await beside(self.state)

    async def afire(self, payload: object = None) -> list[Run[T]]:
        """`fire`, for a coroutine."""
        return await beside(self._fire_known, _payload_text(payload), is_one=False)

    async def _afire_one(self, payload: str | None) -> Run[T]:
        [run] = await beside(self._fire_known, payload, is_one=True)
        return run

    def _fire_known(self, payload: str | None, *, is_one: bool) -> list[Run[T]]:
        """The runs with all that is known of them: a coroutine that asks for it waits no more."""
        runs = self._fire(payload, is_one=is_one)
        for run in runs:
            _ = run.execution
        return runs

    def _fire_one(self, payload: str | None) -> Run[T]:
        [run] = self._fire(payload, is_one=True)
        return run

    def _fire(self, payload: str | None, *, is_one: bool) -> list[Run[T]]:
        from edgecron.embedding.run import Run

        self._ready.keep_declared()
        with self._ready.pool.client() as client:
            run_ids = client.ask(self.name, payload=payload, is_one=is_one)
        return [Run(one, self._ready.waits) for one in run_ids]


class Entry(Scheduled[T]):
    """A schedule that is no function of this program: a command, or one found by its name."""

    def run_now(self, payload: object = None) -> Run[T]:
        """Have an engine run it now; its next time does not change.

        `payload` is JSON for this run alone; None is the schedule's own. Raises InvalidInput for
        what JSON does not hold, or where it has several scopes: see `fire`.
        """
        return self._fire_one(_payload_text(payload))

    async def arun_now(self, payload: object = None) -> Run[T]:
        """`run_now`, for a coroutine: `run = await entry.arun_now()`, then `await run`."""
        return await self._afire_one(_payload_text(payload))


class Job(Scheduled[T], Generic[P, Q, R, T]):
    """A function with a schedule. Called, it is the plain function that it was.

    `Q` are its parameters without a context, `T` is what its runs result in.
    """

    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str,
        arguments: Arguments,
        ready: Ready,
        is_process: bool,
    ) -> None:
        super().__init__(name, ready)
        self.function = function
        self.arguments = arguments
        self.is_process = is_process  # each run is one of its own
        update_wrapper(self, function, updated=())
        # What else the function has, such as marks of other libraries; never in place of ours.
        for key, value in getattr(function, "__dict__", {}).items():
            # hasattr(self, key) would read properties, and those read the database.
            if key not in vars(self) and not hasattr(type(self), key):
                setattr(self, key, value)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def run_now(self, *args: Q.args, **kwargs: Q.kwargs) -> Run[T]:
        """Have an engine run it now with these arguments; its next time does not change.

        Without any it is given what its schedule is. Raises TypeError where it can't be called
        so, InvalidInput for an argument that JSON does not hold, or where it has several scopes:
        see `fire`.
        """
        return self._fire_one(self.arguments.payload_of(args, kwargs))

    async def arun_now(self, *args: Q.args, **kwargs: Q.kwargs) -> Run[T]:
        """`run_now`, for a coroutine: `run = await job.arun_now()`, then `await run`."""
        return await self._afire_one(self.arguments.payload_of(args, kwargs))


def _payload_text(payload: object) -> str | None:
    from edgecron.embedding.signatures import json_text

    return None if payload is None else json_text(payload, what="payload")


def _check_whole(what: str, number: object) -> None:
    """Raise InvalidInput for what counts nothing: SQLite would take -1 for all that there is."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise InvalidInput(f"{what} is {number!r:.60}, expected a whole number from 0")


def _statuses(texts: Collection[str]) -> tuple[Status, ...]:
    try:
        return tuple(Status(text) for text in texts)
    except ValueError as error:
        raise InvalidInput(
            f"status {error.args[0]}", hint=f"expected one of {', '.join(Status)}"
        ) from None
