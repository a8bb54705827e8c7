"""Decide why a schedule ran, did not run, or will not run at a time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import dataclass
from edgecron.model.choices import Reason
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.planning.next_fire import Timing, count_planned, is_excluded, resolve_due_ms

MINUTE_MS = 60_000


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
