"""Events of runs as values, and what the log of a program says of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING, Literal, get_args

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.embedding.pool import engine_logger
from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import Cause, Status
from edgecron.model.claim import Stream
from edgecron.model.run import Execution

if TYPE_CHECKING:
    from edgecron.model.claim import Outcome


Kind = Literal["started", "finished", "skipped", "owed"]
# `finished`, and the status that it finished with.
Wanted = Literal[
    "started", "finished", "skipped", "owed", "success", "failed", "cancelled", "interrupted"
]

_KINDS: dict[EventKind, Kind] = {
    EventKind.STARTED: "started",
    EventKind.ENDED: "finished",
    EventKind.CANCELLED: "finished",
    EventKind.SKIPPED: "skipped",
}
_STATUSES: dict[Kind, Status] = {
    "started": Status.RUNNING,
    "finished": Status.CANCELLED,  # before it started; an end says what it was
    "skipped": Status.SKIPPED,
    "owed": Status.QUEUED,
}
_LEFT = frozenset(
    (EventKind.ENDED, EventKind.REQUEUED, EventKind.NOT_STARTED, EventKind.LEASE_LOST)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """What became of a run. `Scheduler.run(event.run_id)` is the run itself, as it is by then.

    `started`, and `finished` with its status, are said of each attempt; also of a run that was
    withdrawn before it started. `skipped` is said of what was decided not to run, or a range of
    that, and `owed` of what is due and waits for a condition.
    """

    kind: Kind
    at: datetime  # aware, in UTC, as all instants
    run_id: int
    schedule: str
    status: Status
    reason: str | None  # what refines the status, such as `timeout` or `overlap`
    cause: str  # why there is a run: `schedule`, `catch_up`, `manual`, `retry`, and others
    attempt: int
    plan_at: datetime
    waiting_for: str | None = None  # of what is owed: the condition
    wait_until: datetime | None = None  # likewise: when it is skipped
    missed_count: int | None = None  # of what was missed: how many times
    missed_from_at: datetime | None = None  # likewise, of several: the first
    missed_to_at: datetime | None = None
    exit_code: int | None = None  # of a command
    duration_ms: int | None = None
    error: str | None = None  # what went wrong, in a line
    dropped: int = 0  # so many events before this one were not told: who listens was too slow


class Origin(NamedTuple):
    """What an engine says of a run when it starts, and not again when it ends."""

    plan_ms: int
    cause: str
    attempt: int


class Told(NamedTuple):
    """What an engine said, before it is made a RunEvent."""

    event: Event
    kind: Kind
    origin: Origin | None  # None: it is on record alone


def kind_of(event: Event) -> Kind | None:
    """What it is to those who listen; None where it is nothing to them."""
    if event.kind is EventKind.QUEUED and "condition" in event.details:
        return "owed"
    return _KINDS.get(event.kind)


class Origins:
    """The origins of what runs, as far as its start was seen. For the engine's thread."""

    def __init__(self) -> None:
        self._known: dict[int, Origin] = {}

    def note(self, event: Event) -> Origin | None:
        """The origin of the run that an event is about."""
        if event.execution_id is None:
            return None
        if event.kind in _LEFT:
            return self._known.pop(event.execution_id, None)
        plan_ms = event.details.get("plan_ms")
        if not isinstance(plan_ms, int):
            return None
        attempt = event.details.get("attempt", 1)
        origin = Origin(
            plan_ms=plan_ms,
            cause=str(event.details.get("cause", Cause.SCHEDULE.value)),
            attempt=attempt if isinstance(attempt, int) else 1,
        )
        if event.kind is EventKind.STARTED:
            self._known[event.execution_id] = origin
        return origin


class Wants(NamedTuple):
    """What somebody wants to be told of: kinds and statuses, of one schedule or of all."""

    names: frozenset[str]  # none: everything
    schedule: str | None

    def includes(self, told: Told) -> bool:
        if self.schedule is not None and told.event.schedule != self.schedule:
            return False
        if not self.names or told.kind in self.names:
            return True
        return told.kind == "finished" and status_of(told) in self.names


