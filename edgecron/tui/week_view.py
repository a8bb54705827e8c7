"""How busy the coming week is: one line of hours per day."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from math import ceil, log1p
from typing import TYPE_CHECKING, Any

from edgecron.tui.text_line import Span, TextLine

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.tui.queries import QueryScreen
    from edgecron.views.busy import WeekHeat

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
                slices[client] = client.week_heat(most_per_hour=_MOST_PER_HOUR)
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
