"""Upcoming runs: the list of the next fires, the bar of the next hours, and the coming week."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from math import ceil, inf, log1p
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.units import HOUR_MS, to_ms
from edgecron.base.values import NamedTuple
from edgecron.model.listing import SortBy
from edgecron.tui.list_rows import Column, Line, Targets
from edgecron.tui.queries import DatabaseSource, QueryScreen
from edgecron.tui.text_line import BARS, Span, TextLine
from edgecron.views import timeline
from edgecron.views.phrases import is_overdue, moved_words
from edgecron.views.times import distance, near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.filters import Filter
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.views.busy import WeekHeat


_REPEAT_WITHIN = timedelta(minutes=5)  # fires this near to each other are folded
_MOST_FOLDED = timedelta(hours=1)
_MOST = 1500
_MOST_LOOKED_AT = 5000
_READ_AGAIN = timedelta(minutes=1)
COLUMNS = (
    Column("IN", 10, 10),
    Column("TIME", 12, 12),
    Column("SCHEDULE", 12, 28),
    Column("BY", 10, 24, share=1, drop=1),
)
# The column of each order, for the arrow in the heading; and the order of each column.
SORTS = {SortBy.NEXT: 0, SortBy.NAME: 2, SortBy.WHEN: 3}
SORTED_BY = {column: sort for sort, column in SORTS.items()} | {1: SortBy.NEXT}


class UpcomingFires(NamedTuple):
    """The next fires, sorted by time, and whether there are more."""

    fires: tuple[UpcomingFire, ...] = ()
    has_more: bool = False


class UpcomingBar(TextLine):
    """Show the bar, its labels, and a note on the first clock change or pile-up."""

    DEFAULT_CSS = "UpcomingBar { height: 3; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._upcoming: UpcomingFires = UpcomingFires()
        self._now: datetime | None = None
        self._zone: tzinfo | None = None

    def show_fires(self, coming: UpcomingFires, *, now: datetime, zone: tzinfo) -> None:
        """Show these fires."""
        self._upcoming, self._now, self._zone = coming, now, zone
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._now is None or self._zone is None or self.size.width < 4:
            return
        fires = self._upcoming.fires
        known_until = fires[-1].due_at if self._upcoming.has_more else None
        self.show(
            *bar_lines(
                fires, self.size.width - 2, now=self._now, zone=self._zone, known_until=known_until
            )
        )


def bar_lines(
    fires: Sequence[timeline.TimedFire],
    width: int,
    *,
    now: datetime,
    zone: tzinfo,
    known_until: datetime | None,
) -> list[list[Span]]:
    """Return the next 24 hours as a bar, its labels with signs, and a note on the signs.

    Overdue fires count in the first cell. Fires after `known_until` were not read (None: all
    were); `…` stands for them.
    """
    axis = timeline.make_axis(timeline.DEFAULT_SPAN_S, width, around_ms=to_ms(now), eighths=0)
    counts = Counter(max(axis.cell_of(to_ms(fire.due_at)), 0) for fire in fires)
    most = max((count for cell, count in counts.items() if cell < width), default=0)
    scale = timeline.scale_of(axis, "local")
    signs = [*scale.changes, *timeline.pile_ups(fires, axis)]
    marks = {sign.cell: sign.letter for sign in reversed(signs)}
    bar: list[Span] = [(" ", "")]
    known = [known_until is None or axis.begin(cell) <= known_until for cell in range(width)]
    for cell in range(width):
        count = counts[cell]
        letter = BARS[-(-count * len(BARS) // most) - 1] if count else "·" if known[cell] else " "
        if not known[cell] and known[cell - 1]:
            letter = "…"
        bar.append((letter, "faint" if not count else "warn" if cell in marks else "accent"))
    below: list[Span] = [(" ", "")]
    for cell, letter in enumerate(timeline.label_letters(scale, width)):
        is_marked = cell in marks and letter == " "  # Never over a label.
        below.append((marks[cell], "warn") if is_marked else (letter, "dim"))
    noted: list[Span] = []
    if signs:
        sign = signs[0]
        when = near_time(sign.at, zone=zone, now=now)
        noted = [(f" {sign.letter} ", "warn"), (f"{when}: {clean(sign.text)}", "dim")]
    return [bar, below, noted]


class Repeats(NamedTuple):
    """Fires of one schedule that follow each other within minutes: the first one and how many."""

    fire: UpcomingFire
    runs: int
    last_at: datetime


def fold_repeats(fires: Sequence[UpcomingFire]) -> list[Repeats]:
    """Fold frequent fires of a schedule into one line for each hour, in order of first fires."""
    found: list[Repeats] = []
    places: dict[str, int] = {}  # of the last line of each schedule
    for fire in fires:
        at = places.get(fire.schedule)
        before = None if at is None else found[at]
        if (
            at is not None
            and before is not None
            and fire.due_at - before.last_at < _REPEAT_WITHIN
            and fire.due_at - before.fire.due_at < _MOST_FOLDED
            and not fire.is_moved
        ):
            found[at] = Repeats(before.fire, before.runs + 1, fire.due_at)
        else:
            places[fire.schedule] = len(found)
            found.append(Repeats(fire, 1, fire.due_at))
    return found


class UpcomingSource(DatabaseSource[UpcomingFires]):
    """The source of upcoming runs."""

    topic = "upcoming"
    filter_example = "letters of a name, or due:03 command:rsync"
    sorts = tuple(SORTS)
    sorted_by = SORTED_BY

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        super().__init__(screen, changed=changed)
        self.found = UpcomingFires()
        self._lines: list[Repeats] = []
        self._read_at = self._now()
        self._first_to_come: datetime | None = None
        self.sort = SortBy.NEXT

    def sort_by(self, sort: SortBy, *, is_descending: bool) -> None:
        # Only the fires that were read; equal ones are in order of time.
        self.sort, self.is_descending = sort, is_descending
        self._put_in_order()
        self._changed()

    def _put_in_order(self) -> None:
        def order(line: Repeats) -> str:
            text = line.fire.schedule if self.sort is SortBy.NAME else line.fire.source or ""
            return text.casefold()

        self._lines = fold_repeats(self.found.fires)
        if self.sort is not SortBy.NEXT:
            self._lines.sort(key=order, reverse=self.is_descending)
        elif self.is_descending:
            self._lines.reverse()
        self.keys = [_key(line.fire) for line in self._lines]

    @property
    def is_counted(self) -> bool:
        return not self.found.has_more

    @property
    def order_note(self) -> str:
        return f"sorted the next {len(self.found.fires):,} runs" if self.found.has_more else ""

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        return wanted.unused_on_fires

    @property
    def is_outdated(self) -> bool:
        """Whether a fire is overdue that was still to come when the list was read.

        Without a running engine there is no commit that would tell.
        """
        now, first = self._now(), self._first_to_come
        is_time = now - self._read_at >= _READ_AGAIN
        return is_time and first is not None and is_overdue(first, now)

    def read(self) -> None:
        """Read the next fires again."""
        wanted = self.filter

        def show(coming: UpcomingFires) -> None:
            if wanted is self.filter:  # Otherwise another filter is being read.
                self.found, self.is_awaited = coming, False
                self._put_in_order()
                self._first_to_come = next(
                    (fire.due_at for fire in coming.fires if fire.due_at > self._now()), None
                )
                self._read_at = self._now()
                self._changed()

        self._query.ask(lambda client: _find_next(client, wanted), show)

    def line(self, index: int) -> Line | None:
        fire, runs, last_at = self._lines[index]
        now, zone = self._now(), self._zone
        note = moved_words(fire, zone=zone, now=now) if fire.is_moved else fire.source or ""
        repeats: tuple[Span, ...] = ()
        if runs > 1:
            until = f"{last_at.astimezone(zone):%H:%M}"
            # First: a narrow column cuts what the list of schedules shows, too.
            repeats = ((f"x{runs}", "accent"), (f" to {until} ", "dim"))
        return Line(
            key=_key(fire),
            cells=(
                (far_span(fire.due_at, now, is_clock_trusted=self.is_clock_trusted),),
                ((near_time(fire.due_at, zone=zone, now=now), ""),),
                ((clean(fire.schedule), "bold"),),
                (*repeats, (clean(note), "dim")),
            ),
        )

    def schedule_of(self, key: int) -> str | None:
        index = self.index_of(key)
        return None if index is None else self._lines[index].fire.schedule

    def targets(self, keys: Sequence[int]) -> Targets | None:
        """Return the schedules of these fires; None if the filter hides all of them."""
        wanted = frozenset(keys)
        names = (line.fire.schedule for line in self._lines if _key(line.fire) in wanted)
        return Targets(found) if (found := tuple(dict.fromkeys(names))) else None

    def why_fixed(self, index: int) -> str | None:
        """Say why a fire can't be moved; None if it is the next one of its schedule."""
        fire = self._lines[index].fire
        following = next(one for one in self.found.fires if one.schedule == fire.schedule)
        if following is fire:
            return None
        when = near_time(following.due_at, zone=self._zone, now=self._now())
        return f"you can move only the next run of {fire.schedule}, at {when}"

    def nearest_s(self, first: int, last: int) -> float:
        now = self._now()
        seconds = (
            abs((line.fire.due_at - now).total_seconds()) for line in self._lines[first:last]
        )
        return min(seconds, default=inf)


