"""Telling what was done: one event for each transition."""

from __future__ import annotations

from collections.abc import Callable

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseUnusable
from edgecron.engine.catalogue import Catalogue
from edgecron.engine.events import Event, EventKind, Report
from edgecron.model.choices import Cause, Status
from edgecron.model.claim import Outcome
from edgecron.store.contract import Broken, Decided, Ended, Granted, Requeued, Subject

_KINDS = {
    Status.RUNNING: EventKind.STARTED,
    Status.QUEUED: EventKind.QUEUED,
    Status.SKIPPED: EventKind.SKIPPED,
    Status.CANCELLED: EventKind.CANCELLED,
}


FindSubject = Callable[[int | None, str | None], Subject | None]


class Teller:
    """Makes events of what the engine did and hands them to whoever listens.

    `find_subject` finds the schedule of a run's number or of a name; None: no event has a subject.
    """

    def __init__(
        self,
        report: Report,
        clock: Clock,
        catalogue: Catalogue,
        find_subject: FindSubject | None = None,
    ) -> None:
        self._report = report
        self._clock = clock
        self._catalogue = catalogue
        self._find_subject = find_subject

    def tell(
        self,
        kind: EventKind,
        execution_id: int | None = None,
        schedule: str | None = None,
        details: dict[str, object] | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """Report one transition, as of now."""
        self._report(
            Event(
                at_ms=self._clock.now_ms(),
                kind=kind,
                execution_id=execution_id,
                schedule=schedule,
                details=details or {},
                outcome=outcome,
                subject=self._subject_of(execution_id, schedule),
            )
        )

    def tell_decided(self, one: Decided) -> None:
        """What became of a fire when it was decided, or withdrawn."""
        self.tell(_KINDS[one.status], one.execution_id, self._schedule_of(one), _details_of(one))

    def tell_started(self, grant: Granted, schedule: str | None) -> None:
        """A queued row got its place."""
        details: dict[str, object] = {"plan_ms": grant.plan_ms}
        details |= _origin(grant.cause, grant.attempt)
        self.tell(EventKind.STARTED, grant.execution_id, schedule, details)

    def tell_requeued(self, requeued: Requeued) -> None:
        """A row that was claimed and never started is queued again, or withdrawn."""
        one = requeued.decided
        if one.status is Status.QUEUED:
            details = {"reason": "never_started", **_details_of(one)}
            self.tell(EventKind.REQUEUED, one.execution_id, self._schedule_of(one), details)
        else:
            self.tell_decided(one)
        self._tell_following(requeued.ended)

    def tell_end(self, outcome: Outcome, schedule: str | None, ended: Ended | None) -> None:
        """A run's end and what was decided with it; one that came for a row that was no longer
        ours changed nothing."""
        details: dict[str, object] = {"outcome": outcome.status.value}
        # As it is on record: a run that was ended for a newer one was not asked for by a person.
        reason = outcome.reason if ended is None else ended.reason
        if reason is not None:
            details["reason"] = reason.value
        for name in ("exit_code", "duration_ms", "error_msg"):
            value = getattr(outcome, name)
            if value is not None:
                details[name] = value
        kind = EventKind.LEASE_LOST if ended is None else EventKind.ENDED
        self.tell(kind, outcome.execution_id, schedule, details, outcome)
        self._tell_following(ended)

    def tell_broken(self, one: Broken) -> None:
        """A schedule was found to hold what can't be read."""
        self.tell(EventKind.BROKEN, None, one.schedule, {"error": one.error})

    def _tell_following(self, ended: Ended | None) -> None:
        for one in () if ended is None else ended.decided:
            self.tell_decided(one)
        for broken in () if ended is None else ended.broken:
            self.tell_broken(broken)

    def _subject_of(self, execution_id: int | None, schedule: str | None) -> Subject | None:
        if self._find_subject is None or (execution_id is None and schedule is None):
            return None
        try:
            return self._find_subject(execution_id, schedule)
        except DatabaseUnusable:
            # The event itself must not be lost. The next step of the engine reports the database.
            return None

    def _schedule_of(self, one: Decided) -> str | None:
        entry = self._catalogue.find(one.schedule_id, one.revision)
        return None if entry is None else entry.name


def _details_of(one: Decided) -> dict[str, object]:
    details: dict[str, object] = {"plan_ms": one.plan_ms}
    if one.reason is not None:
        details["reason"] = one.reason.value
    details |= _origin(one.cause, one.attempt)
    if one.due_ms is not None and one.due_ms != one.plan_ms:
        details["due_ms"] = one.due_ms
    if one.waits_for is not None:
        details["waits_for"] = one.waits_for.value
    if one.condition is not None:
        details |= {"condition": one.condition, "wait_until_ms": one.wait_until_ms}
    if one.error_msg is not None:
        details["error_msg"] = one.error_msg
    if one.missed_count is not None:
        details["missed_count"] = one.missed_count
        if one.missed_from_ms != one.missed_to_ms:
            details |= {"missed_from_ms": one.missed_from_ms, "missed_to_ms": one.missed_to_ms}
    return details


def _origin(cause: Cause, attempt: int) -> dict[str, object]:
    """Why there is a run, where it is not simply its time."""
    details: dict[str, object] = {} if cause is Cause.SCHEDULE else {"cause": cause.value}
    return details if attempt == 1 else details | {"attempt": attempt}
