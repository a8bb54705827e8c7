"""The interface of a trigger, and the triggers of one schedule as one: the earliest wins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar

from edgecron.base.checks import check_aware
from edgecron.base.tzif import History
from edgecron.base.units import from_ms, to_ms
from edgecron.base.zones import LOCAL, local_history

_MOST_LOOKUPS = 30_000  # of one trigger's times in another, at 15 us each


class TriggerKind(StrEnum):
    CRON = "cron"  # calendar times
    EVERY = "every"  # a grid of one distance
    AFTER_END = "after_end"  # a while after the schedule's own last run has ended
    AT = "at"  # one instant
    ONCE_IN = "once_in"  # once in each window
    BOOT = "boot"  # once per boot of the machine
    DEMAND = "demand"  # only when a person or a program asks for a run
    AFTER = "after"  # when another schedule's fire has ended


class Trigger(ABC):
    """When a schedule fires. Frozen and hashable; equal if text, zone and meaning are equal.

    An event-driven trigger (boot, demand, after, after end) has no plan times. Plan times are UTC
    instants.
    """

    __slots__ = ()

    kind: ClassVar[TriggerKind]

    @property
    @abstractmethod
    def text(self) -> str:
        """The text that `parse_trigger` reads."""

    @property
    @abstractmethod
    def timezone(self) -> str | None:
        """An IANA name, 'local', or None for UTC."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the person who wrote it."""
        return ()

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first plan time strictly later than an aware instant, in UTC.

        Raises InvalidTime (a ValueError) for a datetime without an offset.
        """
        found_ms = self.next_after_ms(to_ms(check_aware("time", instant)))
        return None if found_ms is None else from_ms(found_ms)

    @abstractmethod
    def next_after_ms(self, ms: int) -> int | None:
        """Find the first plan time strictly later than `ms`, in milliseconds since 1970."""

    @abstractmethod
    def count_ms(self, after_ms: int, until_ms: int) -> int:
        """Count the plan times later than `after_ms` and not later than `until_ms`.

        The cost does not depend on their number.
        """

    @abstractmethod
    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        """Find the latest plan time later than `after_ms` and not later than `until_ms`."""

    @abstractmethod
    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        """List the plan times later than `after_ms` and not later than `until_ms`, in order.

        Much faster than `next_after_ms` for each.
        """

    @property
    def follows_elapsed(self) -> bool:
        """Whether its times follow elapsed time, and continue if the clock is set back a little."""
        return False

    def repeats_from_ms(self, fired_ms: int) -> int | None:
        """If it fired at `fired_ms` and then the clock was set back: the first instant at which it
        can fire again. None if its times do not follow elapsed time."""
        return None

    def interval_hint_ms(self, at_ms: int) -> int | None:
        """Measure the distance of the next two plan times after `at_ms`, if there are two."""
        first_ms = self.next_after_ms(at_ms)
        second_ms = None if first_ms is None else self.next_after_ms(first_ms)
        return None if first_ms is None or second_ms is None else second_ms - first_ms

    def to_json(self) -> dict[str, object]:
        """Write the compiled form, as `from_json` reads it back."""
        return {
            "kind": self.kind.value,
            "text": self.text,
            "timezone": self.timezone,
            **self._compiled(),
        }

    def _compiled(self) -> Mapping[str, object]:
        return {}

    def __repr__(self) -> str:
        zone = f", timezone={self.timezone!r}" if self.timezone is not None else ""
        return f"<{type(self).__name__} {self.text!r}{zone}>"


_OF_ZONES = (TriggerKind.CRON, TriggerKind.ONCE_IN)  # Their times depend on the zone.


class Triggers:
    """The triggers of one schedule together, in the order in which they were written.

    The same instant from two of them is one plan time.
    """

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self.triggers = tuple(dict.fromkeys(triggers))
        self._is_local = any(
            one.timezone == LOCAL and one.kind in _OF_ZONES for one in self.triggers
        )
        # The last answer: schedules with the same triggers are due together, and ask the same.
        self._newest: tuple[int, History | None, tuple[int, str] | None] | None = None

    def __repr__(self) -> str:
        return f"<Triggers {[trigger.text for trigger in self.triggers]}>"

    def next_with_source(self, ms: int) -> tuple[int, str] | None:
        """Find the first plan time strictly later than `ms`, and the text of its first trigger."""
        zone = local_history() if self._is_local else None
        newest = self._newest
        if newest is not None and newest[0] == ms and newest[1] is zone:
            return newest[2]
        best: tuple[int, str] | None = None
        for trigger in self.triggers:
            found_ms = trigger.next_after_ms(ms)
            if found_ms is not None and (best is None or found_ms < best[0]):
                best = found_ms, trigger.text
        self._newest = ms, zone, best
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
    """Combine the triggers of one schedule. Equal ones count once; none at all never fires.

    Schedules with the same triggers share the result.
    """
    return _combine(tuple(triggers))


_combine = lru_cache(maxsize=2048)(Triggers)


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
