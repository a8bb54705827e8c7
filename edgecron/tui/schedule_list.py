"""The list of schedules: all ids in order, and the lines near the visible ones."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.zones import LOCAL, is_same_zone, local_zone_name
from edgecron.model.choices import Status
from edgecron.model.listing import (
    Idle,
    Recent,
    ScheduleLine,
    ScheduleState,
    SortBy,
    find_idle,
    state_of,
)
from edgecron.tui.list_rows import Column, Line, Targets
from edgecron.tui.queries import DatabaseSource, QueryScreen
from edgecron.tui.text_line import BARS, Span
from edgecron.tui.themes import STATE_GLYPHS, STATUS_GLYPHS
from edgecron.views.phrases import PROBLEM, WARNING, is_overdue
from edgecron.views.times import distance, near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.filters import Filter

    _Found = tuple[array[int], list[ScheduleLine]]

AHEAD = 2  # screens of lines that are read before and after the visible ones
_MOST_KEPT = 1000
_SPARKS = 20
_NEVER_BUSY = (ScheduleState.BROKEN, ScheduleState.VANISHED)  # even with queued runs
_FAILED_BAR = "✗"
_BAR_STYLES = {"success": "quiet", "failed": "bad", "interrupted": "bad"}
_USUAL, _TALLEST = 3, 6  # eighths: a line between neighbours stays free
_FAILURES = (Status.FAILED.value, Status.INTERRUPTED.value)
_OF_DAY = re.compile(r"\d:\d\d")  # words with a time of day

COLUMNS = (
    Column("", 1, 1),
    Column("SCHEDULE", 16, 26, share=1),
    Column("WHEN", 19, 34, share=9, drop=2),
    Column("NEXT", 10, 10),
    Column("AT", 12, 12, drop=5),
    Column("LAST", 13, 13, drop=1),
    Column("HISTORY", 7, _SPARKS, drop=3, keeps_end=True),
    Column("RUNS", 5, 7, drop=4, is_right=True),
)
# The column of each order, for the arrow in the heading.
SORTS = {
    SortBy.NAME: 1,
    SortBy.WHEN: 2,
    SortBy.NEXT: 3,
    SortBy.LAST: 5,
    SortBy.STATUS: 0,
    SortBy.RUNS: 7,
}
# The order of each column.
SORTED_BY = {column: sort for sort, column in SORTS.items()} | {
    4: SortBy.NEXT,
    6: SortBy.STATUS,
}


class ScheduleSource(DatabaseSource["_Found"]):
    """The source of schedules: all ids in order, and the lines near the visible ones."""

    topic = "schedules"
    filter_example = "letters of a name, or status:failed state:paused due:03 command:rsync"
    sorts = tuple(SORTS)
    sorted_by: Mapping[int, SortBy] = SORTED_BY
    descending = frozenset({SortBy.LAST, SortBy.RUNS})

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        super().__init__(screen, changed=changed)
        self.keys: array[int] = array("q")
        self._lines: dict[int, ScheduleLine] = {}
        self._fresh: set[int] = set()  # keys of lines that were read after the last change
        self._first = screen.app.size.height  # lines read at first
        self._visible = range(self._first)
        self._is_begun = False
        self._own_zone = ""  # of this machine, when lines were read
        self.sort = SortBy.NAME

    @property
    def order_note(self) -> str:
        is_when, side = self.sort is SortBy.WHEN, "last" if self.is_descending else "first"
        return f"schedules that run most often come {side}" if is_when else ""

    def sort_by(self, sort: SortBy, *, is_descending: bool) -> None:
        self.sort, self.is_descending = sort, is_descending
        self.read_at_once()

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        return wanted.unused_on_schedules

    def read(self) -> None:
        """Read the order and the visible lines again.

        At first read only the first lines: the order of 100,000 schedules takes longer.
        """
        is_plain = self.sort is SortBy.NAME and not self.is_descending and self.filter is None
        if is_plain and not self._is_begun:
            limit = self._first
            self._query.ask(lambda client: _find_first(client, limit), self._begin)
        else:
            self._read_order()

    def _begin(self, found: _Found) -> None:
        keys, lines = found
        if not self._is_begun and self.filter is None:
            self.keys, self.is_whole = keys, len(lines) < self._first
            self._take(lines)
        self._is_begun = True
        if len(lines) == self._first:
            self._query.skip_wait()
            self._screen.call_after_refresh(self.read)  # The first lines are drawn first.

    def _read_order(self) -> None:
        sort, is_descending, wanted = self.sort, self.is_descending, self.filter
        near = self._around(1)

        def find(client: Client) -> _Found:
            order = client.schedule_order(sort, is_descending=is_descending, matches=wanted)
            ids = list(order[near.start : near.stop])
            return order, client.schedule_lines(ids) if ids else []

        def show(found: _Found) -> None:
            # Otherwise another order or filter is being read.
            if (sort, is_descending, wanted) == (self.sort, self.is_descending, self.filter):
                (self.keys, lines), self.is_whole, self.is_awaited = found, True, False
                self._fresh.clear()
                self._take(lines)

        self._query.ask(find, show)

    def line(self, index: int) -> Line | None:
        found = self._lines.get(self.keys[index])
        return None if found is None else self._line_of(found)

    def schedule_of(self, key: int) -> str | None:
        found = self._lines.get(key)
        return None if found is None else found.standing.name

    def targets(self, keys: Sequence[int]) -> Targets:
        """Return these schedules as targets: by name if it is known."""
        known = [(key, self._lines.get(key)) for key in keys]
        return Targets(
            names=tuple(line.standing.name for _, line in known if line is not None),
            schedule_ids=tuple(key for key, line in known if line is None),
        )

    def nearest_s(self, first: int, last: int) -> float:
        now = self._now()
        times = (
            instant
            for key in self.keys[first:last]
            if (found := self._lines.get(key)) is not None
            for instant in (found.standing.next_run_at, found.standing.last_run_at)
            if instant is not None
        )
        return min((abs((instant - now).total_seconds()) for instant in times), default=inf)

    def want(self, first: int, last: int) -> None:
        self._visible = range(first, last)
        if missing := self._missing(self._visible):
            self._screen.ask(
                "schedule lines", lambda client: client.schedule_lines(missing), self._take_missing
            )
        elif not self._is_ready(self._around(1)):
            self._look_ahead_soon(self._look_ahead)

    def _look_ahead(self) -> None:
        """Read lines that the user can reach with the next keys."""
        if missing := self._missing(self._around(AHEAD)):
            self._screen.ask(
                "schedule lines", lambda client: client.schedule_lines(missing), self._take_missing
            )

    def _is_ready(self, wanted: range) -> bool:
        """Whether everything that is drawn of these lines is read."""
        return not self._missing(wanted)

    def _take_missing(self, lines: list[ScheduleLine]) -> None:
        awaited = self._missing(self._visible)
        self._keep(lines)
        if not self._fresh.isdisjoint(awaited):
            self._changed()

    def _around(self, screens: int) -> range:
        """The visible lines, and those of so many screens before and after them."""
        first, last = self._visible.start, self._visible.stop
        beside = screens * (last - first)
        return range(max(0, first - beside), last + beside)

    def _missing(self, wanted: range) -> list[int]:
        return [key for key in self._slice(wanted) if key not in self._fresh]

    def _slice(self, seen: range) -> array[int]:
        return self.keys[seen.start : seen.stop]

    def _take(self, lines: list[ScheduleLine]) -> None:
        self._keep(lines)
        self._changed()

    def _keep(self, lines: list[ScheduleLine]) -> None:
        if len(self._lines) > _MOST_KEPT:
            near = self._slice(self._around(AHEAD))
            self._lines = {key: self._lines[key] for key in near if key in self._lines}
            self._fresh.intersection_update(self._lines)
        self._lines.update((line.id, line) for line in lines)
        self._fresh.update(line.id for line in lines)
        self._own_zone = local_zone_name()

    def _line_of(self, found: ScheduleLine) -> Line:
        now, standing = self._now(), found.standing
        coming, at = next_spans(
            found, now=now, zone=self._zone, is_clock_trusted=self.is_clock_trusted
        )
        return Line(
            key=found.id,
            cells=(
                (glyph_of(found, now=now),),
                ((clean(standing.name), "bold"),),
                _when_spans(found, own_zone=self._own_zone),
                (coming,),
                ((at, "dim"),),
                last_spans(standing.last_status, standing.last_run_at, now=now),
                _bars(found.recent),
                ((str(standing.run_count), "dim"),),
            ),
        )


def _find_first(client: Client, limit: int) -> _Found:
    lines = client.first_schedule_lines(limit)
    return array("q", (line.id for line in lines)), lines


def glyph_of(found: ScheduleLine, *, now: datetime) -> Span:
    """Return the state of a schedule as a glyph; an active run comes first.

    A schedule whose last run failed has the glyph of a failure, or a warning if others succeeded.
    """
    state = state_of(found.standing, now=now)
    if found.active and state not in _NEVER_BUSY:
        return STATUS_GLYPHS[(Status.RUNNING if found.running else Status.QUEUED).value]
    glyph, style = STATE_GLYPHS[state.value]
    if state is ScheduleState.ACTIVE and found.standing.last_status in _FAILURES:
        has_success = any(run.status == Status.SUCCESS.value for run in found.recent)
        return (WARNING.letter, "warn") if has_success else (PROBLEM.letter, "bad")
    return glyph, style


def _when_spans(found: ScheduleLine, *, own_zone: str) -> tuple[Span, ...]:
    """Return the times of a schedule, after a mark if its clock is not that of this machine."""
    words: Span = (clean(found.when), "dim")
    zone = found.timezone
    is_own = zone == LOCAL or is_same_zone(zone, own_zone)
    if is_own or not _OF_DAY.search(found.when):
        return (words,)
    return (f"{clean((zone or 'UTC').rpartition('/')[2])} ", "accent"), words


def next_spans(
    found: ScheduleLine, *, now: datetime, zone: tzinfo, is_clock_trusted: bool
) -> tuple[Span, str]:
    """Return the distance of the next run, or why there is none; and its time."""
    standing = found.standing
    idle = find_idle(standing, now=now)
    if idle is Idle.BROKEN:
        return ("broken", "bad"), ""
    if idle is not None:
        words = {
            Idle.VANISHED: "vanished",
            Idle.PAUSED: "paused",
            Idle.OWN_END: "after end",
            Idle.UPSTREAM: "after run",
            Idle.BOOT: "at boot",
            Idle.DEMAND: "on demand",
        }.get(idle, "done")
        return (words, "warn" if idle in (Idle.PAUSED, Idle.VANISHED) else "dim"), ""
    if standing.next_run_at is None:
        return ("-", "dim"), ""
    at = near_time(standing.next_run_at, zone=zone, now=now)
    if not is_clock_trusted:
        return ("held", "warn"), at
    if is_overdue(standing.next_run_at, now):
        return ("overdue", "bad"), at
    style = "warn" if state_of(standing, now=now) is ScheduleState.PAUSED else ""
    return (distance(standing.next_run_at, now), style), at


@lru_cache(_MOST_KEPT)
def _bars(recent: tuple[Recent, ...]) -> tuple[Span, ...]:
    """Return bars of the last durations; merge neighbours of one style."""
    bars = sparkline(recent[::-1], _SPARKS)
    return tuple(
        ("".join(letter for letter, _ in same), style)
        for style, same in groupby(bars, key=lambda bar: bar[1])
    )


def sparkline(recent: Sequence[tuple[str, int | None]], width: int) -> tuple[Span, ...]:
    """Return `width` letters with their styles, oldest first: the durations of the last runs.

    `recent` are (status, duration in milliseconds) of the last runs, newest first. The median is
    three eighths high, and no bar is higher than six. A failed run is a cross, so that colour is
    not needed. One without a duration is a dot. The left is blank if there are too few.

    Why not Textual's Sparkline: it is a widget, which a line of a list can't hold. Its scale is
    linear, so that one long run makes all others equal. Its colours show heights, not how a run
    ended.
    """
    shown = recent[: max(width, 0)]
    known = [ms for status, ms in shown if ms is not None and _BAR_STYLES.get(status) != "bad"]
    usual_ms = max(median_of(known), 1) if known else 1
    line = [(" ", "dim")] * (width - len(shown))
    for status, ms in reversed(shown):
        style = _BAR_STYLES.get(status, "dim")
        line.append((_FAILED_BAR if style == "bad" else _bar(ms, usual_ms), style))
    return tuple(line)


def median_of(durations: Sequence[int]) -> int:
    """Return the lower median. `statistics` would take a millisecond of the first paint."""
    return sorted(durations)[(len(durations) - 1) // 2]


def _bar(duration_ms: int | None, usual_ms: int) -> str:
    if duration_ms is None:
        return "·"
    return BARS[min(max(round(_USUAL * duration_ms / usual_ms), 1), _TALLEST) - 1]


def last_spans(status: str | None, at: datetime | None, *, now: datetime) -> tuple[Span, ...]:
    """Return how the last run ended, and how long ago."""
    if status is None:
        return (("-", "dim"),)
    glyph, style = STATUS_GLYPHS[status]
    when = status if at is None else distance(at, now)
    return ((f"{glyph} ", style), (when, style if style == "bad" else ""))
