"""Telling what was done: one event for each transition."""

from __future__ import annotations

from edgecron.clock import Clock
from edgecron.engine.events import Event, EventKind, Report
from edgecron.model import Outcome
from edgecron.store.contract import Decided, Granted

_KINDS = {"running": EventKind.STARTED, "queued": EventKind.QUEUED, "skipped": EventKind.SKIPPED}


class Teller:
    """Makes events of what the engine did and hands them to whoever listens."""

    def __init__(self, report: Report, clock: Clock) -> None:
        self._report = report
        self._clock = clock

    def tell(
        self,
        kind: EventKind,
        execution_id: int | None = None,
        schedule: str | None = None,
        details: dict[str, object] | None = None,
    ) -> None:
        """Report one transition, as of now."""
        self._report(
            Event(
                at_ms=self._clock.now_ms(),
                kind=kind,
                execution_id=execution_id,
                schedule=schedule,
                details=details or {},
            )
        )

    def tell_decided(self, one: Decided, schedule: str | None) -> None:
        """What became of a fire when it was decided."""
        details: dict[str, object] = {"plan_ms": one.plan_ms}
        if one.reason is not None:
            details["reason"] = one.reason.value
        if one.missed_count is not None:
            details["missed_count"] = one.missed_count
        self.tell(_KINDS[one.status], one.execution_id, schedule, details)

    def tell_started(self, grant: Granted, schedule: str | None) -> None:
        """A queued row got its place."""
        details: dict[str, object] = {"plan_ms": grant.plan_ms}
        self.tell(EventKind.STARTED, grant.execution_id, schedule, details)

    def tell_end(self, outcome: Outcome, schedule: str | None, *, is_ours: bool) -> None:
        """A run's end; one that came for a row that was no longer ours changed nothing."""
        details: dict[str, object] = {"outcome": outcome.status.value}
        for name in ("reason", "exit_code", "duration_ms", "error_msg"):
            value = getattr(outcome, name)
            if value is not None:
                details[name] = str(value) if name == "reason" else value
        kind = EventKind.ENDED if is_ours else EventKind.LEASE_LOST
        self.tell(kind, outcome.execution_id, schedule, details)
