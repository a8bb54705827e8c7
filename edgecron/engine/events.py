"""What an engine did, as values: one for each transition, for logs and for who listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple
from edgecron.model.claim import Outcome

if TYPE_CHECKING:
    from edgecron.store.contract import Subject


class EventKind(StrEnum):
    ENGINE_STARTED = "engine_started"
    ENGINE_STOPPING = "engine_stopping"  # while runs live: what becomes of them
    ENGINE_STOPPED = "engine_stopped"
    STARTED = "started"  # an execution went to running
    QUEUED = "queued"  # decided, and waits for a place
    SKIPPED = "skipped"  # decided not to run
    CANCELLED = "cancelled"  # withdrawn while it was queued
    ENDED = "ended"  # a running execution reached its end
    NOT_STARTED = "not_started"  # could not be started safely, and will be queued again
    REQUEUED = "requeued"  # claimed but never started, so queued again
    ADOPTED = "adopted"  # it runs on, and answers to this engine now
    LEASE_LOST = "lease_lost"  # an end came for a row that was no longer ours
    BROKEN = "broken"  # a stored trigger can't be read
    # Of the database, or no supervisor can be started beside it: nothing runs until it heals.
    DATABASE_TROUBLE = "database_trouble"
    DATABASE_WELL = "database_well"
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
    PRUNED = "pruned"  # a pass of retention has ended, which removed so much
    # Of clocks and zones.
    RESUMED = "resumed"  # the machine was suspended for `asleep_s`
    CLOCK_SET = "clock_set"  # by `by_s`, forward or back
    CLOCK_UNTRUSTED = "clock_untrusted"  # everything planned is held
    CLOCK_WAIT_OVER = "clock_wait_over"  # what counts elapsed time is not held any more
    CLOCK_TRUSTED = "clock_trusted"
    LOCAL_ZONE_CHANGED = "local_zone_changed"
    TZDATA_CHANGED = "tzdata_changed"
    RETIMED = "retimed"  # a next time was computed anew, because of one of these


class Event(NamedTuple):
    """One transition. `details` holds further values, named as in SQL; `outcome` is of an end.

    `subject` is None unless the engine was asked for it.
    """

    at_ms: int
    kind: EventKind
    execution_id: int | None = None
    schedule: str | None = None
    details: Mapping[str, object] = MappingProxyType({})
    outcome: Outcome | None = None
    subject: Subject | None = None


Report = Callable[[Event], None]
