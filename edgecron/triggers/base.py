"""The interface of a trigger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self

from edgecron.base.errors import InvalidTime
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

    `text` is what `parse_trigger` reads back; `timezone` an IANA name, 'local', or None for UTC;
    `warnings` are sentences for the person who wrote it, empty after `from_json`.
    Plan times are UTC instants; an event-driven trigger (boot, after, after end) has none.
    """

    __slots__ = ("_identity", "text", "timezone", "warnings")

    kind: ClassVar[TriggerKind]
    text: str
    timezone: str | None
    warnings: tuple[str, ...]
    _identity: tuple[object, ...]

    def __init__(
        self,
        text: str,
        *,
        timezone: str | None,
        warnings: tuple[str, ...] = (),
        identity: tuple[object, ...] = (),
    ) -> None:
        self._set("text", text)
        self._set("timezone", timezone)
        self._set("warnings", warnings)
        self._set("_identity", (self.kind, text, timezone, *identity))

    def next_after(self, instant: datetime) -> datetime | None:
        """Find the first plan time strictly later than an aware instant, in UTC.

        Raises InvalidTime (a ValueError) for a datetime without an offset.
        """
        found_ms = self.next_after_ms(to_ms(check_aware(instant)))
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

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a trigger is frozen: {name} can't be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a trigger is frozen: {name} can't be deleted")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trigger):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        zone = f", timezone={self.timezone!r}" if self.timezone is not None else ""
        return f"<{type(self).__name__} {self.text!r}{zone}>"


def check_aware(instant: datetime) -> datetime:
    """Return the instant. Raises InvalidTime if it is not a datetime with an offset."""
    if not isinstance(instant, datetime):
        raise InvalidTime(
            f"time {instant!r:.60} is no datetime, expected an aware one",
            hint="write datetime(..., tzinfo=UTC), or a text: 'at 2026-12-24T18:00:00Z'",
        )
    if instant.utcoffset() is None:
        raise InvalidTime(
            f"time {instant!r} carries no offset, expected an aware datetime",
            hint="write datetime(..., tzinfo=UTC)",
        )
    return instant