def wants_of(names: Collection[str], schedule: str | None) -> Wants:
    """Raises InvalidInput for what there is not."""
    known = get_args(Wanted)
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"event {name!r:.60} is not known", hint=f"expected some of {', '.join(known)}"
            )
    return Wants(frozenset(names), schedule)


def status_of(told: Told) -> Status:
    """The status of the run afterwards."""
    outcome = told.event.details.get("outcome")
    return _STATUSES[told.kind] if outcome is None else Status(str(outcome))


def run_event(told: Told, find: Callable[[int], Execution], *, dropped: int) -> RunEvent | None:
    """What is told. `find` looks at the record, for what the engine did not say.

    None where that is not there any more.
    """
    event = told.event
    origin, schedule = told.origin, event.schedule
    if event.execution_id is None:
        return None
    if origin is None or schedule is None:
        try:
            row = find(event.execution_id)
        except NotFound:
            return None
        schedule = row.schedule
        origin = Origin(plan_ms=to_ms(row.plan_at), cause=row.cause.value, attempt=row.attempt)
    return RunEvent(
        kind=told.kind,
        at=from_ms(event.at_ms),
        run_id=event.execution_id,
        schedule=schedule,
        status=status_of(told),
        reason=_text(event, "reason"),
        cause=origin.cause,
        attempt=origin.attempt,
        plan_at=from_ms(origin.plan_ms),
        waiting_for=_text(event, "condition"),
        wait_until=_instant(event, "wait_until_ms"),
        missed_count=_number(event, "missed_count"),
        missed_from_at=_instant(event, "missed_from_ms"),
        missed_to_at=_instant(event, "missed_to_ms"),
        exit_code=_number(event, "exit_code"),
        duration_ms=_number(event, "duration_ms"),
        error=_text(event, "error_msg"),
        dropped=dropped,
    )


def _text(event: Event, name: str) -> str | None:
    value = event.details.get(name)
    return None if value is None else str(value)


def _number(event: Event, name: str) -> int | None:
    value = event.details.get(name)
    return value if isinstance(value, int) else None


def _instant(event: Event, name: str) -> datetime | None:
    value = _number(event, name)
    return None if value is None else from_ms(value)


_MOST_TRACE_BYTES = 16 * 1024  # the end of what a process printed on stderr
_WHY_LOST = {
    "result_invalid": "it is not JSON",
    "result_too_big": "it is longer than 64 KiB as JSON",
}


def why_lost(flags: tuple[str, ...]) -> str | None:
    """Why what a run returned was not kept; None if nothing was lost."""
    return next((why for flag, why in _WHY_LOST.items() if flag in flags), None)


def log_end(schedule: str, outcome: Outcome) -> None:
    """Log the end of a job of the program if it failed or if its result was lost."""
    if outcome.status is Status.FAILED:
        reason = "" if outcome.reason is None else outcome.reason.value
        error = outcome.error_msg or reason
        trace = _trace_of(outcome)
        engine_logger().error(
            "job %s failed (run %d, %s): %s%s",
            schedule,
            outcome.execution_id,
            reason,
            error,
            f"\n{trace}" if trace else "",
        )
    why = why_lost(outcome.flags)
    if why is not None and outcome.status is Status.SUCCESS:
        engine_logger().warning(
            "job %s succeeded (run %d), but what it returned was not kept: %s",
            schedule,
            outcome.execution_id,
            why,
        )


def _trace_of(outcome: Outcome) -> str:
    if outcome.output is None:
        return ""
    printed = b"".join(
        chunk.content for chunk in outcome.output.chunks if chunk.stream is Stream.STDERR
    )
    return printed[-_MOST_TRACE_BYTES:].decode("utf-8", "replace").rstrip()
