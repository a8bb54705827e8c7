"""Triggers without a calendar: a grid, an instant, and three that follow events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from edgecron.base.checks import check_name
from edgecron.base.units import format_duration_ms, format_ms, from_ms
from edgecron.triggers.base import EARLIEST_MS, LATEST_MS, Trigger, TriggerKind

# Which ends of an upstream count, for `after NAME:WHAT`.
AFTER_CHOICES = ("success", "failure", "any")
_INEXACT_MS = 1_000


class EveryTrigger(Trigger):
    """A grid that does not drift: `anchor_ms` plus every multiple of `interval_ms`.

    If the text names a start (`every 15m from ...`), that is the first plan time. A bare
    `every 15m` only takes its phase from the anchor, in both directions, so a schedule that was
    made while the clock was wrong still fires.
    """

    __slots__ = ("anchor_ms", "interval_ms", "is_bounded")

    kind = TriggerKind.EVERY
    anchor_ms: int
    interval_ms: int
    is_bounded: bool

    def __init__(
        self,
        interval_ms: int,
        *,
        anchor_ms: int,
        is_bounded: bool,
        timezone: str | None,
        text: str | None = None,
    ) -> None:
        self._set("interval_ms", interval_ms)
        self._set("anchor_ms", anchor_ms)
        self._set("is_bounded", is_bounded)
        if text is None:
            text = f"every {format_duration_ms(interval_ms)}"
            text += f" from {format_ms(anchor_ms)}" if is_bounded else ""
        warnings = ("it fires more than once a second",) if interval_ms < 1000 else ()
        super().__init__(
            text,
            timezone=timezone,
            warnings=warnings,
            identity=(interval_ms, anchor_ms, is_bounded),
        )

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


class AtTrigger(Trigger):
    """One instant."""

    __slots__ = ("at_ms",)

    kind = TriggerKind.AT
    at_ms: int

    def __init__(self, at_ms: int, *, timezone: str | None) -> None:
        self._set("at_ms", at_ms)
        super().__init__(f"at {format_ms(at_ms)}", timezone=timezone)

    @property
    def at(self) -> datetime:
        return from_ms(self.at_ms)

    def next_after_ms(self, ms: int) -> int | None:
        return self.at_ms if ms < self.at_ms else None

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        return int(after_ms < self.at_ms <= until_ms)

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        return self.at_ms if after_ms < self.at_ms <= until_ms else None

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


class BootTrigger(EventTrigger):
    """Once per boot of the machine."""

    __slots__ = ()

    kind = TriggerKind.BOOT

    def __init__(self, *, timezone: str | None) -> None:
        super().__init__("on boot", timezone=timezone)


class AfterEndTrigger(EventTrigger):
    """`interval_ms` after the end of the schedule's own last run."""

    __slots__ = ("interval_ms",)

    kind = TriggerKind.AFTER_END
    interval_ms: int

    def __init__(self, interval_ms: int, *, timezone: str | None, text: str | None = None) -> None:
        self._set("interval_ms", interval_ms)
        super().__init__(
            text or f"every {format_duration_ms(interval_ms)} after end",
            timezone=timezone,
            identity=(interval_ms,),
        )

    def interval_hint_ms(self, at_ms: int) -> int | None:
        return self.interval_ms

    def _compiled(self) -> Mapping[str, object]:
        return {"interval_ms": self.interval_ms}


class AfterTrigger(EventTrigger):
    """When a fire of the schedule `upstream` has ended; `on` is success, failure or any."""

    __slots__ = ("on", "upstream")

    kind = TriggerKind.AFTER
    on: str
    upstream: str

    def __init__(self, upstream: str, *, on: str, timezone: str | None) -> None:
        check_name(upstream, what="schedule name")
        if on not in AFTER_CHOICES:
            raise ValueError(f"on is {on!r}, expected one of {', '.join(AFTER_CHOICES)}")
        self._set("upstream", upstream)
        self._set("on", on)
        suffix = "" if on == "success" else f":{on}"
        super().__init__(f"after {upstream}{suffix}", timezone=timezone)

    def _compiled(self) -> Mapping[str, object]:
        return {"upstream": self.upstream, "on": self.on}
