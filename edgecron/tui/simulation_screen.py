"""What the schedules would do: days as lines, and the hours of a day as bars. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import ClassVar

from textual.binding import BindingType

from edgecron.base.values import NamedTuple
from edgecron.client.engine_health import count_places
from edgecron.client.protocol import Client
from edgecron.planning.simulation import SimulatedSchedule, Simulation
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import Column, Line, Source
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import FactsScreen
from edgecron.tui.text_line import Cells, Fact, Row, Span, Title
from edgecron.tui.upcoming import CELLS, SHADE_STYLES, shade
from edgecron.views.busy import busiest_words, sections
from edgecron.views.phrases import count_words

_SPANS = (7, 30, 365)  # days
_HOURS = 24
_SLICE_MS = 50  # of simulating, between which other questions are answered
_MOST_SLICES = 16
_BAR = 24  # columns of an hour's bar, and of the progress
_MOST_LINES = 5  # of each section
_WIDE = 190  # columns of the screen, from which an hour has two


def _columns(per_hour: int) -> tuple[Column, ...]:
    hours = "".join(f"{hour:02}".ljust(6 * per_hour) for hour in range(0, _HOURS, 6)).rstrip()
    return (
        Column("DAY", 14, 14),
        Column("RUNS", 5, 9, is_right=True),
        Column("ACTIVE", 6, 6, is_right=True, drop=2),
        Column("BUSIEST", 7, 7, drop=3),
        Column(hours, _HOURS * per_hour, _HOURS * per_hour),
        Column("NOTE", 12, 40, share=1, drop=1),
    )


class Hour(NamedTuple):
    """How many runs start in an hour, and how many are active together in its busiest minute."""

    runs: int
    active: int


class Day(NamedTuple):
    """A local day: its hours by their number; None for one that is over or does not exist."""

    date: date
    hours: tuple[Hour | None, ...]
    note: str = ""

    @property
    def runs(self) -> int:
        return sum(one.runs for one in self.hours if one is not None)

    @property
    def busiest(self) -> tuple[int, Hour] | None:
        """Its busiest hour; None if no run is active in it."""
        known = [(number, one) for number, one in enumerate(self.hours) if one is not None]
        found = max(known, key=lambda one: (one[1].active, one[1].runs, -one[0]), default=None)
        return None if found is None or not found[1].active else found


def find_days(found: Simulation, *, now: datetime, zone: tzinfo) -> list[Day]:
    """Sort the hours of a simulation into local days, from the current hour on."""
    days: dict[date, list[Hour | None]] = {}
    first = now.astimezone(UTC) - timedelta(hours=1)
    for day in found.days:
        for number, (runs, active) in enumerate(
            zip(day.hourly_runs, day.hourly_active, strict=True)
        ):
            at = day.from_at + timedelta(hours=number)
            if at >= found.until_at:
                break
            local = at.astimezone(zone)
            hours = days.setdefault(local.date(), [None] * _HOURS)
            if at <= first:
                continue
            same = hours[local.hour]  # if the clock is set back
            if same is not None:
                runs, active = runs + same.runs, max(active, same.active)
            hours[local.hour] = Hour(runs, active)
    changed = {one.at.astimezone(zone).date() for one in found.clock_changes}
    return [
        Day(at, tuple(hours), note="clock change" if at in changed else "")
        for at, hours in days.items()
    ]


class _DaySource(Source):
    """Days as lines of a list."""

    def __init__(self, *, per_hour: int) -> None:
        self.days: Sequence[Day] = ()
        self._per_hour = per_hour
        self._least = self._most = 0

    def show(self, days: Sequence[Day]) -> None:
        """Show these days."""
        self.days = days
        self.keys = [one.date.toordinal() for one in days]
        hours = [one.runs for day in days for one in day.hours if one is not None]
        # Leave out the current hour: only a part of it is to come.
        busy = [runs for runs in hours[1:] if runs]
        self._least, self._most = min(busy, default=0), max(busy, default=0)

    @property
    def most(self) -> int:
        """The runs of the hour with most of them."""
        return self._most

    def line(self, index: int) -> Line:
        day = self.days[index]
        busiest = day.busiest
        active = "" if busiest is None else f"{busiest[1].active:,}"
        at = "" if busiest is None else f"{busiest[0]:02}:00"
        return Line(
            key=self.keys[index],
            cells=(
                ((f"{day.date:%a %Y-%m-%d}", "bold"),),
                ((f"{day.runs:,}", "" if day.runs else "dim"),),
                ((active, ""),),
                ((at, "dim"),),
                tuple(self._cell(one) for one in day.hours),
                ((day.note, "warn"),),
            ),
        )

    def _cell(self, hour: Hour | None) -> Span:
        if hour is None:
            return " " * self._per_hour, ""
        depth = shade(hour.runs, self._least, self._most)
        return CELLS[depth] * self._per_hour, SHADE_STYLES[depth]


def hour_rows(day: Day, source: _DaySource) -> Iterator[Row]:
    """Return a day's hours as bars; without those in which nothing runs."""
    yield Title(f"{day.date:%A %Y-%m-%d}", ((count_words(day.runs, "run"), "dim"), (" ", "")))
    for number, hour in enumerate(day.hours):
        if hour is None or not (hour.runs or hour.active):
            continue
        length = 0 if not hour.runs else min(_BAR, max(1, _BAR * hour.runs // max(1, source.most)))
        words = f"  {count_words(hour.runs, 'run')}, {hour.active:,} active"
        bar: Span = (f"{'━' * length:{_BAR}}", "accent")
        yield Cells((bar, (words, "")), label=f"{number:02}:00")
    if not day.runs:
        yield Fact("", "no run starts", "dim")


def simulation_rows(found: Simulation, *, places: int | None, zone: tzinfo) -> Iterator[Row]:
    """Return what a simulation found in all of its days."""
    yield Title(f"All {count_words(len(found.days), 'day')}")
    if found.runs:
        is_short = places is not None and found.most_active > places
        words = busiest_words(found, places, zone=zone)
        yield Fact("busiest minute", words, "warn" if is_short else "")
    yield from _listed("overlaps", _overlap_lines(found.schedules))
    yield from _listed(
        "excluded",
        [
            f"{one.name}: {count_words(one.excluded, 'time')}, by windows or excepted days"
            for one in found.schedules
            if one.excluded
        ],
    )
    for heading, lines in sections(found, zone=zone):
        if lines:
            yield Title(f"{heading[:1].upper()}{heading[1:].rstrip(':')}")
            yield from _listed("", lines)


def _overlap_lines(schedules: Sequence[SimulatedSchedule]) -> list[str]:
    lines = []
    for one in schedules:
        counts = {"skipped": one.skipped, "replaced": one.replaced, "delayed": one.delayed}
        words = [f"{count:,} {word}" for word, count in counts.items() if count]
        if words:
            lines.append(f"{one.name}: {', '.join(words)}")
    return lines


def _listed(label: str, lines: Sequence[str]) -> Iterator[Row]:
    for number, line in enumerate(lines[:_MOST_LINES]):
        yield Fact("" if number else label, line)
    if len(lines) > _MOST_LINES:
        yield Fact("", f"and {len(lines) - _MOST_LINES:,} more: edgecron simulate", "dim")


class _Progress(NamedTuple):
    """The result of a simulation with the places of the engines, or the days simulated so far."""

    found: Simulation | None
    places: int | None
    days: int


class SimulationScreen(FactsScreen):
    """A simulation of the coming days."""

    PLACE = "simulation"
    BINDINGS: ClassVar[list[BindingType]] = bindings("span")
    DEFAULT_CSS = """
    SimulationScreen #facts { height: 10; }
    SimulationScreen.-tall #facts { height: 2fr; }
    SimulationScreen.-tall LineView { height: 1fr; min-height: 9; }
    SimulationScreen.-wide #parts { grid-columns: 5fr 4fr; }
    SimulationScreen.-wide #facts { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._days = _SPANS[0]
        self._found: Simulation | None = None
        self._places: int | None = None

    def make_list(self) -> LineView:
        per_hour = 2 if self.app.size.width >= _WIDE else 1
        self._source = _DaySource(per_hour=per_hour)
        return LineView(self._source, _columns(per_hour), id="days", empty="")

    def begin(self) -> None:
        self.show_title(f"simulation of {self._days} days")
        self._show_progress(0)
        self.run_worker(self._simulate(), exclusive=True)

    async def _simulate(self) -> None:
        now, days = self.app.now(), self._days
        begin = _midnight(now.astimezone(self.app.zone).date(), self.app.zone)
        end = _midnight(begin.astimezone(self.app.zone).date() + timedelta(days), self.app.zone)
        begun: dict[Client, Iterator[Simulation | None]] = {}
        done = 0
        clock = self.app.clock  # The database's thread can't ask a screen for its application.

        def simulate_more(client: Client) -> _Progress:
            """Simulate for a moment; a new Client begins again."""
            nonlocal done
            if client not in begun:
                begun.clear()
                begun[client], done = client.simulate(from_at=begin, until_at=end), 0
            until_ms = clock.monotonic_ms() + _SLICE_MS
            for _ in range(_MOST_SLICES):
                found = next(begun[client])
                if found is not None:
                    return _Progress(found, count_places(client.engines()), days)
                done += 1
                if clock.monotonic_ms() >= until_ms:
                    break
            return _Progress(None, None, min(done, days - 1))

        while self.is_attached:
            found, places, done_days = await self.answer_to("simulation", simulate_more)
            if found is not None:
                self._show(found, places, now=now)
                return
            self._show_progress(done_days)

    def _show_progress(self, done_days: int) -> None:
        length = _BAR * done_days // self._days
        self.show_summary(
            ("simulating ", ""),
            ("█" * length, "accent"),
            ("░" * (_BAR - length), "faint"),
            (f" {done_days} of {self._days} days", "dim"),
        )

    def _show(self, found: Simulation, places: int | None, *, now: datetime) -> None:
        self._found, self._places = found, places
        self._source.show(find_days(found, now=now, zone=self.app.zone))
        self.query_one(LineView).source_changed()
        schedules = count_words(len(found.schedules), "schedule")
        spans: list[Span] = [(f"{count_words(found.runs, 'run')} of {schedules}", "")]
        if found.runs:
            spans.append((f"   at most {found.most_active:,} active", "dim"))
        if found.left_out:
            spans.append((f"   {len(found.left_out):,} not simulated", "warn"))
        self.show_summary(*spans)
        self.show_facts()

    def rows(self) -> list[Row]:
        found, days = self._found, self._source.days
        if found is None or not days:
            return []
        day = days[min(self.query_one(LineView).cursor, len(days) - 1)]
        return [
            *hour_rows(day, self._source),
            *simulation_rows(found, places=self._places, zone=self.app.zone),
        ]

    def action_span(self) -> None:
        self._days = _SPANS[(_SPANS.index(self._days) + 1) % len(_SPANS)]
        self.interrupt("simulation")
        self.begin()

    def action_back(self) -> None:
        self.interrupt("simulation")
        super().action_back()


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)
