"""One run of a function of the program: what the function is called with, and how the call ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from edgecron.base.checks import is_too_deep
from edgecron.base.clock import Clock
from edgecron.base.errors import Conflict, EdgecronError, InvalidInput
from edgecron.base.units import MAX_DURATION_MS, parse_duration_ms
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Reason, Status
from edgecron.model.run import (
    MOST_ALL_STATE_BYTES,
    MOST_RESULT_BYTES,
    MOST_STATE_KEYS,
    Claim,
    Output,
    OutputChunk,
    Progress,
    Reported,
    Stream,
    check_state_key,
    check_state_value,
    fits_state,
    progress_text,
    state_bytes,
)
from edgecron.supervisor.protocol import Flag

ReadState = Callable[[int], Mapping[str, str]]  # by the id of a schedule

_MOST_TRACE_BYTES = 64 * 1024
_MOST_LETTERS = 2_000  # of what a row says about an exception; the output has all of it


def remember_nothing(schedule_id: int) -> Mapping[str, str]:
    """Return an empty state, for calls without a database."""
    return {}


class ProgressReports:
    """The newest progress of each run, until the engine takes it.

    `ring` is called, on the thread that reports, for the first report after a time without any.
    """

    def __init__(self, *, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        self._newest: dict[str, str | None] = {}  # by token, of open runs
        self._untaken: dict[str, Reported] = {}
        self._is_awaited = False  # the engine comes back by itself

    def open(self, tokens: Iterable[str]) -> None:
        """Accept reports of runs from now on."""
        with self._lock:
            self._newest.update(dict.fromkeys(tokens))

    def put(self, reported: Reported) -> None:
        """Report progress. Does nothing if it is unchanged, or the run has ended."""
        token = reported.lease_token
        with self._lock:
            if token not in self._newest or self._newest[token] == reported.progress:
                return
            self._newest[token] = reported.progress
            self._untaken[token] = reported
            must_ring, self._is_awaited = not self._is_awaited, True
        if must_ring:
            self._ring()

    def take(self) -> list[Reported]:
        """Take the newest report of each run since the last call.

        If there was one, call again later; if not, `ring` is called for the next one.
        """
        with self._lock:
            taken = list(self._untaken.values())
            self._untaken.clear()
            self._is_awaited = bool(taken)
        return taken

    def close(self, token: str) -> str | None:
        """Accept no more reports of a run; return its newest one, taken or not."""
        with self._lock:
            self._untaken.pop(token, None)
            return self._newest.pop(token, None)


class StateChanges:
    """The state of a schedule as one of its runs sees and changes it: JSON texts by key.

    `read` is called once, on first use. Any thread can call the methods.
    """

    __slots__ = ("_changes", "_is_closed", "_lock", "_read", "_schedule_id", "_values")

    def __init__(self, schedule_id: int, read: ReadState) -> None:
        self._schedule_id = schedule_id
        self._read = read
        self._lock = threading.Lock()
        self._values: dict[str, str] | None = None
        self._changes: dict[str, str | None] = {}
        self._is_closed = False

    def values(self) -> dict[str, str]:
        """Return the state with the run's own changes."""
        with self._lock:
            return dict(self._current())

    def set(self, key: str, value: str) -> None:
        """Set a value. Raises InvalidInput, and Conflict after the end of the run."""
        check_state_key(key)
        check_state_value(key, value)
        with self._lock:
            self._check_open()
            values = self._current()
            if key not in values and len(values) >= MOST_STATE_KEYS:
                raise InvalidInput(
                    f"the state has {len(values)} keys, expected at most {MOST_STATE_KEYS}",
                    hint="delete what is not needed any more, or keep it elsewhere",
                )
            changed = values | {key: value}
            if not fits_state(values, changed):
                raise InvalidInput(
                    f"the state would have {state_bytes(changed)} bytes,"
                    f" expected at most {MOST_ALL_STATE_BYTES}",
                    hint="keep what is large in a file, and its name in the state",
                )
            values[key] = self._changes[key] = value

    def delete(self, key: str) -> None:
        """Remove a value, if there is one. Raises as `set` does."""
        check_state_key(key)
        with self._lock:
            self._check_open()
            self._current().pop(key, None)
            self._changes[key] = None

    def close(self) -> dict[str, str | None] | None:
        """Accept no more changes; return the changes, None if there was none."""
        with self._lock:
            self._is_closed = True
            return self._changes or None

    def _current(self) -> dict[str, str]:
        if self._values is None:
            self._values = dict(self._read(self._schedule_id))
        return self._values

    def _check_open(self) -> None:
        if self._is_closed:
            raise Conflict("the run has ended, and the state with it")


