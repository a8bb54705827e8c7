"""The functions of a journey: called in turn, in the test's thread.

Coroutines run side by side, as in a program, and `await asyncio.sleep(60)` takes a minute of the
journey's time. `asyncio.to_thread` calls its function immediately, in this thread. If a coroutine
waits for a socket or a pipe, it gets a second of real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from heapq import heappop, heappush
from math import ceil
from selectors import DefaultSelector, SelectorKey
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack

from edgecron.base.clock import Clock
from edgecron.base.values import NamedTuple
from edgecron.supervisor.callable_runner import CallableRunner, Coroutine, Function
from edgecron.supervisor.calls import Call
from edgecron.supervisor.threads import Workers

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Executor

    from edgecron.supervisor.calls import ReadState


Lasts = Callable[[str], int]  # how long the runs of a schedule last, in milliseconds


class _Turn(NamedTuple):
    at_ms: int  # on the monotonic clock
    number: int
    token: str
    work: Callable[[], object]


class Stage:
    """Does pieces of work at their times, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: list[_Turn] = []
        self._count = 0

    @property
    def next_ms(self) -> int | None:
        """The monotonic time of the next piece of work; None without one."""
        return self._turns[0].at_ms if self._turns else None

    def add(self, token: str, work: Callable[[], object], *, after_ms: int) -> None:
        """Do a piece of work after a while; 0 is the next turn."""
        self._count += 1
        at_ms = self._clock.monotonic_ms() + after_ms
        heappush(self._turns, _Turn(at_ms, self._count, token, work))

    def hasten(self, token: str) -> None:
        """Do the work that waits under this token in the next turn."""
        waiting = [turn for turn in self._turns if turn.token == token]
        self._turns = [turn for turn in self._turns if turn.token != token]
        for turn in waiting:
            self.add(token, turn.work, after_ms=0)
        self._turns.sort()

    def play(self) -> bool:
        """Do all work whose time has come; report whether there was any."""
        has_played = False
        while self._turns and self._turns[0].at_ms <= self._clock.monotonic_ms():
            has_played = True
            heappop(self._turns).work()
        return has_played


F = TypeVar("F")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class CallsInTurn(CallableRunner):
    """Runs functions in their turn on the stage, and coroutines on the journey's loop.

    An exception is the failure of its run. Only exceptions that end the test itself, such as
    KeyboardInterrupt and `pytest.fail`, are also kept in `raised`.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        coroutines: Mapping[str, Coroutine],
        *,
        load: Callable[[Call], None],
        stage: Stage,
        lasts: Lasts,
        find_loop: Callable[[], AbstractEventLoop],
        clock: Clock,
        read_state: ReadState,
    ) -> None:
        self.raised: BaseException | None = None
        self._stage = stage
        self._lasts = lasts
        self._begun: dict[str, tuple[int, int]] = {}  # by token: monotonic and wall time
        super().__init__(
            _Wrapped(functions, self._watched),
            coroutines=_Wrapped(coroutines, self._watched_coroutine),
            load=load,
            find_loop=find_loop,
            clock=clock,
            read_state=read_state,
        )
        self._workers = _Turns(self._put, self._run, clock=clock)

    @property
    def has_tasks(self) -> bool:
        """Whether coroutines are active."""
        return bool(self._tasks)

    def cancel(self, token: str) -> None:
        super().cancel(token)
        self._stage.hasten(token)

    def _dispatch(self, calls: Sequence[Call]) -> None:
        # Before its turn: a coroutine has its turn on the journey's loop. If the import fails, it
        # fails again when the function is to be called, and that is recorded.
        for call in calls:
            with suppress(ImportError):
                self._load(call)
        super()._dispatch(calls)

    def _wait_for_coroutines(self, until_ms: int) -> None:
        """Do not wait: a run that still lasts ends only if the test moves the time."""

    def _put(self, call: Call, work: Callable[[], object]) -> None:
        claim = call.claim
        self._begun[claim.lease_token] = (self._clock.monotonic_ms(), self._clock.now_ms())
        self._stage.add(claim.lease_token, work, after_ms=self._lasts(claim.schedule))

    def _begin_coroutine(self, call: Call, function: Coroutine) -> None:
        begin = super()._begin_coroutine
        self._put(call, lambda: begin(call, function))

    def _begin(self, call: Call) -> int:
        # The run began when it was started, though the function is called at its end.
        monotonic_ms, now_ms = self._begun.pop(call.claim.lease_token)
        call.begin(monotonic_ms)
        return now_ms

    @contextmanager
    def _noting_end_of_test(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit, asyncio.CancelledError):
            raise
        except BaseException as error:
            self.raised = error
            raise

    def _watched(self, function: Function) -> Function:
        def call_watched(call: Call) -> object:
            with self._noting_end_of_test():
                return function(call)

        return call_watched

    def _watched_coroutine(self, function: Coroutine) -> Coroutine:
        async def call_watched(call: Call) -> object:
            with self._noting_end_of_test():
                return await function(call)

        return call_watched


class _Turns(Workers[Call]):
    """Takes the place of worker threads: each piece gets its turn on the stage."""

    def __init__(
        self,
        put: Callable[[Call, Callable[[], object]], object],
        work: Callable[[Call], object],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(work, name="none", clock=clock)
        self._take = put

    def put(self, pieces: Collection[Call]) -> None:
        for piece in pieces:
            self._take(piece, partial(self._work, piece))


class _Wrapped(Mapping[str, F]):
    """A live view of a program's registry, with each function wrapped."""

    def __init__(self, functions: Mapping[str, F], around: Callable[[F], F]) -> None:
        self._functions = functions
        self._around = around

    def __getitem__(self, name: str) -> F:
        return self._around(self._functions[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


_REAL_S = 1.0


class JourneyLoop(asyncio.SelectorEventLoop):
    """Runs until nothing can continue before time passes: see `drive`."""

    def __init__(self, clock: Clock) -> None:
        self._journey_clock = clock
        self.wait_s: float | None = None  # until its next timer; None without one
        super().__init__(_Selector(self._hold))

    def time(self) -> float:
        return self._journey_clock.monotonic_ms() / 1000

    @property
    def wait_ms(self) -> int | None:
        """The time until its next timer; None without one."""
        return None if self.wait_s is None else ceil(self.wait_s * 1000)

    def drive(self) -> None:
        """Do all that can be done now, also while another loop of this thread is running."""
        outer = asyncio._get_running_loop()
        task = None if outer is None else asyncio.current_task(outer)
        if outer is not None and task is not None:
            # Since Python 3.14, the current task belongs to the thread, not to the loop.
            asyncio.tasks._leave_task(outer, task)
        asyncio._set_running_loop(None)
        try:
            self.run_forever()
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and task is not None:
                asyncio.tasks._enter_task(outer, task)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  whoever awaits it gets it
            future.set_exception(error)
        return future

    def _hold(self, timeout_s: float | None) -> None:
        self.wait_s = timeout_s
        self.stop()


class _Selector(DefaultSelector):
    """Does not wait for time. It calls `hold` when there is nothing else to wait for."""

    def __init__(self, hold: Callable[[float | None], object]) -> None:
        super().__init__()
        self._hold = hold

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if len(self.get_map()) > 1:  # more than the descriptor that wakes the loop
            ready = super().select(_REAL_S if timeout is None else min(timeout, _REAL_S))
        if not ready:
            self._hold(timeout)
        return ready
