"""Decide what comes next for a schedule, and what its runs wait for. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import COMMAND_QUEUE, Cause, Overlap, Status, WaitsFor
from edgecron.model.listing import Idle
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.planning.admission import Admission, Occupancy, admit_fire
from edgecron.planning.forecast import UpcomingFire
from edgecron.planning.next_fire import Missed
from edgecron.planning.windows import windows_of

Scope = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """An active run: what it waits for, if anything, and behind which run."""

    execution: Execution
    waits_for: WaitsFor | None = None
    behind_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FireNow:
    """How a fire in one scope would be decided right now, and because of which run."""

    scope: Scope
    admission: Admission
    because_id: int | None = None


class LatePlaces(NamedTuple):
    """The places of working engines for late runs, which are catch-ups and backfills.

    `held_by` are the late runs that are running, as (id, schedule); `waiting` is how many others
    are due. `places` is None if an engine did not record how many runs it runs at once.
    """

    places: int | None
    held_by: tuple[tuple[int, str], ...]
    waiting: int


class Behind(NamedTuple):
    """A schedule that engines can't keep up with.

    Since an instant, `skipped` of its times were skipped although engines were running. `places` is
    how many places for runs those engines have.
    """

    schedule: str
    skipped: int
    since: datetime
    due_per_minute: int
    places: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The next step of a schedule, and the reason.

    `held` are the times that its pause skips, if the pause has an end. `changes` say what clock
    changes do to the times shown. `active` has the first of `active_count` runs. `unmet` is the
    text of a condition that a fire would wait for now, `unmet_note` why this machine can't tell
    whether it holds. If the clock can't be trusted, cron and `at`
    times are held. `excluded` are the times that windows exclude before each upcoming fire.
    """

    schedule: Schedule
    idle: Idle | None
    upcoming: tuple[UpcomingFire, ...]
    changes: tuple[str, ...]
    held: Missed | None
    active: tuple[ActiveRun, ...]
    active_count: int
    fire_now: tuple[FireNow, ...]
    unmet: str | None
    is_clock_trusted: bool
    has_engine: bool
    last_unrun: Execution | None
    late: LatePlaces | None = None  # if a late run of it waits
    behind: Behind | None = None
    unmet_note: str | None = None
    excluded: tuple[Missed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A preview of a specification: its triggers in words, and its first starts.

    `fires` have the trigger that gives each time. `changes` say what clock changes do to them;
    `jitter_warning` is the effect of a jitter longer than the interval, `window_warning` that of a
    window shorter than a usual run.
    """

    words: Mapping[str, str]
    fires: tuple[tuple[datetime, str], ...]
    changes: tuple[str, ...]
    jitter_warning: str | None = None
    window_warning: str | None = None


def judge_active(
    executions: Sequence[Execution],
    schedule: Schedule,
    *,
    now: datetime,
    has_engine: bool,
    is_group_full: bool,
) -> list[ActiveRun]:
    """Return what each active run of a schedule waits for; `executions` are in order of start."""
    is_held = _is_paused(schedule, now=now)
    absent = _absent_of(schedule)
    windows = windows_of(schedule.spec.policies, schedule.spec.timezone)
    judged: list[ActiveRun] = []
    first_of: dict[Scope, Execution] = {}
    backfills: dict[Scope, Execution] = {}
    for run in executions:
        scope = (run.scope_kind, run.scope_id)
        before = first_of.get(scope)
        waits_for: WaitsFor | None = None
        behind_id: int | None = None
        if run.status is Status.QUEUED:
            if absent is WaitsFor.NOBODY:
                waits_for = absent
            elif is_held and run.cause is not Cause.MANUAL:
                waits_for = WaitsFor.RESUME
            elif run.due_at > now:
                is_shut = windows is not None and not windows.is_open(to_ms(now))
                waits_for = WaitsFor.WINDOW if is_shut else WaitsFor.TIME
            elif run.waiting_for is not None:
                waits_for = WaitsFor.CONDITION
            elif before is not None and before.cancel_requested_at is not None:
                waits_for, behind_id = WaitsFor.REPLACED_RUN, before.id
            elif before is not None and schedule.spec.policies.overlap is not Overlap.ALLOW:
                waits_for, behind_id = WaitsFor.EARLIER_RUN, before.id
            elif _is_backfill(run) and scope in backfills:
                waits_for, behind_id = WaitsFor.EARLIER_RUN, backfills[scope].id
            elif not has_engine:
                waits_for = absent
            else:
                waits_for = WaitsFor.GROUP if is_group_full else WaitsFor.PLACE
        if waits_for is not WaitsFor.TIME or run.cause is not Cause.MANUAL:
            first_of.setdefault(scope, run)
        if _is_backfill(run):
            backfills.setdefault(scope, run)
        judged.append(ActiveRun(execution=run, waits_for=waits_for, behind_id=behind_id))
    return judged


def judge_fire(
    schedule: Schedule,
    occupancies: Mapping[Scope, Occupancy],
    active: Collection[Execution],
    *,
    now: datetime,
    is_group_full: bool,
) -> list[FireNow]:
    """Return what a pause, overlap and limits would do to a fire right now, in each scope."""
    if _is_paused(schedule, now=now):
        return [FireNow(scope=scope, admission=Admission.SKIP) for scope in schedule.spec.scopes]
    policies = schedule.spec.policies
    judged = []
    for scope in schedule.spec.scopes:
        admission = admit_fire(
            overlap=policies.overlap,
            max_running=policies.max_running,
            in_sequence=False,
            occupancy=occupancies.get(scope, Occupancy()),
            has_place=not is_group_full,
        )
        because = None
        if admission is not Admission.RUN:
            runs = [
                run
                for run in active
                if (run.scope_kind, run.scope_id) == scope
                and (admission is Admission.QUEUE or not _is_backfill(run))
            ]
            because = min(
                runs, key=lambda run: (run.status is not Status.RUNNING, run.id), default=None
            )
        judged.append(
            FireNow(
                scope=scope,
                admission=admission,
                because_id=None if because is None else because.id,
            )
        )
    return judged


def _is_paused(schedule: Schedule, *, now: datetime) -> bool:
    until = schedule.paused_until
    return not schedule.enabled or (until is not None and until > now)


def _absent_of(schedule: Schedule) -> WaitsFor:
    """Return who is missing if no working engine takes runs of a schedule."""
    if schedule.vanished_at is not None:
        return WaitsFor.NOBODY
    return WaitsFor.ENGINE if schedule.spec.queue == COMMAND_QUEUE else WaitsFor.PROGRAM


def _is_backfill(execution: Execution) -> bool:
    """Return whether a run is an attempt of a backfill."""
    return execution.fire_key.startswith("backfill:")