class Call:
    """One run of a function: the argument of the function."""

    __slots__ = (
        *("_clock", "_has_ended", "_read_state", "_reports", "_states", "_until_ms", "asked_ms"),
        *("begun_ms", "claim", "gives_up", "on_stop", "stop_reason"),
    )

    def __init__(
        self,
        claim: Claim,
        *,
        clock: Clock,
        reports: ProgressReports | None = None,
        read_state: ReadState = remember_nothing,
    ) -> None:
        self.claim = claim
        self._reports = reports
        self._read_state = read_state
        # Few functions use theirs. Threads that use it first at once use the first one here: a lock
        # of all calls could be held during a fork, and no call of the child would end.
        self._states: list[StateChanges] = []
        self._has_ended = False
        self.stop_reason: Reason | None = None  # why it was asked to stop
        self.on_stop: Callable[[], object] | None = None  # ends it, if that is possible
        # Whether an exception of the function is one that its job does not retry.
        self.gives_up: Callable[[BaseException], bool] | None = None
        self._clock = clock
        self._until_ms: int | None = None
        self.asked_ms = clock.monotonic_ms()  # when it was handed over
        self.begun_ms = 0

    @property
    def payload(self) -> object:
        """The JSON value of the run's own payload, else of the schedule's, else None."""
        text = self.claim.job.payload
        return None if text is None else json.loads(text)

    @property
    def is_over_time(self) -> bool:
        """Whether it has run for longer than its timeout."""
        return self._until_ms is not None and self.left_ms == 0

    @property
    def left_ms(self) -> int | None:
        """The rest of its timeout; None if it has none."""
        if self._until_ms is None:
            return None
        return max(self._until_ms - self._clock.monotonic_ms(), 0)

    @property
    def must_stop(self) -> bool:
        """Whether it should return soon: it was asked to stop, or its time is over."""
        return self.stop_reason is not None or self.is_over_time

    def ask_to_stop(self, reason: Reason) -> None:
        """Ask it to stop, from any thread. The first reason counts."""
        if self.stop_reason is None:
            self.stop_reason = reason
        if self.on_stop is not None:
            self.on_stop()

    @property
    def state(self) -> Mapping[str, str]:
        """The state of its schedule: JSON texts by key, with the changes of this run."""
        return self._find_state().values()

    def set_state(self, key: str, value: str) -> None:
        """Change the state of its schedule, from the end of this run on, if it succeeds.

        `value` is a JSON text. Raises InvalidInput for a key that is not 1 to 128 printable
        characters, a value that is not JSON or is longer than 64 KiB, and for more than 1,000 keys.
        Any thread can call this.
        """
        self._find_state().set(key, value)

    def delete_state(self, key: str) -> None:
        """Remove a key from the state of its schedule, in the same way."""
        self._find_state().delete(key)

    def report_progress(self, fraction: float | None, text: str = "") -> None:
        """Report how far it is, from 0 to 1, or None if that is unknown.

        Any thread can call this, at any rate, and never waits: the newest report is recorded once a
        second. Raises InvalidInput.
        """
        progress = progress_text(Progress(fraction=fraction, text=text))
        if self._reports is not None:
            claim = self.claim
            self._reports.put(Reported(claim.execution_id, claim.lease_token, progress))

    def close_state(self) -> Mapping[str, str | None] | None:
        """Accept no more changes of state, and return them."""
        self._has_ended = True
        return self._states[0].close() if self._states else None

    def _find_state(self) -> StateChanges:
        if not self._states:
            self._states.append(StateChanges(self.claim.schedule_id, self._read_state))
        state = self._states[0]
        if self._has_ended:  # perhaps since it was added here: `close_state` did not see it
            state.close()
        return state

    def begin(self, now_ms: int) -> None:
        """Start its timeout now, by the monotonic clock."""
        self.begun_ms = now_ms
        if self.claim.policies.timeout_s is not None:
            self._until_ms = now_ms + max(1, round(self.claim.policies.timeout_s * 1000))


class Failure(NamedTuple):
    """Why a function was not called, or what it raised, and what follows from that.

    `is_skip`: it raised Skip. `gives_up`: no other attempt follows. `asks_again`: it raised Retry,
    and another attempt follows, after `retry_after_ms` if that is not None.
    """

    code: str | None
    message: str
    trace: str | None = None
    is_skip: bool = False
    gives_up: bool = False
    asks_again: bool = False
    retry_after_ms: int | None = None


class Ended:
    """The return value of a function, as JSON, or the reason why it did not return."""

    __slots__ = ("flags", "result", "why")

    def __init__(
        self,
        result: str | None = None,
        flags: tuple[str, ...] = (),
        *,
        why: Failure | None = None,
    ) -> None:
        self.result = result
        self.flags = flags
        self.why = why


