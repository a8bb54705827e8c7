"""A schedule: its definition by a person, its state in the database, and its recorded changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from edgecron.base.checks import check_aware_or_none, check_name, check_range, check_text
from edgecron.base.errors import InvalidInput
from edgecron.base.units import format_instant
from edgecron.base.values import NamedTuple, dataclass, field
from edgecron.base.window_texts import split_once_in
from edgecron.model.choices import COMMAND_QUEUE, GLOBAL_SCOPE, JobKind, Status, WhileLost
from edgecron.model.conditions import needs_of_fire
from edgecron.model.engine import ANYWHERE, EACH, MACHINE, offer_of, place
from edgecron.model.job import Job
from edgecron.model.options import Policies

_MOST = 1_000_000  # of anything that is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """The definition of a schedule by a person.

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
        if self.scopes != (GLOBAL_SCOPE,):  # Most schedules have this one.
            self._check_scopes()
        if self.policies.on == EACH:
            self._check_each()
        if self.description is not None:
            check_text(self.description, what="description", most=4096, lines=True)
        if self.queue != COMMAND_QUEUE:
            check_text(self.queue, what="queue", most=140)
        if self.max_runs is not None:
            check_range("max-runs", self.max_runs, 1, _MOST)
        if self.job.kind is JobKind.CALLABLE:
            self._check_function()
        if self.from_at is not None or self.until_at is not None:
            self._check_bounds()

    @property
    def placed_queue(self) -> str:
        """The queue of its runs: that of its jobs, with its placement if it has one."""
        on = self.policies.on
        return self.queue if on == ANYWHERE else place(self.queue, on)

    def queue_in(self, scope: tuple[str, str]) -> str:
        """Return the queue of its runs in a scope; with `on = each`, the queue of the machine."""
        if self.policies.on != EACH or scope[0] != MACHINE:
            return self.placed_queue
        return place(self.queue, scope[1])

    @property
    def has_windows(self) -> bool:
        """Whether runs can start at some times only."""
        policies = self.policies
        if policies.between or policies.not_between or policies.except_days:
            return True
        return any(map(split_once_in, self.triggers))

    @property
    def all_needs(self) -> tuple[str, ...]:
        """The conditions of its policies and, which few schedules have, of triggers `once in`."""
        if any(map(split_once_in, self.triggers)):
            return needs_of_fire(self.policies.needs, *self.triggers)
        return self.policies.needs

    def _check_function(self) -> None:
        """Refuse policies that a function can't have."""
        policies = self.policies
        if policies.stall_timeout_s is not None:
            raise InvalidInput(
                "stall-timeout needs output to watch, but functions print to that of their program",
                hint="leave it out, or run the function in a process of its own: process=True",
            )
        if policies.keep_awake:
            raise InvalidInput(
                "keep_awake is true, but a function runs in its program and not under edgecron",
                hint="take logind's inhibitor in that program, or make the job a command",
            )
        if policies.while_lost is WhileLost.SUSPEND:
            raise InvalidInput(
                "while-lost is suspend, but a function can't be suspended",
                hint="end it instead, or make the job a command",
            )

    def _check_bounds(self) -> None:
        check_aware_or_none("from", self.from_at)
        check_aware_or_none("until", self.until_at)
        if self.from_at and self.until_at and self.until_at <= self.from_at:
            raise InvalidInput(
                f"until ({format_instant(self.until_at)}) is not later than from"
                f" ({format_instant(self.from_at)})",
                hint="give a later until, or an earlier from",
            )

    def _check_scopes(self) -> None:
        if not self.scopes or len(set(self.scopes)) != len(self.scopes):
            raise InvalidInput("scopes are empty or named twice, expected distinct kind:id pairs")
        for scope_kind, scope_id in self.scopes:
            check_name(scope_kind, what="scope kind")
            if scope_id:
                check_text(scope_id, what="scope id", most=128)

    def _check_each(self) -> None:
        if any(kind != MACHINE for kind, _ in self.scopes if self.scopes != (GLOBAL_SCOPE,)):
            raise InvalidInput(
                "scopes are refused if on is each: the machines are the scopes",
                hint="remove --scope, or choose --on any",
            )
        if "on boot" in self.triggers:
            raise InvalidInput(
                "on boot is refused if on is each: a schedule remembers the boot of one machine",
                hint="add one schedule for each machine: --on web1 --on-boot",
            )


