"""How busy the next hours and the coming week are: a bar of hours, and one line per day."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import groupby
from math import ceil, log1p
from typing import TYPE_CHECKING, Any, Protocol

from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.client.protocol import Client
from edgecron.triggers.tzif import DAY_S, Spans
from edgecron.triggers.zones import resolve_wall, zone_spans
from edgecron.tui.text_line import Span, TextLine

if TYPE_CHECKING:
    from edgecron.tui.queries import QueryScreen
    from edgecron.views.busy import WeekHeat

MINUTE_S, HOUR_S, WEEK_S = 60, 3600, 7 * DAY_S
PILE = 5  # different schedules that start in the same minute

# Distances of labels. Cells can also have lengths between, so that the bar is not half empty.
_STEPS_S = (
    *(5 * MINUTE_S, 10 * MINUTE_S, 15 * MINUTE_S, 30 * MINUTE_S),
    *(HOUR_S, 2 * HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S),
    *(DAY_S, 2 * DAY_S, WEEK_S, 2 * WEEK_S, 4 * WEEK_S, 12 * WEEK_S, 52 * WEEK_S),
)
_SPANS_S = (MINUTE_S, 2 * MINUTE_S, *sorted({*_STEPS_S, 20 * MINUTE_S, 4 * HOUR_S, 8 * HOUR_S}))
_SPAN_WITHOUT_FIRES_S = 15 * MINUTE_S
_LATER = 10  # one in so many fires can lie beyond the bar, so that the others are apart
_LABEL_CELLS = 8  # from one label to the next, at least
_MONDAY_S = 4 * DAY_S  # 1970-01-05
_MOST_NAMES = 8


class TimedFire(Protocol):
    """A fire as the bar needs it, such as an UpcomingFire."""

    @property
    def schedule(self) -> str: ...
    @property
    def due_at(self) -> datetime: ...


class Tick(NamedTuple):
    """A label and the cell where it begins."""

    cell: int
    label: str


class PileUp(NamedTuple):
    """Starts of several schedules in one minute, the first at `at`, with the first names."""

    cell: int
    at: datetime
    starts: int
    schedules: tuple[str, ...]


class Change(NamedTuple):
    """A change of the zone's clocks, in words."""

    cell: int
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A bar of cells. Cell n lasts from `edges[n]` up to `edges[n + 1]`.

    A cell is `span_s` long, or as many local days. Overdue fires count in the first cell.
    """

    span_s: int
    edges: tuple[datetime, ...]
    counts: tuple[int, ...]
    ticks: tuple[Tick, ...]
    pile_ups: tuple[PileUp, ...]
    changes: tuple[Change, ...]


def timeline(
    fires: Sequence[TimedFire],
    width: int,
    *,
    now: datetime,
    zone: str | None,
) -> Timeline:
    """Count fires, sorted by time, in a bar of `width` cells from now.

    Cells are as short as possible with nearly all fires in the bar. `zone` is the name of a time
    zone. Raises UnknownTimezone.
    """
    width = max(width, 1)
    span_s = _choose_span(fires, width, now=now)
    edges = _edges(span_s, width, now=now, zone=zone)
    spans = zone_spans(zone, until_s=to_ms(edges[-1]) // 1000 + DAY_S)
    counts = [0] * width
    for fire in fires:
        cell = max(bisect_right(edges, fire.due_at) - 1, 0)
        if cell < width:
            counts[cell] += 1
    piles = (_pile_up(pile, edges) for pile in _piles(fires))
    return Timeline(
        span_s=span_s,
        edges=edges,
        counts=tuple(counts),
        ticks=tuple(_ticks(span_s, edges, spans)),
        pile_ups=tuple(pile for pile in piles if pile.cell < width),
        changes=tuple(_changes(edges, spans)),
    )


def _choose_span(fires: Sequence[TimedFire], width: int, *, now: datetime) -> int:
    if not fires:
        return _SPAN_WITHOUT_FIRES_S
    last = fires[len(fires) - len(fires) // _LATER - 1].due_at
    ahead_s = (last - now).total_seconds()
    # The first cell may have begun already; the last fire must be in the last cell.
    return next((span for span in _SPANS_S if span * (width - 1) > ahead_s), _SPANS_S[-1])


def _edges(span_s: int, width: int, *, now: datetime, zone: str | None) -> tuple[datetime, ...]:
    now_s = to_ms(now) // 1000
    spans = zone_spans(zone, until_s=now_s)
    local_s = now_s + spans.offsets[spans.index_at(now_s)]
    begun_s = (local_s - _MONDAY_S) % span_s
    if span_s < DAY_S:
        start = from_ms((now_s - begun_s) * 1000)
        return tuple(start + timedelta(seconds=span_s * n) for n in range(width + 1))
    # Days begin at local midnight, whatever their length.
    begins_s = local_s - local_s % DAY_S
    walls = (begins_s + span_s * n for n in range(width + 1))
    return tuple(from_ms(resolve_wall(wall, timezone=zone) * 1000) for wall in walls)


def _ticks(span_s: int, edges: Sequence[datetime], spans: Spans) -> Iterator[Tick]:
    """Return labels at round local times, as many as fit."""
    step_s = next((step for step in _STEPS_S if step >= span_s * _LABEL_CELLS), _STEPS_S[-1])
    width, free = len(edges) - 1, 0
    walls = [_wall(edge, spans) for edge in edges]
    for cell in range(width):
        round_s = walls[cell] + (_MONDAY_S - walls[cell]) % step_s
        if round_s >= walls[cell + 1] or cell < free:
            continue
        label = _label(round_s, step_s)
        if cell + len(label) <= width:
            yield Tick(cell, label)
            free = cell + len(label) + 1


def _label(wall_s: int, step_s: int) -> str:
    wall = from_ms(wall_s * 1000)
    if step_s >= 12 * WEEK_S:
        return wall.strftime("%b %Y")
    if step_s >= WEEK_S:
        return wall.strftime("%b %d")
    return wall.strftime("%a %d" if wall_s % DAY_S == 0 else "%H:%M")


def _changes(edges: Sequence[datetime], spans: Spans) -> Iterator[Change]:
    first = spans.index_at(to_ms(edges[0]) // 1000) + 1
    for index in range(first, len(spans.starts)):
        at = from_ms(spans.starts[index] * 1000)
        if at >= edges[-1]:
            return
        before_s = spans.starts[index] + spans.offsets[index - 1]
        after_s = spans.starts[index] + spans.offsets[index]
        way = "forward" if after_s > before_s else "back"
        text = f"clocks go {way} from {_clock(before_s)} to {_clock(after_s)}"
        yield Change(bisect_right(edges, at) - 1, at, text)


def _clock(wall_s: int) -> str:
    return from_ms(wall_s * 1000).strftime("%H:%M")


def _wall(instant: datetime, spans: Spans) -> int:
    instant_s = to_ms(instant) // 1000
    return instant_s + spans.offsets[spans.index_at(instant_s)]


def _piles(fires: Sequence[TimedFire]) -> Iterator[list[TimedFire]]:
    """Group fires of at least PILE schedules in the same minute."""
    for _, same in groupby(fires, key=lambda fire: to_ms(fire.due_at) // 1000 // MINUTE_S):
        pile = list(same)
        if len({fire.schedule for fire in pile}) >= PILE:
            yield pile


def _pile_up(pile: Sequence[TimedFire], edges: Sequence[datetime]) -> PileUp:
    names = tuple(dict.fromkeys(fire.schedule for fire in pile))
    at = pile[0].due_at
    cell = max(bisect_right(edges, at) - 1, 0)
    return PileUp(cell, at, len(pile), names[:_MOST_NAMES])


SHADES = 4  # from 1; 0 is an hour without runs
_WIDE = 8  # times the quietest hour; beyond, shades show magnitudes instead of amounts
_LEAST_S = 10.0
_MOST_BUSY = 0.01  # share of the time for counting
_WHILE_COUNTING = 0.3  # share of the time while counting: keys must not wait
CELLS = ("·", "░", "▒", "▓", "█")  # the letters show the shades without colour
SHADE_STYLES = ("faint", "heat1", "heat2", "heat3", "heat4")
_HOURS = 24
_HOUR_MS = 3_600_000
_DAY_WIDTH = 6


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

    The reader's thread counts in slices, and at most a hundredth of the time. Changes meanwhile
    make the view outdated.
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
        """Count again, or note that the view is outdated if it is too early."""
        if self._is_counting or self._query_screen.app.clock.monotonic_ms() < self._next_ms:
            self._is_behind = True
            return
        self._is_counting, self._is_behind = True, False
        self.run_worker(self._count())

    @property
    def is_outdated(self) -> bool:
        """Whether something changed since the count, or another hour began."""
        has_turned = self._hour != self._hour_now()
        return self._heat is not None and (self._is_behind or has_turned)

    async def _count(self) -> None:
        slices: dict[Client, Iterator[WeekHeat | None]] = {}  # of the Client that counts
        clock, spent_ms = self._query_screen.app.clock, 0

        def next_slice(client: Client) -> tuple[WeekHeat | None, int]:
            """Count a slice; a new Client begins again."""
            begun_ms = clock.monotonic_ms()
            if client not in slices:
                slices.clear()
                slices[client] = client.week_heat()
            return next(slices[client]), clock.monotonic_ms() - begun_ms

        heat = None
        try:
            while heat is None:
                heat, slice_ms = await self._query_screen.answer_to("week", next_slice)
                spent_ms += slice_ms
                if heat is None:
                    await asyncio.sleep(slice_ms / 1000 * (1 / _WHILE_COUNTING - 1))
        finally:
            self._is_counting = False
        self._next_ms = clock.monotonic_ms() + max(_LEAST_S * 1000, spent_ms / _MOST_BUSY)
        self._heat, self._hour = heat, self._hour_now()
        self._draw()

    def _hour_now(self) -> int:
        return self._query_screen.app.clock.now_ms() // _HOUR_MS

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
    """Return a line of hours for each day, and the legend; an hour has two columns if they fit."""
    per_hour = 2 if width >= _DAY_WIDTH + 2 * _HOURS else 1
    current = now.astimezone(zone)
    # Leave out the current hour: only a part of it is to come.
    busy = [
        count
        for number, counts in enumerate(heat.counts)
        for hour, count in enumerate(counts)
        if count and not (number == 0 and hour <= current.hour)
    ]
    least, most = min(busy, default=0), max(busy, default=0)
    hours = "".join(f"{hour:<{6 * per_hour}}" for hour in range(0, _HOURS, 6))
    lines: list[list[Span]] = [[(f" {'':<4}{hours.rstrip()}", "dim")]]
    for number, counts in enumerate(heat.counts):
        day = heat.first_day + timedelta(days=number)
        is_today = day == current.date()
        spans: list[Span] = [(f" {day:%a} ", "bold" if is_today else "dim")]
        for hour, count in enumerate(counts):
            depth = shade(count, least, most)
            if is_today and hour < current.hour:
                spans.append((" " * per_hour, ""))
            else:
                spans.append((CELLS[depth] * per_hour, SHADE_STYLES[depth]))
        lines.append(spans)
    return lines, _legend(least, most)


def _legend(least: int, most: int) -> list[Span]:
    """Say how many runs an hour the shades mean."""
    if not most:
        return []
    if least == most:
        return [(f"{CELLS[2]}{most} /h ", "dim")]
    return [(f"{CELLS[1]}{least} {CELLS[-1]}{most} /h ", "dim")]
