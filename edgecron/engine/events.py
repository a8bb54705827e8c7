"""Report what an engine did: one event for each transition, for logs and listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from edgecron.base.errors import DatabaseUnusable
from edgecron.base.values import NamedTuple
from edgecron.model.choices import Cause, Status
from edgecron.model.run import Outcome

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.store.contract import Broken, Decided, Ended, Granted, Requeued, Subject


class EventKind(StrEnum):
    ENGINE_STARTED = "engine_started"
    ENGINE_STOPPING = "engine_stopping"  # while runs live: what becomes of them
    ENGINE_STOPPED = "engine_stopped"
    STARTED = "started"  # an execution went to running
    QUEUED = "queued"  # decided, and waits for a place
    SKIPPED = "skipped"  # decided not to run
    CANCELLED = "cancelled"  # withdrawn while it was queued
    STALLED = "stalled"  # a running execution printed nothing for its stall timeout
    ENDED = "ended"  # a running execution reached its end
    NOT_STARTED = "not_started"  # could not be started safely, and will be queued again
    REQUEUED = "requeued"  # claimed but never started, so queued again
    SUSPENDED = "suspended"  # its processes are stopped: its --while condition was lost
    CONTINUED = "continued"  # its condition is true again, and its processes run
    ADOPTED = "adopted"  # it runs on, and answers to this engine now
    LEASE_LOST = "lease_lost"  # an end came for a row that was no longer ours
    BROKEN = "broken"  # a stored trigger can't be read
    # Of the database, or no supervisor can be started beside it: nothing runs until it heals.
    DATABASE_TROUBLE = "database_trouble"
    DATABASE_WELL = "database_well"
    POLLING = "polling"  # no notices come from the server: the engine looks for changes
    LISTENING = "listening"  # they come again
    TAKEN_OVER = "taken_over"  # the database no longer has runs of this engine
    DATABASE_COPIED = "database_copied"  # a process runs a copy of it: each schedule fires in both
    STATE_RESTORED = "state_restored"  # the state folder was deleted, and made anew
    SUPERVISOR_DIED = "supervisor_died"
    SUPERVISOR_TROUBLE = "supervisor_trouble"  # none can be started: commands wait, callables run
    SUPERVISOR_WELL = "supervisor_well"
    # A daemon applied a schedule file, at its start or on HUP.
    SCHEDULE_CREATED = "schedule_created"
    SCHEDULE_CHANGED = "schedule_changed"
    SCHEDULES_APPLIED = "schedules_applied"  # the file is done: so many created, changed, unchanged
    SCHEDULES_REFUSED = "schedules_refused"  # something is wrong with a file: nothing changed
    NOTICES_TROUBLE = "notices_trouble"  # the process that sends notices can't be started
    CALENDARS_TROUBLE = "calendars_trouble"  # the process that reads calendars can't be started
    ALARM_TROUBLE = "alarm_trouble"  # the machine can't be told to wake for a run
    PRUNED = "pruned"  # a pass of retention has ended, which removed so much
    # Of clocks and zones.
    RESUMED = "resumed"  # the machine was suspended for `asleep_s`
    CLOCK_SET = "clock_set"  # by `by_s`, forward or back
    CLOCK_UNTRUSTED = "clock_untrusted"  # everything planned is held
    CLOCK_WAIT_OVER = "clock_wait_over"  # what counts elapsed time is not held any more
    CLOCK_TRUSTED = "clock_trusted"
    LOCAL_ZONE_CHANGED = "local_zone_changed"
    TZDATA_CHANGED = "tzdata_changed"
    CHECKING_TIMES = "checking_times"  # because of one of these, which takes more than a second
    TIMES_CHECKED = "times_checked"  # that has ended, with so many `changed`
    RETIMED = "retimed"  # a next time was computed anew, because of one of these


class Event(NamedTuple):
    """One transition.

    `details` holds further values; its keys are those of the API, with `_ms` instead of `_at` for
    instants. `outcome` is set for the end of a run.

    `subject` is None unless the engine's settings ask for the subject.
    """

    at_ms: int
    kind: EventKind
    execution_id: int | None = None
    schedule: str | None = None
    details: Mapping[str, object] = MappingProxyType({})
    outcome: Outcome | None = None
    subject: Subject | None = None


Report = Callable[[Event], None]


_KINDS = {
    Status.QUEUED: EventKind.QUEUED,
    Status.SKIPPED: EventKind.SKIPPED,
    Status.CANCELLED: EventKind.CANCELLED,
}


class ScheduleNames(Protocol):
    """Where a reporter finds the name of a schedule."""

    def find_name(self, schedule_id: int, revision: int) -> str | None:
        """The name of a schedule at a revision, None if that can't be read."""