class Definition(NamedTuple):
    """Everything that a document defines of a schedule."""

    spec: ScheduleSpec
    enabled: bool
    group_max_running: int | None  # the limit of its group; None is no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule in the database: its specification, its past and its next fire."""

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
    planned_count: int  # fires of its triggers that were to run; max_runs limits them
    group_max_running: int | None  # the limit of its group; None is no limit
    counts: Mapping[Status, int]
    created_at: datetime
    updated_at: datetime
    pruned_until: datetime | None  # retention removed rows of plan times up to this
    vanished_at: datetime | None  # since then, no engine of its program offers it
    is_done: bool = False  # it has no next time and gets none
    is_active: bool = False  # it has no next time, and a run is queued or running
    is_excluded: bool = False  # windows exclude its next time, and no other time follows
    gone_upstreams: tuple[str, ...] = ()  # schedules that it follows and that do not exist

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def definition(self) -> Definition:
        return Definition(self.spec, self.enabled, self.group_max_running)

    @property
    def offer(self) -> str:
        """The offer that an engine needs to run it."""
        job = self.spec.job
        return offer_of(job.kind, job.argv[0], schedule=self.name)

    def is_paused_beyond(self, until: datetime | None) -> bool:
        """Whether a pause until an instant would shorten the present one."""
        ends = self.paused_until
        return until is not None and (not self.enabled or (ends is not None and ends > until))


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A schedule that was imported from a crontab, and an imprint of its line.

    If an older version imported it, `source` and `imprint` are None, and `spec` is the definition
    by the line. The schedule might be removed.
    """

    schedule_id: int
    source: str | None
    imprint: str | None
    spec: ScheduleSpec | None = None


# Changes: what was done, by whom, from where, and what differs since.

HTTP = "http"  # the origin of changes that a server makes for its clients
MOST_CHANGES = 200  # of a schedule; older records are removed as new ones are made
PYTHON = "python"  # the origin of changes by a program


class Act(StrEnum):
    """The kinds of changes."""

    ADD = "add"
    EDIT = "edit"
    PAUSE = "pause"
    RESUME = "resume"
    RESCHEDULE = "reschedule"
    REMOVE = "remove"
    UNDO = "undo"
    PART = "part"  # it belongs to the change before it; front ends never see it


class Author(NamedTuple):
    """From where a change came, and the user who made it; None if unknown."""

    origin: str = PYTHON
    user: str | None = None


class Difference(NamedTuple):
    """A field whose value changed. A value of None means unset, or the default."""

    field: str
    old: object
    new: object

    @property
    def key(self) -> str:
        return self.field


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a schedule. `revision` is the revision that it made.

    `is_complete` is False if retention has removed the definition before or after the change. Then
    `changes` lack the differences between the two.
    """

    schedule: str
    revision: int
    at: datetime
    act: Act
    origin: str
    user: str | None
    changes: tuple[Difference, ...]
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """An undo, planned or done: what it changes, and the next times without it and with it.

    `seen` is the revision of the schedule that it starts from, `made` the one that it makes.
    `undone` is the change that it reverts; None if it returns to the definition of `revision`.
    `is_removed`: the schedule does not exist afterwards.
    """

    schedule: str
    seen: int
    made: int
    revision: int
    undone: Change | None
    changes: tuple[Difference, ...]
    next_before: tuple[datetime, ...]
    next_after: tuple[datetime, ...]
    is_removed: bool
