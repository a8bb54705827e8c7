"""Runs the functions that a program has registered, within the program itself.

Functions run on threads. A thread can't be ended from outside: who is asked to stop, or is over
its timeout, is told so by its `Call`, and runs until it returns or raises. Coroutines run on an
event loop of the program's, and are cancelled.
"""

from __future__ import annotations

import json
import os
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.clock import Clock
from edgecron.model import Claim, JobKind, Outcome, Output, OutputChunk, Reason, Status, Stream
from edgecron.reporting import Progress, Reported, progress_text
from edgecron.runners import THREADS
from edgecron.runners.reports import ProgressReports, ReadState, StateChanges
from edgecron.runners.threads import Workers
from edgecron.supervisor.records import Flag
from edgecron.supervisor.results import MOST_BYTES

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle

CLOSE_MS = 10_000  # so long those that were asked to stop are waited for at the end
_LEAST_CLOSE_MS = 1_000  # and idle threads
_MOST_TRACE_BYTES = 64 * 1024
_MOST_LETTERS = 2_000  # of what a row says about an exception; its output has all of it


def _remember_nothing(schedule_id: int) -> Mapping[str, str]:
    return {}


class Call:
    """One run of a function: what the function is called with."""

    __slots__ = (
        *("_clock", "_reports", "_state", "_until_ms", "begun_ms", "claim", "on_stop"),
        "stop_reason",
    )

    def __init__(
        self,
        claim: Claim,
        *,
        clock: Clock,
        reports: ProgressReports | None = None,
        read_state: ReadState = _remember_nothing,
    ) -> None:
        self.claim = claim
        self._reports = reports
        self._state = StateChanges(claim.schedule_id, read_state)
        self.stop_reason: Reason | None = None  # why it was asked to stop
        self.on_stop: Callable[[], object] | None = None  # ends it, where that can be done
        self._clock = clock
        self._until_ms: int | None = None
        self.begun_ms = 0

    @property
    def payload(self) -> object:
        """Its own payload, else its schedule's, as a value of JSON; None where neither has one."""
        text = self.claim.job.payload
        return None if text is None else json.loads(text)

    @property
    def is_over_time(self) -> bool:
        """Whether it has run for longer than its timeout."""
        return self.left_ms == 0

    @property
    def left_ms(self) -> int | None:
        """How much of its timeout is left, None where it has none."""
        if self._until_ms is None:
            return None
        return max(self._until_ms - self._clock.monotonic_ms(), 0)

    @property
    def must_stop(self) -> bool:
        """Whether its end was asked for, or its time is over: it should end soon by itself."""
        return self.stop_reason is not None or self.is_over_time

    def ask_to_stop(self, reason: Reason) -> None:
        """Say that it should end, and why; the first reason counts. From any thread."""
        if self.stop_reason is None:
            self.stop_reason = reason
        if self.on_stop is not None:
            self.on_stop()

    @property
    def state(self) -> Mapping[str, str]:
        """What its schedule remembers: texts of JSON by key, with the changes of this run."""
        return self._state.values()

    def set_state(self, key: str, value: str) -> None:
        """Have its schedule remember a text of JSON, from the end of this run on if it succeeds.

        Raises InvalidInput for a key that is not 1 to 128 printable characters, a value that is
        no JSON or longer than 64 KiB, and for more than 1,000 keys. From any thread.
        """
        self._state.set(key, value)

    def delete_state(self, key: str) -> None:
        """Have its schedule forget a key, in the same way."""
        self._state.delete(key)

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        """Say how far it is, for people: from any thread, as often as it likes; it never waits.

        `fraction` is from 0 to 1, None where that can't be told. What is newest is put on record
        once a second. Raises InvalidInput for a fraction that is none.
        """
        progress = progress_text(Progress(fraction=fraction, text=text))
        if self._reports is not None:
            claim = self.claim
            self._reports.put(Reported(claim.execution_id, claim.lease_token, progress))

    def close_state(self) -> Mapping[str, str | None] | None:
        """Its changes of state; no more are taken then."""
        return self._state.close()

    def begin(self, now_ms: int) -> None:
        """Its timeout counts from now, by the monotonic clock."""
        self.begun_ms = now_ms
        if self.claim.timeout_s is not None:
            self._until_ms = now_ms + max(1, round(self.claim.timeout_s * 1000))


Function = Callable[[Call], object]
Coroutine = Callable[[Call], Awaitable[object]]


