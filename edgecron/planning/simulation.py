"""Simulate what schedules would do over days or a year. Pure.

Each run takes as long as the past runs of its schedule did. Overlap policies, limits per schedule,
jitter, follow-ups and clock changes count as they do for an engine. Limits of groups and of the
engine do not delay a run here: the result says how many runs are active together. Conditions count
as met, and each run succeeds at its first attempt.

The time is cut into days of 24 hours. Schedules with the same triggers share their plan times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from itertools import takewhile
from operator import sub

from edgecron.base.units import DAY_MS, MINUTE_MS, from_ms
from edgecron.base.values import dataclass
from edgecron.model.choices import MAX_CATCH_UP, CatchUp, Overlap
from edgecron.planning.admission import running_limit
from edgecron.planning.minute_counts import (
    NO_LANES,
    Lanes,
    Peak,
    PileUps,
    count_cut,
    count_lanes,
    regular_lanes,
)
from edgecron.planning.next_fire import Timing, count_planned, next_fires, resolve_due_ms
from edgecron.planning.windows import Windows
from edgecron.triggers import Trigger, Triggers

MOST_NAMED = 12  # schedules of a minute
_MOST_PILE_UPS = 20
_HOURS = tuple(slice(60 * hour, 60 * hour + 60) for hour in range(24))  # of the minutes of a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A schedule as the simulation takes it.

    Its plan times are those of `times` later than `after_ms`. `duration_ms` is how long a run
    takes; None: unknown, so it takes no time. `first_due_ms`: the first run starts then, because a
    person moved it. `runs_left`: it ends after so many fires; None: never. `scopes` runs start for
    each fire. `upstreams` are (schedule, which ends).
    """

    name: str
    timing: Timing
    times: Triggers
    after_ms: int
    overlap: Overlap = Overlap.SKIP
    max_running: int | None = None
    duration_ms: int | None = None
    first_due_ms: int | None = None
    runs_left: int | None = None
    scopes: int = 1
    group: str | None = None
    group_max_running: int | None = None
    upstreams: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSchedule:
    """The runs of one schedule.

    `skipped` and `replaced` of its fires meet an active run. `delayed` runs wait for the end of
    another one. Windows and excepted days exclude `excluded` fires. `busy_ms` is the sum
    of all durations; None: unknown.
    """

    name: str
    runs: int
    skipped: int
    delayed: int
    replaced: int
    excluded: int
    first_at: datetime | None
    last_at: datetime | None
    duration_ms: int | None
    busy_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDay:
    """24 hours: how many runs start, and how many are active together in the busiest minute.

    `hourly_runs` and `hourly_active` say the same of each of its hours.
    """

    from_at: datetime
    runs: int
    most_active: int
    most_active_at: datetime
    hourly_runs: tuple[int, ...] = ()
    hourly_active: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPileUp:
    """A minute in which several schedules start: its first day, and on how many days.

    `schedules` start; `names` are some of them.
    """

    at: datetime
    days: int
    schedules: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGroup:
    """A group with a limit: how many of its runs would be active together without it."""

    name: str
    max_running: int
    most_active: int
    most_active_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedChange:
    """A clock change and its effect on `schedules` schedules; `names` are some of them."""

    at: datetime
    text: str
    schedules: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsimulated:
    """A schedule whose runs, or some of them, the simulation omits, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The runs of all schedules from one instant to another.

    `most_active` runs are active together in the busiest minute. `schedules` are in the order of
    their names; `pile_ups` have most schedules first.
    """

    from_at: datetime
    until_at: datetime
    runs: int
    most_active: int
    most_active_at: datetime
    days: tuple[SimulatedDay, ...]
    schedules: tuple[SimulatedSchedule, ...]
    groups: tuple[SimulatedGroup, ...]
    pile_ups: tuple[SimulatedPileUp, ...]
    clock_changes: tuple[SimulatedChange, ...] = ()
    left_out: tuple[Unsimulated, ...] = ()


