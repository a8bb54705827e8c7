"""Count the runs of each hour of the coming week; say how busy a simulated time is. Pure.

Only plan times count, as they come if nothing changes. Jitter, retries and runs that are due
already do not count, nor do runs that follow an event (a boot, another schedule). An interval after
the end of runs counts as if runs took no time.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from itertools import pairwise

from edgecron.base.errors import SENSELESS, InvalidInput
from edgecron.base.units import DAY_MS, MINUTE_MS, from_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.base.window_texts import most_spread_ms, parse_except
from edgecron.base.zones import load_zone
from edgecron.model.listing import FireCell, Recurrence
from edgecron.planning.next_fire import WindowedTimes
from edgecron.planning.simulation import Simulation
from edgecron.planning.times import load_triggers
from edgecron.planning.windows import find_windows
from edgecron.triggers import EveryTrigger, TriggerKind, Triggers, combine
from edgecron.views.phrases import count_words

DAYS, HOURS = 7, 24
_STEP_MS = 15 * MINUTE_MS  # clocks of every zone change at a multiple of this
_MOST_LISTED = 5_000  # plan times; more are counted by hour, which takes 3 to 6 ms
_MOST_KNOWN = 1024  # triggers whose counts are kept
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekHeat:
    """How many runs are to start in each hour (0 to 23) of seven local days.

    `schedules` of them have any. Hours that have passed today have none. `frequent` schedules run
    so often that they are not counted.
    """

    first_day: date
    counts: tuple[tuple[int, ...], ...]
    schedules: int
    frequent: int = 0


class Week(NamedTuple):
    """Today and the six days after it, from now on.

    Stretch n lasts from `starts_ms[n]` up to `starts_ms[n + 1]`, the last one up to `end_ms`, and
    lies in local hour `cells[n]`, counted from midnight of `first_day`. A repeated hour has two
    stretches, a skipped one has none.
    """

    first_day: date
    starts_ms: list[int]
    end_ms: int
    cells: list[int]

    @property
    def start_ms(self) -> int:
        return self.starts_ms[0]

    def find(self, at_ms: int) -> int:
        """Return the stretch of an instant of this week."""
        return bisect_right(self.starts_ms, at_ms) - 1


def week_from(now_ms: int, *, zone: str | None) -> Week:
    """Return the week of a zone from the instant after `now_ms` on. Raises UnknownTimezone."""
    here = load_zone(zone)
    at_ms = now_ms + 1
    first_day = from_ms(now_ms).astimezone(here).date()
    starts_ms: list[int] = []
    cells: list[int] = []
    before: datetime | None = None
    while (local := from_ms(at_ms).astimezone(here)).date() < first_day + timedelta(days=DAYS):
        hour = local.replace(minute=0, second=0, microsecond=0)
        # The second pass of a repeated hour differs by `fold` only, which `==` ignores.
        if before is None or hour != before or hour.fold != before.fold:
            starts_ms.append(at_ms)
            cells.append((local.date() - first_day).days * HOURS + local.hour)
        before = hour
        at_ms = (at_ms // _STEP_MS + 1) * _STEP_MS
    return Week(first_day, starts_ms, at_ms, cells)


class WeekTally:
    """The sum of the schedules that were added.

    Schedules that run more than `most_per_hour` times in an hour are not counted.
    """

    def __init__(self, week: Week, *, most_per_hour: int | None = None) -> None:
        self._week = week
        self._most_per_hour = most_per_hour
        self._frequent = 0
        self._counts = [0] * len(week.cells)
        self._schedules = 0
        # Many schedules of a large database have the same triggers.
        self._known: dict[tuple[str, int, int], list[int]] = {}

    def add(self, one: Recurrence) -> None:
        """Add a schedule."""
        counts = self.count(one)
        if self._most_per_hour is not None and max(counts, default=0) > self._most_per_hour:
            self._frequent += 1
            return
        self._counts = [a + b for a, b in zip(self._counts, counts, strict=True)]
        self._schedules += any(counts)

    def result(self) -> WeekHeat:
        """Return the heat of all schedules that were added so far."""
        hours = [0] * (DAYS * HOURS)
        for cell, count in zip(self._week.cells, self._counts, strict=True):
            hours[cell] += count
        return WeekHeat(
            first_day=self._week.first_day,
            counts=tuple(tuple(hours[day * HOURS : (day + 1) * HOURS]) for day in range(DAYS)),
            schedules=self._schedules,
            frequent=self._frequent,
        )

    def count(self, one: Recurrence) -> list[int]:
        """Count the fires of a schedule by stretch; none if its triggers can't be read."""
        try:
            return self._count(one)
        except SENSELESS:
            return [0] * len(self._week.cells)  # The list of schedules reports it.

    def _count(self, one: Recurrence) -> list[int]:
        week, plan_ms, run_ms = self._week, one.next_plan_ms, one.next_run_ms
        since_ms = max(week.start_ms, plan_ms or 0)
        last_ms = week.end_ms - 1 if one.until_ms is None else min(one.until_ms, week.end_ms - 1)
        moved_ms = None  # the next run, if `reschedule` moved it
        if (
            plan_ms is not None
            and one.paused_until_ms is not None
            and plan_ms < one.paused_until_ms
        ):
            last_ms = -1  # The pause holds this fire; no other is planned before the pause ends.
        elif (
            plan_ms is not None
            and run_ms is not None
            and not plan_ms <= run_ms <= plan_ms + max(one.jitter_ms, _most_spread_ms(one))
        ):
            moved_ms = run_ms
            since_ms = max(since_ms, plan_ms + 1, run_ms + 1)
        if not one.between == one.not_between == one.except_days == "[]":
            counts = _count_within(one, week, since_ms, last_ms)
        elif one.after_end_ms is None:
            counts = self._count_known(one.compiled, since_ms, last_ms)
        else:
            first_ms = moved_ms or plan_ms
            if first_ms is None:
                first_ms = max(week.start_ms + one.after_end_ms, one.paused_until_ms or 0)
            grid = EveryTrigger(
                interval_ms=one.after_end_ms,
                anchor_ms=first_ms,
                is_bounded=True,
                timezone=None,
                text="after end",
            )
            times = combine([*load_triggers(one.compiled), grid])
            counts = _count_times(times, week, since_ms, last_ms)
        if moved_ms is not None and week.start_ms <= moved_ms < week.end_ms:
            counts[week.find(moved_ms)] += 1
        return counts if one.runs_left is None else _limited(counts, one.runs_left)

    def _count_known(self, compiled: str, since_ms: int, last_ms: int) -> list[int]:
        key = (compiled, since_ms, last_ms)
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            times = combine(load_triggers(compiled))
            self._known[key] = _count_times(times, self._week, since_ms, last_ms)
        return list(self._known[key])


