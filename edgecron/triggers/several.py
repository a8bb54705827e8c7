"""Several triggers as one: the earliest wins, and the same instant from two is one plan time."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.triggers.base import Trigger
from edgecron.triggers.union import count_union

# A trigger with at most so many plan times in a range has them looked up one by one.
_FEW = 1000


class Triggers:
    """The triggers of one schedule together, in the order in which they were written."""

    __slots__ = ("triggers",)

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.triggers = tuple(dict.fromkeys(triggers))

    def __repr__(self) -> str:
        return f"<Triggers {[trigger.text for trigger in self.triggers]}>"

    def next_with_source(self, ms: int) -> tuple[int, str] | None:
        """The first plan time strictly later than `ms` and the text of the first trigger that
        has it, or None."""
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
        """How many plan times lie in (after, until], each instant once.

        Independent of their number, but for a schedule that joins several triggers of more than
        a thousand plan times each in the range: those cost about 20 us a day, a year 10 ms.
        """
        counted = [(trigger, trigger.count_ms(after_ms, until_ms)) for trigger in self.triggers]
        sparse = [(trigger, count) for trigger, count in counted if 0 < count <= _FEW]
        dense = [(trigger, count) for trigger, count in counted if count > _FEW]
        if len(dense) == 1:
            total = dense[0][1]
        else:
            total = count_union([trigger for trigger, _ in dense], after_ms, until_ms)
        earlier = [trigger for trigger, _ in dense]
        for trigger, count in sparse:
            total += _count_others(trigger, earlier, after_ms, until_ms) if earlier else count
            earlier.append(trigger)
        return total

    def interval_hint_ms(self, at_ms: int) -> int | None:
        """The distance between the next two plan times after `at_ms`, or None without two."""
        first_ms = self.next_after_ms(at_ms)
        second_ms = None if first_ms is None else self.next_after_ms(first_ms)
        return None if first_ms is None or second_ms is None else second_ms - first_ms


def combine(triggers: Sequence[Trigger]) -> Triggers:
    """The triggers of one schedule as one. Equal ones count once; none at all never fires."""
    return Triggers(triggers)


def _count_others(
    trigger: Trigger, earlier: Sequence[Trigger], after_ms: int, until_ms: int
) -> int:
    """How many plan times of a trigger in (after, until] none of the earlier ones has."""
    total = 0
    ms = trigger.next_after_ms(after_ms)
    while ms is not None and ms <= until_ms:
        total += not any(other.count_ms(ms - 1, ms) for other in earlier)
        ms = trigger.next_after_ms(ms)
    return total
