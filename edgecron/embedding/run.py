"""One run, as its program has it in hand."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from edgecron.embedding.event_loops import beside
from edgecron.model.choices import ACTIVE, Status

if TYPE_CHECKING:
    from edgecron.embedding.waiting import Waits
    from edgecron.model.claim import Output
    from edgecron.model.reports import Progress
    from edgecron.model.run import Execution

T = TypeVar("T")


class Run(Generic[T]):
    """One run: what was known of it when it was last looked at. `T` is what its function returns.

    `wait`, or `await`, brings it to its end; `refresh` looks again. With retries it is, after
    these, the last attempt of its fire: its `id` is then another one.
    """

    def __init__(self, known: Execution | int, waits: Waits) -> None:
        """`known` is its id where nothing else is known yet: then it is looked at when it is asked
        for more."""
        self._known = known
        self._waits = waits

    def __repr__(self) -> str:
        reason = "" if self.execution.reason is None else f", {self.execution.reason}"
        return f"<Run {self.id} of {self.schedule}: {self.status}{reason}>"

    @property
    def id(self) -> int:
        return self._known if isinstance(self._known, int) else self._known.id

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return self.execution.schedule

    @property
    def scope(self) -> tuple[str, str]:
        """(kind, id) of what it is for; ('global', '') where there are no scopes."""
        return self.execution.scope_kind, self.execution.scope_id

    @property
    def plan_at(self) -> datetime:
        """The time that it stands for, aware, in UTC."""
        return self.execution.plan_at

    @property
    def started_at(self) -> datetime | None:
        """When it started; None where it did not."""
        return self.execution.started_at

    @property
    def finished_at(self) -> datetime | None:
        return self.execution.finished_at

    @property
    def attempt(self) -> int:
        return self.execution.attempt

    @property
    def status(self) -> Status:
        """`queued`, `running`, `success`, `failed`, `skipped`, `cancelled` or `interrupted`."""
        return self.execution.status

    @property
    def reason(self) -> str | None:
        """What refines the status, such as `timeout` or `overlap`."""
        return None if self.execution.reason is None else self.execution.reason.value

    @property
    def error(self) -> str | None:
        """What went wrong, in a line: of an exception its type and text."""
        return self.execution.error_msg

    @property
    def exit_code(self) -> int | None:
        """Of a command: 128+N where signal N ended it; None of a function."""
        return self.execution.exit_code

    @property
    def progress(self) -> Progress | None:
        """How far it said it was, last: a fraction, a text; None where it said nothing."""
        return self.execution.progress

    @property
    def execution(self) -> Execution:
        """All that is known of it."""
        if isinstance(self._known, int):
            self._known = self._waits.execution(self._known)
        return self._known

    @property
    def is_active(self) -> bool:
        """Whether it had not ended yet."""
        return self.execution.status in ACTIVE

    @property
    def result(self) -> T | None:
        """What it returned, as JSON brings it back (a tuple is a list); None unless a success."""
        import json

        text = self.execution.result
        found: T | None = None if text is None else json.loads(text)
        return found

    @property
    def flags(self) -> tuple[str, ...]:
        """What else was noted of it: `result_invalid` if what it returned is not JSON,
        `result_too_big` if that is longer than 64 KiB, and others (`edgecron help embedding`)."""
        return self.execution.flags

    def get(self, timeout: float | None = None) -> T | None:
        """Wait for its end as `wait` does, and return what it returned.

        Raises RunFailed unless it succeeded, and ResultLost if what it returned was not kept.
        """
        return self.wait(timeout).taken()

    async def aget(self) -> T | None:
        """Await its end, and return what it returned. Raises as `get` does."""
        return (await self).taken()

    def taken(self) -> T | None:
        """What it returned, now that it has ended. Raises as `get` does."""
        from edgecron.base.errors import ResultLost, RunFailed
        from edgecron.embedding.events import why_lost

        if self.status is not Status.SUCCESS:
            why = self.error or self.reason
            raise RunFailed(
                f"run {self.id} of {self.schedule!r} is {self.status}: {why}"
                if why
                else f"run {self.id} of {self.schedule!r} is {self.status}"
            )
        why = why_lost(self.flags)
        if why is not None:
            raise ResultLost(
                f"run {self.id} of {self.schedule!r} succeeded, but what it returned was not kept:"
                f" {why}",
                hint="return JSON of at most 64 KiB; keep what is larger in a file, and return its"
                " name",
            )
        return self.result

    @property
    def output(self) -> str:
        """What it has printed so far, both streams in order; of a function that raised, where."""
        return "".join(
            chunk.content.decode("utf-8", "replace") for chunk in self._waits.chunks(self.execution)
        )

    async def aoutput(self) -> str:
        """`output`, for a coroutine."""
        return await beside(lambda: self.output)

    def stored_output(self) -> Output | None:
        """What is kept of what it printed, with times, streams and counts; None before its end."""
        return self._waits.output(self.id)

    def refresh(self) -> Run[T]:
        """Look again; itself."""
        self._known = self._waits.look(self.execution)
        return self

    async def arefresh(self) -> Run[T]:
        """`refresh`, for a coroutine."""
        return await beside(self.refresh)

    def wait(self, timeout: float | None = None) -> Run[T]:
        """Wait until it has ended, its retries too, for so many seconds at most; itself.

        Raises TimeoutError where that was not enough: it goes on. Where no engine is alive that
        could run it, this waits for one. In a coroutine, await the run instead: this would hold
        up its event loop, and with it what is waited for.
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
        """Have it ended, or withdraw it where it has not begun; itself, as it is then.

        A function on a thread is only asked to: see RunContext.must_stop. Raises Conflict where
        it has ended already.
        """
        self._known = self._waits.cancel(self.id)
        return self

    async def acancel(self) -> Run[T]:
        """`cancel`, for a coroutine."""
        return await beside(self.cancel)
