"""An attempt as its runner sees it: the claim, the output and the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum

from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import Cause, Reason, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies

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
