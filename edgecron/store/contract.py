"""Values that pass between an engine and its store. `protocol` declares the calls."""

from __future__ import annotations

from collections.abc import Mapping

from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import Cause, Overlap, Reason, Status, WaitsFor, WhileLost
from edgecron.model.engine import Offers
from edgecron.model.machine_conditions import NOTHING_KNOWN, MachineCondition
from edgecron.model.run import Claim, Upstream
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Fire, FirePlan
from edgecron.planning.windows import Windows

BEAT_MS = 600_000  # how often an engine renews the heartbeat of its runs: rarely, to spare flash
STALE_MS = 3 * BEAT_MS  # after this, a run without heartbeat is shown as stale


# On a server: how long an engine is taken for alive after it was last heard, and how often it is
# heard. Two statements a minute, and a dead machine is noticed within 62 s.
LEASE_MS = 60_000
RENEW_MS = 30_000
# A stopped engine that leaves commands running: longer than a restart or an upgrade takes. The next
# engine of its machine adopts them.
LEFT_LEASE_MS = 3_600_000


class Lease(NamedTuple):
    """The lease of an engine on a server, just renewed.

    `mark` is the change mark. `was_stale`: the lease had ended, or is the first one.
    `next_stale_ms` is when the first lease of an engine on another machine ends unless it is
    renewed, None without such engines; `now_ms` is the server's clock.
    """

    mark: int
    now_ms: int
    was_stale: bool
    next_stale_ms: int | None


class Claimant(NamedTuple):
    """The claiming side: an engine, its supervisor, its queues and its limits.

    `max_starts` limits the starts of one transaction; None is no limit. With `only`, the engine
    takes only this queued run. With `offers`, it takes only these jobs of a program's queue.
    `reserve` is how many runs it takes beyond `max_running`; its runner starts each when a place is
    free. `machine` says which conditions of the machine held a moment ago; of others it says
    nothing, and runs wait for these.
    """

    engine_id: int
    supervisor_id: str
    queues: tuple[str, ...]
    max_running: int
    reserve: int = 0
    max_starts: int | None = None
    only: int | None = None
    offers: Offers | None = None
    machine: Mapping[MachineCondition, bool] = NOTHING_KNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchedule:
    """A schedule for an engine. `compiled` is a JSON array of expanded triggers."""

    id: int
    revision: int
    spec: ScheduleSpec
    compiled: str


class Waited(NamedTuple):
    """A condition that runs wait for, or that a claim asks for.

    Only a command belongs to a schedule, whose environment it gets; `schedule_id` is None for other
    conditions.
    """

    text: str
    schedule_id: int | None = None
    revision: int | None = None


class Decision(NamedTuple):
    """A plan for one due schedule, with the specification that carries it out."""

    plan: FirePlan
    spec: ScheduleSpec

    @property
    def schedule_id(self) -> int:
        return self.plan.due.schedule_id

    @property
    def revision(self) -> int:
        return self.plan.due.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class BootDecision:
    """The fire of an `on boot` schedule that is not decided for this boot."""

    schedule_id: int
    revision: int
    fire: Fire
    spec: ScheduleSpec


class Granted(NamedTuple):
    """A row that a claim set to `running`, with its lease token.

    `payload` and `timeout_s` None: the run has those of its schedule. `is_new`: the same
    transaction decided its fire, so nothing has reported it as queued.
    """

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
    fence: int = 0
    is_new: bool = False
    payload: str | None = None
    upstream: Upstream | None = None
    timeout_s: float | None = None


class Decided(NamedTuple):
    """A row that a transaction wrote and that did not start, for the log.

    `waits_for` says why a due run is queued; for a condition, `condition` and `wait_until_ms` have
    its text and deadline. `missed_*` are the range that did not run, or by which a row has grown.
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
    """A schedule that can't be read, and the error."""

    schedule: str
    error: str


class Ended(NamedTuple):
    """The recorded end of a run: its reason, and the rows that were decided with it.

    `has_replaced`: a decided fire waits for the end of a run that it replaces. `broken` are
    followers that can't be read and so have no fire.
    """

    reason: Reason | None
    decided: tuple[Decided, ...] = ()
    has_replaced: bool = False
    broken: tuple[Broken, ...] = ()


class Requeued(NamedTuple):
    """A row that was claimed and never started.

    `ended` is set if its fire was cancelled instead of queued again.
    """

    decided: Decided
    ended: Ended | None = None


class ClaimBatch(NamedTuple):
    """The result of a claim transaction. `advanced` counts the schedules that we decided.

    `granted` started and `decided` did not. `has_replaced`: a decided fire waits for the end of a
    run that it replaces.
    """

    granted: tuple[Granted, ...] = ()
    decided: tuple[Decided, ...] = ()
    advanced: int = 0
    has_replaced: bool = False
    broken: tuple[Broken, ...] = ()


class FinishBatch(NamedTuple):
    """The result of a transaction with ends: what was recorded, and then claimed.

    `ended` and `requeued` have an item for each run, None for a row that is not ours now.
    """

    ended: list[Ended | None]
    requeued: list[Requeued | None]
    batch: ClaimBatch


class Subject(NamedTuple):
    """The schedule of an event, at the time of the event.

    `priority` is that of the run, if the event is about one. `next_run_ms` None: no next run.
    """

    schedule_id: int
    priority: int
    next_run_ms: int | None


class QueuedRow(NamedTuple):
    """A due queued run, in claiming order.

    `is_backfill`: it belongs to a backfill, with any attempt.
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
    plan_ms: int
    windows: Windows | None
    closes_ms: int | None  # the window of its trigger closes then: later it can't start

    @property
    def key(self) -> tuple[int, str, str]:
        """Its schedule and scope."""
        return (self.schedule_id, self.scope_kind, self.scope_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """A running run, with its engine and supervisor as recorded.

    `engine_key` names the engine's lock; None if the engine has recorded its stop. `machine` and
    `is_stale` are as in EngineInfo. The processes of the run have `grace_ms` between TERM and KILL.
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
    grace_ms: int
    started_ms: int
    watched: Watched | None = None
    machine: str | None = None
    is_stale: bool = False


class Watched(NamedTuple):
    """The conditions that must hold during a run, and what happens if one is lost.

    `is_suspended`: the run's processes are stopped, as its row says.
    """

    schedule_id: int
    revision: int
    needs: tuple[str, ...]
    lost: WhileLost
    is_suspended: bool = False


def watched_of(claim: Claim) -> Watched | None:
    """The conditions of a claimed run; None if it has none, as a manual run."""
    if not claim.policies.while_needs or claim.cause is Cause.MANUAL:
        return None
    return Watched(
        schedule_id=claim.schedule_id,
        revision=claim.revision,
        needs=claim.policies.while_needs,
        lost=claim.policies.while_lost,
    )


class EngineLoad(NamedTuple):
    """How many runs an engine has; with leases, when it last renewed its own.

    `polls_ms`: how often it looks for changes, if the server's notices do not reach it.
    """

    running: int = 0
    renewed_ms: int | None = None
    polls_ms: int | None = None


class EnginePresence(NamedTuple):
    """When an engine ran: its start, its stop, and when it was last known to be running.

    Its start by the time since its boot, too, and the span in which it did not trust its clock:
    None if it did until its end. That span has no end if it was not stopped. `queues` are those
    that it took, with its placements.
    """

    key: str
    pid: int
    boot_id: str
    started_ms: int
    stopped_ms: int | None
    seen_ms: int | None
    has_died: bool
    began_boottime_ms: int | None
    untrusted_since_ms: int | None
    untrusted_until_ms: int | None
    queues: tuple[str, ...]
