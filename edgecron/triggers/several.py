"""Several triggers as one: the earliest wins, and the same instant from two is one plan time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

from edgecron.base.values import NamedTuple
from edgecron.triggers.base import EARLIEST_MS, LATEST_MS, Trigger, TriggerKind
from edgecron.triggers.crontrigger import CronTrigger, range_s
from edgecron.triggers.patterns import Block, cron_blocks
from edgecron.triggers.simple import EveryTrigger
from edgecron.triggers.tzif import DAY_S, History
from edgecron.triggers.zones import LOCAL, local_history

# Triggers with at most so many plan times together in a range have them looked up one by one.
_FEW = 32


class Triggers:
    """The triggers of one schedule together, in the order in which they were written."""

    __slots__ = ("_is_local", "_newest", "triggers")

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.triggers = tuple(dict.fromkeys(triggers))
        # A grid is the same in every zone, and goes on where the machine's can't be read.
        self._is_local = any(
            trigger.timezone == LOCAL and trigger.kind is TriggerKind.CRON
            for trigger in self.triggers
        )
        # The newest answer: of many schedules with the same triggers all ask the same.
        self._newest: tuple[int, History | None, tuple[int, str] | None] | None = None

    def __repr__(self) -> str:
        return f"<Triggers {[trigger.text for trigger in self.triggers]}>"

    def next_with_source(self, ms: int) -> tuple[int, str] | None:
        """The first plan time strictly later than `ms` and the text of the first trigger that
        has it, or None."""
        zone = local_history() if self._is_local else None
        newest = self._newest
        if newest is not None and newest[0] == ms and newest[1] is zone:
            return newest[2]
        best = self._find_next(ms)
        self._newest = ms, zone, best
        return best

    def _find_next(self, ms: int) -> tuple[int, str] | None:
        best: tuple[int, str] | None = None
        for trigger in self.triggers:
            found_ms = trigger.next_after_ms(ms)
            if found_ms is not None and (best is None or found_ms < best[0]):
                best = found_ms, trigger.text
        return best

    def next_after_ms(self, ms: int) -> int | None:
        """The first plan time strictly later than `ms`, or None."""
        best = self.next_with_source(ms)
        return None if best is None else best[0]

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        """The latest plan time in (after, until], or None."""
        found = (trigger.last_ms(after_ms, until_ms) for trigger in self.triggers)
        return max((ms for ms in found if ms is not None), default=None)

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        """How many plan times lie in (after, until], each instant once, whatever their number."""
        counted = [(trigger, trigger.count_ms(after_ms, until_ms)) for trigger in self.triggers]
        busy = [trigger for trigger, count in counted if count]
        total = sum(count for _, count in counted)
        if len(busy) < 2:
            return total
        if total > _FEW:
            return count_union(busy, after_ms, until_ms)
        found: set[int] = set()
        for trigger in busy:
            ms = trigger.next_after_ms(after_ms)
            while ms is not None and ms <= until_ms:
                found.add(ms)
                ms = trigger.next_after_ms(ms)
        return len(found)

    @property
    def elapsed(self) -> Triggers | None:
        """Those that follow elapsed time, intervals and wildcard cron; None if there are none."""
        found = [trigger for trigger in self.triggers if trigger.follows_elapsed]
        return combine(found) if found else None

    def next_repeated(self, after_ms: int, *, fired_ms: int) -> tuple[int, str] | None:
        """The first plan time later than `after_ms` that can come again, and its trigger's text.

        For a clock that was set back after the last fire, at `fired_ms` by the clock as it is now.
        """
        best: tuple[int, str] | None = None
        for trigger in self.triggers:
            from_ms = trigger.repeats_from_ms(fired_ms)
            if from_ms is None:
                continue
            found_ms = trigger.next_after_ms(max(after_ms, from_ms - 1))
            if found_ms is not None and (best is None or found_ms < best[0]):
                best = found_ms, trigger.text
        return best

    def interval_hint_ms(self, at_ms: int) -> int | None:
        """The distance between the next two plan times after `at_ms`, or None without two."""
        first_ms = self.next_after_ms(at_ms)
        second_ms = None if first_ms is None else self.next_after_ms(first_ms)
        return None if first_ms is None or second_ms is None else second_ms - first_ms


def combine(triggers: Sequence[Trigger]) -> Triggers:
    """The triggers of one schedule as one. Equal ones count once; none at all never fires.

    Schedules with equal triggers share the answer.
    """
    return _combine(tuple(triggers))


@lru_cache(maxsize=2048)
def _combine(triggers: tuple[Trigger, ...]) -> Triggers:
    return Triggers(triggers)


class _Grid(NamedTuple):
    """`phase_ms` and every multiple of the interval, from `since_ms` on where there is such."""

    interval_ms: int
    phase_ms: int
    since_ms: int | None


_WHOLE_SECONDS = _Grid(1000, 0, None)


def count_union(triggers: Sequence[Trigger], after_ms: int, until_ms: int) -> int:
    """The number of distinct plan times in (after, until].

    Its cost grows with the number of clock changes, and hardly with that of the days.
    """
    after_ms, until_ms = max(after_ms, EARLIEST_MS - 1), min(until_ms, LATEST_MS)
    crons = [trigger for trigger in triggers if isinstance(trigger, CronTrigger)]
    grids = [trigger for trigger in triggers if isinstance(trigger, EveryTrigger)]
    total = _count_calendar(crons, grids, after_ms, until_ms)
    # What is left are single instants.
    others: list[Trigger] = [*crons, *grids]
    seen: set[int] = set()
    for trigger in triggers:
        if isinstance(trigger, (CronTrigger, EveryTrigger)):
            continue
        ms = trigger.next_after_ms(after_ms)
        while ms is not None and ms <= until_ms:
            if ms not in seen and not any(other.count_ms(ms - 1, ms) for other in others):
                total += 1
            seen.add(ms)
            ms = trigger.next_after_ms(ms)
    return total


def _count_calendar(
    crons: Sequence[CronTrigger], grids: Sequence[EveryTrigger], after_ms: int, until_ms: int
) -> int:
    """How many instants cron triggers and grids have together."""
    if len(crons) == 1 and not grids:
        return crons[0].count_ms(after_ms, until_ms)
    terms = _union_terms([_grid_of(trigger) for trigger in grids], after_ms, until_ms)
    total = sum(sign * _count_grid(grid, after_ms, until_ms) for grid, sign in terms.items())
    if not crons:
        return total
    shared: dict[_Grid, int] = {}
    for grid, sign in terms.items():
        whole = _meet(grid, _WHOLE_SECONDS)
        if whole is not None:
            shared[whole] = shared.get(whole, 0) + sign
    starts_s = {-(-grid.since_ms // 1000) for grid in shared if grid.since_ms is not None}
    blocks = _blocks(crons, after_ms, until_ms, cuts_s=sorted(starts_s))
    total += sum(block.count() for block in blocks)
    for grid, sign in shared.items():
        if sign:
            total -= sign * _count_shared(blocks, grid, after_ms, until_ms)
    return total


def _blocks(
    crons: Sequence[CronTrigger], after_ms: int, until_ms: int, *, cuts_s: Sequence[int]
) -> list[Block]:
    # Where nothing fires there is nothing to look at: the range may be all of history.
    firsts = [trigger.next_after_ms(after_ms) for trigger in crons]
    lasts = [trigger.last_ms(after_ms, until_ms) for trigger in crons]
    first_ms = min((ms for ms in firsts if ms is not None), default=None)
    last_ms = max((ms for ms in lasts if ms is not None), default=None)
    if first_ms is None or last_ms is None:
        return []
    since_s, until_s = range_s(first_ms - 1, last_ms)
    return cron_blocks(crons, since_s, until_s, cuts_s=cuts_s)


def _count_shared(blocks: Sequence[Block], grid: _Grid, after_ms: int, until_ms: int) -> int:
    """How many instants of the blocks in (after, until] lie on a grid of whole seconds."""
    interval_s, anchor_s = grid.interval_ms // 1000, grid.phase_ms // 1000
    period_days = interval_s // gcd(interval_s, DAY_S)
    if _count_grid(grid, after_ms, until_ms) <= period_days:
        return sum(
            any(block.holds(at_ms // 1000) for block in blocks)
            for at_ms in _walk_grid(grid, after_ms, until_ms)
        )
    return sum(
        block.count_along(interval_s, anchor_s, period_days=period_days)
        for block in blocks
        if grid.since_ms is None or block.start_s * 1000 >= grid.since_ms
    )


def _grid_of(trigger: EveryTrigger) -> _Grid:
    return _Grid(
        interval_ms=trigger.interval_ms,
        phase_ms=trigger.anchor_ms % trigger.interval_ms,
        since_ms=trigger.anchor_ms if trigger.is_bounded else None,
    )


def _union_terms(grids: Sequence[_Grid], after_ms: int, until_ms: int) -> dict[_Grid, int]:
    """Grids and how often each is to be counted, so that every instant counts once.

    Those without an instant in (after, until] are left out.
    """
    terms: dict[_Grid, int] = {}
    for grid in grids:
        added = {grid: 1}
        for other, sign in terms.items():
            met = _meet(grid, other)
            if met is not None and _count_grid(met, after_ms, until_ms):
                added[met] = added.get(met, 0) - sign
        for met, sign in added.items():
            terms[met] = terms.get(met, 0) + sign
        terms = {met: sign for met, sign in terms.items() if sign}
    return terms


def _meet(one: _Grid, other: _Grid) -> _Grid | None:
    """The instants that two grids share are a grid again, or none."""
    shared = gcd(one.interval_ms, other.interval_ms)
    apart = other.phase_ms - one.phase_ms
    if apart % shared:
        return None
    step = other.interval_ms // shared
    # The Chinese remainder theorem.
    times = apart // shared * pow(one.interval_ms // shared, -1, step) % step
    interval_ms = one.interval_ms * step
    bounds = [grid.since_ms for grid in (one, other) if grid.since_ms is not None]
    return _Grid(
        interval_ms=interval_ms,
        phase_ms=(one.phase_ms + one.interval_ms * times) % interval_ms,
        since_ms=max(bounds, default=None),
    )


def _count_grid(grid: _Grid, after_ms: int, until_ms: int) -> int:
    return len(_walk_grid(grid, after_ms, until_ms))


def _walk_grid(grid: _Grid, after_ms: int, until_ms: int) -> range:
    """The instants of a grid in (after, until]."""
    if grid.since_ms is not None:
        after_ms = max(after_ms, grid.since_ms - 1)
    first_ms = after_ms + 1 + (grid.phase_ms - after_ms - 1) % grid.interval_ms
    return range(first_ms, until_ms + 1, grid.interval_ms)
