"""Run functions that the program has registered, in the program's own process.

Functions run on threads. A thread can't be ended from outside: its `Call` says that it should stop
or is over its timeout, and it runs until it returns or raises. Coroutines run on an event loop of
the program, and are cancelled. Of calls beyond the runner's places, each begins when another ends.
"""

from __future__ import annotations

import os
import select
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.run import Claim, Outcome, Reported, Stall
from edgecron.supervisor.calls import (
    Call,
    Ended,
    Failure,
    ProgressReports,
    ReadState,
    failure_of,
    output_of,
    remember_nothing,
    result_of,
    verdict_of,
)
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.runner import RESERVE_MS, THREADS
from edgecron.supervisor.threads import Workers

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle

CLOSE_MS = 10_000  # at the end, the time to wait for calls that were asked to stop
_LEAST_CLOSE_MS = 1_000  # the time to wait for idle threads


Function = Callable[[Call], object]
Coroutine = Callable[[Call], Awaitable[object]]


def load_nothing(call: Call) -> None:
    """Load no function: all are registered."""


class CallableRunner:
    """Runs functions by their registered names. See Runner for the contract.

    A function that returns has succeeded, and what it returns, as JSON, is its result. A function
    that raises has failed, and the traceback is its output. One that returns after its timeout has
    failed too. A name that is neither in `registry` nor in `coroutines` is refused.

    `load` is called before each function, on its thread: it can put a missing function into
    `registry` or `coroutines`, and raise if it can't. Neither is called for a run that must stop.
    `find_loop` returns the event loop for coroutines, from any thread. `read_state` reads the state
    of a schedule, on the thread of the function. At most `places` calls are active at a time; None
    is no limit. `close_ms` is the time for which `close` waits for
    calls that were asked to stop.
    """

    kinds = frozenset({JobKind.CALLABLE})
    is_alive = True
    failure = None

    def __init__(
        self,
        registry: Mapping[str, Function],
        *,
        clock: Clock,
        coroutines: Mapping[str, Coroutine] | None = None,
        load: Callable[[Call], None] = load_nothing,
        find_loop: Callable[[], AbstractEventLoop] | None = None,
        read_state: ReadState = remember_nothing,
        places: int | None = None,
        close_ms: int = CLOSE_MS,
    ) -> None:
        self.places = places
        self._close_ms = close_ms
        self.supervisor_id = THREADS
        self._registry = registry
        self._coroutines = {} if coroutines is None else coroutines
        self._load = load
        self._find_loop = find_loop
        self._clock = clock
        self._read_state = read_state
        self.reports = ProgressReports(ring=self._ring)
        self._calls: dict[str, Call] = {}  # by token, until their outcome is collected
        self._turns = threading.Lock()  # guards the next two
        self._reserve: OrderedDict[str, Call] = OrderedDict()  # by token; they wait for a place
        self._active = 0
        self._outcomes: deque[Outcome] = deque()
        self._tasks: set[Task[None]] = set()
        self._workers: Workers[Call] = Workers(self._run, name="edgecron-call", clock=clock)
        self._read_fd, self._write_fd = os.pipe()
        self._bell = threading.Lock()  # nothing may be written to a closed pipe
        self._is_open = True
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._is_ringing = False  # the pipe has a byte
        self._pid = os.getpid()
        self._stopped_ms: int | None = None  # when all were asked to stop
        self._is_closing = False  # close the pipe with the last call

    @property
    def live_count(self) -> int:
        return len(self._calls)

    def fileno(self) -> int:
        return self._read_fd

    def start(self, claims: Sequence[Claim]) -> None:
        calls = {
            claim.lease_token: Call(
                claim, clock=self._clock, reports=self.reports, read_state=self._read_state
            )
            for claim in claims
        }
        self._calls |= calls
        self.reports.open(calls)
        with self._turns:
            free = len(calls) if self.places is None else max(self.places - self._active, 0)
            begun = list(calls.values())[:free]
            self._active += len(begun)
            self._reserve.update(list(calls.items())[free:])
        self._dispatch(begun)

    def _dispatch(self, calls: Sequence[Call]) -> None:
        """Begin calls that have places, on threads or on their loops."""
        on_threads = []
        for call in calls:
            function = self._coroutines.get(call.claim.job.argv[0])
            if function is None:
                on_threads.append(call)
                continue
            try:
                self._begin_coroutine(call, function)
            except RuntimeError as error:  # the loop is closed
                self._refuse(call, error)
        try:
            self._workers.put(on_threads)
        except RuntimeError as error:  # no thread can be started
            for call in on_threads:
                self._refuse(call, error)

    def _refuse(self, call: Call, error: RuntimeError) -> None:
        """End a call that can't begin, and pass its place on."""
        why = Failure("EAGAIN", str(error))
        self._add_outcome(self._outcome(call, why=why, flags=(Flag.NOT_STARTED,)))
        self._leave_place()

    def _take_next(self) -> Call | None:
        """Pass the place of a call that has ended to the next one; None: no call waits for it."""
        with self._turns:
            if not self._reserve:
                self._active -= 1
                return None
            return self._reserve.popitem(last=False)[1]

    def _leave_place(self) -> None:
        """Begin the next call in the place of one that has ended."""
        following = self._take_next()
        if following is not None:
            self._dispatch([following])

    def _give_back(self, *, before_ms: int | None = None) -> None:
        """Return calls that wait for a place since an instant; None: all that wait."""
        with self._turns:
            calls = [
                call
                for call in self._reserve.values()
                if before_ms is None or call.asked_ms <= before_ms
            ]
            for call in calls:
                del self._reserve[call.claim.lease_token]
        for call in calls:
            self._add_outcome(self._outcome(call, flags=(Flag.GIVEN_BACK,)))

    @property
    def wake_ms(self) -> int | None:
        with self._turns:
            for call in self._reserve.values():  # The first has waited longest.
                return max(0, call.asked_ms + RESERVE_MS - self._clock.monotonic_ms())
        return None

    def collect(self) -> list[Outcome]:
        self._give_back(before_ms=self._clock.monotonic_ms() - RESERVE_MS)
        # Before the outcomes: a thread that adds one after that writes a new byte.
        self._clear_bell()
        outcomes = []
        while self._outcomes:
            outcome = self._outcomes.popleft()
            del self._calls[outcome.lease_token]
            outcomes.append(outcome)
        if self._is_closing and not self._calls:
            self._close_pipe()
        return outcomes

    def take_progress(self) -> list[Reported]:
        return self.reports.take()

    def take_stalls(self) -> list[Stall]:
        return []  # Functions have no output to watch.

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Do nothing: outcomes that are not on record end with this process."""

    def lose(self, token: str, message: str) -> None:
        self._ask_to_stop(token, Reason.CONDITION)

    def suspend(self, token: str) -> None:
        """Do nothing: a thread can't be stopped. No schedule of a function asks for it."""

    def resume(self, token: str) -> None:
        """Do nothing, as `suspend`."""

    def cancel(self, token: str) -> None:
        self._ask_to_stop(token, Reason.REQUEST)

    def _ask_to_stop(self, token: str, reason: Reason) -> None:
        call = self._calls.get(token)
        if call is None:
            return
        call.ask_to_stop(reason)
        with self._turns:
            is_reserved = self._reserve.pop(token, None) is not None
        if is_reserved:
            self._add_outcome(self._unbegun(call))

    def stop(self) -> None:
        if self._stopped_ms is None:
            self._stopped_ms = self._clock.monotonic_ms()
        self._give_back()
        for call in self._calls.values():
            call.ask_to_stop(Reason.SHUTDOWN)

    def close(self) -> None:
        """Ask all calls to stop, and wait for them for `close_ms`.

        Outcomes can still be collected later. Does nothing in a forked child, which has no threads.
        """
        if os.getpid() != self._pid:
            return
        self.stop()
        assert self._stopped_ms is not None
        left_ms = self._stopped_ms + self._close_ms - self._clock.monotonic_ms()
        until_ms = self._clock.monotonic_ms() + max(left_ms, _LEAST_CLOSE_MS)
        self._workers.close(wait_ms=until_ms - self._clock.monotonic_ms())
        self._wait_for_coroutines(until_ms)
        self._is_closing = True
        if not self._calls:
            self._close_pipe()

    def _wait_for_coroutines(self, until_ms: int) -> None:
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        while len(self._outcomes) < len(self._calls):
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0 or not poll.poll(left_ms):
                return
            self._clear_bell()

    def _close_pipe(self) -> None:
        with self._bell:
            if self._is_open:
                self._is_open = False
                os.close(self._read_fd)
                os.close(self._write_fd)

    def _run(self, call: Call) -> None:
        """Call the function on a thread of the workers, and those that follow in its place."""
        following: Call | None = call
        while following is not None:
            name = following.claim.job.argv[0]
            if name not in self._coroutines and following.stop_reason is None:
                try:
                    self._load(following)
                except BaseException as error:  # noqa: BLE001  SystemExit, too: it is recorded
                    why = failure_of(error, following)
                    self._add_outcome(self._outcome(following, why=why))
                    following = self._take_next()
                    continue
            if name in self._coroutines:
                self._dispatch([following])
                return
            self._call(following)
            following = self._take_next()

    def _call(self, call: Call) -> None:
        if call.stop_reason is not None:
            self._add_outcome(self._unbegun(call))
            return
        function = self._registry.get(call.claim.job.argv[0])
        if function is None:
            message = f"this program has registered no callable '{call.claim.job.argv[0]}'"
            self._add_outcome(self._outcome(call, why=Failure("EINVAL", message)))
            return
        started_ms = self._begin(call)
        try:
            # To write what it returned can call code of the program, too.
            ended = Ended(*result_of(function(call)))
        except BaseException as error:  # noqa: BLE001  SystemExit, too: it is recorded
            ended = Ended(why=failure_of(error, call))
        self._end(call, ended, started_ms)

    def _begin_coroutine(self, call: Call, function: Coroutine) -> None:
        """Begin a coroutine on its loop. Raises RuntimeError if the loop is closed."""
        assert self._find_loop is not None
        loop = self._find_loop()

        def begin() -> None:
            task = loop.create_task(self._drive(call, function, loop))
            self._tasks.add(task)  # the loop alone would let it be collected
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(begin)

    async def _drive(self, call: Call, function: Coroutine, loop: AbstractEventLoop) -> None:
        """Call a coroutine function and await it. Then the next call has its place."""
        try:
            await self._await(call, function, loop)
        finally:
            self._leave_place()

    async def _await(self, call: Call, function: Coroutine, loop: AbstractEventLoop) -> None:
        """Call a coroutine function and await it. Cancel it when it must stop."""
        if call.stop_reason is not None:
            self._add_outcome(self._unbegun(call))
            return
        from asyncio import CancelledError, current_task

        outer = current_task()
        assert outer is not None
        # In a task of its own: the outer task shows whether the program cancelled it.
        task = loop.create_task(_awaited(function, call))
        started_ms = self._begin(call)
        timer: TimerHandle | None = None

        def end() -> None:
            with suppress(RuntimeError):  # the loop is closed: everything on it has ended
                loop.call_soon_threadsafe(task.cancel)

        def expire() -> None:
            nonlocal timer
            if call.left_ms:
                timer = loop.call_later(call.left_ms / 1000, expire)
            else:
                task.cancel()

        if call.left_ms is not None:
            timer = loop.call_later(call.left_ms / 1000, expire)
        call.on_stop = end
        if call.stop_reason is not None:
            end()  # it was asked to stop before `on_stop` was set
        try:
            ended = await task
        except CancelledError as error:  # before it began
            ended = Ended(why=failure_of(error, call))
        was_cancelled = ended.why is not None and ended.why.code == "CancelledError"
        if was_cancelled and outer.cancelling() and not call.must_stop:
            call.stop_reason = Reason.SHUTDOWN  # its loop is closing
        if timer is not None:
            timer.cancel()
        self._end(call, ended, started_ms)

    def _begin(self, call: Call) -> int:
        """Start its timeout, and return the wall time."""
        call.begin(self._clock.monotonic_ms())
        return self._clock.now_ms()

    def _end(self, call: Call, ended: Ended, started_ms: int) -> None:
        took_ms = self._clock.monotonic_ms() - call.begun_ms
        self._add_outcome(
            self._outcome(
                call,
                why=ended.why,
                flags=ended.flags,
                result=ended.result,
                started_ms=started_ms,
                took_ms=took_ms,
            )
        )

    def _unbegun(self, call: Call) -> Outcome:
        """Return the outcome of a call that was stopped before it began.

        If this engine is ending, another engine can start the run.
        """
        is_ours = call.stop_reason is Reason.SHUTDOWN
        return self._outcome(call, flags=(Flag.GIVEN_BACK,) if is_ours else ())

    def _outcome(
        self,
        call: Call,
        *,
        why: Failure | None = None,
        result: str | None = None,
        flags: tuple[str, ...] = (),
        started_ms: int | None = None,
        took_ms: int | None = None,
    ) -> Outcome:
        """Return the outcome of a call. `started_ms` None: its function was never called."""
        now_ms = self._clock.now_ms()
        status, reason = verdict_of(call, why, has_run=started_ms is not None)
        is_success = status is Status.SUCCESS
        if why is not None and why.gives_up and reason is Reason.EXCEPTION:
            flags = (*flags, Flag.GAVE_UP)
        changes = call.close_state()
        message = None if why is None else why.message
        if reason is Reason.TIMEOUT:
            message = f"ran longer than its timeout of {call.claim.policies.timeout_s:g} s"
        return Outcome(  # In their order: by name, it takes three times as long.
            call.claim.execution_id,
            call.claim.lease_token,
            status,
            reason,
            now_ms,
            None,
            started_ms,
            took_ms,
            None if why is None else why.code,
            message,
            flags,
            result if is_success else None,
            None if why is None or why.trace is None else output_of(why.trace, now_ms),
            changes if is_success else None,
            self.reports.close(call.claim.lease_token),
            None if why is None else why.retry_after_ms,
            why is not None and why.asks_again,
        )

    def _add_outcome(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._ring()

    def _ring(self) -> None:
        if not self._is_ringing:
            self._is_ringing = True
            with self._bell, suppress(BlockingIOError):  # the pipe is full: it is readable
                if self._is_open:
                    os.write(self._write_fd, b"\0")

    def _clear_bell(self) -> None:
        if self._is_open:
            with suppress(BlockingIOError):
                os.read(self._read_fd, 64)
        self._is_ringing = False


async def _awaited(function: Coroutine, call: Call) -> Ended:
    """Call a coroutine function, await it, and return how it ended."""
    try:
        return Ended(*result_of(await function(call)))
    except BaseException as error:  # noqa: BLE001  SystemExit and CancelledError, too
        return Ended(why=failure_of(error, call))
