"""Decide whether a clock can be trusted, and correct times after a clock or zone changed. Pure.

A clock is trusted if the kernel calls it synchronised, or if it is plausible: near the latest
instant that has certainly passed. That is the day this edgecron was released, or the trusted mark
in the database if that is later. The mark follows a synchronised clock. By any other clock it moves
by elapsed time only, so that one boot in 2099 does no lasting harm.

A fire that is due by its stored time is left to be fired: the old rules promised it. A fire that is
still to come is computed again, and never for the past.
"""

from __future__ import annotations

from datetime import UTC, datetime

import edgecron
from edgecron.base.units import DAY_MS, HOUR_MS, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.model.choices import ON_TIME_MS, Hold, Reason
from edgecron.planning.next_fire import (
    Missed,
    NextFire,
    Timing,
    fresh_fire,
    next_after_pause,
    next_fire,
    passed_until,
    resolve_due_ms,
)

LARGE_MS = 3 * HOUR_MS  # a larger correction is not an adjustment, as in cron(8)
CLOCK_WAIT_MS = 600_000
BUILT_MS = to_ms(datetime.fromisoformat(edgecron.__built__).replace(tzinfo=UTC))
# No edgecron ran before: an earlier mark was made by a clock that had never been set.
FIRST_MS = to_ms(datetime(2020, 1, 1, tzinfo=UTC))
_EARLY_MS = 300_000
_LATE_MS = 400 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """A clock's time, the latest instant that has certainly passed, and whether it is trusted.

    The clock was set last at `set_at_ms`, by the new time, by `set_by_ms`: less than 0 is back.
    """

    now_ms: int
    mark_ms: int
    is_synchronised: bool | None
    is_trusted: bool
    set_at_ms: int | None = None
    set_by_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMarks:
    """The records of a database about the clock and zones; None if nothing.

    `local_timezone` names the machine's zone whose rules gave the stored times. The clock was last
    set at `set_at_ms` (the new time) by `set_by_ms` (negative: back).
    """

    trusted_high_ms: int | None
    tzdata_version: str | None
    local_timezone: str | None
    set_at_ms: int | None = None
    set_by_ms: int | None = None

    @property
    def zones(self) -> tuple[str | None, ...]:
        """The values that decide about calendar times."""
        return self.tzdata_version, self.local_timezone


def resolve_mark_ms(stored_ms: int | None) -> int:
    """The instant that has certainly passed: the trusted mark, or the release if that is later."""
    return BUILT_MS if stored_ms is None else max(BUILT_MS, stored_ms)


def is_plausible(now_ms: int, *, mark_ms: int) -> bool:
    """Whether an unsynchronised clock is near enough to what has certainly passed."""
    return mark_ms - _EARLY_MS <= now_ms <= mark_ms + _LATE_MS


def resolve_margin_ms(now_ms: int, *, mark_ms: int) -> int:
    """By how much an unsynchronised clock can still run ahead and be trusted."""
    return mark_ms + _LATE_MS - now_ms


def is_trusted(now_ms: int, *, mark_ms: int, is_synchronised: bool | None) -> bool:
    """Whether this clock can decide fires."""
    return is_synchronised is True or is_plausible(now_ms, mark_ms=mark_ms)


def is_large(correction_ms: int) -> bool:
    """Whether a correction is so large that stored times are computed again."""
    return abs(correction_ms) > LARGE_MS


def is_worth_writing(mark_ms: int, *, stored_ms: int | None, is_busy: bool) -> bool:
    """Whether the mark in the database is so old that it is written again: spare flash memory.

    `is_busy`: something else was written just now. A mark in the future would do harm.
    """
    # With a clock before the release, as in tests, no mark is worth writing.
    behind_ms = max(mark_ms, BUILT_MS) - resolve_mark_ms(stored_ms)
    return behind_ms >= (HOUR_MS if is_busy else DAY_MS) or behind_ms < -_EARLY_MS


