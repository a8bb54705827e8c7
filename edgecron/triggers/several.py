"""Several triggers as one: the earliest wins, and the same instant from two is one plan time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from edgecron.triggers.base import Trigger, TriggerKind
from edgecron.triggers.tzif import History
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
            from edgecron.triggers.union import count_union  # of many missed times alone

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
