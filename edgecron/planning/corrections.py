"""Stored times put right: after a clock was corrected, and when the rules of a zone change. Pure.

What is due by its stored time is left to be fired: it was promised by the old rules, and no other
way decides it. What is still to come is computed anew, and never for the past.
"""

from __future__ import annotations

from edgecron.base.values import dataclass
from edgecron.model.choices import Reason
from edgecron.planning.next_fire import (
    Missed,
    NextFire,
    Timing,
    fresh_fire,
    missed_until,
    next_after_pause,
    next_fire,
    resolve_due_ms,
)
from edgecron.planning.trust import FIRST_MS, LARGE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTimes:
    """The times of a schedule as they are stored.

    `is_idle`: it is paused without end or broken, and has no next time. `trusted_until_ms` is
    what `decided_until_ms` was when it was last moved by a clock that can be trusted; None where
    that is what it is. Up to `pruned_until_ms` rows that said what was decided are gone.
    Since `repeats_since_ms` a clock that was set back repeats times that are decided.
    `is_switched`: its last change was a pause, a resume or a reschedule, and not of its words.
    """

    schedule_id: int
    revision: int
    name: str
    is_idle: bool
    next: NextFire | None
    decided_until_ms: int
    trusted_until_ms: int | None
    paused_until_ms: int | None
    planned_count: int
    pruned_until_ms: int | None = None
    repeats_since_ms: int | None = None
    last_fired_ms: int | None = None
    is_switched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retimed:
    """The times that a schedule gets in the place of those it has."""

    kept: KeptTimes
    next: NextFire | None
    decided_until_ms: int
    trusted_until_ms: int | None = None
    repeats_since_ms: int | None = None
    last_fired_ms: int | None = None  # by the clock as it is now, if that was set back

    @property
    def has_moved(self) -> bool:
        """Whether the next fire is another one, or at another time."""
        return self.next != self.kept.next


def resolve_decided_ms(kept: KeptTimes, *, now_ms: int, is_set_back: bool) -> int:
    """Up to when a schedule's times are decided, by a clock that is right at last.

    `is_set_back`: the clock was seen to be set back by far, so that what it said before is wrong.
    Else a mark in the future is believed up to LARGE_MS, as a small step back may leave it.
    """
    if kept.trusted_until_ms is not None:
        decided_ms = min(kept.trusted_until_ms, now_ms)
    else:
        bound_ms = now_ms if is_set_back else now_ms + LARGE_MS
        decided_ms = kept.decided_until_ms
        decided_ms = now_ms if decided_ms > bound_ms else decided_ms
    # A schedule that was made in 1970 has missed nothing since.
    decided_ms = now_ms if decided_ms < FIRST_MS else decided_ms
    # What was decided and has no row any more must not be decided again.
    return decided_ms if kept.pruned_until_ms is None else max(decided_ms, kept.pruned_until_ms)


def plan_repair(
    timing: Timing | None, kept: KeptTimes, *, now_ms: int, is_set_back: bool
) -> Retimed | None:
    """The times that a clock which was wrong should have given; None where they stand.

    What was missed meanwhile lies after the mark, and is a misfire like any other. `timing` is
    not looked at where the schedule is idle.
    """
    decided_ms = resolve_decided_ms(kept, now_ms=now_ms, is_set_back=is_set_back)
    is_decided = decided_ms == kept.decided_until_ms and kept.trusted_until_ms is None
    if kept.is_idle or timing is None:
        return None if is_decided else Retimed(kept=kept, next=None, decided_until_ms=decided_ms)
    if is_decided and not _is_stranded(timing, kept, now_ms):
        return None
    return Retimed(
        kept=kept,
        next=_next(timing, kept, decided_until_ms=decided_ms, now_ms=now_ms),
        decided_until_ms=decided_ms,
    )


_PASS_MS = 1_000  # longer than an engine takes from writing ends to looking at the clock


def plan_repeat(
    timing: Timing | None, kept: KeptTimes, *, now_ms: int, back_ms: int | None
) -> Retimed | None:
    """Have a schedule that follows elapsed time continue, though the clock was set back a little.

    Its times up to what is decided come again; fixed times do not, nor what a person has moved. An
    interval stays on its grid, and comes again once a whole interval has passed since its last
    fire. `back_ms` is by how much the clock was set, None if no engine saw it: the last fire is
    then taken for one of now. None: the schedule's times stand.
    """
    if kept.is_idle or timing is None or kept.next is None or kept.paused_until_ms is not None:
        return None
    if _is_after_end(timing, kept):
        assert timing.after_end_ms is not None
        due_ms = now_ms + timing.after_end_ms
        if abs(due_ms - kept.next.due_ms) < _PASS_MS:
            return None  # Its run ended in this very pass: the time is by the clock as it is now.
        if back_ms is not None:
            due_ms = min(due_ms, max(now_ms, kept.next.due_ms - back_ms))
        # Its plan time is only an identity.
        return _repeated(kept, kept.next._replace(due_ms=due_ms), now_ms=now_ms)
    is_moved = kept.next.due_ms != resolve_due_ms(timing, kept.next.plan_ms)
    if timing.times.elapsed is None or is_moved:
        return None
    fired_ms = now_ms
    if back_ms is not None:
        last_ms = kept.decided_until_ms
        last_ms = last_ms if kept.last_fired_ms is None else min(last_ms, kept.last_fired_ms)
        fired_ms = min(now_ms, last_ms - back_ms)
    after_ms = max(now_ms, (timing.from_ms or 0) - 1)
    found = timing.times.next_repeated(after_ms, fired_ms=fired_ms)
    following = kept.next
    if found is not None and found[0] <= min(kept.decided_until_ms, timing.until_ms or found[0]):
        plan_ms, source = found
        following = NextFire(plan_ms=plan_ms, due_ms=resolve_due_ms(timing, plan_ms), source=source)
    return _repeated(kept, following, now_ms=now_ms, fired_ms=fired_ms)


