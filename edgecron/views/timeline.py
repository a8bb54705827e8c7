"""Lay out a span of time: an axis of cells, schedules as lanes, and signs for special times. Pure.

A cell of a lane is a letter and the name of a text style. Letters differ by outcome, so that people
can tell them apart without colours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import groupby
from typing import Protocol

from edgecron.base.tzif import DAY_S, Spans
from edgecron.base.units import from_ms, to_ms
from edgecron.base.values import NamedTuple, dataclass
from edgecron.base.zones import zone_spans
from edgecron.model.listing import Lane, RunCell
from edgecron.views.phrases import count_words
from edgecron.views.times import near_time, short_duration

MINUTE_S, HOUR_S, WEEK_S = 60, 3600, 7 * DAY_S
SPANS_S = (HOUR_S, 6 * HOUR_S, DAY_S, WEEK_S)
DEFAULT_SPAN_S = DAY_S
SPAN_WORDS: Mapping[int, str] = dict(
    zip(SPANS_S, ("1 hour", "6 hours", "24 hours", "7 days"), strict=True)
)
PILE = 5  # different schedules that start in the same minute
_STEPS_S = (
    *(MINUTE_S, 5 * MINUTE_S, 10 * MINUTE_S, 15 * MINUTE_S, 30 * MINUTE_S),
    *(HOUR_S, 2 * HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, DAY_S, 2 * DAY_S, WEEK_S),
)
_LABEL_CELLS = 8  # from one label to the next, at least
_MONDAY_S = 4 * DAY_S  # 1970-01-05
_MOST_NAMES = 3

Cell = tuple[str, str]
NOTHING: Cell = (" ", "")
DAY_RULE: Cell = ("┊", "faint")
NOW_LINE: Cell = ("│", "now")
UNREAD: Cell = ("·", "faint")
DONE: Cell = ("▖", "quiet")  # narrower than a cell, so that neighbours are apart
DONE_LONG: Cell = ("▄", "quiet")
DONE_OFTEN: Cell = ("▂", "quiet")
FAILED: Cell = ("✗", "bad")
FAILING: Cell = ("▄", "bad")
SKIPPED: Cell = ("–", "warn")
RUNNING: Cell = ("▆", "busy")
EXPECTED: Cell = ("░", "busy")
EXPECTED_END: Cell = ("▒", "busy")
QUEUED: Cell = ("○", "wait")
COMING: Cell = ("╷", "accent")
COMING_OFTEN: Cell = ("┈", "accent")
PILE_SIGN, CHANGE_SIGN, EXCLUDED_SIGN = "▲", "◆", "×"


# The axis.


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A span of time in cells of equal length. Cell n begins `n * cell_ms` after `since_ms`."""

    since_ms: int
    cell_ms: int
    cells: int

    @property
    def until_ms(self) -> int:
        return self.since_ms + self.cells * self.cell_ms

    def cell_of(self, at_ms: int) -> int:
        """Return the cell of an instant; negative or too large outside the span."""
        return (at_ms - self.since_ms) // self.cell_ms

    def begin(self, cell: int) -> datetime:
        """Return the first instant of a cell."""
        return from_ms(self.since_ms + cell * self.cell_ms)