class CallableRunner:
    """Runs functions by the name that they are registered under. See Runner for the contract.

    A function that returns was a success, and what it returns, as JSON, its result. One that
    raises has failed, whatever it raises; the traceback is its output. One that returns only
    after its timeout has failed, too. Nothing but `registry` and `coroutines` says what a name
    means; the latter run on the event loop that `find_loop` gives, from any thread.
    `read_state` finds what a schedule remembers; it is called by the functions, on their threads.
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
        find_loop: Callable[[], AbstractEventLoop] | None = None,
        read_state: ReadState = _remember_nothing,
    ) -> None:
        self.supervisor_id = THREADS
        self._registry = registry
        self._coroutines = {} if coroutines is None else coroutines
        self._find_loop = find_loop
        self._clock = clock
        self._read_state = read_state
        self._reports = ProgressReports(ring=self._ring)
        self._calls: dict[str, Call] = {}  # by token, until their outcome is collected
        self._outcomes: deque[Outcome] = deque()
        self._tasks: set[Task[None]] = set()
        self._workers: Workers[Call] = Workers(self._run, name="edgecron-call", clock=clock)
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._is_told = False  # there is a byte in the pipe
        self._pid = os.getpid()
        self._stopped_ms: int | None = None  # when all were asked to stop

    @property
    def live_count(self) -> int:
        return len(self._calls)

    def fileno(self) -> int:
        return self._read_fd

    def start(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            call = Call(
                claim, clock=self._clock, reports=self._reports, read_state=self._read_state
            )
            self._calls[claim.lease_token] = call
            self._reports.open(claim.lease_token)
            function = self._coroutines.get(claim.job.argv[0])
            try:
                if function is None:
                    self._workers.put(call)
                else:
                    self._begin_coroutine(call, function)
            except RuntimeError as error:  # not one thread can be had, or the loop is closed
                why = _Failure("EAGAIN", str(error))
                self._tell(self._outcome(call, why=why, flags=(Flag.NOT_STARTED,)))

    def collect(self) -> list[Outcome]:
        with suppress(BlockingIOError):
            os.read(self._read_fd, 64)
        # Before the outcomes are taken: who adds one after that tells us anew.
        self._is_told = False
        outcomes = []
        while self._outcomes:
            outcome = self._outcomes.popleft()
            del self._calls[outcome.lease_token]
            outcomes.append(outcome)
        return outcomes

    def take_progress(self) -> list[Reported]:
        return self._reports.take()

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Nothing is kept: what this process has not put on record ends with it."""

    def cancel(self, token: str) -> None:
        call = self._calls.get(token)
        if call is not None:
            call.ask_to_stop(Reason.REQUEST)

    def stop(self) -> None:
        if self._stopped_ms is None:
            self._stopped_ms = self._clock.monotonic_ms()
        for call in self._calls.values():
            call.ask_to_stop(Reason.SHUTDOWN)

    def close(self) -> None:
        """Ask all to stop, and wait a while for them.

        Of what still runs then, no end will be on record: it was `interrupted`. In a child that
        was forked meanwhile there is nobody to wait for.
        """
        if os.getpid() != self._pid:
            return
        self.stop()
        assert self._stopped_ms is not None
        left_ms = self._stopped_ms + CLOSE_MS - self._clock.monotonic_ms()
        if not self._workers.close(wait_ms=max(left_ms, _LEAST_CLOSE_MS)):
            os.close(self._read_fd)
            os.close(self._write_fd)

    def _run(self, call: Call) -> None:
        """Call the function, on a thread of the workers."""
        if call.stop_reason is not None:
            self._tell(self._unbegun(call))
            return
        function = self._registry.get(call.claim.job.argv[0])
        if function is None:
            message = f"this program has registered no callable '{call.claim.job.argv[0]}'"
            self._tell(self._outcome(call, why=_Failure("EINVAL", message)))
            return
        started_ms = self._begin(call)
        try:
            # What it returned may call code of the program's own, too, while it is written.
            ended = _Ended(*_result_of(function(call)))
        except BaseException as error:  # noqa: BLE001  SystemExit, too: it is recorded
            ended = _Ended(why=_failure_of(error))
        self._end(call, ended, started_ms)

    def _begin_coroutine(self, call: Call, function: Coroutine) -> None:
        """Have a coroutine begun on its loop. Raises RuntimeError where that is closed."""
        assert self._find_loop is not None
        loop = self._find_loop()

        def begin() -> None:
            task = loop.create_task(self._drive(call, function, loop))
            self._tasks.add(task)  # The loop itself would let it be collected.
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(begin)

    async def _drive(self, call: Call, function: Coroutine, loop: AbstractEventLoop) -> None:
        """Call a coroutine function, and await it; it is cancelled where it is to stop."""
        if call.stop_reason is not None:
            self._tell(self._unbegun(call))
            return
        from asyncio import CancelledError, current_task

        task = current_task()
        assert task is not None
        started_ms = self._begin(call)
        timer: TimerHandle | None = None

        def end() -> None:
            with suppress(RuntimeError):  # the loop is closed, and with it all has ended
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
        try:
            ended = _Ended(*_result_of(await function(call)))
        except CancelledError as error:
            if not call.must_stop:
                call.stop_reason = Reason.SHUTDOWN  # Its loop is being ended.
            ended = _Ended(why=_failure_of(error))
        except BaseException as error:  # noqa: BLE001  as above
            ended = _Ended(why=_failure_of(error))
        if timer is not None:
            timer.cancel()
        self._end(call, ended, started_ms)

    def _begin(self, call: Call) -> int:
        """Let its timeout count from now; the wall time."""
        call.begin(self._clock.monotonic_ms())
        return self._clock.now_ms()

    def _end(self, call: Call, ended: _Ended, started_ms: int) -> None:
        took_ms = self._clock.monotonic_ms() - call.begun_ms
        self._tell(
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
        """Of a call that is to stop before it began: where we end, another engine may begin it."""
        is_ours = call.stop_reason is Reason.SHUTDOWN
        return self._outcome(call, flags=(Flag.NOT_STARTED,) if is_ours else ())

    def _outcome(
        self,
        call: Call,
        *,
        why: _Failure | None = None,
        result: str | None = None,
        flags: tuple[str, ...] = (),
        started_ms: int | None = None,
        took_ms: int | None = None,
    ) -> Outcome:
        """How a call ended. `started_ms` None: its function was never called."""
        now_ms = self._clock.now_ms()
        status, reason = _verdict(call, why, has_run=started_ms is not None)
        is_success = status is Status.SUCCESS
        changes = call.close_state()
        message = None if why is None else why.message
        if reason is Reason.TIMEOUT:
            message = f"ran longer than its timeout of {call.claim.timeout_s:g} s"
        return Outcome(
            execution_id=call.claim.execution_id,
            lease_token=call.claim.lease_token,
            status=status,
            reason=reason,
            started_ms=started_ms,
            finished_ms=now_ms,
            duration_ms=took_ms,
            error_code=None if why is None else why.code,
            error_msg=message,
            flags=flags,
            result=result if is_success else None,
            state=changes if is_success else None,
            progress=self._reports.close(call.claim.lease_token),
            output=None if why is None or why.trace is None else _output_of(why.trace, now_ms),
        )

    def _tell(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._ring()

    def _ring(self) -> None:
        if not self._is_told:
            self._is_told = True
            with suppress(BlockingIOError):  # full of bytes that tell the same
                os.write(self._write_fd, b"\0")


class _Failure:
    """Why a function was not called, or what it raised."""

    __slots__ = ("code", "message", "trace")

    def __init__(self, code: str | None, message: str, trace: str | None = None) -> None:
        self.code = code
        self.message = message
        self.trace = trace


class _Ended:
    """What a function returned, as JSON, or why it did not return."""

    __slots__ = ("flags", "result", "why")

    def __init__(
        self,
        result: str | None = None,
        flags: tuple[str, ...] = (),
        *,
        why: _Failure | None = None,
    ) -> None:
        self.result = result
        self.flags = flags
        self.why = why


def _verdict(call: Call, why: _Failure | None, *, has_run: bool) -> tuple[Status, Reason | None]:
    if not has_run:
        if call.stop_reason is not None:
            return Status.CANCELLED, call.stop_reason
        return Status.FAILED, Reason.SPAWN
    if call.is_over_time:
        return Status.FAILED, Reason.TIMEOUT
    if why is None:
        return Status.SUCCESS, None  # Also where its end was asked for: it was faster.
    if call.stop_reason is not None:
        return Status.CANCELLED, call.stop_reason
    return Status.FAILED, Reason.EXCEPTION


def _failure_of(error: BaseException) -> _Failure:
    try:
        trace = "".join(traceback.format_exception(error))
        message = "".join(traceback.format_exception_only(error)).strip()
    except BaseException as unprintable:  # noqa: BLE001  its own __str__ raises, or returns no text
        name = type(unprintable).__name__
        message = trace = f"{type(error).__name__}, which can't be printed: {name}"
    return _Failure(_storable(type(error).__name__), _storable(message), trace)


def _storable(text: str) -> str:
    """A text that a row can hold: an end that can't be written would hold up all others."""
    return text.encode("utf-8", "backslashreplace").decode()[:_MOST_LETTERS]


def _result_of(returned: object) -> tuple[str | None, tuple[str, ...]]:
    """What is kept of what a function returned, as JSON text."""
    if returned is None:
        return None, ()
    try:
        text = json.dumps(returned, allow_nan=False, ensure_ascii=False)
        size_bytes = len(text.encode())
    except Exception:  # noqa: BLE001  whatever it is that says what it holds
        return None, (Flag.RESULT_INVALID,)
    return (None, (Flag.RESULT_TOO_BIG,)) if size_bytes > MOST_BYTES else (text, ())


def _output_of(trace: str, now_ms: int) -> Output:
    content = trace.encode("utf-8", "backslashreplace")
    kept = content[-_MOST_TRACE_BYTES:]  # The end says what was raised.
    return Output(
        chunks=(OutputChunk(stream=Stream.STDERR, at_ms=now_ms, content=kept),),
        stderr_bytes=len(content),
        dropped_bytes=len(content) - len(kept),
    )
