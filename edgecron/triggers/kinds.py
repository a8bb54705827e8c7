"""The kinds of triggers: calendar times, a grid, an instant, windows, and what follows events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property, lru_cache

from edgecron.base.checks import check_name
from edgecron.base.errors import InvalidTrigger
from edgecron.base.tzif import DAY_S, History, Spans
from edgecron.base.units import EARLIEST_MS, LATEST_MS, format_ms, from_ms
from edgecron.base.values import dataclass
from edgecron.base.window_texts import Window, parse_window, split_once_in
from edgecron.base.zones import LOCAL, local_history, trigger_spans, zone_history
from edgecron.triggers.base import Trigger, TriggerKind
from edgecron.triggers.fields import CronFields, DayRule
from edgecron.triggers.gate import gate

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


# A leap day on a given weekday can be forty years away (a Sunday: 2088 to 2128). Nothing is rarer.
SEARCH_S = 50 * 366 * 86_400
_MOST_QUIET_MS = 60_000
_EARLIEST_S = EARLIEST_MS // 1000
_LATEST_S = LATEST_MS // 1000


@dataclass(frozen=True, kw_only=True)
class CronTrigger(Trigger):
    """Calendar times in a zone. `fields` is the expanded text.

    Raises UnknownTimezone if the zone can't be loaded.
    """

    kind = TriggerKind.CRON
    text: str
    timezone: str | None
    fields: CronFields

    def __post_init__(self) -> None:
        if self.timezone != LOCAL:
            zone_history(self.timezone or "UTC")

    @property
    def warnings(self) -> tuple[str, ...]:
        return gate(self.text).warnings

    @property
    def follows_elapsed(self) -> bool:
        return self.fields.is_wildcard

    def repeats_from_ms(self, fired_ms: int) -> int | None:
        if not self.follows_elapsed:
            return None
        # Some time after the fire, so that a step back of a second runs nothing again.
        return fired_ms + min((self.interval_hint_ms(fired_ms) or 0) // 2, _MOST_QUIET_MS)

    def next_after_ms(self, ms: int) -> int | None:
        since = max(ms // 1000 + 1, _EARLIEST_S)
        until = min(since + SEARCH_S, _LATEST_S)
        if since >= until:
            return None
        spans = self._spans(until)
        is_fixed = not self.fields.is_wildcard
        searched_from, match = 1, 0  # no wall time in [searched_from, match) matches
        for index in range(spans.index_at(since), len(spans.starts)):
            start, offset = spans.starts[index], spans.offsets[index]
            if start >= until:
                break
            wall = max(since, start) + offset
            if is_fixed:
                mark = spans.marks[index]
                # At the start of a span, times that the gap before it skipped count too.
                wall = mark if since <= start else max(wall, mark)
            if not searched_from <= wall <= match:
                # No offset is as large as two days.
                end = until + 2 * DAY_S
                first = self.fields.first(wall, end)
                searched_from, match = wall, end if first is None else first
            if match < spans.end(index) + offset:
                found = max(match - offset, start)
                return found * 1000 if found < until else None
        return None

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        since, until = range_s(after_ms, until_ms)
        if since >= until:
            return None
        spans = self._spans(until)
        index = spans.index_at(until - 1)
        while index >= 0 and spans.end(index) > since:
            found = self._last(spans, index, since=since, until=until)
            if found is not None:
                return found * 1000
            index -= 1
        return None

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        since, until = range_s(after_ms, until_ms)
        if since >= until:
            return 0
        spans = self._spans(until)
        index = spans.index_at(since)
        total = 0
        while index < len(spans.starts) and spans.starts[index] < until:
            total += self._count(spans, index, since=since, until=until)
            index += 1
        return total

    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        since, until = range_s(after_ms, until_ms)
        if since >= until:
            return []
        spans = self._spans(until)
        found: list[int] = []
        for index in range(spans.index_at(since), len(spans.starts)):
            if spans.starts[index] >= until:
                break
            found += self._list(spans, index, since=since, until=until)
        return found

    @cached_property
    def _history(self) -> History | None:
        # 'local' is looked up each time, so that a change of the machine's zone is followed.
        return None if self.timezone == LOCAL else zone_history(self.timezone or "UTC")

    def _spans(self, until_s: int) -> Spans:
        return (self._history or local_history()).spans(until_s)

    def _last(self, spans: Spans, index: int, *, since: int, until: int) -> int | None:
        """Find the last plan time of one span from `since` on and before `until`."""
        offset = spans.offsets[index]
        wall = max(since, spans.starts[index]) + offset
        if not self.fields.is_wildcard:
            wall = max(wall, spans.marks[index])
        found = self.fields.last(wall, min(until, spans.end(index)) + offset)
        if found is not None:
            return found - offset
        if not self.fields.is_wildcard and self._is_caught_up(spans, index, since=since):
            return spans.starts[index]
        return None

    def _count(self, spans: Spans, index: int, *, since: int, until: int) -> int:
        """Count the plan times of one span from `since` on and before `until`."""
        offset = spans.offsets[index]
        wall = max(since, spans.starts[index]) + offset
        end = min(until, spans.end(index)) + offset
        if self.fields.is_wildcard:
            return self.fields.count(wall, end)
        total = self.fields.count(max(wall, spans.marks[index]), end)
        # A skipped time and one that matches the gap's end itself are one run.
        if self._is_caught_up(spans, index, since=since) and not self.fields.count(wall, wall + 1):
            total += 1
        return total

    def _list(self, spans: Spans, index: int, *, since: int, until: int) -> list[int]:
        """List the plan times of one span from `since` on and before `until`."""
        start, offset = spans.starts[index], spans.offsets[index]
        wall = max(since, start) + offset
        end = min(until, spans.end(index)) + offset
        caught_up: list[int] = []
        if not self.fields.is_wildcard:
            if self._is_caught_up(spans, index, since=since) and not self.fields.count(
                wall, wall + 1
            ):
                caught_up = [start * 1000]
            wall = max(wall, spans.marks[index])
        shift_ms = offset * 1000
        return caught_up + [at_ms - shift_ms for at_ms in self.fields.list_ms(wall, end)]

    def _is_caught_up(self, spans: Spans, index: int, *, since: int) -> bool:
        """Whether a fixed trigger runs at the span's first instant for what the gap skipped."""
        start = spans.starts[index]
        wall, mark = start + spans.offsets[index], spans.marks[index]
        return mark < wall and since <= start and self.fields.first(mark, wall) is not None

    def _compiled(self) -> Mapping[str, object]:
        return {"fields": self.fields.to_json()}


