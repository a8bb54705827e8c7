"""Schedule, Execution, policies and statuses: frozen values, checked once, at birth.

`*_at` is an aware UTC datetime; `*_ms` is milliseconds, and where the name holds an instant
(`plan_ms`, `due_ms`, `now_ms`) milliseconds since 1970, which the hot paths use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum

from edgecron.errors import InvalidInput
from edgecron.queues import is_taken, offer_of
from edgecron.reporting import Progress
from edgecron.timetext import MAX_DURATION_MS
from edgecron.validity import (
    check_aware,
    check_name,
    check_range,
    check_storable,
    check_text,
    is_plain,
)
from edgecron.values import dataclass, field

MINUTE_MS = 60_000
DAY_MS = 86_400_000
ON_TIME_MS = 60_000  # a single fire that is no later than this after its due time is no misfire
MAX_CATCH_UP = 100  # fires of one misfire that catch_up=all runs at most
COMMAND_QUEUE = "command"
REPLACED_MARK = "replaced"  # among the flags of a run that is ended for a newer one
MISSED_MARK = "missed:"  # begins the flag of a run that catches up: why its time was missed
COVERS_MARK = "covers:"  # begins the flag of a run that covers missed times: count, start
GLOBAL_SCOPE = ("global", "")
_MOST_S = MAX_DURATION_MS // 1000
_MOST = 1_000_000  # of anything that is counted: far beyond use, and far within 64 bits


class JobKind(StrEnum):
    COMMAND = "command"  # an argv array, started without a shell
    SHELL = "shell"  # one line for /bin/sh -c
    CALLABLE = "callable"  # the name of a function that a Python program registered


class Status(StrEnum):
    QUEUED = "queued"  # decided and waiting for a place; left by a claim, a cancel or a removal
    RUNNING = "running"  # claimed by an engine; left by its one end
    SUCCESS = "success"  # ended with an accepted exit code; final
    FAILED = "failed"  # ended otherwise, timed out or could not be started; final
    SKIPPED = "skipped"  # decided not to run; final, but the newest of a schedule may grow
    CANCELLED = "cancelled"  # stopped or withdrawn on request; final
    INTERRUPTED = "interrupted"  # its end is not known (crash, reboot); final


class OnShutdown(StrEnum):
    LEAVE = "leave"  # what runs goes on under its supervisor, and the next engine adopts it
    WAIT = "wait"  # what runs is waited for
    STOP = "stop"  # what runs is ended: TERM, its grace, KILL


ACTIVE = frozenset({Status.QUEUED, Status.RUNNING})


class Reason(StrEnum):
    EXIT = "exit"  # failed: the exit code is not an accepted one
    SIGNAL = "signal"  # failed: ended by a signal that we did not send
    TIMEOUT = "timeout"  # failed: ran longer than its timeout, and was ended
    EXCEPTION = "exception"  # failed: the callable raised
    SPAWN = "spawn"  # failed: could not be started (missing command, folder, user)
    OVERLAP = "overlap"  # skipped: an earlier fire of the same schedule and scope was active
    MISFIRE = "misfire"  # skipped: nothing could run it at its time, and catch_up gave it up
    PAUSED = "paused"  # skipped: its time passed while the schedule was paused
    EDITED = "edited"  # skipped: its time had passed when the triggers were changed
    RESCHEDULED = "rescheduled"  # skipped: `reschedule` moved the run before it past its time
    JITTER = "jitter"  # skipped: jitter delayed the run before it past its time
    CONDITION = "condition"  # skipped: what it needed did not come true before its deadline
    REQUEST = "request"  # cancelled: a person or a program asked for it
    REPLACED = "replaced"  # cancelled: a newer fire of its schedule took its place
    REMOVED = "removed"  # its schedule was removed: cancelled if queued, skipped if undecided
    SHUTDOWN = "shutdown"  # cancelled: stopped with the engine, as asked
    LOST = "lost"  # interrupted: engine and supervisor died, and its end is not on record
    RESTORED = "restored"  # cancelled, interrupted: it was active in the backup that was restored
    REBOOT = "reboot"  # interrupted: the machine started anew while it ran


class MissedBy(StrEnum):
    """Why nothing ran a time that was missed: `error_code` of a row of reason `misfire`, and a
    flag `missed:...` of a run that catches up."""

    ASLEEP = "asleep"  # the machine was suspended
    OFF = "off"  # no engine ran: the machine was off, or the engine was killed or never started
    STOPPED = "stopped"  # somebody had stopped the engine
    STALLED = "stalled"  # an engine ran, and did not get to it: it was stopped, or too slow
    CLOCK = "clock"  # the clock could not be trusted, or was set past the time


class Cause(StrEnum):
    SCHEDULE = "schedule"  # its trigger, in time
    CATCH_UP = "catch_up"  # its trigger, late
    MANUAL = "manual"  # `run`
    RETRY = "retry"  # an earlier attempt failed
    BOOT = "boot"  # `on boot`
    AFTER = "after"  # another schedule's fire ended
    BACKFILL = "backfill"  # `backfill`


class WaitsFor(StrEnum):
    TIME = "time"  # its due time, which is still to come
    RESUME = "resume"  # the end of its schedule's pause
    CONDITION = "condition"  # what its schedule needs
    ENGINE = "engine"  # one of its queue that is alive and at work
    PROGRAM = "program"  # the same of a function: its program is not at work, or without it
    NOBODY = "nobody"  # nothing that will come: no engine of its program offers it
    EARLIER_RUN = "earlier_run"  # the end of one of its schedule and scope
    REPLACED_RUN = "replaced_run"  # the end, which was asked for, of the one whose place it takes
    GROUP = "group"  # a place among the runs of its group
    PLACE = "place"  # one of its engine's


class CatchUp(StrEnum):
    ONCE = "once"  # run the latest missed time within grace
    SKIP = "skip"  # run none
    ALL = "all"  # run them all in sequence, at most MAX_CATCH_UP


class Overlap(StrEnum):
    SKIP = "skip"  # leave the new fire out
    QUEUE = "queue"  # let one wait
    ALLOW = "allow"  # run beside it
    REPLACE = "replace"  # end the old one, then run


class OnInterrupt(StrEnum):
    LEAVE = "leave"  # an ambiguous end is not run again
    RETRY = "retry"  # it is, with the same idempotency key


class Priority(IntEnum):
    LOW = -10
    NORMAL = 0
    HIGH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """How a schedule behaves beyond its times. Seconds may be fractions; None means no limit."""

    catch_up: CatchUp = CatchUp.ONCE
    grace_s: float | None = None  # None: 24 h or one interval, whichever is longer
    overlap: Overlap = Overlap.SKIP
    max_running: int | None = None  # None: 1 per schedule and scope, unlimited under allow
    timeout_s: float | None = None
    kill_grace_s: float = 10.0
    retries: int = 0
    retry_delay_s: float = 10.0
    retry_factor: float = 2.0
    retry_max_delay_s: float = 3600.0
    on_interrupt: OnInterrupt = OnInterrupt.LEAVE
    ok_codes: tuple[int, ...] = (0,)
    priority: int = Priority.NORMAL
    jitter_s: float = 0.0
    needs: tuple[str, ...] = ()  # texts of conditions, all of which must hold
    needs_deadline_s: float = 86_400.0  # after due, what they wait for has not come true

    def __post_init__(self) -> None:
        check_range("grace", self.grace_s, 0, _MOST_S)
        check_range("max-running", self.max_running, 1, _MOST)
        check_range("timeout", self.timeout_s, 0.001, _MOST_S)
        check_range("kill-grace", self.kill_grace_s, 0, _MOST_S)
        check_range("retries", self.retries, 0, _MOST)
        check_range("retry-delay", self.retry_delay_s, 0, _MOST_S)
        check_range("retry-factor", self.retry_factor, 1, _MOST)
        check_range("retry-max-delay", self.retry_max_delay_s, 0, _MOST_S)
        check_range("priority", self.priority, -_MOST, _MOST)
        check_range("jitter", self.jitter_s, 0, _MOST_S)
        check_range("needs-deadline", self.needs_deadline_s, 0, _MOST_S)
        if not self.ok_codes or not all(0 <= code <= 255 for code in self.ok_codes):
            raise InvalidInput(f"ok-codes are {self.ok_codes}, expected codes from 0 to 255")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a schedule runs.

    `argv` is the command (kind command), the single shell line (shell) or the single registered
    name (callable). `env` is the schedule's own variables; `cwd` None means HOME; `user` None
    means the engine's own user; `stdin` None means an empty one.
    """

    kind: JobKind
    argv: tuple[str, ...]
    payload: str | None = None
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_file: str | None = None
    cwd: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0].strip():
            raise InvalidInput("the command is missing", hint="write it after --, or use --shell")
        if self.kind is not JobKind.COMMAND and len(self.argv) != 1:
            raise InvalidInput(f"a {self.kind} job is one text, got {len(self.argv)}")
        env = self.env
        texts = [*self.argv, *env, *env.values()]
        texts += [text for text in (self.payload, self.stdin, self.cwd, self.user) if text]
        if self.env_file:
            texts.append(self.env_file)
        if not is_plain(texts):  # One look at all of them spares most jobs the one at each.
            self._check_texts()
        for key in self.env:
            if not key or "=" in key:
                raise InvalidInput(f"environment variable name {key!r} is not usable")

    def _check_texts(self) -> None:
        for what, text in (
            *(("argument", argument) for argument in self.argv),
            ("folder", self.cwd or ""),
            ("user", self.user or ""),
            ("environment file", self.env_file or ""),
            *(("environment variable", value) for value in self.env.values()),
            *(("environment variable name", key) for key in self.env),
            ("payload", self.payload or ""),
            ("stdin", (self.stdin or "").replace("\0", "")),  # a pipe may carry NUL
        ):
            check_storable(what, text)


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
