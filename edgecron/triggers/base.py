"""The interface of a trigger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from edgecron.base.checks import check_aware
from edgecron.base.units import from_ms, to_ms

# Instants that a datetime can hold in any zone. No plan time lies outside them.
EARLIEST_MS = -62_135_510_400_000  # 0001-01-02T00:00:00Z
LATEST_MS = 253_402_128_000_000  # 9999-12-30T00:00:00Z


class TriggerKind(StrEnum):
    CRON = "cron"  # calendar times
    EVERY = "every"  # a grid of one distance
    AFTER_END = "after_end"  # a while after the schedule's own last run has ended
    AT = "at"  # one instant
    BOOT = "boot"  # once per boot of the machine
    AFTER = "after"  # when another schedule's fire has ended


class Trigger(ABC):
    """When a schedule fires. Frozen and hashable; equal if text, zone and meaning are equal.

    An event-driven trigger (boot, after, after end) has no plan times. Plan times are UTC instants.
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