def resolve_hold(*, is_trusted: bool, waited_ms: int, clock_wait_ms: int | None) -> Hold:
    """Return which times are held after a wait of `waited_ms`; `clock_wait_ms` None waits without
    end.
    """
    if is_trusted:
        return Hold.NOTHING
    if clock_wait_ms is None or waited_ms < clock_wait_ms:
        return Hold.ALL
    return Hold.CALENDAR


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTimes:
    """The times of a schedule as they are stored.

    `is_idle`: it is paused without end or broken, and has no next time. `trusted_until_ms` is the
    value that `decided_until_ms` had under the last trusted clock; None if it is the same. Up to
    `pruned_until_ms`, rows of decided times were removed. Since `repeats_since_ms`, a clock that
    was set back repeats decided times. `is_switched`: the last change was a pause, a resume or a
    reschedule, and not an edit.
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
    """The new times of a schedule."""

    kept: KeptTimes
    next: NextFire | None
    decided_until_ms: int
    trusted_until_ms: int | None = None
    repeats_since_ms: int | None = None
    last_fired_ms: int | None = None  # by the clock as it is now, if that was set back

    @property
    def has_moved(self) -> bool:
        """Whether the next fire or its time is another one."""
        return self.next != self.kept.next


def resolve_decided_ms(kept: KeptTimes, *, now_ms: int, is_set_back: bool) -> int:
    """Up to when a schedule's times are decided, by a clock that is right again.

    `is_set_back`: the clock was set far back, so that its times before were wrong. Otherwise
    `decided_until_ms` is believed up to LARGE_MS ahead, as after a small step back.
    """
    if kept.trusted_until_ms is not None:
        decided_ms = min(kept.trusted_until_ms, now_ms)
    else:
        bound_ms = now_ms if is_set_back else now_ms + LARGE_MS
        decided_ms = kept.decided_until_ms
        decided_ms = now_ms if decided_ms > bound_ms else decided_ms
    # A schedule that was made in 1970 has missed nothing since.
    decided_ms = now_ms if decided_ms < FIRST_MS else decided_ms
    # Times whose rows were removed must not be decided again.
    return decided_ms if kept.pruned_until_ms is None else max(decided_ms, kept.pruned_until_ms)


def plan_repair(
    timing: Timing | None, kept: KeptTimes, *, now_ms: int, is_set_back: bool
) -> Retimed | None:
    """The times that a right clock would have given; None if the stored times stand.

    Times that were missed meanwhile are misfires like any other. `timing` is unused if the schedule
    is idle.
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


_PASS_MS = 1_000  # longer than a pass takes from recording ends to looking at the clock


def plan_repeat(
    timing: Timing | None, kept: KeptTimes, *, now_ms: int, back_ms: int | None
) -> Retimed | None:
    """Let a schedule that follows elapsed time continue after the clock was set back a little.

    Its decided times come again; fixed times and moved fires do not. An interval stays on its grid
    and fires again after a whole interval since its last fire. `back_ms` is by how much the clock
    was set, None if no engine saw it: the last fire then counts as one of now. None: the stored
    times stand.
    """
    if kept.is_idle or timing is None or kept.next is None or kept.paused_until_ms is not None:
        return None
    if _is_after_end(timing, kept):
        assert timing.after_end_ms is not None
        due_ms = now_ms + timing.after_end_ms
        if abs(due_ms - kept.next.due_ms) < _PASS_MS:
            return None  # Its run ended in this very pass, by the clock as it is now.
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