def simulate(
    schedules: Sequence[Simulated], *, since_ms: int, until_ms: int
) -> Iterator[Simulation | None]:
    """Simulate day by day, from a whole minute on. Yields None after each day, then the result."""
    shared: dict[tuple[tuple[Trigger, ...], Windows | None], _Times] = {}
    tracks = []
    for one in schedules:
        windows = one.timing.windows
        key = (one.times.triggers, windows)
        times = shared.setdefault(key, _Times(one.times, windows))
        tracks.append(_Track(one, times, since_ms))
    tracks = _in_order(tracks)
    groups = {
        one.group: (Peak(), one.group_max_running)
        for one in schedules
        if one.group is not None and one.group_max_running is not None
    }
    every, starting = Peak(), Peak()
    days: list[SimulatedDay] = []
    pile_ups = PileUps()
    for day_ms in range(since_ms, until_ms, DAY_MS):
        begun: list[tuple[str, list[int]]] = []
        runs = 0
        for track in tracks:
            starts, lanes = track.advance(day_ms, min(day_ms + DAY_MS, until_ms))
            if not starts:
                continue
            begun.append((track.name, starts))
            runs += len(starts) * track.scopes
            starting.add(lanes.starting)
            every.add(lanes.active)
            if track.group in groups:
                groups[track.group][0].add(lanes.active)
        for peak, _ in groups.values():
            peak.close(day_ms)
        starts_by_minute = starting.close(day_ms)
        pile_ups.add(day_ms, starts_by_minute, begun)
        counts = every.close(day_ms)
        most = max(counts)
        days.append(
            SimulatedDay(
                from_at=from_ms(day_ms),
                runs=runs,
                most_active=most,
                most_active_at=from_ms(day_ms + counts.index(most) * MINUTE_MS),
                hourly_runs=tuple(sum(starts_by_minute[hour]) for hour in _HOURS),
                hourly_active=tuple(max(counts[hour]) for hour in _HOURS),
            )
        )
        yield None
    yield Simulation(
        from_at=from_ms(since_ms),
        until_at=from_ms(until_ms),
        runs=sum(day.runs for day in days),
        most_active=every.most,
        most_active_at=from_ms(every.most_at_ms or since_ms),
        days=tuple(days),
        schedules=tuple(sorted((track.result() for track in tracks), key=lambda one: one.name)),
        groups=tuple(
            SimulatedGroup(
                name=name,
                max_running=limit,
                most_active=peak.most,
                most_active_at=from_ms(peak.most_at_ms),
            )
            for name, (peak, limit) in sorted(groups.items())
            if peak.most
        ),
        pile_ups=tuple(
            SimulatedPileUp(
                at=from_ms(at_ms), days=count, schedules=len(names), names=names[:MOST_NAMED]
            )
            for names, at_ms, count in pile_ups.busiest(_MOST_PILE_UPS)
        ),
    )


class _Planned:
    """The plan times of one day, and how many others windows exclude.

    Schedules with the same triggers and windows share them.
    """

    def __init__(self, at: list[int], day_ms: int, *, excluded: int = 0) -> None:
        self.at = at
        self.excluded = excluded
        self._day_ms = day_ms
        self._offsets: tuple[int, ...] | None = None
        self._gap_ms: int | None = None
        self._lanes: dict[int, Lanes] = {}

    def gap_ms(self) -> int:
        """The least distance of two of them; they are at least two."""
        if self._gap_ms is None:
            self._gap_ms = min(map(sub, self.at[1:], self.at))
        return self._gap_ms

    def lanes(self, duration_ms: int) -> Lanes:
        """Count runs that start at these times and take so long."""
        found = self._lanes.get(duration_ms)
        if found is None:
            if self._offsets is None:
                self._offsets = tuple(at - self._day_ms for at in self.at)
            found = self._lanes[duration_ms] = regular_lanes(self._offsets, duration_ms)
        return found


class _Times:
    """The plan times of schedules with the same triggers and windows."""

    def __init__(self, times: Triggers, windows: Windows | None) -> None:
        self._times = times
        self._windows = windows
        self._span = (0, 0)
        self._last = _Planned([], 0)

    def between(self, after_ms: int, last_ms: int, day_ms: int) -> _Planned:
        if self._span != (after_ms, last_ms):
            self._span = (after_ms, last_ms)
            plans = self._times.list_ms(after_ms, last_ms)
            found = plans if self._windows is None else _in_windows(plans, self._windows)
            self._last = _Planned(found, day_ms, excluded=len(plans) - len(found))
        return self._last


