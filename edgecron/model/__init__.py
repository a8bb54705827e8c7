"""Schedule, Execution, policies and statuses: frozen values, checked once, at birth.

`*_at` is an aware UTC datetime; `*_ms` is milliseconds, and where the name holds an instant
(`plan_ms`, `due_ms`, `now_ms`) milliseconds since 1970, which the hot paths use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from edgecron.errors import InvalidInput
from edgecron.model.choices import (
    ACTIVE as ACTIVE,
)
from edgecron.model.choices import (
    COMMAND_QUEUE as COMMAND_QUEUE,
)
from edgecron.model.choices import (
    COVERS_MARK as COVERS_MARK,
)
from edgecron.model.choices import (
    DAY_MS as DAY_MS,
)
from edgecron.model.choices import (
    GLOBAL_SCOPE as GLOBAL_SCOPE,
)
from edgecron.model.choices import (
    MAX_CATCH_UP as MAX_CATCH_UP,
)
from edgecron.model.choices import (
    MINUTE_MS as MINUTE_MS,
)
from edgecron.model.choices import (
    MISSED_MARK as MISSED_MARK,
)
from edgecron.model.choices import (
    ON_TIME_MS as ON_TIME_MS,
)
from edgecron.model.choices import (
    REPLACED_MARK as REPLACED_MARK,
)
from edgecron.model.choices import (
    CatchUp as CatchUp,
)
from edgecron.model.choices import (
    Cause as Cause,
)
from edgecron.model.choices import (
    JobKind as JobKind,
)
from edgecron.model.choices import (
    MissedBy as MissedBy,
)
from edgecron.model.choices import (
    OnInterrupt as OnInterrupt,
)
from edgecron.model.choices import (
    OnShutdown as OnShutdown,
)
from edgecron.model.choices import (
    Overlap as Overlap,
)
from edgecron.model.choices import (
    Priority as Priority,
)
from edgecron.model.choices import (
    Reason as Reason,
)
from edgecron.model.choices import (
    Status as Status,
)
from edgecron.model.choices import (
    WaitsFor as WaitsFor,
)
from edgecron.model.options import Job as Job
from edgecron.model.options import Policies as Policies
from edgecron.queues import is_taken, offer_of
from edgecron.reporting import Progress
from edgecron.validity import check_aware, check_name, check_range, check_text
from edgecron.values import dataclass, field

_MOST = 1_000_000  # of anything that is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """What a person says of a schedule: all that can be written, nothing that is kept about it.

    `triggers` are texts as `parse_trigger` reads them; `timezone` is an IANA name, 'local', or
    None for UTC; `scopes` are (kind, id) pairs.
    """

    name: str
    triggers: tuple[str, ...]
    job: Job
    timezone: str | None = None
    queue: str = COMMAND_QUEUE
    group: str | None = None
    description: str | None = None
    policies: Policies = field(default_factory=Policies)
    scopes: tuple[tuple[str, str], ...] = (GLOBAL_SCOPE,)
    from_at: datetime | None = None
    until_at: datetime | None = None
    max_runs: int | None = None

    def __post_init__(self) -> None:
        check_name(self.name, what="schedule name")
        if self.group is not None:
            check_name(self.group, what="group name")
        if not self.scopes or len(set(self.scopes)) != len(self.scopes):
            raise InvalidInput("scopes are empty or named twice, expected distinct kind:id pairs")
        for scope_kind, scope_id in self.scopes:
            check_name(scope_kind, what="scope kind")
            if scope_id:
                check_text(scope_id, what="scope id", most=128)
        if self.description is not None:
            check_text(self.description, what="description", most=4096, lines=True)
        check_text(self.queue, what="queue", most=140)
        check_range("max-runs", self.max_runs, 1, _MOST)
        check_aware("from", self.from_at)
        check_aware("until", self.until_at)
        if self.from_at and self.until_at and self.until_at <= self.from_at:
            raise InvalidInput("until is not later than from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A schedule that an import of a crontab made, and what its line said then, as an imprint.

    Of one that an older version imported, `source` and `imprint` are None, and `spec` is what the
    line said. The schedule may be removed by now.
    """

    schedule_id: int
    source: str | None
    imprint: str | None
    spec: ScheduleSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule as it is kept: the specification and what is known of its past and future."""

    id: int
    spec: ScheduleSpec
    enabled: bool
    paused_until: datetime | None
    revision: int
    next_plan_at: datetime | None
    next_run_at: datetime | None
    next_source: str | None
    decided_until: datetime
    trigger_error: str | None
    last_execution_id: int | None
    last_status: Status | None
    last_run_at: datetime | None
    last_success_at: datetime | None
    last_error: str | None
    run_count: int
    planned_count: int  # fires of its triggers that were to run, which max_runs bounds
    group_max_running: int | None  # of its group, all schedules together; None is no limit
    counts: Mapping[Status, int]
    created_at: datetime
    updated_at: datetime
    pruned_until: datetime | None  # rows of plan times up to it were removed by retention
    vanished_at: datetime | None  # since then no engine of its program offers it: nobody runs it
    is_done: bool = False  # it has no next time, and none is to come
    is_active: bool = False  # it has no next time, and a run of it is queued or running
    gone_upstreams: tuple[str, ...] = ()  # it comes after these, which are not there any more

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def offer(self) -> str:
        """What an engine has to offer to run it."""
        job = self.spec.job
        return offer_of(job.kind, job.argv[0], schedule=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A row of history: one attempt of one fire, or a range of fires that did not run."""

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
    payload: str | None  # its own; None where it has its schedule's
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
    progress: Progress | None  # what it said of itself last
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine as the database knows it; whether it is alive is what its kernel lock says."""

    id: int
    key: str
    pid: int
    boot_id: str
    queues: tuple[str, ...]
    offers: tuple[str, ...] | None  # what it takes of a program's queue; None is whatever is there
    version: str
    supervisor_id: str | None  # the one that it claims for
    started_at: datetime
    stopped_at: datetime | None
    max_running: int | None = None  # None if its version did not record it

    def takes(self, queue: str, offer: str | None) -> bool:
        """Whether it looks at a queue, and offers this; None is whatever may be there."""
        if offer is None:
            return queue in self.queues
        return is_taken(offer, queue, queues=self.queues, offers=self.offers)
