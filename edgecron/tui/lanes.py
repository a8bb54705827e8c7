"""The timeline: schedules as lanes of past and coming runs, the axis, and signs above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import BindingType

from edgecron.base.safetext import clean
from edgecron.base.units import to_ms
from edgecron.model.listing import Lane, RunCell, ScheduleLine, SortBy
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import GAP, Column, Line
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import QueryScreen, ThrottledQuery
from edgecron.tui.schedule_list import AHEAD, ScheduleSource, glyph_of, next_spans
from edgecron.tui.text_line import Span, TextLine, whole_parts
from edgecron.views import timeline
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.planning.forecast import UpcomingFire

_MOST_KEPT = 1000
_ZONE = "local"  # that of this machine
_CHOSEN = "tab"  # the style of the cell under the cursor
COLUMNS = (
    Column("", 1, 1),
    Column("SCHEDULE", 12, 24),
    Column("", 16, 16, share=1),
    Column("NEXT", 10, 11, drop=1),
)
_LANE = 2  # the column of the lanes
SORTED_BY = {1: SortBy.NAME, 3: SortBy.NEXT}
_LEGEND = (
    (timeline.DONE, "done"),
    (timeline.FAILED, "failed"),
    (timeline.RUNNING, "running"),
    (timeline.COMING, "to come"),
    (timeline.SKIPPED, "skipped"),
    (timeline.EXPECTED, "expected"),
    (timeline.DONE_OFTEN, "several done"),
    (timeline.COMING_OFTEN, "several to come"),
)


class TimelineSource(ScheduleSource):
    """Schedules, with the lanes of those near the visible ones.

    Old lanes stay until the lanes of another span have been read.
    """

    topic = "timeline"
    sorted_by = SORTED_BY

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        super().__init__(screen, changed=changed)
        self.axis: timeline.Axis | None = None  # of the lanes that were read
        self.lanes: dict[int, Lane] = {}
        # What was drawn of a lane, and of what; drawing one takes longer than all else of its line.
        self._kept_spans: dict[int, tuple[Lane, object, tuple[Span, ...]]] = {}
        self.chosen: tuple[int, int] | None = None  # schedule and cell under the cursor
        self.span_s = timeline.DEFAULT_SPAN_S
        self._around_ms: int | None = None  # the time in the place of the current one; None: now
        self._cells = 0
        self.zone = screen.app.zone
        self._lanes_query: ThrottledQuery[list[Lane]] = ThrottledQuery(screen, "lanes")
        self._asked: timeline.Axis | None = None

    # The span.

    @property
    def follows_now(self) -> bool:
        """Whether the span moves with the current time."""
        return self._around_ms is None

    def set_cells(self, cells: int) -> None:
        """Divide the span into so many cells."""
        if cells != self._cells:
            self._cells = cells
            self._read_span()

    def zoom(self, step: int) -> bool:
        """Show the next longer or shorter span; return False at the ends."""
        spans = timeline.SPANS_S
        at = spans.index(self.span_s) + step
        if not 0 <= at < len(spans):
            return False
        self.span_s = spans[at]
        self._read_span()
        return True

    def scroll(self, step: float) -> None:
        """Move by a part of the span: 1 is the whole span later."""
        around_ms = self.now_ms() if self._around_ms is None else self._around_ms
        self._around_ms = max(0, around_ms + round(step * self.span_s * 1000))
        self._read_span()

    def return_to_now(self) -> None:
        """Show the span around the current time again."""
        self._around_ms = None
        self._read_span()

    def now_ms(self) -> int:
        """Return the current time."""
        return to_ms(self._now())

    def now_local(self) -> datetime:
        """Return the current time in the zone of the screen."""
        return self._now().astimezone(self.zone)

    def _wanted_axis(self) -> timeline.Axis:
        around_ms = self.now_ms() if self._around_ms is None else self._around_ms
        return timeline.make_axis(self.span_s, self._cells, around_ms=around_ms)

    def _read_span(self) -> None:
        if self._cells and self._wanted_axis() != self._asked:
            self._lanes_query.skip_wait()
            self._read_lanes()

    # Reading.

    def read(self) -> None:
        super().read()
        if self._asked is not None:
            self._read_lanes()

    def want(self, first: int, last: int) -> None:
        super().want(first, last)
        self._read_missing()

    def _take(self, lines: list[ScheduleLine]) -> None:
        super()._take(lines)
        self._read_missing()

    def _look_ahead(self) -> None:
        super()._look_ahead()
        if self._asked == self._wanted_axis():  # Otherwise all are read again.
            self._add_lanes("lanes ahead", self._around(AHEAD))

    def _is_ready(self, wanted: range) -> bool:
        return super()._is_ready(wanted) and not (self._cells and self._unread(wanted))

    def _unread(self, wanted: range) -> list[int]:
        return [key for key in self._slice(wanted) if key not in self.lanes]

    def _read_missing(self) -> None:
        if not self._cells or not self._unread(self._visible):
            return
        if self._asked == self._wanted_axis():
            self._add_lanes("lanes", self._visible)
        else:
            self._lanes_query.skip_wait()
            self._read_lanes()

    def follow(self) -> None:
        """Read the lanes again if the current time has moved to another cell."""
        if self._cells and self._around_ms is None and self._wanted_axis() != self._asked:
            self._read_lanes()

    def _read_lanes(self) -> None:
        """Read the visible lanes and those near them again; forget all others."""
        if not self._cells or not self._slice(self._around(1)):
            return
        axis = self._asked = self._wanted_axis()

        def find(client: Client) -> list[Lane]:
            # Other lines can be visible than when this was asked: the question can wait.
            return _find_lanes(client, self._slice(self._around(1)), axis)

        def show(found: list[Lane]) -> None:
            if axis != self._asked:
                return  # Another span is being read.
            if axis != self.axis:
                self._keep_time(axis)
            self.axis, self.lanes = axis, {lane.schedule_id: lane for lane in found}
            self._kept_spans.clear()
            self._changed()

        self._lanes_query.ask(find, show)

    def _add_lanes(self, topic: str, wanted: range) -> None:
        """Read lanes of the same span that are missing."""
        axis, ids = self._asked, self._unread(wanted)
        if axis is None or not ids:
            return

        def show(found: list[Lane]) -> None:
            if axis != self.axis:
                return  # Another span is shown by now.
            awaited = self._unread(self._visible)
            if len(self.lanes) > _MOST_KEPT:
                near = self._slice(self._around(1))
                self.lanes = {key: self.lanes[key] for key in near if key in self.lanes}
                self._kept_spans.clear()
            self.lanes.update((lane.schedule_id, lane) for lane in found)
            if any(key in self.lanes for key in awaited):
                self._changed()
            else:
                for lane in found:  # Now there is time.
                    self._lane_spans(lane.schedule_id, lane)

        self._screen.ask(f"missing {topic}", partial(_find_lanes, ids=ids, axis=axis), show)

    def _keep_time(self, axis: timeline.Axis) -> None:
        """Move the chosen cell to the place of its time on another axis, or to the nearest end."""
        if self.chosen is None or self.axis is None:
            return
        key, cell = self.chosen
        at_ms, run = to_ms(self.axis.begin(cell)), self.chosen_run()
        if run is not None:  # A wider cell can begin before its run.
            at_ms = max(at_ms, to_ms(run.first_at))
        self.chosen = key, max(0, min(axis.cell_of(at_ms), axis.cells - 1))

    # Lines.

    def _line_of(self, found: ScheduleLine) -> Line:
        now = self._now()
        lane = self.lanes.get(found.id)
        coming, _ = next_spans(
            found, now=now, zone=self.zone, is_clock_trusted=self.is_clock_trusted
        )
        end = None if lane is None else timeline.expected_end(lane)
        if end is not None:
            is_over = end < now
            word, style = ("past", "warn") if is_over else ("until", "busy")
            coming = (f"{word} {end.astimezone(self.zone):%H:%M}", style)
        return Line(
            key=found.id,
            cells=(
                (glyph_of(found, now=now),),
                ((clean(found.standing.name), "bold"),),
                self._lane_spans(found.id, lane),
                (coming,),
            ),
        )

    def _lane_spans(self, key: int, lane: Lane | None) -> tuple[Span, ...]:
        axis = self.axis
        if axis is None:
            return ()
        now_ms = self.now_ms()
        chosen = self.chosen[1] if self.chosen is not None and self.chosen[0] == key else None
        of = axis, axis.cell_of(now_ms), chosen
        kept = self._kept_spans.get(key)
        if kept is not None and kept[0] is lane and kept[1] == of:
            return kept[2]
        days = timeline.scale_of(axis, _ZONE).days
        cells = timeline.draw_lane(lane, axis, now_ms=now_ms, days=days)
        if chosen is not None and chosen < axis.cells:
            letter, _ = cells[chosen]
            cells[chosen] = (letter, _CHOSEN)
        spans = tuple(_merged(cells))
        if lane is not None and not any(run.running_since for run in lane.runs):
            self._kept_spans[key] = lane, of, spans
        return spans

    def nearest_s(self, first: int, last: int) -> float:
        nearest_s = super().nearest_s(first, last)
        return nearest_s if self.axis is None else min(nearest_s, self.axis.cell_ms / 1000)

    # The cell under the cursor.

    def chosen_run(self) -> RunCell | None:
        """Return the runs under the cursor; None without any."""
        if self.chosen is None or self.axis is None:
            return None
        lane = self.lanes.get(self.chosen[0])
        return None if lane is None else timeline.find_run(lane, self.chosen[1], self.axis)

    def chosen_words(self) -> str:
        """Say what is under the cursor; empty without a chosen cell."""
        if self.chosen is None or self.axis is None:
            return ""
        lane = self.lanes.get(self.chosen[0], Lane(self.chosen[0]))
        now = self._now()
        return timeline.cell_words(lane, self.chosen[1], self.axis, zone=self.zone, now=now)

    def signs(self, fires: Sequence[UpcomingFire]) -> list[timeline.Sign]:
        """Return clock changes, excluded days of the visible lanes, and pile-ups of these fires."""
        axis = self.axis
        if axis is None:
            return []
        excluded = (
            (clean(self.schedule_of(key) or ""), lane.excluded)
            for key in self._slice(self._visible)
            if (lane := self.lanes.get(key)) is not None and lane.excluded
        )
        return [
            *timeline.scale_of(axis, _ZONE).changes,
            *timeline.excluded_signs(excluded, axis, zone=self.zone),
            *timeline.pile_ups(fires, axis),
        ]


def _find_lanes(client: Client, ids: Sequence[int], axis: timeline.Axis) -> list[Lane]:
    from_at, until_at = axis.begin(0), axis.begin(axis.cells)
    return client.timeline(list(ids), from_at=from_at, until_at=until_at, cells=axis.cells)


class TimelineView(LineView):
    """The lanes, below the labels of their axis. A cursor goes from run to run within a lane."""

    source: TimelineSource
    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "left", "right", "zoom_in", "zoom_out", "earlier", "later", "present"
    )

    def __init__(self, source: TimelineSource, *, id: str, empty: str = "") -> None:
        super().__init__(source, COLUMNS, id=id, empty=empty)
        self.lanes_at = 1  # The column of the screen where the lanes begin.

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        *before, cells = self.widths[: _LANE + 1]
        # Kept: signs are also drawn while a list covers the timeline, which then has no widths.
        self.lanes_at = 1 + sum(width + GAP for width in before if width)
        self.source.set_cells(cells)

    def source_changed(self) -> None:
        super().source_changed()
        self._keep_chosen()

    def tick(self) -> float:
        self.source.follow()
        return super().tick()

    def titles(self) -> list[tuple[Span, ...]]:
        found = super().titles()
        if self.source.axis is not None:
            scale = timeline.scale_of(self.source.axis, _ZONE)
            letters = timeline.label_letters(scale, self.source.axis.cells)
            found[_LANE] = (("".join(letters), ""),)
        return found

    # The cursor within a lane.

    def _note_key(self) -> None:
        super()._note_key()
        self._keep_chosen()

    def _keep_chosen(self) -> None:
        """Keep the chosen cell in the lane under the cursor."""
        chosen = self.source.chosen
        if chosen is not None and self._key is not None and chosen[0] != self._key:
            self._choose(chosen[1])

    def _choose(self, cell: int | None) -> None:
        key = self._key
        self.source.chosen = None if cell is None or key is None else (key, cell)
        self.refresh()
        self._tell(self.Moved(self))

    def clear_chosen(self) -> bool:
        """Leave the cells; return whether one was chosen."""
        was_chosen = self.source.chosen is not None
        if was_chosen:
            self._choose(None)
        return was_chosen

    def action_left(self) -> None:
        self._step(-1)

    def action_right(self) -> None:
        self._step(1)

    def _step(self, step: int) -> None:
        source, key = self.source, self._key
        lane = None if key is None else source.lanes.get(key)
        if source.axis is None or lane is None:
            return
        now = source.axis.cell_of(source.now_ms())
        cell = source.chosen[1] if source.chosen is not None else now - min(step, 0)
        found = timeline.next_cell(lane, cell, source.axis, step=step)
        if found is None:
            self.source.scroll(step / 2)
        else:
            self._choose(found)

    def action_earlier(self) -> None:
        self.source.scroll(-0.5)

    def action_later(self) -> None:
        self.source.scroll(0.5)

    def action_zoom_in(self) -> None:
        self._zoom(-1)

    def action_zoom_out(self) -> None:
        self._zoom(1)

    def _zoom(self, step: int) -> None:
        self.clear_chosen()
        self.source.zoom(step)

    def action_present(self) -> None:
        self.clear_chosen()
        self.source.return_to_now()

    def on_click(self, event: events.Click) -> None:
        super().on_click(event)
        offset, axis = event.get_content_offset(self), self.source.axis
        if offset is None or axis is None or offset.y == 0:
            return
        cell = offset.x - self.lanes_at
        if 0 <= cell < axis.cells:
            self._choose(cell)


class SignLine(TextLine):
    """The line above the axis: the current time, and signs at the cells that they concern."""

    def show_signs(self, view: TimelineView, signs: Sequence[timeline.Sign]) -> None:
        """Show these signs above the lanes of a view."""
        source = view.source
        axis = source.axis
        if axis is None:
            self.show([])
            return
        cells: list[Span] = [(" ", "")] * axis.cells
        for sign in reversed(signs):  # The first ones are the rarest.
            cells[sign.cell] = (sign.letter, "warn")
        now, words = axis.cell_of(source.now_ms()), f"{source.now_local():%H:%M}"
        for begin in (now - shift for shift in (2, 1, 3, 4, 0)):  # where no sign is
            place = slice(begin, begin + len(words))
            if 0 <= now < axis.cells and begin >= 0 and cells[place] == [(" ", "")] * len(words):
                cells[place] = [(letter, "now") for letter in words]
                break
        self.show([(" " * view.lanes_at, ""), *_merged(cells)])


def _merged(cells: Sequence[Span]) -> Iterator[Span]:
    """Join neighbours of one style; each cell is a letter."""
    letters, begin = "".join([letter for letter, _ in cells]), 0
    for style, same in groupby([style for _, style in cells]):
        end = begin + len(list(same))
        yield letters[begin:end], style
        begin = end


def note_lines(
    source: TimelineSource, signs: Sequence[timeline.Sign], *, keys: str, width: int
) -> tuple[list[list[Span]], list[Span]]:
    """Return the lines below the lanes: the legend, and the next sign; and what stands right."""
    right: list[Span] = [(timeline.SPAN_WORDS[source.span_s], "bold"), (f"  {keys} ", "dim")]
    if source.sort not in SORTED_BY.values():
        right.insert(0, (f"by {source.sort}  ", "dim"))
    if not source.follows_now:
        right.insert(-1, ("  t now", "accent"))
    room = width - 3 - sum(len(text) for text, _ in right)
    parts = [((f"{letter} ", style), (words, "dim")) for (letter, style), words in _LEGEND]
    legend: list[Span] = [(" ", ""), *whole_parts(parts, room)]
    now = source.now_local()
    # Next times before past ones; the sort keeps the order of signs otherwise, the rarest first.
    coming = sorted(signs, key=lambda sign: sign.at < now)
    noted: list[Span] = []
    if coming:
        sign = coming[0]
        at = near_time(sign.at, zone=source.zone, now=now)
        noted = [(f" {sign.letter} ", "warn"), (f"{at}: {clean(sign.text)}", "dim")]
        if len(coming) > 1:
            noted.append((f"; {len(coming) - 1} more", "dim"))
    return [legend, noted], right
