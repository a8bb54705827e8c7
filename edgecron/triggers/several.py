"""Several triggers as one: the earliest wins, and the same instant from two is one plan time."""

from __future__ import annotations

from collections.abc import Sequence

from edgecron.triggers.base import Trigger

_MOST_LOOKUPS = 30_000  # of one trigger's times in another, at 15 us each


class Triggers:
    """The triggers of one schedule together, in the order in which they were written."""

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.triggers = tuple(dict.fromkeys(triggers))

    def __repr__(self) -> str:
        return f"<Triggers {[trigger.text for trigger in self.triggers]}>"

    def next_with_source(self, ms: int) -> tuple[int, str] | None:
        """Find the first plan time strictly later than `ms`, and the text of its first trigger."""
        best: tuple[int, str] | None = None
        for trigger in self.triggers:
            found_ms = trigger.next_after_ms(ms)
            if found_ms is not None and (best is None or found_ms < best[0]):
                best = found_ms, trigger.text
        return best

    def next_after_ms(self, ms: int) -> int | None:
        """Find the first plan time strictly later than `ms`."""
        best = self.next_with_source(ms)
        return None if best is None else best[0]

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        """Find the latest plan time in (after, until]."""
        found = (trigger.last_ms(after_ms, until_ms) for trigger in self.triggers)
        return max((ms for ms in found if ms is not None), default=None)

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        """Count the plan times in (after, until], each instant once.

        Looks up at most 30,000 times in other triggers, those of the sparsest trigger first. If
        that is not enough, each time of the others counts, also a shared one.
        """
        counted = [(trigger.count_ms(after_ms, until_ms), trigger) for trigger in self.triggers]
        counted.sort(key=_count)
        total = sum(count for count, _ in counted)
        lookups = _MOST_LOOKUPS
        # The densest is not looked up in any other: that would only walk through its times.
        for index, (count, trigger) in enumerate(counted[:-1]):
            denser = [other for _, other in counted[index + 1 :]]
            lookups -= count * len(denser)
            if lookups < 0:
                break
            total -= _count_shared(trigger, denser, after_ms, until_ms)
        return total

    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        """List the plan times in (after, until], in order, each instant once."""
        if len(self.triggers) == 1:
            return self.triggers[0].list_ms(after_ms, until_ms)
        found: set[int] = set()
        for trigger in self.triggers:
            found.update(trigger.list_ms(after_ms, until_ms))
        return sorted(found)

    @property
    def elapsed(self) -> Triggers | None:
        """Select intervals and wildcard cron, which follow elapsed time; None without any."""
        found = [trigger for trigger in self.triggers if trigger.follows_elapsed]
        return combine(found) if found else None

    def next_repeated(self, after_ms: int, *, fired_ms: int) -> tuple[int, str] | None:
        """Find the first plan time later than `after_ms` that can come again, and its text.

        For a clock that was set back after the last fire, which was at `fired_ms` by the new clock.
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
        """Measure the distance of the next two plan times after `at_ms`, if there are two."""
        first_ms = self.next_after_ms(at_ms)
        second_ms = None if first_ms is None else self.next_after_ms(first_ms)
        return None if first_ms is None or second_ms is None else second_ms - first_ms


def combine(triggers: Sequence[Trigger]) -> Triggers:
    """Combine the triggers of one schedule. Equal ones count once; none at all never fires."""
    return Triggers(triggers)


def _count(counted: tuple[int, Trigger]) -> int:
    return counted[0]


def _count_shared(trigger: Trigger, denser: Sequence[Trigger], after_ms: int, until_ms: int) -> int:
    """Count the plan times of a trigger in (after, until] that one of the others has too."""
    shared = 0
    ms = trigger.next_after_ms(after_ms)
    while ms is not None and ms <= until_ms:
        shared += any(other.next_after_ms(ms - 1) == ms for other in denser)
        ms = trigger.next_after_ms(ms)
    return shared
