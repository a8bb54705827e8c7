"""One run as an object of a program, and waiting for its end.

An engine of this process wakes a waiting thread or coroutine. For a run of another process, the
waiter reads the database now and then.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgecron.base.checks import check_seconds
from edgecron.base.errors import Conflict, NotFound, ResultLost, RunFailed
from edgecron.embedding.concurrency import beside, beside_loop, engine_logger
from edgecron.embedding.events import why_lost
from edgecron.model.choices import ACTIVE, Cause, Reason, Status
from edgecron.model.engine import find_program

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.embedding.concurrency import ClientPool
    from edgecron.engine.events import Event
    from edgecron.model.run import Execution, OutputChunk, Progress

T = TypeVar("T")


class Run(Generic[T]):
    """One run, as it was when last read. `T` is what its function returns.

    `wait`, or `await`, waits for its end; `refresh` reads it again. If the run is retried, both
    continue with the next attempt: `id` is then that attempt's id.
    """

    def __init__(self, known: Execution | int, waits: Waits) -> None:
        """Take a run that was read, or its id: the run is then read when a property needs it."""
        self._known = known
        self._waits = waits

    def __repr__(self) -> str:
        reason = "" if self.execution.reason is None else f", {self.execution.reason}"
        return f"<Run {self.id} of {self.schedule}: {self.status}{reason}>"

    @property
    def id(self) -> int:
        return self._known if isinstance(self._known, int) else self._known.id

    @property
    def execution(self) -> Execution:
        """The whole row."""
        if isinstance(self._known, int):
            self._known = self._waits.execution(self._known)
        return self._known

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return self.execution.schedule

    @property
    def scope(self) -> tuple[str, str]:
        """The (kind, id) of its scope; ('global', '') without scopes."""
        return self.execution.scope_kind, self.execution.scope_id

    @property
    def plan_at(self) -> datetime:
        """Its plan time, aware, in UTC."""
        return self.execution.plan_at

    @property
    def started_at(self) -> datetime | None:
        """When it started; None if it did not."""
        return self.execution.started_at

    @property
    def finished_at(self) -> datetime | None:
        return self.execution.finished_at

    @property
    def cause(self) -> Cause:
        """Why it exists: `schedule`, `catch_up`, `manual`, `retry`, `boot`, `after`, `backfill`."""
        return self.execution.cause

    @property
    def attempt(self) -> int:
        return self.execution.attempt

    @property
    def status(self) -> Status:
        """`queued`, `running`, `success`, `failed`, `skipped`, `cancelled` or `interrupted`."""
        return self.execution.status

    @property
    def reason(self) -> str | None:
        """The reason that refines the status, such as `timeout` or `overlap`."""
        return None if self.execution.reason is None else self.execution.reason.value

    @property
    def error(self) -> str | None:
        """The error in one line: for an exception, its type and text."""
        return self.execution.error_msg

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command: 128+N if signal N ended it. None for a function."""
        return self.execution.exit_code

    @property
    def progress(self) -> Progress | None:
        """The progress that it reported last, a fraction and a text; None if it reported none."""
        return self.execution.progress

    @property
    def is_active(self) -> bool:
        """Whether it had not ended yet."""
        return self.execution.status in ACTIVE

    @property
    def result(self) -> T | None:
        """The return value, read from JSON (tuples become lists); None unless the run succeeded."""
        text = self.execution.result
        found: T | None = None if text is None else json.loads(text)
        return found

    @property
    def flags(self) -> tuple[str, ...]:
        """More facts about it: `result_invalid` if what it returned is not JSON,
        `result_too_big` if that is longer than 64 KiB, and others (`edgecron help embedding`)."""
        return self.execution.flags

    def get(self, timeout: float | None = None) -> T | None:
        """Wait for its end as `wait` does, and return what it returned.

        Raises RunFailed unless it succeeded: `type`, `message` and `traceback` describe what the
        function raised. Raises ResultLost if what it returned was not kept.
        """
        return self.wait(timeout).taken()

    async def aget(self) -> T | None:
        """Await its end, and return what it returned. Raises as `get` does."""
        await self
        if self.status is not Status.SUCCESS:
            raise await beside(self.failure)
        return self.taken()

    def taken(self) -> T | None:
        """Return what an ended run returned. Raises as `get` does."""
        if self.status is not Status.SUCCESS:
            raise self.failure()
        why = why_lost(self.flags)
        if why is not None:
            raise ResultLost(
                f"run {self.id} of {self.schedule!r} succeeded, but its result was not kept: {why}",
                hint="return JSON of at most 64 KiB; keep what is larger in a file, and return its"
                " name",
            )
        return self.result

    def failure(self) -> RunFailed:
        """Return what `get` raises for an ended run that did not succeed."""
        return run_failed(self.execution, self.output)

    @property
    def output(self) -> str:
        """The output so far, both streams in order; for a function, its traceback."""
        chunks = self._waits.chunks(self.execution)
        return "".join(chunk.content.decode("utf-8", "replace") for chunk in chunks)

    async def aoutput(self) -> str:
        """`output`, for a coroutine."""
        return await beside(lambda: self.output)

    def refresh(self) -> Run[T]:
        """Read it again, and return it."""
        self._known = self._waits.look(self.execution)
        return self

    arefresh = beside_loop(refresh)

    def wait(self, timeout: float | None = None) -> Run[T]:
        """Wait until it and its retries have ended, at most `timeout` seconds; return it.

        Raises TimeoutError if it is still active then: it continues. If no engine is running, this
        waits for one, and a warning in the log says so. In a coroutine, await the run instead:
        `wait` would block the event loop.
        """
        self._known = self._waits.wait(self.execution, timeout_s=timeout)
        return self

    def __await__(self) -> Generator[Any, None, Run[T]]:
        return self._awaited().__await__()

    async def _awaited(self) -> Run[T]:
        known = self._known
        if isinstance(known, int):
            known = await beside(self._waits.execution, known)
        self._known = await self._waits.wait_async(known)
        return self

    def cancel(self) -> Run[T]:
        """Stop it, or cancel it before its start; return it.

        A function on a thread is only asked to stop: see RunContext.must_stop. Raises Conflict if
        the run has ended already.
        """
        self._known = self._waits.cancel(self.id)
        return self

    acancel = beside_loop(cancel)