class EventReporter:
    """Make events of what the engine did, and hand them to `report`.

    `find_subject` finds the schedule of a run or of a name; None: events have no subject.
    """

    def __init__(
        self,
        report: Report,
        clock: Clock,
        schedules: ScheduleNames,
        find_subject: Callable[[int | None, str | None], Subject | None] | None = None,
    ) -> None:
        self._report = report
        self._clock = clock
        self._schedules = schedules
        self._find_subject = find_subject

    def report(
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
                self._clock.now_ms(),
                kind,
                execution_id,
                schedule,
                details or {},
                outcome,
                None if self._find_subject is None else self._subject_of(execution_id, schedule),
            )
        )

    def report_decided(self, one: Decided) -> None:
        """Report what a fire became that was decided and did not start, or was cancelled."""
        self.report(_KINDS[one.status], one.execution_id, self._schedule_of(one), _details_of(one))

    def report_started(self, grant: Granted, schedule: str | None) -> None:
        """Report that a run got its place."""
        details = _origin_of(grant)
        self.report(EventKind.STARTED, grant.execution_id, schedule, details)

    def report_requeued(self, requeued: Requeued) -> None:
        """Report that a run which was claimed but never started is queued again, or cancelled."""
        one = requeued.decided
        if one.status is Status.QUEUED:
            details = {"reason": "never_started", **_details_of(one)}
            self.report(EventKind.REQUEUED, one.execution_id, self._schedule_of(one), details)
        else:
            self.report_decided(one)
        if requeued.ended is not None:
            self._report_following(requeued.ended)

    def report_end(self, outcome: Outcome, schedule: str | None, ended: Ended | None) -> None:
        """Report a run's end, and what was decided with it.

        An end for a row that was no longer ours (`ended` is None) changed nothing.
        """
        details: dict[str, object] = {"status": outcome.status.value}
        # As recorded: a run that was ended for a newer one was not cancelled by a person.
        reason = outcome.reason if ended is None else ended.reason
        if reason is not None:
            details["reason"] = reason.value
        if outcome.exit_code is not None:
            details["exit_code"] = outcome.exit_code
        if outcome.duration_ms is not None:
            details["duration_ms"] = outcome.duration_ms
        if outcome.error_msg is not None:
            details["error_msg"] = outcome.error_msg
        kind = EventKind.LEASE_LOST if ended is None else EventKind.ENDED
        self.report(kind, outcome.execution_id, schedule, details, outcome)
        if ended is not None:
            self._report_following(ended)

    def _report_following(self, ended: Ended) -> None:
        for one in ended.decided:
            self.report_decided(one)
        for broken in ended.broken:
            self.report_broken(broken)

    def report_broken(self, one: Broken) -> None:
        """Report a schedule that can't be read."""
        self.report(EventKind.BROKEN, None, one.schedule, {"error_msg": one.error})

    def _subject_of(self, execution_id: int | None, schedule: str | None) -> Subject | None:
        if self._find_subject is None or (execution_id is None and schedule is None):
            return None
        try:
            return self._find_subject(execution_id, schedule)
        except DatabaseUnusable:
            # The event itself must not be lost. The next step of the engine reports the database.
            return None

    def _schedule_of(self, one: Decided) -> str | None:
        return self._schedules.find_name(one.schedule_id, one.revision)


def _details_of(one: Decided) -> dict[str, object]:
    details = _origin_of(one)
    if one.reason is not None:
        details["reason"] = one.reason.value
    if one.waits_for is not None:
        details["waits_for"] = one.waits_for.value
    if one.condition is not None:
        details |= {"waiting_for": one.condition, "wait_until_ms": one.wait_until_ms}
    if one.error_msg is not None:
        details["error_msg"] = one.error_msg
    if one.missed_count is not None:
        details["missed_count"] = one.missed_count
        if one.missed_from_ms != one.missed_to_ms:
            details |= {"missed_from_ms": one.missed_from_ms, "missed_to_ms": one.missed_to_ms}
    return details


def _origin_of(one: Decided | Granted) -> dict[str, object]:
    """When and why there is a run, as far as that is more than its plan time."""
    details: dict[str, object] = {"plan_ms": one.plan_ms}
    if one.cause is not Cause.SCHEDULE:
        details["cause"] = one.cause.value
    if one.attempt != 1:
        details["attempt"] = one.attempt
    if one.due_ms is not None and one.due_ms != one.plan_ms:
        details["due_ms"] = one.due_ms
    return details