def _most_spread_ms(one: Recurrence) -> int:
    if TriggerKind.ONCE_IN not in one.compiled:
        return 0
    return max(most_spread_ms(trigger.text) for trigger in load_triggers(one.compiled))


def _count_within(one: Recurrence, week: Week, since_ms: int, last_ms: int) -> list[int]:
    """Count the plan times within windows. An interval after the end has none that is known."""
    texts = (json.loads(column) for column in (one.between, one.not_between, one.except_days))
    between, not_between, except_days = texts
    windows = find_windows(between, not_between, except_days, one.timezone)
    assert windows is not None
    times = WindowedTimes(combine(load_triggers(one.compiled)), windows, is_open=True)
    bounds_ms = [
        min(max(at_ms, since_ms), max(last_ms + 1, since_ms))
        for at_ms in (*week.starts_ms, week.end_ms)
    ]
    return [times.count_ms(start - 1, end - 1) for start, end in pairwise(bounds_ms)]


def _count_times(times: Triggers, week: Week, since_ms: int, last_ms: int) -> list[int]:
    """Count the plan times from `since_ms` to `last_ms` by stretch."""
    bounds_ms = [
        min(max(at_ms, since_ms), max(last_ms + 1, since_ms))
        for at_ms in (*week.starts_ms, week.end_ms)
    ]
    match times.triggers:
        case [EveryTrigger() as grid] if not grid.is_bounded or grid.anchor_ms <= since_ms:
            # 130 us instead of 380 us a schedule; large databases have many intervals.
            passed = [(at_ms - 1 - grid.anchor_ms) // grid.interval_ms for at_ms in bounds_ms]
            return [after - before for before, after in pairwise(passed)]
    if times.count_ms(since_ms - 1, last_ms) > _MOST_LISTED:
        return [times.count_ms(start - 1, end - 1) for start, end in pairwise(bounds_ms)]
    found = times.list_ms(since_ms - 1, last_ms)
    places = [bisect_left(found, at_ms) for at_ms in bounds_ms]
    return [after - before for before, after in pairwise(places)]


def _limited(counts: list[int], left: int) -> list[int]:
    """Return the counts up to a sum of `left`, in order of time."""
    kept = []
    for count in counts:
        kept.append(min(count, max(left, 0)))
        left -= count
    return kept


def count_coming(
    recurring: Mapping[int, Recurrence], *, since_ms: int, cell_ms: int, cells: int, now_ms: int
) -> dict[int, tuple[FireCell, ...]]:
    """Count the plan times of schedules, by id, in the cells of a span from now on."""
    first = max(0, (now_ms + 1 - since_ms) // cell_ms)
    if first >= cells:
        return {}
    places = range(first, cells)
    starts_ms = [since_ms + cell_ms * cell for cell in places]
    starts_ms[0] = max(starts_ms[0], now_ms + 1)
    week = Week(from_ms(now_ms).date(), starts_ms, since_ms + cell_ms * cells, list(places))
    tally = WeekTally(week)
    return {
        each: tuple(
            FireCell(cell, count)
            for cell, count in zip(places, tally.count(one), strict=True)
            if count
        )
        for each, one in recurring.items()
    }


def excluded_days(one: Recurrence | None, since_ms: int, until_ms: int) -> tuple[date, ...]:
    """Return the days between two instants on which a schedule never fires."""
    if one is None or one.except_days == "[]":
        return ()
    first, last = since_ms // DAY_MS, until_ms // DAY_MS
    found: set[int] = set()
    for text in json.loads(one.except_days):
        try:
            ranges = parse_except(text).days
        except InvalidInput:
            continue  # The list of schedules reports it.
        for start, end in ranges:
            found.update(range(max(start, first), min(end, last) + 1))
    return tuple(_EPOCH + timedelta(days=day) for day in sorted(found))


def busiest_words(found: Simulation, places: int | None, *, zone: tzinfo) -> str:
    """Return the busiest minute; `places` are those of the engines, if known."""
    at = f"{found.most_active_at.astimezone(zone):%a %Y-%m-%d %H:%M}"
    words = f"{count_words(found.most_active, 'active run')}, {at}"
    if places is not None and found.most_active > places:
        return f"{words}; the engine has {count_words(places, 'place')}, so some runs can wait"
    return words


def sections(found: Simulation, *, zone: tzinfo) -> list[tuple[str, list[str]]]:
    """Return headings and the lines below each."""
    return [
        (
            "start in the same minute:",
            [
                f"{one.at.astimezone(zone):%a %Y-%m-%d %H:%M}: {_names(one.schedules, one.names)}"
                + (f" (on {one.days} days)" if one.days > 1 else "")
                for one in found.pile_ups
            ],
        ),
        (
            "groups with more runs than their limit allows, so runs wait:",
            [
                f"{one.name}: {one.most_active} active runs for a limit of {one.max_running},"
                f" on {one.most_active_at.astimezone(zone):%a %Y-%m-%d %H:%M}"
                for one in found.groups
                if one.most_active > one.max_running
            ],
        ),
        (
            "clock changes:",
            [f"{one.text} ({_names(one.schedules, one.names)})" for one in found.clock_changes],
        ),
        ("not simulated:", [f"{one.name}: {one.why}" for one in found.left_out]),
    ]


def _names(count: int, names: Sequence[str]) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