_FIRST_PAUSE_S = 0.01
_LAST_PAUSE_S = 0.5


class Waits:
    """Reads the runs of a program and waits for their ends.

    `holds_up` reports whether to wait on this thread would block the program's coroutines, and
    `serves` whether this process has started an engine for a queue.
    """

    def __init__(
        self,
        pool: ClientPool,
        *,
        clock: Clock,
        holds_up: Callable[[], bool] = lambda: False,
        serves: Callable[[str], bool] = lambda queue: False,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._holds_up = holds_up
        self._serves = serves
        self._lock = threading.Lock()
        self._wakers: dict[int, list[Callable[[], object]]] = {}

    def reset_in_child(self) -> None:
        """Forget all waiting threads, in a forked child."""
        self._lock = threading.Lock()
        self._wakers = {}

    def note(self, event: Event) -> None:
        """Wake whoever waits for the run of an event. The engine's thread calls this."""
        if event.execution_id in self._wakers:
            with self._lock:
                wakers = list(self._wakers.get(event.execution_id, ()))
            for wake in wakers:
                wake()

    def execution(self, execution_id: int) -> Execution:
        """Read a run."""
        with self._pool.client() as client:
            return client.execution(execution_id)

    def look(self, execution: Execution) -> Execution:
        """Read a run again, or the last attempt that follows it."""
        with self._pool.client() as client:
            while True:
                execution = client.execution(execution.id)
                if execution.status in ACTIVE:
                    return execution
                following = client.next_attempt(execution)
                if following is None:
                    return execution
                execution = following

    def wait(self, execution: Execution, *, timeout_s: float | None) -> Execution:
        """Wait for the end of a run and its retries; return the last attempt.

        Raises TimeoutError, and Conflict if the wait would block the coroutine it waits for.
        """
        check_seconds(
            "timeout",
            timeout_s,
            example="timeout=10",
            is_optional=True,
        )
        until_ms = None if timeout_s is None else self._clock.monotonic_ms() + timeout_s * 1000
        pause_s, is_first = _FIRST_PAUSE_S, True
        while True:
            woken = threading.Event()
            with self._waiting(execution.id, woken.set):
                known_id, execution = execution.id, self.look(execution)
                if execution.status not in ACTIVE:
                    return execution
                if execution.id != known_id:
                    pause_s = _FIRST_PAUSE_S
                    continue  # It is retried: wait for the new attempt.
                if is_first:
                    self._warn_unattended(execution)
                    is_first = False
                left_s = pause_s
                if until_ms is not None:
                    left_s = (until_ms - self._clock.monotonic_ms()) / 1000
                    if left_s <= 0:
                        raise TimeoutError(
                            f"run {execution.id} of {execution.schedule!r} is"
                            f" {execution.status} after {timeout_s:g} s"
                        )
                if self._holds_up():
                    raise Conflict(
                        f"run {execution.id} of {execution.schedule!r} is {execution.status}, and"
                        " waiting for it here would block the event loop that the run might need",
                        hint="await it instead: await run",
                    )
                woken.wait(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LAST_PAUSE_S)

    async def wait_async(self, execution: Execution) -> Execution:
        """`wait`, without blocking the event loop."""
        import asyncio  # 30 ms and 11 MB; the caller has it loaded

        loop = asyncio.get_running_loop()
        pause_s, is_first = _FIRST_PAUSE_S, True
        while True:
            woken = asyncio.Event()

            def wake(woken: asyncio.Event = woken) -> None:
                with suppress(RuntimeError):  # The loop is closed, and nobody waits.
                    loop.call_soon_threadsafe(woken.set)

            with self._waiting(execution.id, wake):
                known_id = execution.id
                execution = await asyncio.to_thread(self.look, execution)
                if execution.status not in ACTIVE:
                    return execution
                if execution.id != known_id:
                    pause_s = _FIRST_PAUSE_S
                    continue
                if is_first:
                    await asyncio.to_thread(self._warn_unattended, execution)
                    is_first = False
                try:
                    await asyncio.wait_for(woken.wait(), pause_s)
                except TimeoutError:
                    pause_s = min(pause_s * 1.5, _LAST_PAUSE_S)

    @contextmanager
    def _waiting(self, execution_id: int, wake: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            self._wakers.setdefault(execution_id, []).append(wake)
        try:
            yield
        finally:
            with self._lock:
                wakers = self._wakers[execution_id]
                wakers.remove(wake)
                if not wakers:
                    del self._wakers[execution_id]

    def _warn_unattended(self, execution: Execution) -> None:
        """Warn in the log if a run waits and no engine is running that would start it."""
        if execution.status is not Status.QUEUED:
            return
        try:
            with self._pool.client() as client:
                queue = client.schedule(execution.schedule).spec.placed_queue
                # Our own engine is there a moment before the database names it.
                if self._serves(queue) or client.has_engine(queue):
                    return
        except NotFound:
            return  # It was removed meanwhile, and the run cancelled.
        # A program that starts an engine does not load what front ends say.
        from edgecron.views.phrases import no_engine_words, place_words, runner_words

        engine_logger().warning(
            "run %d of %r waits: %s: scheduler.start()",
            execution.id,
            execution.schedule,
            f"{no_engine_words(queue)}; start one{place_words(queue)}"
            if find_program(queue) is None
            else f"{runner_words(queue)} is not running; start its engine",
        )

    def cancel(self, execution_id: int) -> Execution:
        with self._pool.client() as client:
            return client.cancel(execution_id)

    def chunks(self, execution: Execution) -> Sequence[OutputChunk]:
        """Read the output of a run so far, as far as it is kept."""
        with self._pool.client() as client:
            stored = client.output(execution.id)
            if stored is not None:
                return stored.chunks
            return client.output_so_far(execution) if execution.status in ACTIVE else ()


# Tracebacks of exceptions that follow from one another, the first one first.
_HEADER = re.compile(
    r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):$", re.MULTILINE
)
_JOINTS = (
    "\nDuring handling of the above exception, another exception occurred:\n\n",
    "\nThe above exception was the direct cause of the following exception:\n\n",
)


def run_failed(run: Execution, output: str) -> RunFailed:
    """Return what `get` raises for a run that did not succeed. `output` is what it printed."""
    why = run.error_msg or (None if run.reason is None else run.reason.value)
    text = f"run {run.id} of {run.schedule!r} ended as {run.status}" + (f": {why}" if why else "")
    if run.reason is Reason.DECLINED:
        return RunFailed(text, type="Skip", message=why)
    has_raised = run.reason is Reason.EXCEPTION or (
        # A function in a process of its own: a command has no other code without a prefix.
        run.reason is Reason.EXIT and run.error_code != f"exit_{run.exit_code}"
    )
    if not has_raised or run.error_code is None:
        return RunFailed(text, message=why)
    type_, message = _split(run.error_code, run.error_msg or "")
    # A function on a thread prints elsewhere, so this is all of its output.
    trace = output if run.reason is Reason.EXCEPTION else _last_traceback(output)
    return RunFailed(text, type=type_, message=message, traceback=trace or None)


def _split(code: str, line: str) -> tuple[str, str]:
    """Return the qualified type and the message of an exception, from `app.PlcError: no`."""
    head = line.partition("\n")[0].partition(": ")[0]
    if head != code and not head.endswith(f".{code}"):
        return code, line
    return head, line[len(head) :].removeprefix(": ").removeprefix("\n")


def _last_traceback(output: str) -> str | None:
    """Return the last traceback of an output, with those of the exceptions that led to it."""
    found = None
    for header in reversed(list(_HEADER.finditer(output))):
        if found is not None and not output[:found].endswith(_JOINTS):
            break
        found = header.start()
    return None if found is None else output[found:]