def far_span(due_at: datetime, now: datetime, *, is_clock_trusted: bool) -> Span:
    """Return how far away a fire is, or that it is overdue."""
    if is_clock_trusted and is_overdue(due_at, now):
        return "overdue", "bad"
    return distance(due_at, now, is_clock_trusted=is_clock_trusted), "accent"


def _find_next(client: Client, wanted: Filter | None) -> UpcomingFires:
    """Read the next fires; only the first overdue one of a schedule: they will be one run."""
    now = client.now()
    fires: list[UpcomingFire] = []
    overdue: set[str] = set()
    for fire in islice(client.next_fires(matches=wanted), _MOST_LOOKED_AT):
        if is_overdue(fire.due_at, now):
            if fire.schedule in overdue:
                continue
            overdue.add(fire.schedule)
        fires.append(fire)
        if len(fires) == _MOST:
            return UpcomingFires(tuple(fires), has_more=True)
    return UpcomingFires(tuple(fires))


def _key(fire: UpcomingFire) -> int:
    return hash((fire.schedule, fire.plan_at))


# How busy the coming week is: one line of hours per day.

SHADES = 4  # from 1; 0 is an hour without runs
_WIDE = 8  # times the quietest hour; beyond, shades show magnitudes instead of amounts
_LEAST_S = 10.0
_MOST_BUSY = 0.01  # share of the time for counting
_WHILE_COUNTING = 0.3  # share of the time while counting: keys must not wait
_SLICE_MS = 8
_AFTER_KEY_S = 0.3  # nothing is counted while the user types
CELLS = ("·", "░", "▒", "▓", "█")  # the letters show the shades without colour
SHADE_STYLES = ("faint", "heat1", "heat2", "heat3", "heat4")
_HOURS = 24
_DAY_WIDTH = 6
_MOST_PER_HOUR = 12  # schedules that run more often are not counted: they would hide the others