def _repeated(
    kept: KeptTimes, following: NextFire, *, now_ms: int, fired_ms: int | None = None
) -> Retimed:
    return Retimed(
        kept=kept,
        next=following,
        decided_until_ms=kept.decided_until_ms,
        trusted_until_ms=kept.trusted_until_ms,
        repeats_since_ms=now_ms,
        last_fired_ms=now_ms if fired_ms is None else fired_ms,
    )


def plan_timeless(timing: Timing, kept: KeptTimes, *, now_ms: int) -> tuple[Retimed, Missed | None]:
    """The next time of a schedule that has lost it, from now on, and what it missed meanwhile.

    A next time of None: the schedule is done.
    """
    count = kept.planned_count
    if kept.paused_until_ms is not None:
        decided_ms = kept.decided_until_ms  # What a pause holds is counted at its end.
        following = next_after_pause(
            timing, kept.paused_until_ms, decided_until_ms=decided_ms, planned_count=count
        )
        return Retimed(kept=kept, next=following, decided_until_ms=decided_ms), None
    decided_ms = max(now_ms, kept.decided_until_ms)
    missed = missed_until(
        timing,
        decided_until_ms=kept.decided_until_ms,
        until_ms=now_ms,
        reason=Reason.PAUSED if kept.is_switched else Reason.EDITED,
        planned_count=count,
    )
    following = fresh_fire(timing, decided_ms, planned_count=count)
    return Retimed(kept=kept, next=following, decided_until_ms=decided_ms), missed


def plan_rebase(timing: Timing, kept: KeptTimes, *, now_ms: int) -> Retimed:
    """The times of an interval that goes by a clock which can't be trusted, from now on.

    Where its times stood before is kept, for `plan_repair`.
    """
    return Retimed(
        kept=kept,
        next=fresh_fire(timing, now_ms, planned_count=kept.planned_count),
        decided_until_ms=now_ms,
        trusted_until_ms=(
            kept.decided_until_ms if kept.trusted_until_ms is None else kept.trusted_until_ms
        ),
    )


def plan_rezone(timing: Timing, kept: KeptTimes, *, now_ms: int) -> Retimed | None:
    """The times to come by other rules of the zone; None where nothing changes.

    A fire that is due by the old rules is left to be fired, and a person's own time for it too.
    """
    if kept.is_idle or kept.next is None or kept.next.plan_ms <= now_ms:
        return None
    is_after_end = _is_after_end(timing, kept)
    if not is_after_end and kept.next.due_ms != resolve_due_ms(timing, kept.next.plan_ms):
        return None
    decided_ms = kept.decided_until_ms
    # What a pause holds is counted at its end, from where it began.
    if kept.paused_until_ms is None:
        decided_ms = max(decided_ms, now_ms)
    following = _next(timing, kept, decided_until_ms=decided_ms, now_ms=now_ms)
    if following == kept.next and decided_ms == kept.decided_until_ms:
        return None
    return Retimed(kept=kept, next=following, decided_until_ms=decided_ms)


def _next(
    timing: Timing, kept: KeptTimes, *, decided_until_ms: int, now_ms: int
) -> NextFire | None:
    count = kept.planned_count
    if kept.paused_until_ms is not None:
        return next_after_pause(
            timing, kept.paused_until_ms, decided_until_ms=decided_until_ms, planned_count=count
        )
    if _is_stranded(timing, kept, now_ms):
        return fresh_fire(timing, now_ms, planned_count=count)
    following = next_fire(timing, decided_until_ms, planned_count=count)
    if not _is_after_end(timing, kept):
        return following  # The end that an interval counts from has not come yet.
    pending = kept.next
    assert pending is not None
    if following is None or pending.plan_ms <= following.plan_ms:
        return pending
    return following


def _is_after_end(timing: Timing, kept: KeptTimes) -> bool:
    return (
        timing.after_end_ms is not None
        and kept.next is not None
        and kept.next.source.endswith(" after end")
    )


def _is_stranded(timing: Timing, kept: KeptTimes, now_ms: int) -> bool:
    """Whether an interval after an end that is past lies further ahead than it is long.

    Not one that is to begin later, nor one that a person has moved: then its plan time or the
    time at which it may start is near.
    """
    if not _is_after_end(timing, kept):
        return False
    assert kept.next is not None
    assert timing.after_end_ms is not None
    since_ms = max(now_ms, timing.from_ms or 0)
    at_ms = min(kept.next.plan_ms, kept.next.due_ms)
    return at_ms > since_ms + timing.after_end_ms + LARGE_MS
