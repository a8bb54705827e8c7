"""Events of runs as values, and log lines about the ends of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Literal, Protocol, get_args

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.embedding.concurrency import engine_logger
from edgecron.engine.events import Event, EventKind
from edgecron.model.choices import Cause, Status
from edgecron.model.run import Execution, Stream

Kind = Literal["started", "finished", "skipped", "owed"]
# A kind, or the status of a finished run.
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
    "finished": Status.CANCELLED,  # before it started; an end has its own status
    "skipped": Status.SKIPPED,
    "owed": Status.QUEUED,
}
_LEFT = frozenset(
    (EventKind.ENDED, EventKind.REQUEUED, EventKind.NOT_STARTED, EventKind.LEASE_LOST)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event of a run. `Scheduler.run(event.run_id)` reads the run as it is now.

    - `started`: an attempt started.
    - `finished`: an attempt ended, with its status, or a run was cancelled before its start.
    - `skipped`: a run was skipped, by its function too, or a range of missed runs.
    - `owed`: a run is due and waits for a condition.
    """

    kind: Kind
    at: datetime  # aware, in UTC, as all instants
    run_id: int
    schedule: str
    status: Status
    reason: str | None  # what refines the status, such as `timeout` or `overlap`
    cause: str  # why the run exists: `schedule`, `catch_up`, `manual`, `retry`, and others
    attempt: int
    plan_at: datetime
    waiting_for: str | None = None  # the condition of an owed run
    wait_until: datetime | None = None  # when an owed run is skipped
    missed_count: int | None = None  # how many times were missed
    missed_from_at: datetime | None = None  # the first of several missed times
    missed_to_at: datetime | None = None  # the last of them
    exit_code: int | None = None  # of a command
    duration_ms: int | None = None
    error: str | None = None  # the error in one line
    dropped: int = 0  # events lost before this one: the subscriber was too slow


class Origin(NamedTuple):
    """Facts of a run that the engine reports with its start, but not with its end."""

    plan_ms: int
    cause: str
    attempt: int


class PendingEvent(NamedTuple):
    """An engine's event of a run, before it becomes a RunEvent."""

    event: Event
    kind: Kind
    origin: Origin | None  # None: read it from the database


class Origins:
    """Make pending events of an engine's events, on the engine's thread.

    It knows the origin of each active run whose start it has seen.
    """

    def __init__(self) -> None:
        self._known: dict[int, Origin] = {}

    def pending_event(self, event: Event) -> PendingEvent | None:
        """Return what subscribers get of an event; None if it is none of theirs."""
        origin = self._origin_of(event)
        if event.kind is EventKind.QUEUED and "waiting_for" in event.details:
            return PendingEvent(event=event, kind="owed", origin=origin)
        kind = _KINDS.get(event.kind)
        if kind == "finished" and event.details.get("status") == Status.SKIPPED:
            kind = "skipped"  # by its function
        return None if kind is None else PendingEvent(event=event, kind=kind, origin=origin)

    def _origin_of(self, event: Event) -> Origin | None:
        if event.execution_id is None:
            return None
        if event.kind in _LEFT:
            return self._known.pop(event.execution_id, None)
        plan_ms = _number(event, "plan_ms")
        if plan_ms is None:
            return None
        origin = Origin(
            plan_ms=plan_ms,
            cause=_text(event, "cause") or Cause.SCHEDULE.value,
            attempt=_number(event, "attempt") or 1,
        )
        if event.kind is EventKind.STARTED:
            self._known[event.execution_id] = origin
        return origin


class Wants(NamedTuple):
    """The events that a subscriber wants: kinds and statuses, of one schedule or of all."""

    names: frozenset[str]  # empty: all
    schedule: str | None

    def includes(self, pending: PendingEvent) -> bool:
        if self.schedule is not None and pending.event.schedule != self.schedule:
            return False
        if not self.names or pending.kind in self.names:
            return True
        return pending.kind == "finished" and status_of(pending) in self.names


class Named(Protocol):
    """A schedule of the program, such as a Job."""

    name: str


def name_of(job: Named | str) -> str:
    """Return the name of a job or schedule. Raises InvalidInput for another value."""
    name = job if isinstance(job, str) else getattr(job, "name", None)
    if not name or not isinstance(name, str):
        raise InvalidInput(
            f"job is {job!r:.60}, expected a job or the name of a schedule",
            hint="such as job='nightly'",
        )
    return name


def wants_of(names: Collection[str], job: Named | str | None) -> Wants:
    """Check what a subscriber wants. Raises InvalidInput for an unknown kind."""
    known = get_args(Wanted)
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"event {name!r:.60} is unknown", hint=f"expected some of {', '.join(known)}"
            )
    return Wants(frozenset(names), None if job is None else name_of(job))


def status_of(pending: PendingEvent) -> Status:
    """Return the status of the run after the event."""
    status = _text(pending.event, "status")
    return _STATUSES[pending.kind] if status is None else Status(status)


def run_event(
    pending: PendingEvent, find: Callable[[int], Execution], *, dropped: int
) -> RunEvent | None:
    """Make the event that a subscriber gets. `find` reads the run for facts that are missing.

    None if that run no longer exists.
    """
    event = pending.event
    origin, schedule = pending.origin, event.schedule
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
        kind=pending.kind,
        at=from_ms(event.at_ms),
        run_id=event.execution_id,
        schedule=schedule,
        status=status_of(pending),
        reason=_text(event, "reason"),
        cause=origin.cause,
        attempt=origin.attempt,
        plan_at=from_ms(origin.plan_ms),
        waiting_for=_text(event, "waiting_for"),
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
    """Return why the return value of a run was not kept; None if nothing was lost."""
    return next((why for flag, why in _WHY_LOST.items() if flag in flags), None)


def log_end(event: Event) -> None:
    """Log the end of a job of the program if it failed or if its return value was lost.

    It is not an error if the function raised Retry and another attempt follows.
    """
    schedule, outcome = event.schedule, event.outcome
    if schedule is None or outcome is None:
        return
    if outcome.status is Status.FAILED and outcome.asks_again:
        engine_logger().info(
            "job %s asks for another attempt (run %d): %s",
            schedule,
            outcome.execution_id,
            outcome.error_msg,
        )
    elif outcome.status is Status.FAILED:
        reason = "" if outcome.reason is None else outcome.reason.value
        printed = b"".join(
            chunk.content
            for chunk in (outcome.output.chunks if outcome.output is not None else ())
            if chunk.stream is Stream.STDERR
        )
        trace = printed[-_MOST_TRACE_BYTES:].decode("utf-8", "replace").rstrip()
        engine_logger().error(
            "job %s failed (run %d, %s): %s%s",
            schedule,
            outcome.execution_id,
            reason,
            outcome.error_msg or reason,
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
