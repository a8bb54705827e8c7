"""How busy the coming week is: a day to a line, an hour to a column."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from math import ceil, log1p
from typing import TYPE_CHECKING, Any

from edgecron.client.protocol import Client
from edgecron.tui.list_model import Span
from edgecron.tui.text_line import TextLine

if TYPE_CHECKING:
    from edgecron.tui.queries import QueryScreen
    from edgecron.views.busy import WeekHeat


SHADES = 4  # from 1 on; 0 is an hour without any
_WIDE = 8  # times the quietest hour: from there on magnitudes are told apart, and not amounts


def shade(count: int, least: int, most: int) -> int:
    """From 0, nothing at all, to 4, where the quietest hour of a week that has any has `least`,
    and its busiest `most`.

    Where they are close, the shades part the amounts between them. Else they go by magnitude: one
    run beside a thousand is to be seen, and hundreds are not all the same.
    """
    if count <= 0 or most <= 0:
        return 0
    if most <= least:
        return SHADES // 2  # every hour is like the others
    if most < _WIDE * least:
        # An hour of which a part is over may have less than the least.
        return min(1 + SHADES * max(count - least, 0) // (most - least), SHADES)
    return min(ceil(SHADES * log1p(count) / log1p(most)), SHADES)


_LEAST_S = 10.0
_MOST_BUSY = 0.01  # of the time may go into counting it anew
_WHILE_COUNTING = 0.3  # of the time, while it does: a key must not wait for it
_CELLS = ("·", "░", "▒", "▓", "█")  # the shades are told by their letters too
_LOOKS = ("faint", "heat1", "heat2", "heat3", "heat4")
_HOURS = 24
_HOUR_MS = 3_600_000
_DAY_WIDTH = 6


class _WeekCount:
    """A week being counted, on the desk's thread alone; begun anew where the database was."""

    def __init__(self) -> None:
        self.spent_ms = 0
        self._client: Client | None = None
        self._slices: Iterator[WeekHeat | None] = iter(())

    def next_slice(self, client: Client) -> WeekHeat | None:
        """The heat, or None where more is to be counted."""
        if client is not self._client:
            self._client, self._slices = client, client.week_heat()
        return next(self._slices)


class WeekView(TextLine):
    """The heat of seven days; nothing before it is known.

    It is counted in slices on the desk, and at most so often that it costs a hundredth of the time:
    what changes meanwhile makes it outdated.
    """

    DEFAULT_CSS = "WeekView { height: 8; }"

    def __init__(self, screen: QueryScreen[Any], *, id: str) -> None:
        super().__init__(id=id)
        self._asking = screen
        self._heat: WeekHeat | None = None
        self._is_counting = False
        self._is_behind = False  # of a change that came while it was not to be counted
        self._next_ms = 0
        self._hour = 0  # since 1970, when it was counted

    def read(self) -> None:
        """Count it anew, where it is time to; else it is outdated."""
        if self._is_counting or self._asking.app.clock.monotonic_ms() < self._next_ms:
            self._is_behind = True
            return
        self._is_counting, self._is_behind = True, False
        self._go_on(_WeekCount())

    @property
    def is_outdated(self) -> bool:
        """Whether something has changed since it was counted, or another hour has begun."""
        has_turned = self._hour != self._hour_now()
        return self._heat is not None and (self._is_behind or has_turned)

    def _go_on(self, count: _WeekCount) -> None:
        clock, spent_before_ms = self._asking.app.clock, count.spent_ms

        def next_slice(client: Client) -> tuple[WeekHeat | None, int]:
            begun_ms = clock.monotonic_ms()
            found = count.next_slice(client)
            count.spent_ms += clock.monotonic_ms() - begun_ms
            return found, count.spent_ms

        def take(found: tuple[WeekHeat | None, int]) -> None:
            heat, spent_ms = found
            pause_s = (spent_ms - spent_before_ms) / 1000 * (1 / _WHILE_COUNTING - 1)
            if heat is not None:
                self._take(heat, spent_ms)
            elif pause_s > 0:
                self.set_timer(pause_s, lambda: self._go_on(count))
            else:
                self._go_on(count)

        self._asking.ask("week", next_slice, take, refused=self._give_up)

    def _give_up(self) -> None:
        self._is_counting = False

    def _take(self, found: WeekHeat, spent_ms: int) -> None:
        self._is_counting = False
        pause_ms = max(_LEAST_S * 1000, spent_ms / _MOST_BUSY)
        self._next_ms = self._asking.app.clock.monotonic_ms() + round(pause_ms)
        self._heat = found
        self._hour = self._hour_now()
        self._draw()

    def _hour_now(self) -> int:
        return self._asking.app.clock.now_ms() // _HOUR_MS

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._heat is not None:
            app = self._asking.app
            lines, legend = week_lines(
                self._heat, now=app.now(), zone=app.zone, width=self.size.width
            )
            self.show(*lines, right=legend)


def week_lines(
    heat: WeekHeat, *, now: datetime, zone: tzinfo, width: int
) -> tuple[list[list[Span]], list[Span]]:
    """A line of hours, one for each day, and what their shades mean.

    Where there is room an hour has two columns.
    """
    per_hour = 2 if width >= _DAY_WIDTH + 2 * _HOURS else 1
    current = now.astimezone(zone)
    # Of the hour that has begun only a part is to come.
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
                spans.append((_CELLS[depth] * per_hour, _LOOKS[depth]))
        lines.append(spans)
    return lines, _legend(least, most)


def _legend(least: int, most: int) -> list[Span]:
    """What the shades mean: so many runs an hour."""
    if not most:
        return []
    if least == most:
        return [(f"{_CELLS[2]}{most} /h ", "dim")]
    return [(f"{_CELLS[1]}{least} {_CELLS[-1]}{most} /h ", "dim")]
