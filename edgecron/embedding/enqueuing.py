"""Enqueue runs: the options of one call, and calls of several threads that share a commit."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from edgecron.base.checks import json_text, suggest
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.base.values import NamedTuple
from edgecron.embedding.concurrency import is_on_loop
from edgecron.formats.option_texts import RUN_OPTIONS, read_run_options
from edgecron.model.run import AS_SCHEDULED, RunOptions

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import Literal, TypedDict

    from edgecron.client.manual_runs import Wish
    from edgecron.embedding.concurrency import ClientPool

    Duration = str | float | timedelta  # "90s", seconds, or a timedelta
    PriorityName = Literal["low", "normal", "high"] | int

    class ManyKeywords(TypedDict, total=False):
        """The options of calls that are enqueued together."""

        delay: Duration
        at: datetime
        priority: PriorityName
        timeout: Duration
        scope: str | tuple[str, str]

    class CallKeywords(ManyKeywords, total=False):
        """The options of one call."""

        key: str


Q = ParamSpec("Q")
T = TypeVar("T", covariant=True)
CALL_OPTIONS = (*RUN_OPTIONS, "key")


class CallOptions(NamedTuple):
    """The options of one call."""

    options: RunOptions = AS_SCHEDULED
    key: str | None = None


PLAIN = CallOptions()


def read_call(given: Mapping[str, Any]) -> CallOptions:
    """Read the options of a call. Raises InvalidInput."""
    if not given:
        return PLAIN
    for name in given:
        if name not in CALL_OPTIONS:
            close = suggest(name, CALL_OPTIONS)
            raise InvalidInput(
                f"option {name!r} is unknown",
                hint=f"did you mean {close}?" if close else f"expected {', '.join(CALL_OPTIONS)}",
            )
    key = given.get("key")
    if key is not None and not isinstance(key, str):
        raise InvalidInput(f"key is {key!r:.60}, expected text", hint="such as key='order-4711'")
    return CallOptions(read_run_options(given, timezone=None, now=None), key)


def take_call(kwargs: dict[str, Any]) -> CallOptions:
    """Take the options of a call out of its arguments by name. Raises InvalidInput."""
    return read_call({name: kwargs.pop(name) for name in CALL_OPTIONS if name in kwargs})


def read_target(target: object) -> tuple[str, str]:
    """Return the program and the schedule of `app:name`. Raises InvalidInput."""
    program, colon, name = target.partition(":") if isinstance(target, str) else ("", "", "")
    if not (program and colon and name):
        raise InvalidInput(
            f"target is {target!r:.60}, expected PROGRAM:NAME", hint="such as send('app:load')"
        )
    return program, name


def sent_payload(target: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return the arguments of an unknown function as JSON; None without any."""
    if args and kwargs:
        raise InvalidInput(
            f"{target!r} has positional and keyword arguments, expected one kind",
            hint="give all arguments in order, or all by name",
        )
    given: object = list(args) if args else dict(kwargs)
    return json_text(given, what=f"{target!r}: arguments") if args or kwargs else None


class Enqueue(Protocol[Q, T]):
    """The type of `Job.enqueue`: the arguments of the function, or also options of the call.

    `T` is what the call returns. With options, type checkers can't check the arguments; the call
    does.
    """

    @overload
    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> T: ...
    @overload
    def __call__(self, *args: Any, delay: Duration, **kwargs: Any) -> T: ...
    @overload
    def __call__(self, *args: Any, at: datetime, **kwargs: Any) -> T: ...
    @overload
    def __call__(self, *args: Any, key: str, **kwargs: Any) -> T: ...
    @overload
    def __call__(self, *args: Any, priority: PriorityName, **kwargs: Any) -> T: ...
    @overload
    def __call__(self, *args: Any, timeout: Duration, **kwargs: Any) -> T: ...
    @overload
    def __call__(self, *args: Any, scope: str | tuple[str, str], **kwargs: Any) -> T: ...


class _Ticket:
    """A caller that waits for its turn."""

    __slots__ = ("answer", "is_leader", "ready", "wish")

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.answer: list[int] | Exception | None = None
        self.is_leader = False
        self.ready: threading.Event | None = None  # set when another thread has written for it

    def wake(self) -> None:
        if self.ready is not None:
            self.ready.set()


class Enqueuer:
    """Write the runs that the threads of a program enqueue.

    While one thread commits, others line up; the first of them then writes for all. A commit waits
    for the disk, so threads that share commits enqueue several times as much.
    """

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool
        self.reset_in_child()

    def reset_in_child(self) -> None:
        """Forget callers that wait, in a forked child: their threads are the parent's."""
        self._lock = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._is_writing = False

    def enqueue(
        self,
        name: str,
        payloads: Sequence[str | None],
        *,
        call: CallOptions = PLAIN,
        is_one: bool = True,
        queue: str | None = None,
    ) -> list[int]:
        """Queue a fire for each payload; see `ManualRuns.enqueue`."""
        from edgecron.client.manual_runs import make_wish  # An engine at rest does not need it.

        ticket = _Ticket(
            make_wish(
                name, payloads, key=call.key, options=call.options, is_one=is_one, queue=queue
            )
        )
        if is_on_loop():  # It must not wait for threads that wait for the database.
            self._write([ticket])
        elif self._takes_turn(ticket):
            try:
                self._write(self._line_up(ticket))
            finally:
                self._pass_on()
        assert ticket.answer is not None
        if isinstance(ticket.answer, Exception):
            raise ticket.answer
        return ticket.answer

    def _takes_turn(self, ticket: _Ticket) -> bool:
        """Wait for a turn to write; False if another thread has written for this one."""
        with self._lock:
            if not self._is_writing:
                self._is_writing = True
                return True
            ready = ticket.ready = threading.Event()
            self._waiting.append(ticket)
        try:
            ready.wait()
        except BaseException:  # A signal ended the wait: do not let others wait for this thread.
            with self._lock:
                is_first = ticket.is_leader
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
            if is_first:
                self._pass_on()
            raise
        return ticket.is_leader

    def _line_up(self, first: _Ticket) -> list[_Ticket]:
        with self._lock:
            together, self._waiting = [first, *self._waiting], []
        return together

    def _pass_on(self) -> None:
        """Let the next waiting thread write."""
        with self._lock:
            following = self._waiting.pop(0) if self._waiting else None
            self._is_writing = following is not None
            if following is not None:
                following.is_leader = True
                following.wake()

    def _write(self, together: list[_Ticket]) -> None:
        """Write the runs of these threads, and wake them."""
        try:
            with self._pool.client() as client:
                answers = client.enqueue_together([one.wish for one in together])
            for one, answer in zip(together, answers, strict=True):
                one.answer = answer
        except BaseException as error:
            interrupted = Conflict(
                "the thread that enqueued this run too was interrupted",
                hint="the run might be queued; to look: edgecron history",
            )
            for one in together:
                one.answer = error if isinstance(error, Exception) else interrupted
            raise
        finally:
            for one in together[1:]:
                one.wake()