def _in_windows(plans: list[int], windows: Windows) -> list[int]:
    """Return the plan times at which runs can start."""
    found: list[int] = []
    index = 0
    while index < len(plans):
        span = windows.span_at(plans[index])
        end = bisect_left(plans, span.end_ms, index)
        if span.is_open:
            found += plans[index:end]
        index = end
    return found


class _Track:
    """One schedule on its way through the days."""

    def __init__(self, schedule: Simulated, times: _Times, since_ms: int) -> None:
        self.name = schedule.name
        self.group = schedule.group
        self.scopes = schedule.scopes
        self.upstreams = schedule.upstreams
        self.followers: list[_Track] = []
        self._schedule = schedule
        self._times = times
        self._duration_ms = schedule.duration_ms or 0
        self._limit = running_limit(schedule.overlap, schedule.max_running)
        self._after_ms = max(schedule.after_ms, since_ms - 1)
        self._runs_left = schedule.runs_left
        self._moved_ms = schedule.first_due_ms
        self._has_jitter = schedule.timing.most_jitter_ms > 0
        self._own_ms = schedule.after_ms + 1  # the plan time of a fire that was moved
        self._later: list[int] = []  # due later than the day that was simulated last
        self._ends: list[int] = []  # of runs that can still be active, the earliest first
        self._unended: list[int] = []  # former ends of runs that were replaced
        self._runs = self._skipped = self._delayed = self._replaced = self._excluded = 0
        self._first_ms: int | None = None  # when the first and the last run start
        self._last_ms: int | None = None

    def advance(self, day_ms: int, end_ms: int) -> tuple[list[int], Lanes]:
        """Decide the fires that are due in a day: when their runs start, and the runs by minute."""
        due = self._take_due(day_ms, end_ms)
        if not due.at:
            return [], NO_LANES
        duration_ms, limit = self._duration_ms, self._limit
        if limit is None or not duration_ms or self._is_free(due):
            starts, lanes = due.at, due.lanes(duration_ms)
            self._ends = [at + duration_ms for at in starts[-(limit or 1) :]]
            ends = [at + duration_ms for at in starts] if self.followers else []
        else:
            starts, ends, lanes = self._admit(due.at, limit, day_ms)
        if starts:
            self._runs += len(starts)
            self._first_ms = starts[0] if self._first_ms is None else self._first_ms
            self._last_ms = starts[-1]
        for follower in self.followers:
            follower.follow(ends, self._unended)
        self._unended = []
        if self.scopes > 1:
            lanes = Lanes(lanes.starting * self.scopes, lanes.active * self.scopes)
        return starts, lanes

    def follow(self, ends: Sequence[int], unended: Sequence[int]) -> None:
        """Fire at these ends of an upstream, and not at `unended` ones that were to come."""
        self._later += ends
        for end in unended:
            self._later.remove(end)

    def result(self) -> SimulatedSchedule:
        duration_ms, runs = self._schedule.duration_ms, self._runs * self.scopes
        return SimulatedSchedule(
            name=self.name,
            runs=runs,
            skipped=self._skipped * self.scopes,
            delayed=self._delayed * self.scopes,
            replaced=self._replaced * self.scopes,
            excluded=self._excluded * self.scopes,
            first_at=None if self._first_ms is None else from_ms(self._first_ms),
            last_at=None if self._last_ms is None else from_ms(self._last_ms),
            duration_ms=duration_ms,
            busy_ms=None if duration_ms is None else duration_ms * runs,
        )

    def _take_due(self, day_ms: int, end_ms: int) -> _Planned:
        """Return when the fires of a day are due, in order."""
        planned = self._plan(day_ms, end_ms)
        moved_ms, own_ms = self._moved_ms, self._own_ms
        is_moved = moved_ms is not None and day_ms <= max(moved_ms, own_ms)
        if not (is_moved or self._later or self._has_jitter) and self._runs_left is None:
            return planned
        plans = planned.at
        if is_moved and moved_ms is not None:
            # The fires that it was moved past come due with it.
            timing = self._schedule.timing
            plans = [at for at in plans if at != own_ms and resolve_due_ms(timing, at) > moved_ms]
        due = list(self._later)
        if moved_ms is not None and day_ms <= moved_ms < end_ms:
            due += self._take_moved(moved_ms)
        due += self._resolve(plans)
        due.sort()
        index = bisect_left(due, end_ms)
        self._later = due[index:]
        return _Planned(due[:index], day_ms)

    def _take_moved(self, moved_ms: int) -> list[int]:
        """Return when the runs of a fire that was moved start, and of those that it passed.

        With `catch_up=all` they run one after the other, else one of them runs.
        """
        timing, count = self._schedule.timing, 1
        if timing.catch_up is CatchUp.ALL:
            sure_ms = max(self._own_ms, moved_ms - timing.most_jitter_ms)
            count += count_planned(timing, self._own_ms, sure_ms)
            later = takewhile(lambda one: one.plan_ms <= moved_ms, next_fires(timing, sure_ms))
            count += sum(one.due_ms <= moved_ms for one in later)
            count = min(count, MAX_CATCH_UP)
        if self._runs_left is not None:
            count = min(count, self._runs_left)
            self._runs_left -= count
        return [moved_ms + number * self._duration_ms for number in range(count)]

    def _plan(self, day_ms: int, end_ms: int) -> _Planned:
        timing = self._schedule.timing
        last_ms = end_ms - 1 if timing.until_ms is None else min(end_ms - 1, timing.until_ms)
        after_ms = max(self._after_ms, day_ms - 1)
        if timing.from_ms is not None:
            after_ms = max(after_ms, timing.from_ms - 1)
        if after_ms >= last_ms or self._runs_left == 0:
            return _Planned([], day_ms)
        found = self._times.between(after_ms, last_ms, day_ms)
        self._excluded += found.excluded
        return found

    def _resolve(self, plans: list[int]) -> list[int]:
        """Return when these plan times are due."""
        timing = self._schedule.timing
        if self._has_jitter:
            due = [resolve_due_ms(timing, plan_ms) for plan_ms in plans]
        else:
            due = plans
        if self._runs_left is not None:
            due = due[: self._runs_left]
            self._runs_left -= len(due)
        return due

    def _is_free(self, due: _Planned) -> bool:
        """Whether each run ends before the next fire."""
        if self._ends and self._ends[-1] > due.at[0]:
            return False
        return len(due.at) == 1 or due.gap_ms() >= self._duration_ms

    def _admit(
        self, due: Sequence[int], limit: int, day_ms: int
    ) -> tuple[list[int], list[int], Lanes]:
        """Decide fires one by one: when their runs start and end, and the runs by minute."""
        overlap, duration_ms, active = self._schedule.overlap, self._duration_ms, self._ends
        starts: list[int] = []
        cut: list[tuple[int, int]] = []
        for at in due:
            while active and active[0] <= at:
                active.pop(0)
            start = at
            if len(active) >= limit:
                if overlap is Overlap.REPLACE:
                    self._replaced += 1
                    self._unended.append(active.pop(0))
                    cut.append((at - day_ms, self._unended[-1] - day_ms))
                elif overlap is Overlap.SKIP or (
                    overlap is Overlap.QUEUE and active[-1] > at + duration_ms
                ):
                    self._skipped += 1
                    continue
                else:
                    self._delayed += 1
                    start = active[-limit]
            starts.append(start)
            active.append(start + duration_ms)
        if not starts:
            return [], [], NO_LANES
        ends = [start + duration_ms for start in starts]
        lanes = count_lanes([at - day_ms for at in starts], [at - day_ms for at in ends])
        if cut:
            lanes = lanes._replace(active=lanes.active - count_cut(cut))
        return starts, ends, lanes


def _in_order(tracks: Sequence[_Track]) -> list[_Track]:
    """Connect each schedule with those that follow it, and put it before them."""
    by_name = {track.name: track for track in tracks}
    before: dict[str, list[str]] = {}
    for track in tracks:
        followed = [name for name, on in track.upstreams if on != "failure" and name in by_name]
        before[track.name] = followed
        for name in followed:
            by_name[name].followers.append(track)
    return [by_name[name] for name in TopologicalSorter(before).static_order()]
