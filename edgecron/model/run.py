"""A run: one row of history."""

from __future__ import annotations

from datetime import datetime

from edgecron.base.values import dataclass
from edgecron.model.choices import Cause, Reason, Status
from edgecron.model.reports import Progress


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
