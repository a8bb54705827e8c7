"""Functions and coroutines on a journey: called in their turn, in the thread of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from edgecron.base.clock import Clock
from edgecron.embedding.travel_stage import Lasts, Stage
from edgecron.supervisor.callable_runner import CallableRunner, Coroutine, Function
from edgecron.supervisor.calls import Call
from edgecron.supervisor.threads import Workers

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from edgecron.supervisor.call_reports import ReadState

F = TypeVar("F")


class CallsInTurn(CallableRunner):
    """Runs functions when the stage says so, and coroutines on the journey's loop.

    What they raise is their failure, but for what is meant for the test: KeyboardInterrupt, or
    what pytest ends a test by. That is kept in `raised`.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        coroutines: Mapping[str, Coroutine],
        *,
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
            _Each(functions, self._heard),
            coroutines=_Each(coroutines, self._heard_coroutine),
            find_loop=find_loop,
            clock=clock,
            read_state=read_state,
        )
        self._workers = _Turns(self._put, self._run, clock=clock)

    @property
    def has_tasks(self) -> bool:
        """Whether coroutines are going on."""
        return bool(self._tasks)

    def cancel(self, token: str) -> None:
        super().cancel(token)
        self._stage.hasten(token)

    def _put(self, call: Call, work: Callable[[], object]) -> None:
        claim = call.claim
        self._begun[claim.lease_token] = (self._clock.monotonic_ms(), self._clock.now_ms())
        self._stage.add(claim.lease_token, work, after_ms=self._lasts(claim.schedule))

    def _begin_coroutine(self, call: Call, function: Coroutine) -> None:
        begin = super()._begin_coroutine
        self._put(call, lambda: begin(call, function))

    def _begin(self, call: Call) -> int:
        # It lasts from when it was started, though the function is called at its end.
        monotonic_ms, now_ms = self._begun.pop(call.claim.lease_token)
        call.begin(monotonic_ms)
        return now_ms

    def _heard(self, function: Function) -> Function:
        def call_and_hear(call: Call) -> object:
            try:
                return function(call)
            except (Exception, SystemExit):
                raise
            except BaseException as error:  # Ctrl-C in it ends the test, and is no run's end
                self.raised = error
                raise

        return call_and_hear

    def _heard_coroutine(self, function: Coroutine) -> Coroutine:
        async def call_and_hear(call: Call) -> object:
            from asyncio import CancelledError

            try:
                return await function(call)
            except (Exception, SystemExit, CancelledError):
                raise
            except BaseException as error:  # Ctrl-C in it ends the test, and is no run's end
                self.raised = error
                raise

        return call_and_hear


class _Turns(Workers[Call]):
    """No threads: what is put has its turn on the stage."""

    def __init__(
        self,
        put: Callable[[Call, Callable[[], object]], object],
        work: Callable[[Call], object],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(work, name="none", clock=clock)
        self._take = put

    def put(self, piece: Call) -> None:
        self._take(piece, lambda: self._work(piece))


class _Each(Mapping[str, F]):
    """The registry of a program, as it is at each look, with something around each function."""

    def __init__(self, functions: Mapping[str, F], around: Callable[[F], F]) -> None:
        self._functions = functions
        self._around = around

    def __getitem__(self, name: str) -> F:
        return self._around(self._functions[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)
