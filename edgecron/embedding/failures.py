"""Failures of functions: which exceptions are retried, and the calls of `on_failure` functions."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput, RunFailed
from edgecron.base.values import dataclass
from edgecron.embedding.concurrency import engine_logger
from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import Status

if TYPE_CHECKING:
    from edgecron.embedding.run import Run

    Errors = type[BaseException] | tuple[type[BaseException], ...]
    OnFailure = Callable[[Run[Any], RunFailed], object]


# What job() takes beside the options of every schedule.
RULE_NAMES = ("retry_on", "give_up_on", "on_failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """Which exceptions of a function are retried: those of `retry_on`, none of `give_up_on`.

    If `retry_on` is None, all exceptions are retried.
    """

    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] = ()

    def gives_up(self, error: BaseException) -> bool:
        """Report whether an exception is one that the job does not retry."""
        if isinstance(error, self.give_up_on):
            return True
        return self.retry_on is not None and not isinstance(error, self.retry_on)


def read_rules(name: str, given: Mapping[str, Any]) -> RetryRules:
    """Return the rules of a declaration. Raises InvalidInput."""
    retry_on = given.get("retry_on")
    return RetryRules(
        retry_on=None if retry_on is None else _classes(name, "retry_on", retry_on),
        give_up_on=_classes(name, "give_up_on", given.get("give_up_on", ())),
    )


def _classes(name: str, what: str, given: Any) -> tuple[type[BaseException], ...]:
    found = given if isinstance(given, tuple) else (given,)
    for one in found:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise InvalidInput(
                f"schedule {name!r}: {what} is {given!r:.60}, expected exception classes",
                hint=f"such as {what}=(OSError, ValueError)",
            )
    return found


def check_on_failure(name: str, given: object) -> None:
    """Raise InvalidInput for a value that can't be called after a failure."""
    if given is not None and (not callable(given) or iscoroutinefunction(given)):
        raise InvalidInput(
            f"schedule {name!r}: on_failure is {given!r:.60}, expected a function",
            hint="such as on_failure=alert, with: def alert(run, error)",
        )


class FailureCalls:
    """Calls the `on_failure` functions of a program, one after the other, on a thread.

    `find_ended` returns a run that has failed and is not retried; None for any other. The thread
    exists only while there is a call to make.
    """

    def __init__(self, find_ended: Callable[[int], Run[Any] | None]) -> None:
        self.functions: dict[str, OnFailure] = {}  # by schedule
        self.is_by_hand = False  # a test calls `deliver`: no thread
        self._find_ended = find_ended
        self.reset_in_child()

    def reset_in_child(self) -> None:
        """Forget failures and the thread, in a forked child."""
        self._lock = threading.Lock()
        self._waiting: deque[tuple[OnFailure, int, str]] = deque()
        self._thread: threading.Thread | None = None

    def note(self, event: Event) -> None:
        """Take an event of our own engine, on its thread. Never waits."""
        if event.kind is not EventKind.ENDED or event.outcome is None:
            return
        function = self.functions.get(event.schedule or "")
        if function is None or event.outcome.status is not Status.FAILED:
            return
        with self._lock:
            self._waiting.append((function, event.outcome.execution_id, event.schedule or ""))
            if self._thread is None and not self.is_by_hand:
                # Daemon: a function that hangs must not keep the interpreter from ending.
                thread = threading.Thread(target=self._run, name="edgecron-failures", daemon=True)
                with suppress(RuntimeError):  # no thread can start: the next failure tries again
                    thread.start()
                    self._thread = thread

    def deliver(self) -> None:
        """Make the calls that wait, on this thread."""
        while (one := self._take()) is not None:
            self._call(*one)

    def stop(self, *, wait_s: float) -> None:
        """Wait for the calls that are left, at most `wait_s`."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)

    def _run(self) -> None:
        while (one := self._take(is_last=True)) is not None:
            self._call(*one)

    def _take(self, *, is_last: bool = False) -> tuple[OnFailure, int, str] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if is_last:
                self._thread = None  # Under the lock: the next failure starts a new one.
            return None

    def _call(self, function: OnFailure, run_id: int, schedule: str) -> None:
        try:
            run = self._find_ended(run_id)
            if run is not None:
                function(run, run.failure())
        except BaseException:  # noqa: BLE001  SystemExit, too: the next one is still called
            engine_logger().exception("on_failure of job %s failed (run %d)", schedule, run_id)
