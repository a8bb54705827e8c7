"""A trigger of windows: one run in each window, as soon as conditions hold."""

from __future__ import annotations

import re
from functools import lru_cache

from edgecron.base.errors import InvalidTrigger
from edgecron.base.values import dataclass
from edgecron.base.window_texts import OnceIn, Window, parse_window, split_once_in
from edgecron.triggers.base import LATEST_MS, Trigger, TriggerKind
from edgecron.triggers.fields import CronFields, DayRule
from edgecron.triggers.kinds import CronTrigger
from edgecron.triggers.tzif import DAY_S
from edgecron.triggers.zones import trigger_spans

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


def most_spread_ms(source: str | None) -> int:
    """A bound of `spread_ms` for the trigger of this text, whatever clocks do; 0 for others."""
    parts = None if source is None else split_once_in(source)
    return 0 if parts is None or parts.conditions else _most_spread_ms(parts)


@lru_cache(maxsize=64)
def _most_spread_ms(parts: OnceIn) -> int:
    window = parse_window(parts.window)
    return (window.end_s - window.start_s + DAY_S) // 2 * 1000


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