def shade(count: int, least: int, most: int) -> int:
    """Return the shade of an hour, 0 to 4. `least` and `most` are the week's quietest and busiest.

    If they are close, shades divide the amounts. Otherwise they follow the magnitude, so that one
    run beside a thousand is visible, and hundreds differ.
    """
    if count <= 0 or most <= 0:
        return 0
    if most <= least:
        return SHADES // 2  # all hours are alike
    if most < _WIDE * least:
        # The current hour may have less than the least.
        return min(1 + SHADES * max(count - least, 0) // (most - least), SHADES)
    return min(ceil(SHADES * log1p(count) / log1p(most)), SHADES)


class WeekView(TextLine):
    """Show how busy seven days are; empty until they are counted.

    The reader's thread counts in slices, between keys, and at most a hundredth of the time.
    Changes meanwhile make the view outdated.
    """

    DEFAULT_CSS = "WeekView { height: 8; }"

    def __init__(self, screen: QueryScreen[Any], *, id: str) -> None:
        super().__init__(id=id)
        self._query_screen = screen
        self._heat: WeekHeat | None = None
        self._is_counting = False
        self._is_behind = False  # did a change come while it could not be counted
        self._next_ms = 0.0
        self._hour = 0  # since 1970, when it was counted

    def read(self) -> None:
        """Count again, or note that the view is outdated if it is hidden, or too early."""
        is_early = self._query_screen.app.clock.monotonic_ms() < self._next_ms
        if self._is_counting or is_early or not self.region:
            self._is_behind = True
            return
        self._is_counting, self._is_behind = True, False
        self.run_worker(self._count())

    def on_show(self) -> None:
        if self._heat is None or self.is_outdated:
            self.read()

    @property
    def is_outdated(self) -> bool:
        """Whether something changed since the count, or another hour began."""
        has_turned = self._hour != self._hour_now()
        return self._heat is not None and (self._is_behind or has_turned)

    async def _count(self) -> None:
        slices: dict[Client, Iterator[WeekHeat | None]] = {}  # of the Client that counts
        app, spent_ms = self._query_screen.app, 0
        clock = app.clock

        def next_slice(client: Client) -> tuple[WeekHeat | None, int]:
            """Count a slice; a new Client begins again."""
            begun_ms = clock.monotonic_ms()
            if client not in slices:
                slices.clear()
                slices[client] = client.week_heat(most_per_hour=_MOST_PER_HOUR)
            while True:
                heat, took_ms = next(slices[client]), clock.monotonic_ms() - begun_ms
                if heat is not None or took_ms >= _SLICE_MS:
                    return heat, took_ms

        heat = None
        try:
            while heat is None:
                heat, slice_ms = await self._query_screen.answer_to("week", next_slice)
                spent_ms += slice_ms
                pause_s, keys = slice_ms / 1000 * (1 / _WHILE_COUNTING - 1), -1
                while heat is None and keys != app.keys_typed:
                    keys = app.keys_typed
                    await asyncio.sleep(pause_s)
                    pause_s = _AFTER_KEY_S
        finally:
            self._is_counting = False
        self._next_ms = clock.monotonic_ms() + max(_LEAST_S * 1000, spent_ms / _MOST_BUSY)
        self._heat, self._hour = heat, self._hour_now()
        self._draw()

    def _hour_now(self) -> int:
        return self._query_screen.app.clock.now_ms() // HOUR_MS

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._heat is not None:
            app = self._query_screen.app
            lines, legend = week_lines(
                self._heat, now=app.now(), zone=app.zone, width=self.size.width
            )
            self.show(*lines, right=legend)


def week_lines(
    heat: WeekHeat, *, now: datetime, zone: tzinfo, width: int
) -> tuple[list[list[Span]], list[Span]]:
    """Return a line of hours for each day, as wide as they fit, and the legend."""
    begins = [hour * max(_HOURS, width - _DAY_WIDTH) // _HOURS for hour in range(_HOURS + 1)]
    current = now.astimezone(zone)
    # Leave out the current hour: only a part of it is to come.
    busy = [
        count
        for number, counts in enumerate(heat.counts)
        for hour, count in enumerate(counts)
        if count and not (number == 0 and hour <= current.hour)
    ]
    least, most = min(busy, default=0), max(busy, default=0)
    labels = [f"{hour:<{begins[hour + 6] - begins[hour]}}" for hour in range(0, _HOURS, 6)]
    hours, legend = "".join(labels).rstrip(), _legend(least, most, heat.frequent)
    if not _fits(hours, legend, width=width):
        legend = _legend(least, most, 0)
    if not _fits(hours, legend, width=width):
        # The shades need words more than the last hours do.
        fewer = "".join(labels[:-1]).rstrip()
        hours = fewer if _fits(fewer, legend, width=width) else hours
    lines: list[list[Span]] = [[(f" {'':<4}{hours}", "dim")]]
    for number, counts in enumerate(heat.counts):
        day = heat.first_day + timedelta(days=number)
        is_today = day == current.date()
        spans: list[Span] = [(f" {day:%a} ", "bold" if is_today else "dim")]
        for hour, count in enumerate(counts):
            depth, cells = shade(count, least, most), begins[hour + 1] - begins[hour]
            if is_today and hour < current.hour:
                spans.append((" " * cells, ""))
            else:
                spans.append((CELLS[depth] * cells, SHADE_STYLES[depth]))
        lines.append(spans)
    return lines, legend


def _fits(hours: str, legend: Sequence[Span], *, width: int) -> bool:
    return len(hours) + sum(len(text) for text, _ in legend) <= width - _DAY_WIDTH - 1


def _legend(least: int, most: int, frequent: int) -> list[Span]:
    """Say how many runs an hour the shades mean, and how many schedules are not counted."""
    if not most:
        return []
    words = (
        f"{CELLS[2]} {most} /h" if least == most else f"{CELLS[1]} {least} {CELLS[-1]} {most} /h"
    )
    without = f", without {frequent} frequent" if frequent else ""
    return [(f"{words}{without} ", "dim")]