def make_axis(span_s: int, cells: int, *, around_ms: int, eighths: int = 5) -> Axis:
    """Return an axis of at least this span; `eighths` say where in the span an instant lies.

    By default, a day shows the last night and the next one, in the morning and in the evening.

    Cells begin at whole multiples of their length, so that they keep their places as time passes.
    """
    cells = max(cells, 1)
    cell_ms = -(-span_s // cells) * 1000
    since_ms = (around_ms - cells * eighths // 8 * cell_ms) // cell_ms * cell_ms
    return Axis(since_ms=since_ms, cell_ms=cell_ms, cells=cells)


class Label(NamedTuple):
    """A text on the axis and the cell where it begins."""

    cell: int
    text: str


class Sign(NamedTuple):
    """A mark above the lanes: its letter, its time, and what it means."""

    cell: int
    at: datetime
    letter: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The labels of an axis, the cells in which local days begin, and the clock changes."""

    labels: tuple[Label, ...]
    days: frozenset[int]
    changes: tuple[Sign, ...]


@lru_cache(maxsize=8)
def scale_of(axis: Axis, zone: str | None) -> Scale:
    """Return the scale of an axis in a zone. Raises UnknownTimezone."""
    spans = zone_spans(zone, until_s=axis.until_ms // 1000 + DAY_S)
    walls = [_wall_s(to_ms(axis.begin(cell)) // 1000, spans) for cell in range(axis.cells + 1)]
    days = (
        cell
        for cell in range(1, axis.cells)
        if walls[cell] % DAY_S == 0 or -(-walls[cell] // DAY_S) * DAY_S < walls[cell + 1]
    )
    return Scale(
        labels=tuple(_labels(axis, walls, spans)),
        days=frozenset(days),
        changes=tuple(_changes(axis, spans)),
    )


def _wall_s(instant_s: int, spans: Spans) -> int:
    return instant_s + spans.offsets[spans.index_at(instant_s)]


def _labels(axis: Axis, walls: Sequence[int], spans: Spans) -> Iterator[Label]:
    """Return labels at round local times, as many as fit; none in an hour that the clock skips."""
    least_s = axis.cell_ms // 1000 * _LABEL_CELLS
    step_s = next((step for step in _STEPS_S if step >= least_s), _STEPS_S[-1])
    free = 0
    for cell in range(axis.cells):
        round_s = walls[cell] + (_MONDAY_S - walls[cell]) % step_s
        if round_s >= walls[cell + 1] or cell < free:
            continue
        is_day = round_s % DAY_S == 0
        at_s = axis.since_ms // 1000 + cell * axis.cell_ms // 1000 + round_s - walls[cell]
        if not is_day and _wall_s(at_s, spans) != round_s:
            continue
        wall = from_ms(round_s * 1000)
        text = wall.strftime("%a %d" if is_day else "%H:%M")
        if cell + len(text) <= axis.cells:
            yield Label(cell, text)
            free = cell + len(text) + 1


def _changes(axis: Axis, spans: Spans) -> Iterator[Sign]:
    first = spans.index_at(axis.since_ms // 1000) + 1
    for index in range(first, len(spans.starts)):
        at_ms = spans.starts[index] * 1000
        if at_ms >= axis.until_ms:
            return
        before_s = spans.starts[index] + spans.offsets[index - 1]
        after_s = spans.starts[index] + spans.offsets[index]
        way = "forward" if after_s > before_s else "back"
        text = f"clocks go {way} from {_clock(before_s)} to {_clock(after_s)}"
        yield Sign(axis.cell_of(at_ms), from_ms(at_ms), CHANGE_SIGN, text)


def _clock(wall_s: int) -> str:
    return from_ms(wall_s * 1000).strftime("%H:%M")


def label_letters(scale: Scale, cells: int) -> list[str]:
    """Return the labels of an axis, a letter for each cell."""
    letters = [" "] * cells
    for cell, text in scale.labels:
        letters[cell : cell + len(text)] = text
    return letters


# Signs.


class TimedFire(Protocol):
    """A fire as signs need it, such as an UpcomingFire."""

    @property
    def schedule(self) -> str: ...
    @property
    def due_at(self) -> datetime: ...


def pile_ups(fires: Sequence[TimedFire], axis: Axis) -> Iterator[Sign]:
    """Return where at least PILE schedules start in the same minute; fires are sorted by time."""
    for _, same in groupby(fires, key=lambda fire: to_ms(fire.due_at) // 1000 // MINUTE_S):
        pile = list(same)
        cell = axis.cell_of(to_ms(pile[0].due_at))
        names = list(dict.fromkeys(fire.schedule for fire in pile))
        if len(names) >= PILE and 0 <= cell < axis.cells:
            more = ", ..." if len(names) > _MOST_NAMES else ""
            text = (
                f"{len(pile)} runs start within a minute ({', '.join(names[:_MOST_NAMES])}{more})"
            )
            yield Sign(cell, pile[0].due_at, PILE_SIGN, text)


def excluded_signs(
    excluded: Iterable[tuple[str, Collection[date]]], axis: Axis, *, zone: tzinfo
) -> Iterator[Sign]:
    """Return the days of an axis that schedules, by name, exclude."""
    by_day: dict[date, list[str]] = {}
    for name, days in excluded:
        for day in days:
            by_day.setdefault(day, []).append(name)
    for day, names in sorted(by_day.items()):
        at = datetime(day.year, day.month, day.day, tzinfo=zone)
        cell = max(0, axis.cell_of(to_ms(at)))
        if axis.since_ms < to_ms(at + timedelta(days=1)) and cell < axis.cells:
            more = ", ..." if len(names) > _MOST_NAMES else ""
            text = f"excluded day of {', '.join(names[:_MOST_NAMES])}{more}"
            yield Sign(cell, at.astimezone(UTC), EXCLUDED_SIGN, text)


# Lanes.


def draw_lane(lane: Lane | None, axis: Axis, *, now_ms: int, days: Collection[int]) -> list[Cell]:
    """Return the cells of a lane; None is one that has not been read. `days` begin with a rule."""
    drawn = [NOTHING] * axis.cells
    for cell in days:
        drawn[cell] = DAY_RULE
    now = axis.cell_of(now_ms)
    if 0 <= now < axis.cells:
        drawn[now] = NOW_LINE
    if lane is None:
        return drawn
    for cell in range(min(lane.read_from, axis.cells)):
        drawn[cell] = UNREAD
    for fire in lane.fires:
        if 0 <= fire.cell < axis.cells:
            drawn[fire.cell] = COMING if fire.fires == 1 else COMING_OFTEN
    for run in sorted(lane.runs, key=_weight):
        _draw_runs(drawn, run, lane, axis, now_ms)
    return drawn


def _weight(run: RunCell) -> int:
    """Return which runs are drawn over others: the higher ones."""
    if run.running_since is not None:
        return 3
    return 2 if run.failed else 1 if run.active or run.skipped == run.runs else 0


def _draw_runs(drawn: list[Cell], run: RunCell, lane: Lane, axis: Axis, now_ms: int) -> None:
    start, end = axis.cell_of(to_ms(run.first_at)), axis.cell_of(to_ms(run.last_at))
    if run.running_since is not None:
        end = axis.cell_of(now_ms)
    if end < 0 or start >= axis.cells:
        return
    if run.running_since is not None:
        _fill(drawn, axis.cell_of(to_ms(run.running_since)), end, RUNNING)
        expected = _expected_end_ms(run, lane)
        if expected is not None and expected > now_ms:
            last = axis.cell_of(expected)
            _fill(drawn, end + 1, last, EXPECTED)
            _fill(drawn, max(last, end + 1), max(last, end + 1), EXPECTED_END)
    elif run.failed:
        if start < end:
            _fill(drawn, start, end, FAILING if run.failed == run.runs else DONE_LONG)
        at = end if run.failed == run.runs and end < axis.cells else start
        _fill(drawn, at, at, FAILED)
    elif run.skipped == run.runs:
        _fill(drawn, start, start, SKIPPED)
    elif run.active:
        _fill(drawn, start, start, QUEUED)
    else:
        short = DONE if run.runs == 1 else DONE_OFTEN
        _fill(drawn, start, end, short if start == end else DONE_LONG)


def _fill(drawn: list[Cell], first: int, last: int, cell: Cell) -> None:
    for at in range(max(first, 0), min(last, len(drawn) - 1) + 1):
        drawn[at] = cell


def _expected_end_ms(run: RunCell, lane: Lane) -> int | None:
    if run.running_since is None or lane.usual_ms is None:
        return None
    return to_ms(run.running_since) + lane.usual_ms


def expected_end(lane: Lane) -> datetime | None:
    """Return when the running run of a lane ends if it takes the median time; None without one."""
    ends = (_expected_end_ms(run, lane) for run in lane.runs)
    found = max((end for end in ends if end is not None), default=None)
    return None if found is None else from_ms(found)


# The cell under the cursor.


def find_run(lane: Lane, cell: int, axis: Axis) -> RunCell | None:
    """Return the runs that are drawn in a cell; None if there are none."""
    there = (
        run
        for run in lane.runs
        if axis.cell_of(to_ms(run.first_at)) <= cell <= axis.cell_of(to_ms(run.last_at))
    )
    return max(there, key=_weight, default=None)


def next_cell(lane: Lane, cell: int, axis: Axis, *, step: int) -> int | None:
    """Return the nearest cell in a direction (1 or -1) in which runs begin or fires are planned."""
    begins = {max(0, run.cell) for run in lane.runs if axis.cell_of(to_ms(run.last_at)) >= 0}
    begins |= {fire.cell for fire in lane.fires}
    if step < 0:
        return max((each for each in begins if each < cell), default=None)
    return min((each for each in begins if each > cell), default=None)


def cell_words(lane: Lane, cell: int, axis: Axis, *, zone: tzinfo, now: datetime) -> str:
    """Say what a lane has in a cell."""
    begin, end = axis.begin(cell), axis.begin(cell + 1)
    span = f"{near_time(begin, zone=zone, now=now)} to {end.astimezone(zone):%H:%M:%S}"
    run = find_run(lane, cell, axis)
    fires = next((fire.fires for fire in lane.fires if fire.cell == cell), 0)
    parts = [] if run is None else [_run_words(run, lane, zone=zone, now=now)]
    if fires:
        parts.append(f"{count_words(fires, 'run')} to come")
    if not parts and cell < lane.read_from:
        parts.append("not read: too many runs; zoom in to see them")
    return f"{span}: {'; '.join(parts) or 'no run'}"


def _run_words(run: RunCell, lane: Lane, *, zone: tzinfo, now: datetime) -> str:
    if run.running_since is not None:
        took = short_duration(to_ms(now) - to_ms(run.running_since))
        words = f"run {run.run_id} has been running for {took}"
        end = _expected_end_ms(run, lane)
        if end is None or lane.usual_ms is None:
            return words
        usual = short_duration(lane.usual_ms)
        if end <= to_ms(now):
            return f"{words}, longer than usual ({usual})"
        return f"{words}, usually {usual}: ends about {near_time(from_ms(end), zone=zone, now=now)}"
    counts = {
        "failed": run.failed,
        "skipped or cancelled": run.skipped,
        "queued": run.active,
    }
    if run.runs == 1:
        how = next((word for word, count in counts.items() if count), "success")
        took_ms = to_ms(run.last_at) - to_ms(run.first_at)
        took = f" after {short_duration(took_ms)}" if took_ms else ""
        return f"run {run.run_id} at {near_time(run.first_at, zone=zone, now=now)}: {how}{took}"
    unwell = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{count_words(run.runs, 'run')}, {unwell or 'all successful'}"