def range_s(after_ms: int, until_ms: int) -> tuple[int, int]:
    """Convert (after, until] in milliseconds to [since, until) in seconds."""
    since = max(after_ms // 1000 + 1, _EARLIEST_S)
    return since, min(until_ms // 1000 + 1, _LATEST_S)


_CONDITION = re.compile(r"(not:)?[a-z]+(-[a-z]+)*(\[[^\]]*\])?(:.+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceInTrigger(Trigger):
    """One run in each window: `once in 21:00-05:00 MON-FRI when ac-power and idle:10m`.

    Its plan times are those of `opening`, a cron trigger, which has the gap and fold rule. The
    `conditions` are texts; a fire waits until they hold.
    """

    kind = TriggerKind.ONCE_IN
    text: str
    window: Window
    conditions: tuple[str, ...]
    opening: CronTrigger

    @property
    def timezone(self) -> str | None:
        return self.opening.timezone

    def next_after_ms(self, ms: int) -> int | None:
        return self.opening.next_after_ms(ms)

    def count_ms(self, after_ms: int, until_ms: int) -> int:
        return self.opening.count_ms(after_ms, until_ms)

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        return self.opening.last_ms(after_ms, until_ms)

    def list_ms(self, after_ms: int, until_ms: int) -> list[int]:
        return self.opening.list_ms(after_ms, until_ms)

    def closes_ms(self, plan_ms: int) -> int:
        """Find the end of the window that opens at a plan time, always later than that.

        If clocks skip the whole window, it has its usual length, from the plan time on.
        """
        window, plan_s = self.window, plan_ms // 1000
        length_s = window.end_s - window.start_s
        spans = trigger_spans(self.timezone, until_s=plan_s + length_s + 2 * DAY_S)
        first = spans.index_at(plan_s)
        wall_s = plan_s + spans.offsets[first]
        # Clocks can have skipped the opening itself.
        end_s = wall_s - (wall_s - window.start_s) % DAY_S + length_s
        for index in range(first, len(spans.starts)):
            closes_s = max(end_s - spans.offsets[index], spans.starts[index])
            if closes_s < spans.end(index):
                break
        else:
            closes_s = plan_s
        return min((closes_s if closes_s > plan_s else plan_s + length_s) * 1000, LATEST_MS)

    def spread_ms(self, plan_ms: int) -> int:
        """How long after its plan time a run starts at most, if nothing else delays the run.

        Without conditions, runs are spread over the first half of the window, so that schedules
        with the same window do not start together, and have the other half to end in.
        """
        return 0 if self.conditions else (self.closes_ms(plan_ms) - plan_ms) // 2


@lru_cache(maxsize=256)
def make_once_in(text: str, timezone: str | None) -> OnceInTrigger:
    """Read the text of a trigger `once in`. Raises InvalidInput."""
    parts = split_once_in(text)
    if parts is None:
        raise InvalidTrigger(
            f"trigger {text!r} is not understood, expected a window",
            hint="write 'once in 21:00-05:00', or 'once in 21:00-05:00 when ac-power'",
        )
    for condition in parts.conditions:
        if _CONDITION.fullmatch(condition) is None:
            raise InvalidTrigger(
                f"trigger {text!r}: {condition!r} is not a condition",
                hint="write for example: when ac-power and idle:10m",
            )
    window = parse_window(parts.window)
    return OnceInTrigger(
        text=parts.text,
        window=window,
        conditions=parts.conditions,
        opening=CronTrigger(text=parts.text, timezone=timezone, fields=_opening_fields(window)),
    )


def _opening_fields(window: Window) -> CronFields:
    minute, hour = window.start_s // 60 % 60, window.start_s // 3600
    rule = DayRule(
        days=tuple(range(1, 32)),
        last_day=False,
        nearest=(),
        months=tuple(range(1, 13)),
        weekdays=tuple(sorted((day + 1) % 7 for day in window.weekdays)),  # from 0, Sunday
        nth_weekdays=(),
        last_weekdays=(),
        day_star=True,
        weekday_star=len(window.weekdays) == 7,
    )
    return CronFields(seconds=(0,), minutes=(minute,), hours=(hour,), rule=rule, is_wildcard=False)
