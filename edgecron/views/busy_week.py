"""Seven local days as stretches of an hour, from an instant on."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date
from functools import cached_property
from math import gcd

from edgecron.base.values import dataclass
from edgecron.triggers.tzif import DAY_S, EPOCH_ORDINAL
from edgecron.triggers.zones import zone_spans

DAYS, HOURS = 7, 24
HOUR_S = 3600
_HOUR_MS, _DAY_MS = HOUR_S * 1000, DAY_S * 1000


# No slots: what is computed once is kept in the value's own dictionary.
@dataclass(frozen=True, kw_only=True)
class Week:
    """Today and the six days after it, from now on, hour by hour as clocks show them.

    Stretch n lasts from `starts_ms[n]` up to `ends_ms[n]` and lies in hour `cells[n]`, counted from
    midnight of `first_day`. They are in order; the first is what is left of this hour, a repeated
    hour has two stretches and a skipped one none.
    """

    first_day: date
    starts_ms: tuple[int, ...]
    ends_ms: tuple[int, ...]
    cells: tuple[int, ...]

    @property
    def start_ms(self) -> int:
        return self.starts_ms[0]

    @property
    def end_ms(self) -> int:
        """The first instant after it."""
        return self.ends_ms[-1]

    def find(self, instant_ms: int) -> int | None:
        """The stretch that holds an instant, or None."""
        found = bisect_right(self.starts_ms, instant_ms) - 1
        return found if found >= 0 and instant_ms < self.ends_ms[found] else None

    @cached_property
    def step_ms(self) -> int:
        """What every stretch but the first begins and ends at a multiple of, from `base_ms` on."""
        ends = (end - self.base_ms for end in self.ends_ms[1:])
        return gcd(*(start - self.base_ms for start in self.starts_ms[1:]), *ends)

    @property
    def base_ms(self) -> int:
        return self.starts_ms[1]

    @cached_property
    def seconds(self) -> tuple[tuple[int, int], ...]:
        """The first whole second of each stretch, and the first after it."""
        return tuple(
            (-(-start // 1000), -(-end // 1000))
            for start, end in zip(self.starts_ms, self.ends_ms, strict=True)
        )


def week_from(now_ms: int, *, zone: str | None) -> Week:
    """The week of a zone by its name, from the instant after `now_ms` on.

    Raises UnknownTimezone.
    """
    now_s = now_ms // 1000
    latest_s = now_s + (DAYS + 2) * DAY_S
    spans = zone_spans(zone, until_s=latest_s)
    index = spans.index_at(now_s)
    first_day = (now_s + spans.offsets[index]) // DAY_S
    first_ms = first_day * _DAY_MS
    stretches: list[tuple[int, int, int]] = []
    while index < len(spans.starts) and spans.starts[index] < latest_s:
        offset_ms = spans.offsets[index] * 1000
        at_ms = max(max(spans.starts[index] * 1000, now_ms + 1) + offset_ms, first_ms)
        end_ms = min(spans.end(index) * 1000 + offset_ms, first_ms + DAYS * _DAY_MS)
        while at_ms < end_ms:
            next_ms = min((at_ms // _HOUR_MS + 1) * _HOUR_MS, end_ms)
            cell = (at_ms - first_ms) // _HOUR_MS
            stretches.append((at_ms - offset_ms, next_ms - offset_ms, cell))
            at_ms = next_ms
        index += 1
    starts_ms, ends_ms, cells = zip(*stretches, strict=True)
    return Week(
        first_day=date.fromordinal(first_day + EPOCH_ORDINAL),
        starts_ms=starts_ms,
        ends_ms=ends_ms,
        cells=cells,
    )
