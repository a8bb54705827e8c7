"""Triggers without a calendar: a grid, an instant, and four that follow events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from edgecron.base.checks import check_name
from edgecron.base.units import format_ms, from_ms
from edgecron.base.values import dataclass
from edgecron.triggers.base import EARLIEST_MS, LATEST_MS, Trigger, TriggerKind

# Which ends of an upstream count, for `after NAME:WHAT`.
AFTER_CHOICES = ("success", "failure", "any")
ON_DEMAND = "on demand"
_INEXACT_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryTrigger(Trigger):
    """A grid that does not drift: `anchor_ms` plus every multiple of `interval_ms`.

    If the text names a start (`every 15m from ...`), that is the first plan time. A bare
    `every 15m` only takes its phase from the anchor, in both directions, so a schedule that was
    made while the clock was wrong still fires.
    """

    kind = TriggerKind.EVERY
    interval_ms: int
    anchor_ms: int
    is_bounded: bool
    timezone: str | None
    text: str

    @property
    def warnings(self) -> tuple[str, ...]:
        return ("it fires more than once a second",) if self.interval_ms < 1000 else ()

    def next_after_ms(self, ms: int) -> int | None:
        if self.is_bounded and ms < self.anchor_ms:
            return self.anchor_ms
        found = ms - (ms - self.anchor_ms) % self.interval_ms + self.interval_ms
        if found < EARLIEST_MS:
            return self.next_after_ms(EARLIEST_MS)
        return found if found <= LATEST_MS else None

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        after_ms, until_ms = self._clip(after_ms, until_ms)
        steps_until = (until_ms - self.anchor_ms) // self.interval_ms
        return max(steps_until - (after_ms - self.anchor_ms) // self.interval_ms, 0)

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        after_ms, until_ms = self._clip(after_ms, until_ms)
        found = until_ms - (until_ms - self.anchor_ms) % self.interval_ms
        return found if found > after_ms else None

    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        after_ms, until_ms = self._clip(after_ms, until_ms)
        first_ms = after_ms - (after_ms - self.anchor_ms) % self.interval_ms + self.interval_ms
        return list(range(first_ms, until_ms + 1, self.interval_ms))

    @property
    def follows_elapsed(self) -> bool:
        return True

    def repeats_from_ms(self, fired_ms: int) -> int | None:
        # After a whole interval. The size of a clock step is known to a few milliseconds only.
        return fired_ms + self.interval_ms - min(self.interval_ms // 10, _INEXACT_MS)

    def interval_hint_ms(self, at_ms: int) -> int | None:
        return self.interval_ms

    def _clip(self, after_ms: int, until_ms: int) -> tuple[int, int]:
        least = self.anchor_ms if self.is_bounded else EARLIEST_MS
        return max(after_ms, least - 1), min(until_ms, LATEST_MS)

    def _compiled(self) -> Mapping[str, object]:
        return {
            "interval_ms": self.interval_ms,
            "anchor_ms": self.anchor_ms,
            "bounded": self.is_bounded,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTrigger(Trigger):
    """One instant."""

    kind = TriggerKind.AT
    at_ms: int
    timezone: str | None

    @property
    def text(self) -> str:
        return f"at {format_ms(self.at_ms)}"

    @property
    def at(self) -> datetime:
        return from_ms(self.at_ms)

    def next_after_ms(self, ms: int) -> int | None:
        return self.at_ms if ms < self.at_ms else None

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        return int(after_ms < self.at_ms <= until_ms)

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        return self.at_ms if after_ms < self.at_ms <= until_ms else None

    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        return [self.at_ms] if after_ms < self.at_ms <= until_ms else []

    def _compiled(self) -> Mapping[str, object]:
        return {"at_ms": self.at_ms}


class EventTrigger(Trigger):
    """A trigger that follows an event: it has no plan times."""

    __slots__ = ()

    def next_after_ms(self, ms: int) -> int | None:
        return None

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        return 0

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        return None

    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class BootTrigger(EventTrigger):
    """Once per boot of the machine."""

    kind = TriggerKind.BOOT
    timezone: str | None

    @property
    def text(self) -> str:
        return "on boot"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandTrigger(EventTrigger):
    """Never by itself: only when a person or a program asks for a run."""

    kind = TriggerKind.DEMAND
    timezone: str | None

    @property
    def text(self) -> str:
        return ON_DEMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterEndTrigger(EventTrigger):
    """`interval_ms` after the end of the schedule's own last run."""

    kind = TriggerKind.AFTER_END
    interval_ms: int
    timezone: str | None
    text: str

    def interval_hint_ms(self, at_ms: int) -> int | None:
        return self.interval_ms

    def _compiled(self) -> Mapping[str, object]:
        return {"interval_ms": self.interval_ms}


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterTrigger(EventTrigger):
    """When a fire of the schedule `upstream` has ended; `on` is success, failure or any."""

    kind = TriggerKind.AFTER
    upstream: str
    on: str
    timezone: str | None

    def __post_init__(self) -> None:
        check_name(self.upstream, what="schedule name")
        if self.on not in AFTER_CHOICES:
            raise ValueError(f"on is {self.on!r}, expected one of {', '.join(AFTER_CHOICES)}")

    @property
    def text(self) -> str:
        return f"after {self.upstream}" + ("" if self.on == "success" else f":{self.on}")

    def _compiled(self) -> Mapping[str, object]:
        return {"upstream": self.upstream, "on": self.on}
