"""Runs: a request, an attempt as people and its runner see it, its output, outcome and measures.

Values are checked when they are created: a value that can't be written would block ends of runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from itertools import chain

from edgecron.base.checks import (
    check_aware_or_none,
    check_json,
    check_range,
    check_text,
    check_type,
)
from edgecron.base.errors import InvalidInput
from edgecron.base.safetext import clean
from edgecron.base.units import MAX_DURATION_MS, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import Cause, Reason, Status
from edgecron.model.job import Job
from edgecron.model.options import MOST_PRIORITY, Policies

MOST_STATE_KEYS = 1000  # of a schedule
MOST_STATE_BYTES = 64 * 1024  # of a value
MOST_ALL_STATE_BYTES = 1024 * 1024  # of all keys and values of a schedule
STATE_REFUSED = "state_refused"  # flag of a run whose changes would exceed these limits
_MOST_LETTERS = 200  # of the words of a progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run: a fraction from 0 to 1 (None: unknown), and a few words.

    The fraction has four decimals. The words are cut after 200 letters and made safe for a
    terminal.
    """

    fraction: float | None
    text: str = ""

    def __post_init__(self) -> None:
        if self.fraction is not None:
            check_type(
                "progress", self.fraction, int, float,
                expected="a number from 0 to 1, or None", hint="such as 0.5",
            )  # fmt: skip
            # The float sum of ten tenths is not exactly 1.
            fraction = round(float(self.fraction), 4)
            check_range("progress", fraction, 0, 1)
            object.__setattr__(self, "fraction", fraction)
        check_type("text of progress", self.text, str, expected="text", hint="such as '3 of 12'")
        storable = self.text.encode("utf-8", "backslashreplace").decode()
        object.__setattr__(self, "text", clean(storable)[:_MOST_LETTERS])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one manual run; None is the value of its schedule, and now.

    It is due after `delay_s`, or at the aware instant `at`. `scope` is the one of its schedule's
    scopes in which it runs. Its retries have the same `priority` and `timeout_s`.
    """

    delay_s: float | None = None
    at: datetime | None = None
    priority: int | None = None
    timeout_s: float | None = None
    scope: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.delay_s is not None and self.at is not None:
            raise InvalidInput(
                "a run has a delay and a time, expected one of them", hint="leave one out"
            )
        check_range("delay", self.delay_s, 0, MAX_DURATION_MS // 1000)
        check_aware_or_none("at", self.at)
        check_range("priority", self.priority, -MOST_PRIORITY, MOST_PRIORITY)
        check_range("timeout", self.timeout_s, 0.001, MAX_DURATION_MS // 1000)

    def due_ms(self, now_ms: int) -> int:
        """Return when the run is due: a time that has passed is now."""
        if self.at is not None:
            return max(now_ms, to_ms(self.at))
        return now_ms + round((self.delay_s or 0) * 1000)


AS_SCHEDULED = RunOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A row of history: one attempt of one fire, or a range of skipped fires."""

    id: int
    schedule_id: int
    schedule: str
    revision: int
    scope_kind: str
    scope_id: str
    plan_at: datetime
    fire_key: str
    cause: Cause
    trigger_text: str | None
    payload: str | None  # its own; None: that of its schedule
    due_at: datetime
    attempt: int
    max_attempts: int
    priority: int
    status: Status
    reason: Reason | None
    flags: tuple[str, ...]
    waiting_for: str | None  # the condition that a queued run waits for, until `wait_until`
    wait_until: datetime | None
    queued_at: datetime | None
    claimed_at: datetime | None
    engine_id: int | None
    supervisor_id: str | None
    cancel_requested_at: datetime | None
    progress: Progress | None  # its last report
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    exit_code: int | None
    result: str | None
    error_code: str | None
    error_msg: str | None
    missed_from_at: datetime | None
    missed_to_at: datetime | None
    missed_count: int | None
    fence: int | None = None  # of its last claim
    timeout_s: float | None = None  # its own; None: that of its schedule


class Reported(NamedTuple):
    """The progress of a run, as of `progress_text`."""

    execution_id: int
    lease_token: str
    progress: str


