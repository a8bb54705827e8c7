"""How many plan times lie in each stretch of a week, for triggers that many schedules share.

A grid's times are told by its interval and by where in the hour it stands, as far as that can
matter to whole hours; calendar times by their hours and days and how many there are in an hour.
So a hundred thousand schedules come down to a few hundred patterns.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property
from math import gcd

from edgecron.base.values import NamedTuple, dataclass
from edgecron.triggers import Triggers, combine, from_json
from edgecron.triggers.base import Trigger
from edgecron.triggers.crontrigger import CronTrigger
from edgecron.triggers.fields import CronFields
from edgecron.triggers.simple import EveryTrigger
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


_MOST_PATTERNS = 2048  # of 1.5 KB
_MOST_TEXTS = 8192  # of 600 bytes
_MANY_SHARED = 24  # stretches that are looked at one by one
_MANY_SINGLES = 8  # from so many on a pattern is smaller


class Pattern:
    """Counts by stretch, and how many schedules have them that are not summed up yet."""

    __slots__ = ("counts", "total", "uses")

    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = tuple(counts)
        self.total = sum(counts)
        self.uses = 0


class Shape(NamedTuple):
    """The plan times of a schedule's triggers: patterns, single (stretch, count) beside them, which
    may be taken away, the first plan time, and how many there are."""

    patterns: tuple[Pattern, ...]
    singles: tuple[tuple[int, int], ...]
    next_ms: int | None
    total: int


class Shapes:
    """The shapes of triggers in one week. What is known of them is bounded; see `is_full`."""

    def __init__(self, week: Week) -> None:
        self._week = week
        self._by_text: dict[str, Shape] = {}
        self._layouts: dict[tuple[int, int, int], _Layout] = {}
        self.patterns: dict[tuple[object, ...], Pattern] = {}

    @property
    def is_full(self) -> bool:
        """Whether it is time to sum the patterns up and to `forget`."""
        return len(self.patterns) >= _MOST_PATTERNS or len(self._by_text) >= _MOST_TEXTS

    def forget(self) -> None:
        self._by_text.clear()
        self.patterns.clear()

    def shape_of(self, compiled: str) -> Shape:
        """The shape of stored triggers. Raises one of SENSELESS where they can't be read."""
        found = self._by_text.get(compiled)
        if found is not None:
            return found
        grid = _lone_grid(compiled)
        if grid is not None:  # Nearly each has a text of its own, and is read as fast as found.
            return self.grid_shape(*grid)
        triggers = combine(_read(compiled)).triggers
        if len(triggers) == 1:
            next_ms = triggers[0].next_after_ms(self._week.start_ms - 1)
            found = self._bundled(compiled, self._shape_of_one(triggers[0]), next_ms)
        else:
            found = self._shape_of_several(compiled, triggers)
        self._by_text[compiled] = found
        return found

    def grid_shape(self, interval_ms: int, anchor_ms: int, since_ms: int | None = None) -> Shape:
        """The shape of a grid, of which nothing lies before `since_ms`."""
        week = self._week
        start_ms = week.start_ms if since_ms is None else max(week.start_ms, since_ms)
        next_ms = start_ms + (anchor_ms - start_ms) % interval_ms
        if start_ms > week.start_ms:
            pattern = Pattern(_count_grid(week, interval_ms, next_ms, since_ms=start_ms))
            singles = tuple((n, count) for n, count in enumerate(pattern.counts) if count)
            return Shape((), singles, next_ms, pattern.total)
        # Within the steps that all hours are made of, it matters in which one it stands alone.
        step_ms = gcd(interval_ms, week.step_ms)
        key = ("grid", interval_ms, (anchor_ms - week.base_ms) % interval_ms // step_ms)
        found = self.patterns.get(key)
        if found is None:
            counts = _count_grid(week, interval_ms, next_ms, since_ms=week.starts_ms[1])
            found = self.patterns[key] = Pattern(counts)
        first = max(-(-(week.ends_ms[0] - next_ms) // interval_ms), 0)
        return Shape((found,), ((0, first),) if first else (), next_ms, found.total + first)

    def _shape_of_several(self, compiled: str, triggers: tuple[Trigger, ...]) -> Shape:
        week, together = self._week, combine(triggers)
        shapes = [self._shape_of_one(trigger) for trigger in triggers]
        patterns = tuple(pattern for shape in shapes for pattern in shape.patterns)
        singles = [single for shape in shapes for single in shape.singles]
        total = sum(shape.total for shape in shapes)
        each = list(zip(*(counts_of(shape, week) for shape in shapes), strict=True))
        for n, twice in _counted_twice(together, each, week):
            if twice:
                singles.append((n, -twice))
                total -= twice
        shape = Shape(patterns, tuple(singles), None, total)
        return self._bundled(compiled, shape, together.next_after_ms(week.start_ms - 1))

    def _bundled(self, compiled: str, shape: Shape, next_ms: int | None) -> Shape:
        """A shape with its first time, and with few singles."""
        patterns, singles = shape.patterns, shape.singles
        if len(singles) > _MANY_SINGLES:
            patterns += (self._own(compiled, summed(self._week, singles)),)
            singles = ()
        return Shape(patterns, singles, next_ms, shape.total)

    def _own(self, compiled: str, counts: Sequence[int]) -> Pattern:
        found = self.patterns["own", compiled] = Pattern(counts)
        return found

    def _shape_of_one(self, trigger: Trigger) -> Shape:
        if isinstance(trigger, EveryTrigger):
            since_ms = trigger.anchor_ms if trigger.is_bounded else None
            return self.grid_shape(trigger.interval_ms, trigger.anchor_ms, since_ms)
        if isinstance(trigger, CronTrigger):
            return self._cron_shape(trigger)
        singles: list[tuple[int, int]] = []
        at_ms = trigger.next_after_ms(self._week.start_ms - 1)
        while at_ms is not None and at_ms < self._week.end_ms:
            singles += self._single(at_ms)
            at_ms = trigger.next_after_ms(at_ms)
        return Shape((), tuple(singles), None, len(singles))

    def _cron_shape(self, trigger: CronTrigger) -> Shape:
        patterns: list[Pattern] = []
        singles: list[tuple[int, int]] = []
        fields, seconds = trigger.fields, self._week.seconds
        for start, end, offset in trigger.stretches(seconds[0][0], seconds[-1][1]):
            if offset is None:
                singles += self._single(start * 1000)
                continue
            layout = self._layout(start, end, offset)
            patterns.append(self._hourly(fields, layout, (start, end, offset)))
            counted = ((n, fields.count(since, until)) for n, since, until in layout.parts)
            singles += [(n, count) for n, count in counted if count]
        total = sum(pattern.total for pattern in patterns) + sum(count for _, count in singles)
        return Shape(tuple(patterns), tuple(singles), None, total)

    def _single(self, at_ms: int) -> Iterable[tuple[int, int]]:
        found = self._week.find(at_ms)
        return () if found is None else ((found, 1),)

    def _layout(self, start: int, end: int, offset: int) -> _Layout:
        found = self._layouts.get((start, end, offset))
        if found is None:
            found = _lay_out(self._week, start, end, offset)
            self._layouts[start, end, offset] = found
        return found

    def _hourly(self, fields: CronFields, layout: _Layout, stretch: tuple[int, ...]) -> Pattern:
        """The counts of whole hours: of minutes and seconds only their number matters."""
        per_hour = fields.per_day // len(fields.hours)
        key = ("cron", stretch, fields.hours, per_hour, fields.rule.identity())
        found = self.patterns.get(key)
        if found is None:
            counts = [0] * len(self._week.cells)
            hours = frozenset(fields.hours)
            days = {day for _, day, _ in layout.hours if fields.rule.count(day, day + 1)}
            for n, day, hour in layout.hours:
                if hour in hours and day in days:
                    counts[n] = per_hour
            found = self.patterns[key] = Pattern(counts)
        return found


class _Layout(NamedTuple):
    """Stretches of a week as wall times: whole hours as (stretch, day, hour), the others as
    (stretch, from, until) in seconds."""

    hours: tuple[tuple[int, int, int], ...]
    parts: tuple[tuple[int, int, int], ...]


def summed(week: Week, singles: Iterable[tuple[int, int]]) -> list[int]:
    """Single counts by stretch."""
    counts = [0] * len(week.cells)
    for n, count in singles:
        counts[n] += count
    return counts


def _counted_twice(
    together: Triggers, each: Sequence[tuple[int, ...]], week: Week
) -> Iterator[tuple[int, int]]:
    """(stretch, times that several triggers have) from the counts of each trigger by stretch.

    Where they meet in many stretches the sum is exact, and is spread by how often they could.
    """
    shared = [n for n, counts in enumerate(each) if len(counts) - counts.count(0) > 1]
    if len(shared) <= _MANY_SHARED:
        for n in shared:
            once = together.count_ms(week.starts_ms[n] - 1, week.ends_ms[n] - 1)
            yield n, sum(each[n]) - once
        return
    once = together.count_ms(week.start_ms - 1, week.end_ms - 1)
    twice, most = sum(map(sum, each)) - once, sum(sum(each[n]) - max(each[n]) for n in shared)
    spread = before = 0
    for n in shared:
        before += sum(each[n]) - max(each[n])
        yield n, twice * before // most - spread
        spread = twice * before // most


def counts_of(shape: Shape, week: Week) -> list[int]:
    """All counts of a shape by stretch."""
    counts = summed(week, shape.singles)
    for pattern in shape.patterns:
        counts = [have + more for have, more in zip(counts, pattern.counts, strict=True)]
    return counts


def _lay_out(week: Week, start: int, end: int, offset: int) -> _Layout:
    hours: list[tuple[int, int, int]] = []
    parts: list[tuple[int, int, int]] = []
    for n, (first, last) in enumerate(week.seconds):
        since, until = max(first, start) + offset, min(last, end) + offset
        if since >= until:
            continue
        if until - since == HOUR_S and since % HOUR_S == 0:
            hours.append((n, since // DAY_S, since % DAY_S // HOUR_S))
        else:
            parts.append((n, since, until))
    return _Layout(tuple(hours), tuple(parts))


def _count_grid(week: Week, interval_ms: int, at_ms: int, *, since_ms: int) -> list[int]:
    """The times of a grid, of which `at_ms` is one, by stretch, from an instant on."""
    counts = []
    for start, end in zip(week.starts_ms, week.ends_ms, strict=True):
        first = max(start, since_ms)
        until = (end - 1 - at_ms) // interval_ms
        counts.append(max(until - (first - 1 - at_ms) // interval_ms, 0) if first < end else 0)
    return counts


def _read(compiled: str) -> list[Trigger]:
    # As `load_triggers`, whose memory of triggers is the engine's and too small for all there are.
    return [from_json(part) for part in json.loads(compiled)]


def _lone_grid(compiled: str) -> tuple[int, int, int | None] | None:
    """Interval, anchor and start of a single `every`, which needs no more; else None."""
    if '"kind":"every"' not in compiled:
        return None
    try:
        [part] = json.loads(compiled)
        interval_ms, anchor_ms, is_bounded = part["interval_ms"], part["anchor_ms"], part["bounded"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None  # Several, or damaged: told by who reads all of it.
    if type(interval_ms) is not int or type(anchor_ms) is not int or interval_ms < 1:
        return None
    return interval_ms, anchor_ms, anchor_ms if is_bounded is True else None