def plan_timeless(
    timing: Timing, kept: KeptTimes, *, now_ms: int
) -> tuple[Retimed, tuple[Missed, ...]]:
    """Give a schedule without a next time one from now on; and the times it missed meanwhile.

    A next time of None: the schedule is done.
    """
    count = kept.planned_count
    if kept.paused_until_ms is not None:
        decided_ms = kept.decided_until_ms  # Times that a pause holds are counted at its end.
        following = next_after_pause(
            timing, kept.paused_until_ms, decided_until_ms=decided_ms, planned_count=count
        )
        return Retimed(kept=kept, next=following, decided_until_ms=decided_ms), ()
    decided_ms = max(now_ms, kept.decided_until_ms)
    missed = passed_until(
        timing,
        decided_until_ms=kept.decided_until_ms,
        until_ms=now_ms,
        reason=Reason.PAUSED if kept.is_switched else Reason.EDITED,
        planned_count=count,
    )
    following = fresh_fire(timing, decided_ms, planned_count=count)
    return Retimed(kept=kept, next=following, decided_until_ms=decided_ms), missed


def plan_rebase(timing: Timing, kept: KeptTimes, *, now_ms: int) -> Retimed:
    """The times of an interval by a clock that can't be trusted, from now on.

    The value of `decided_until_ms` before is kept for `plan_repair`.
    """
    return Retimed(
        kept=kept,
        next=fresh_fire(timing, now_ms, planned_count=kept.planned_count),
        decided_until_ms=now_ms,
        trusted_until_ms=(
            kept.decided_until_ms if kept.trusted_until_ms is None else kept.trusted_until_ms
        ),
    )


class ZonedTimes(NamedTuple):
    """The values that show whether the zones' rules still give a schedule's next time, and no more.

    The stored next time is the first one after `after_ms`, unless `is_plain` is False: then a
    pause, a run or a clock that was set back decides too. `has_windows`: their zone decides too.
    """

    schedule_id: int
    compiled: str
    after_ms: int
    plan_ms: int
    source: str
    is_plain: bool
    has_windows: bool = False


def find_zone_change_ms(set_ms: int | None, *, looked_ms: int | None, now_ms: int) -> int:
    """When the machine's zone has changed: between the last look at the zone and now.

    `set_ms` is what the machine says. If that is not in between, the zone has changed since the
    last look; if that was long ago, as before a sleep, times before now are not counted.
    """
    if looked_ms is not None and set_ms is not None and looked_ms <= set_ms <= now_ms:
        return set_ms
    return looked_ms if looked_ms is not None and 0 <= now_ms - looked_ms <= ON_TIME_MS else now_ms


def plan_rezone(timing: Timing, kept: KeptTimes, *, changed_ms: int, now_ms: int) -> Retimed | None:
    """The times by the new rules of the zone from when it changed on; None if nothing changes.

    A fire that is due by the old rules is left to be fired, and so is one that a person moved.
    """
    if kept.is_idle or kept.next is None or kept.next.plan_ms <= now_ms:
        return None
    is_after_end = _is_after_end(timing, kept)
    if not is_after_end and kept.next.due_ms != resolve_due_ms(timing, kept.next.plan_ms):
        return None
    decided_ms = kept.decided_until_ms
    following = _next(timing, kept, decided_until_ms=decided_ms, now_ms=now_ms)
    if following == kept.next:
        return None
    # Times that a pause holds are counted at its end, from its beginning. Of others, those that the
    # new rules put before the change are neither run nor missed.
    is_passed = following is not None and following.plan_ms <= changed_ms
    if (
        kept.paused_until_ms is None
        and decided_ms < changed_ms
        and (is_passed or timing.windows is None)
    ):
        decided_ms = changed_ms
        following = _next(timing, kept, decided_until_ms=decided_ms, now_ms=now_ms)
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
        return following  # The interval counts from an end that has not come yet.
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
    """Whether a time after an end lies further ahead than its interval is long.

    Not a schedule that begins later, nor a fire that a person moved: then its plan time or its due
    time is near.
    """
    if not _is_after_end(timing, kept):
        return False
    assert kept.next is not None
    assert timing.after_end_ms is not None
    since_ms = max(now_ms, timing.from_ms or 0)
    at_ms = min(kept.next.plan_ms, kept.next.due_ms)
    return at_ms > since_ms + timing.after_end_ms + LARGE_MS