def progress_text(progress: Progress) -> str:
    """The stored text of a progress."""
    body = {"fraction": progress.fraction, "text": progress.text}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def read_progress(stored: str | None) -> Progress | None:
    """The progress of a stored text; None if there is none or it can't be read."""
    if stored is None:
        return None
    try:
        body = json.loads(stored)
        return Progress(fraction=body["fraction"], text=body["text"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None  # No decision depends on it.


def check_state_key(key: str) -> None:
    """Raise InvalidInput unless the key has 1 to 128 printable characters."""
    check_text(key, what="state key", most=128)


def check_state_value(key: str, value: str) -> None:
    """Raise InvalidInput unless the value is JSON of at most 64 KiB."""
    check_json(value, what=f"the state {key!r}", most_bytes=MOST_STATE_BYTES)


def fits_state(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a state is within its limits, or at least not larger than before."""
    return len(after) <= max(MOST_STATE_KEYS, len(before)) and state_bytes(after) <= max(
        MOST_ALL_STATE_BYTES, state_bytes(before)
    )


def state_bytes(state: Mapping[str, str]) -> int:
    """The size of a state in bytes."""
    return len("".join(chain.from_iterable(state.items())).encode())


MOST_RESULT_BYTES = 64 * 1024  # of the result of a run
OUTPUT_CAP_BYTES = 256 * 1024


class Upstream(NamedTuple):
    """The run whose end started a follow-up: its schedule, its number, and its end.

    `error` is its error message or error code.
    """

    name: str
    run: int
    status: str
    reason: str | None = None
    exit_code: int | None = None
    error: str | None = None


class Claim(NamedTuple):
    """A run that is ours until it ends or its lease token rotates: all that a runner needs."""

    execution_id: int
    lease_token: str
    schedule_id: int
    schedule: str
    job: Job
    plan_ms: int
    due_ms: int
    fire_key: str
    cause: Cause
    attempt: int
    max_attempts: int
    scope_kind: str
    scope_id: str
    policies: Policies = Policies()
    fence: int = 0  # larger than that of every earlier claim of the schedule
    upstream: Upstream | None = None
    revision: int = 0  # of the schedule


class Stream(IntEnum):
    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """Bytes that a run printed: to which stream, and when, in milliseconds since 1970."""

    stream: Stream
    at_ms: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output of a run within its cap: the beginning and the end, in order of arrival.

    `dropped_bytes` bytes before `chunks[dropped_after]` were not kept; 0 and 0 if all were.
    Retention removes the chunks and leaves the counts.
    """

    chunks: tuple[OutputChunk, ...] = ()
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    dropped_bytes: int = 0
    dropped_after: int = 0
    removed_at: datetime | None = None  # by retention

    @property
    def last_line(self) -> str:
        """The last line with any text, as it was printed; empty without one.

        A carriage return begins a line, as each step of a progress bar.
        """
        text = b"".join(chunk.content for chunk in self.chunks).decode("utf-8", "replace")
        return text.rstrip().replace("\r", "\n").rpartition("\n")[2].strip()


class Outcome(NamedTuple):
    """How an attempt ended.

    `exit_code` is 128+N after signal N, and None for a callable or if the job was never started.
    After a success, the schedule remembers `state`: JSON texts by key; None forgets a key.
    `progress` None leaves that of the row. `retry_after_ms` is the delay of the next attempt, if
    there is one. If it is None, the schedule decides. `asks_again`: the function asked for that
    attempt.
    """

    execution_id: int
    lease_token: str
    status: Status
    reason: Reason | None
    finished_ms: int
    exit_code: int | None = None
    started_ms: int | None = None
    duration_ms: int | None = None
    error_code: str | None = None
    error_msg: str | None = None
    flags: tuple[str, ...] = ()
    result: str | None = None
    output: Output | None = None
    state: Mapping[str, str | None] | None = None
    progress: str | None = None
    retry_after_ms: int | None = None
    asks_again: bool = False


class Stall(NamedTuple):
    """A running run that printed nothing for its stall timeout, until `at_ms`."""

    execution_id: int
    at_ms: int


def error_code_of(outcome: Outcome) -> str | None:
    """A short code for why an attempt failed: `exit_3`, `signal_9`, `timeout`, or its own."""
    if outcome.error_code is not None:
        return outcome.error_code
    if outcome.reason in (Reason.TIMEOUT, Reason.STALLED):
        return outcome.reason.value
    if outcome.exit_code is not None and outcome.reason is Reason.EXIT:
        return f"exit_{outcome.exit_code}"
    if outcome.exit_code is not None and outcome.reason is Reason.SIGNAL:
        return f"signal_{outcome.exit_code - 128}"
    return None


def rows_affected_of(result: str | None) -> int | None:
    """How many rows a job says it changed: the whole number `rows_affected` of a result object."""
    if result is None or '"rows_affected"' not in result:
        return None
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):  # A bad result must not fail the end of a run.
        return None
    count = found.get("rows_affected") if isinstance(found, dict) else None
    if not isinstance(count, int) or isinstance(count, bool):
        return None
    return count if 0 <= count < 2**63 else None


# What is counted of runs.


class EndedRun(NamedTuple):
    """The values of an ended run that statistics count. Texts are the values of the choices."""

    schedule_id: int
    status: str
    reason: str | None
    cause: str
    attempt: int
    missed_count: int | None
    duration_ms: int | None
    late_ms: int | None  # from due to started; None if it never started
    written_ms: int = 0


class Histogram(NamedTuple):
    """The number of values up to each step, then of all, and their sum in ms."""

    counts: tuple[int, ...]
    sum_ms: int


class MeasuredSchedule(NamedTuple):
    """Measures of one schedule: counts since its creation, and instants in ms."""

    name: str
    success: int
    failed: int
    cancelled: int
    interrupted: int
    skipped: int
    last_run_ms: int | None  # its start, of runs that have ended
    last_success_ms: int | None  # its end
    next_run_ms: int | None
    is_broken: bool
    is_paused: bool
    is_vanished: bool


class OfSchedule(NamedTuple):
    """Further measures of one schedule: how long its runs took, how late they started, and how
    often a claim found the database locked."""

    duration: Histogram
    late: Histogram
    lock_failures: int


class Active(NamedTuple):
    """The number of runs that are running, wait for a place, and wait for a condition."""

    running: int
    queued: int
    owed: int


class Measures(NamedTuple):
    """The measures of a database at one instant. `by_schedule` is by name, if it was wanted."""

    schedules: Sequence[MeasuredSchedule]
    active: Active
    duration: Histogram
    late: Histogram
    lock_failures: int
    by_schedule: Mapping[str, OfSchedule] | None = None


def histogram_of(counts: Mapping[str, int], steps_ms: Sequence[int], *, sum_ms: int) -> Histogram:
    """Add up counts by step. Unknown steps count in the last one."""
    found, so_far = [], 0
    for step in steps_ms:
        so_far += counts.get(str(step), 0)
        found.append(so_far)
    return Histogram(counts=(*found, sum(counts.values())), sum_ms=sum_ms)


# The database stores counts by these steps, in milliseconds. A new step only splits later values.
DURATION_STEPS_MS = (
    *(10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
    *(14_400_000, 86_400_000),
)
LATE_STEPS_MS = (*(5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 60_000, 300_000, 3_600_000),)
