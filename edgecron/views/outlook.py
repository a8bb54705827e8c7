"""Decide what comes next for a schedule, and why it ran, did not run, or will not run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from edgecron.base.units import MINUTE_MS, from_ms, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import COMMAND_QUEUE, Cause, Overlap, Reason, Status, WaitsFor
from edgecron.model.listing import Idle
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.planning.admission import LATE_CAUSES, Admission, Occupancy, admit_fire
from edgecron.planning.forecast import UpcomingFire
from edgecron.planning.next_fire import Missed, Timing, count_planned, is_excluded, resolve_due_ms
from edgecron.planning.windows import windows_of

Scope = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """An active run: what it waits for, if anything, and behind which run.

    `queue` is that of its schedule, with its placement.
    """

    execution: Execution
    waits_for: WaitsFor | None = None
    behind_id: int | None = None
    queue: str = COMMAND_QUEUE


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
    is_looked_for: bool = False,
) -> list[ActiveRun]:
    """Return what each active run of a schedule waits for; `executions` are in order of start.

    `is_looked_for`: an engine with a free place starts them when it next looks for changes.
    """
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
            elif is_group_full:
                waits_for = WaitsFor.GROUP
            else:
                is_late = run.cause in LATE_CAUSES
                waits_for = WaitsFor.LOOK if is_looked_for and not is_late else WaitsFor.PLACE
        if waits_for is not WaitsFor.TIME or run.cause is not Cause.MANUAL:
            first_of.setdefault(scope, run)
        if _is_backfill(run):
            backfills.setdefault(scope, run)
        judged.append(
            ActiveRun(
                execution=run,
                waits_for=waits_for,
                behind_id=behind_id,
                queue=schedule.spec.placed_queue,
            )
        )
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


class Verdict(StrEnum):
    """The outcome of a time, past or future."""

    RECORDED = "recorded"  # runs record it: what ran, and what was skipped
    DUE = "due"  # the time has come, and no engine has decided it yet
    COMING = "coming"  # an engine will decide it when the time comes
    VANISHED = "vanished"  # it would run, but no engine of its program offers the schedule
    HELD = "held"  # the pause of the schedule skips it
    BROKEN = "broken"  # the triggers can't be read
    NO_TIME = "no_time"  # no trigger has such a time
    EXCLUDED = "excluded"  # it lies outside of the windows of the schedule
    NOT_MADE = "not_made"  # the schedule was made later
    TOO_EARLY = "too_early"  # before --from
    ENDED = "ended"  # after --until
    USED_UP = "used_up"  # --max-runs had been reached
    FORGOTTEN = "forgotten"  # retention has removed what was recorded
    UNRECORDED = "unrecorded"  # it was decided, but no row says how


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The definition of a schedule at a time: a revision and when it was written.

    `timing` is None if its triggers can't be read, or, with `is_removed`, if retention has removed
    this revision.
    """

    revision: int
    written_at: datetime
    timing: Timing | None
    is_removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The records about a time of a schedule.

    `plan_at` is the plan time that was meant, `due_at` its earliest start. `runs` were decided for
    it, oldest first. `previous_at` and `next_at` are the plan times before and after it.
    """

    schedule: Schedule
    at: datetime
    verdict: Verdict
    words: Words
    plan_at: datetime | None = None
    due_at: datetime | None = None
    source: str | None = None
    runs: tuple[Execution, ...] = ()
    previous_at: datetime | None = None
    next_at: datetime | None = None


def last_of(at_ms: int) -> int:
    """Return the end of what a person means by a time: its whole minute, else its second."""
    if at_ms % MINUTE_MS == 0:
        return at_ms + MINUTE_MS - 1
    return at_ms + 999 if at_ms % 1000 == 0 else at_ms


def explain(
    schedule: Schedule,
    words: Words,
    runs: Sequence[Execution],
    *,
    at: datetime,
    now: datetime,
    pruned_until: datetime | None,
) -> Explanation:
    """Explain a time by the recorded runs and by what the schedule says."""
    at_ms, now_ms = to_ms(at), to_ms(now)
    timing = words.timing
    found = None if timing is None else _find_time(timing, at_ms)
    plan_ms = None if found is None else found[0]
    due_ms = None
    if plan_ms is not None and timing is not None:
        due_ms = resolve_due_ms(timing, plan_ms)
        if schedule.next_plan_at is not None and to_ms(schedule.next_plan_at) == plan_ms:
            due_ms = to_ms(schedule.next_run_at or schedule.next_plan_at)
    if plan_ms is None and timing is not None:
        # A range of missed times also covers instants that are no plan times.
        runs = [run for run in runs if not _is_only_covered(run, at_ms)]
    elif plan_ms is not None and timing is not None and timing.windows is not None:
        # Ranges of excluded times and of others can cover the same span.
        is_out = is_excluded(timing, plan_ms)
        runs = [
            run
            for run in runs
            if (run.reason is Reason.EXCLUDED) == is_out or not _is_only_covered(run, at_ms)
        ]
    if runs:
        verdict = Verdict.RECORDED
    elif timing is None and not words.is_removed:
        verdict = Verdict.BROKEN
    elif last_of(at_ms) < to_ms(schedule.created_at):
        verdict = Verdict.NOT_MADE
    elif timing is None:
        verdict = Verdict.FORGOTTEN
    elif plan_ms is None:
        verdict = Verdict.NO_TIME
    else:
        verdict = _judge(schedule, timing, plan_ms, now_ms=now_ms, pruned_until=pruned_until)
    previous_ms = next_ms = None
    if timing is not None:
        previous_ms = timing.times.last_ms(-1, at_ms - 1)
        following = timing.times.next_with_source(last_of(at_ms))
        next_ms = None if following is None else following[0]
    return Explanation(
        schedule=schedule,
        at=at,
        verdict=verdict,
        words=words,
        plan_at=None if plan_ms is None else from_ms(plan_ms),
        due_at=None if due_ms is None else from_ms(due_ms),
        source=None if found is None else found[1],
        runs=tuple(runs),
        previous_at=None if previous_ms is None else from_ms(previous_ms),
        next_at=None if next_ms is None else from_ms(next_ms),
    )


def _find_time(timing: Timing, at_ms: int) -> tuple[int, str] | None:
    """Find the plan time that is meant, also one that windows exclude."""
    for times in (timing.times, timing.excluded):
        found = None if times is None else times.next_with_source(at_ms - 1)
        if found is not None and found[0] <= last_of(at_ms):
            return found
    opened_ms = find_opening_ms(timing, at_ms)
    return None if opened_ms is None else timing.times.next_with_source(opened_ms - 1)


def find_opening_ms(timing: Timing, at_ms: int) -> int | None:
    """When the window of a trigger `once in` opened that holds a time; None if there is none.

    Each time of such a window means the fire of the window.
    """
    opened_ms = timing.times.last_ms(-1, at_ms) if timing.once_in else None
    closes_ms = None if opened_ms is None else timing.closes_ms(opened_ms)
    return None if closes_ms is None or closes_ms <= at_ms else opened_ms


def _is_only_covered(run: Execution, at_ms: int) -> bool:
    first, last = run.missed_from_at, run.missed_to_at
    if first is None or last is None:
        return False
    return to_ms(first) < at_ms and last_of(at_ms) < to_ms(last)


def _judge(
    schedule: Schedule,
    timing: Timing,
    plan_ms: int,
    *,
    now_ms: int,
    pruned_until: datetime | None,
) -> Verdict:
    """Return the verdict on a plan time without a row."""
    if timing.from_ms is not None and plan_ms < timing.from_ms:
        return Verdict.TOO_EARLY
    if timing.until_ms is not None and plan_ms > timing.until_ms:
        return Verdict.ENDED
    if plan_ms < to_ms(schedule.created_at):
        return Verdict.NOT_MADE
    if is_excluded(timing, plan_ms):
        return Verdict.EXCLUDED
    decided_ms = to_ms(schedule.decided_until)
    if plan_ms > decided_ms:
        if schedule.vanished_at is not None:
            return Verdict.VANISHED
        if _is_used_up(schedule, timing, plan_ms, decided_ms=decided_ms):
            return Verdict.USED_UP
        until = schedule.paused_until
        if not schedule.enabled or (until is not None and plan_ms < to_ms(until)):
            return Verdict.HELD
        return Verdict.DUE if plan_ms <= now_ms else Verdict.COMING
    if timing.max_runs is not None and schedule.planned_count >= timing.max_runs:
        return Verdict.USED_UP
    if pruned_until is not None and plan_ms <= to_ms(pruned_until):
        return Verdict.FORGOTTEN
    return Verdict.UNRECORDED


def _is_used_up(schedule: Schedule, timing: Timing, plan_ms: int, *, decided_ms: int) -> bool:
    """Return whether earlier fires use up `max_runs` before an undecided time."""
    if timing.max_runs is None:
        return False
    after_ms = decided_ms if timing.from_ms is None else max(decided_ms, timing.from_ms - 1)
    before = count_planned(timing, after_ms, plan_ms - 1)
    return schedule.planned_count + before >= timing.max_runs
