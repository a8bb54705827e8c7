"""Schedules summed up to how busy each hour of a week is.

Counted are plan times, as they will come if nothing changes. Within that, all is exact but this:
jitter is left out; an interval after the end counts as if runs took no time; what is due already,
retries, and what follows other events (a boot, another schedule) does not count; of times that a
person's `reschedule` moved the next run past, one counts; and where several triggers of a schedule
meet in more than a day's hours, how often they do is spread evenly over these.
"""

from __future__ import annotations

from datetime import date

from edgecron.base.errors import SENSELESS
from edgecron.base.values import dataclass
from edgecron.model.measures import Recurrence
from edgecron.planning.times import load_triggers
from edgecron.triggers import EveryTrigger, Triggers, combine
from edgecron.views.busy_shapes import DAYS, HOURS, Shape, Shapes, Week, counts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekHeat:
    """How many runs are to start in each hour (0 to 23) of seven local days.

    `schedules` of them have any. What is past of today has none.
    """

    first_day: date
    counts: tuple[tuple[int, ...], ...]
    schedules: int


class WeekTally:
    """The sum of the schedules that were added."""

    def __init__(self, week: Week) -> None:
        self._week = week
        self._shapes = Shapes(week)
        self._counts = [0] * len(week.cells)
        self._schedules = 0

    def add(self, one: Recurrence) -> None:
        """Count a schedule. One whose triggers can't be read has no times."""
        plan_ms, paused_ms = one.next_plan_ms, one.paused_until_ms
        if plan_ms is not None and paused_ms is not None and plan_ms < paused_ms:
            return  # Held by the pause, at whose end it is recorded; nothing follows.
        try:
            shape = self._shapes.shape_of(one.compiled)
            if _is_whole(one, shape, self._week):
                self._take(shape)
            else:
                self._take_counts(_clipped(one, shape, self._week))
        except SENSELESS:
            return  # InvalidInput is one of these; what can't be read is shown where it stands.
        if self._shapes.is_full:
            self._sum_up()

    def result(self) -> WeekHeat:
        """The heat of all that were added so far."""
        self._sum_up()
        hours = [0] * (DAYS * HOURS)
        for cell, count in zip(self._week.cells, self._counts, strict=True):
            hours[cell] += count
        return WeekHeat(
            first_day=self._week.first_day,
            counts=tuple(tuple(hours[day * HOURS : (day + 1) * HOURS]) for day in range(DAYS)),
            schedules=self._schedules,
        )

    def _take(self, shape: Shape) -> None:
        for pattern in shape.patterns:
            pattern.uses += 1
        for n, count in shape.singles:
            self._counts[n] += count
        self._schedules += shape.total > 0

    def _take_counts(self, counts: list[int]) -> None:
        self._counts = [a + b for a, b in zip(self._counts, counts, strict=True)]
        self._schedules += any(counts)

    def _sum_up(self) -> None:
        for pattern in self._shapes.patterns.values():
            uses = pattern.uses
            if uses:
                self._counts = [
                    have + uses * count
                    for have, count in zip(self._counts, pattern.counts, strict=True)
                ]
        self._shapes.forget()


def _is_whole(one: Recurrence, shape: Shape, week: Week) -> bool:
    """Whether all of its triggers' times of the week are its own, and no others."""
    plan_ms, next_ms = one.next_plan_ms, shape.next_ms
    return (
        plan_ms is not None
        and (next_ms is None or plan_ms <= next_ms)
        and not _is_moved(one)
        and one.after_end_ms is None
        and (one.until_ms is None or one.until_ms >= week.end_ms)
        and (one.runs_left is None or one.runs_left >= shape.total)
    )


def _is_moved(one: Recurrence) -> bool:
    if one.next_plan_ms is None or one.next_run_ms is None:
        return False
    return not one.next_plan_ms <= one.next_run_ms <= one.next_plan_ms + one.jitter_ms


def _clipped(one: Recurrence, shape: Shape, week: Week) -> list[int]:
    """The counts of a schedule of whose times some do not come, or others do."""
    since_ms = max(week.start_ms, one.next_plan_ms or 0)
    last_ms = week.end_ms - 1 if one.until_ms is None else min(one.until_ms, week.end_ms - 1)
    moved = None
    if _is_moved(one) and one.next_run_ms is not None:
        moved = week.find(one.next_run_ms)
        since_ms = max(since_ms, (one.next_plan_ms or 0) + 1, one.next_run_ms + 1)
    triggers = load_triggers(one.compiled)
    whole: list[int] | None = counts_of(shape, week)
    if one.after_end_ms is not None:
        triggers.append(_grid_after_end(one, one.after_end_ms, week))
        whole = None
    counts = _count_within(combine(triggers), week, since_ms, last_ms, whole=whole)
    if moved is not None:
        counts[moved] += 1
    return counts if one.runs_left is None else _limited(counts, one.runs_left)


def _grid_after_end(one: Recurrence, interval_ms: int, week: Week) -> EveryTrigger:
    """The times after its own ends, if runs took none."""
    first_ms = one.next_plan_ms or max(week.start_ms + interval_ms, one.paused_until_ms or 0)
    if _is_moved(one):
        first_ms = one.next_run_ms or first_ms
    return EveryTrigger(interval_ms, anchor_ms=first_ms, is_bounded=True, timezone=None)


def _count_within(
    times: Triggers, week: Week, since_ms: int, last_ms: int, *, whole: list[int] | None
) -> list[int]:
    """The times of each stretch from one instant to another; `whole` are those without bounds."""
    counts = []
    for n, (first_ms, next_ms) in enumerate(zip(week.starts_ms, week.ends_ms, strict=True)):
        start_ms, end_ms = max(first_ms, since_ms), min(next_ms - 1, last_ms)
        is_whole = start_ms == first_ms and end_ms == next_ms - 1
        if start_ms > end_ms or (whole is not None and not whole[n]):
            counts.append(0)
        elif whole is not None and is_whole:
            counts.append(whole[n])
        else:
            counts.append(times.count_ms(start_ms - 1, end_ms))
    return counts


def _limited(counts: list[int], left: int) -> list[int]:
    """The counts up to so many together, in order of time."""
    kept = []
    for count in counts:
        kept.append(min(count, max(left, 0)))
        left -= count
    return kept
