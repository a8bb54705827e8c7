"""Values that pass between an engine and its store; `protocol` declares the calls."""

from __future__ import annotations

from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import Cause, Overlap, Reason, Status, WaitsFor
from edgecron.model.claim import Upstream
from edgecron.model.engine import Offers
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Fire, FirePlan

BEAT_MS = 600_000  # how often an engine renews the heartbeat of its runs: flash is not for writing
STALE_MS = 3 * BEAT_MS  # after the last heartbeat, for readers that can't ask the kernel


class Seat(NamedTuple):
    """Who claims: the engine, the supervisor that will run it, and how much it runs at once.

    `max_starts` bounds how many it starts in this transaction; None is no bound. `only` is the
    one queued execution that it takes, where it is there for nothing else. With `offers` it takes
    of a program's queue only these.
    """

    engine_id: int
    supervisor_id: str
    queues: tuple[str, ...]
    max_running: int
    max_starts: int | None = None
    only: int | None = None
    offers: Offers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchedule:
    """A schedule as an engine needs it: `compiled` is a JSON array of expanded triggers."""

    id: int
    revision: int
    spec: ScheduleSpec
    compiled: str


class Decision(NamedTuple):
    """A plan for one due schedule, with what the transaction needs to carry it out."""

    plan: FirePlan
    spec: ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BootDecision:
    """An `on boot` schedule that this boot has not decided yet, and its fire."""

    schedule_id: int
    revision: int
    fire: Fire
    spec: ScheduleSpec


class Granted(NamedTuple):
    """A row that went to `running` for us, with its token; its own payload, where it has one."""

    execution_id: int
    lease_token: str
    schedule_id: int
    revision: int
    plan_ms: int
    due_ms: int
    fire_key: str
    cause: Cause
    attempt: int
    max_attempts: int
    scope_kind: str
    scope_id: str
    payload: str | None = None
    fence: int = 0
    upstream: Upstream | None = None


class Decided(NamedTuple):
    """One row that a transaction wrote, for the log: `execution_id` and what became of the fire.

    `waits_for` says what keeps a queued one that is due: a `condition`, until `wait_until_ms`, or
    others. `missed_*` are of a range that did not run, or by which the row of one has grown.
    """

    execution_id: int
    schedule_id: int
    revision: int
    plan_ms: int
    status: Status
    reason: Reason | None = None
    cause: Cause = Cause.SCHEDULE
    due_ms: int | None = None
    attempt: int = 1
    waits_for: WaitsFor | None = None
    condition: str | None = None
    wait_until_ms: int | None = None
    error_msg: str | None = None
    missed_from_ms: int | None = None
    missed_to_ms: int | None = None
    missed_count: int | None = None


class Broken(NamedTuple):
    """A schedule that was found to hold what can't be read, and why."""

    schedule: str
    error: str


class Ended(NamedTuple):
    """A running row that was ended: why, as it is on record, and what was decided with it.

    `has_replaced`: among that are fires that run in the place of others, whose end was asked for.
    `broken` are schedules that were found so: a follower has no fire then.
    """

    reason: Reason | None
    decided: tuple[Decided, ...] = ()
    has_replaced: bool = False
    broken: tuple[Broken, ...] = ()


class Requeued(NamedTuple):
    """A row that was claimed and never started: what became of it.

    `ended` is what followed, if its fire was cancelled instead of queued again.
    """

    decided: Decided
    ended: Ended | None = None


class ClaimBatch(NamedTuple):
    """What a claim transaction did. `advanced` counts the schedules whose turn was ours.

    `has_replaced`: it asked for the end of executions that run, to make room for newer ones.
    """

    granted: tuple[Granted, ...] = ()
    decided: tuple[Decided, ...] = ()
    advanced: int = 0
    has_replaced: bool = False
    broken: tuple[Broken, ...] = ()


class Subject(NamedTuple):
    """The schedule that an event is about, as it is when the event is told.

    `priority` is the run's own, if the event is about a run. `next_run_ms` None: nothing is to
    come.
    """

    schedule_id: int
    priority: int
    next_run_ms: int | None


class QueuedRow(NamedTuple):
    """A queued execution that is due, in claiming order.

    `is_backfill`: it is of a backfill, be it its first attempt or a later one.
    """

    execution_id: int
    schedule_id: int
    revision: int
    scope_kind: str
    scope_id: str
    cause: Cause
    priority: int
    due_ms: int
    overlap: Overlap
    max_running: int | None
    group: str | None
    needs: tuple[str, ...]
    needs_deadline_s: float
    is_backfill: bool

    @property
    def key(self) -> tuple[int, str, str]:
        """Its schedule and scope."""
        return (self.schedule_id, self.scope_kind, self.scope_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """A running execution, and who is said to run it.

    `engine_key` names the engine's lock, None where the engine has said goodbye.
    """

    execution_id: int
    lease_token: str
    engine_id: int
    engine_key: str | None
    boot_id: str | None
    supervisor_id: str
    schedule: str
    kind: str
    ok_codes: tuple[int, ...]
    kill_grace_s: float
    started_ms: int


class EnginePresence(NamedTuple):
    """When an engine was there: its start, its stop, and when it was certainly running last."""

    key: str
    pid: int
    boot_id: str
    started_ms: int
    stopped_ms: int | None
    seen_ms: int | None
    has_died: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMarks:
    """What a database remembers of clock and zones; None where nothing was noted yet.

    `local_timezone` names the machine's own zone, by whose rules its times were computed. The
    clock was set last at `set_at_ms`, as the new time has it, by `set_by_ms`: less than 0 is back.
    """

    trusted_high_ms: int | None
    tzdata_version: str | None
    local_timezone: str | None
    set_at_ms: int | None = None
    set_by_ms: int | None = None