def verdict_of(call: Call, why: Failure | None, *, has_run: bool) -> tuple[Status, Reason | None]:
    """Return the status and reason of a call that has ended."""
    if not has_run:
        if call.stop_reason is not None:
            return Status.CANCELLED, call.stop_reason
        return Status.FAILED, Reason.SPAWN
    if call.is_over_time:
        return Status.FAILED, Reason.TIMEOUT
    if why is None:
        return Status.SUCCESS, None  # also if it was asked to stop: it was faster
    if call.stop_reason is not None:
        return Status.CANCELLED, call.stop_reason
    if why.is_skip:
        return Status.SKIPPED, Reason.DECLINED
    return Status.FAILED, Reason.EXCEPTION


def failure_of(error: BaseException, call: Call) -> Failure:
    """Return what follows from an exception of the function of a call."""
    failure = _failure_of(error)
    has_more = call.claim.attempt < call.claim.max_attempts
    if isinstance(error, Skip):
        return failure._replace(code=None, message=_text_of(error), trace=None, is_skip=True)
    if isinstance(error, Retry):
        message = _text_of(error) + ("" if has_more else "; no attempt is left")
        trace = failure.trace if error.__cause__ or error.__context__ else None
        return failure._replace(
            message=message, trace=trace, asks_again=has_more, retry_after_ms=error.after_ms
        )
    is_over = has_more and call.gives_up is not None and call.gives_up(error)
    return failure._replace(gives_up=is_over)


def _text_of(error: EdgecronError) -> str:
    return _storable(str(error.message))


def _failure_of(error: BaseException) -> Failure:
    import traceback  # seldom needed, and heavy

    try:
        trace = "".join(traceback.format_exception(error))
        message = "".join(traceback.format_exception_only(error)).strip()
    except BaseException as unprintable:  # noqa: BLE001  its own __str__ raises, or returns no text
        name = type(unprintable).__name__
        message = trace = f"{type(error).__name__}, which can't be printed: {name}"
    return Failure(_storable(type(error).__name__), _storable(message), trace)


def _storable(text: str) -> str:
    """Cut and encode a text for a row. An end that can't be written would block all others."""
    return text.encode("utf-8", "backslashreplace").decode()[:_MOST_LETTERS]


def result_of(returned: object) -> tuple[str | None, tuple[str, ...]]:
    """Return the JSON text of what a function returned, and flags."""
    if returned is None:
        return None, ()
    try:
        text = json.dumps(returned, allow_nan=False, ensure_ascii=False)
        size_bytes = len(text.encode())
        if size_bytes <= MOST_RESULT_BYTES and is_too_deep(text):
            return None, (Flag.RESULT_INVALID,)
    except Exception:  # noqa: BLE001  a value of the program can raise anything
        return None, (Flag.RESULT_INVALID,)
    return (None, (Flag.RESULT_TOO_BIG,)) if size_bytes > MOST_RESULT_BYTES else (text, ())


def output_of(trace: str, now_ms: int) -> Output:
    """Return a traceback as the output of a run; of a long one, the end."""
    content = trace.encode("utf-8", "backslashreplace")
    kept = content[-_MOST_TRACE_BYTES:]
    return Output(
        chunks=(OutputChunk(stream=Stream.STDERR, at_ms=now_ms, content=kept),),
        stderr_bytes=len(content),
        dropped_bytes=len(content) - len(kept),
    )


class Skip(EdgecronError):
    """A function raises it when there is nothing to do: its run ends as skipped, for this reason.

        raise Skip("no new files")

    The run counts neither as a success nor as a failure, and has no retry.
    """

    code = "skip"

    def __init__(self, reason: str = "the function had nothing to do") -> None:
        super().__init__(reason)


class Retry(EdgecronError):
    """A function raises it to be called again: its run has failed, and the next attempt follows.

        raise Retry("the device is busy", after="30s")

    `after` is the delay: text, seconds or a timedelta. If it is None, the job's options decide.
    Each further attempt is one of the job's retries. Without a retry left, none follows.
    """

    code = "retry"

    def __init__(
        self,
        message: str = "the function asked for another attempt",
        *,
        after: str | float | timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.after_ms = None if after is None else _delay_ms(after)


def _delay_ms(after: object) -> int:
    if isinstance(after, str):
        return parse_duration_ms(after)
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if (
        not isinstance(seconds, int | float)
        or isinstance(seconds, bool)
        or not 0 <= seconds <= MAX_DURATION_MS / 1000
    ):
        raise InvalidInput(
            f"after is {after!r:.60}, expected a delay of at most 100 years",
            hint='such as Retry(after="30s")',
        )
    return round(seconds * 1000)
