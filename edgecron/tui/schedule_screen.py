"""The screen of one schedule: its next runs, its past runs, and all its fields."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import log
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.timer import Timer

from edgecron.base.safetext import clean
from edgecron.tui import run_list
from edgecron.tui.action_screen import EditScreen
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import Targets
from edgecron.tui.list_view import LineView
from edgecron.tui.output_tail import OutputTail
from edgecron.tui.queries import SortingScreen, ThrottledQuery
from edgecron.tui.schedule_facts import (
    UPCOMING,
    ScheduleDetail,
    definition_rows,
    read_detail,
    standing_parts,
    upcoming_rows,
)
from edgecron.tui.schedule_list import median_of
from edgecron.tui.status import Banner, KeyLine, StatusLine
from edgecron.tui.text_line import (
    BARS,
    Cells,
    Facts,
    Span,
    TextLine,
    Title,
    laid_out,
    pace_of,
    whole_parts,
)
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.phrases import display_width
from edgecron.views.times import short_duration

_LONGEST_S = 60.0
_FEW_NEXT = 3
# If the longest run is so many times the shortest, equal steps would show all short ones alike.
_WIDE = 50
_STEPS = len(BARS)  # of one line
_WIDEST = 4  # columns from one bar to the next, if there are few


class TrendView(TextLine):
    """A chart of the durations of the last runs."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._recent: Sequence[tuple[str, int | None]] = ()

    def show_runs(self, recent: Sequence[tuple[str, int | None]]) -> None:
        """Show these runs, newest first; hide the chart if none has a duration."""
        self._recent = recent
        words = scale_words(recent)
        self.display = bool(words)
        self.refresh()

    def lines(self) -> Sequence[Sequence[Span]]:
        width = self.size.width
        title = Title("Durations", ((scale_words(self._recent), "dim"),))
        chart = trend_lines(self._recent, width=width - 1, height=self.size.height - 1)
        return [*laid_out([title], width), *chart]


def trend_lines(
    recent: Sequence[tuple[str, int | None]], *, width: int, height: int
) -> list[tuple[Span, ...]]:
    """Draw `height` lines of bars, and below them how each run ended; the newest on the right.

    `recent` are (status, duration in milliseconds), newest first. The scale at the left names the
    longest and the shortest duration, and the median if it has a line of its own. Empty if there
    is nothing to show.
    """
    known = [ms for _, ms in recent if ms is not None]
    margin = max((len(short_duration(ms)) for ms in known), default=0) + 3
    room = width - margin
    shown = list(reversed(recent[: max(0, room)]))
    durations = [ms for _, ms in shown if ms is not None]
    if not durations or height < 2:
        return []
    rows, pitch = height - 1, min(_WIDEST, room // len(shown))
    scale = _Scale(durations, rows * _STEPS)
    labels = scale.labels(durations, rows)
    lines = []
    for row in range(rows, 0, -1):
        bars = [
            (_part(scale.height(ms), row) * max(1, pitch - 1), STATUS_GLYPHS[status][1])
            for status, ms in shown
        ]
        label = f" {labels.get(row, ''):>{margin - 3}} "
        lines.append(((label, "dim"), ("│", "faint"), *_joined(bars, pitch)))
    ends = [_end(status, max(1, pitch - 1)) for status, _ in shown]
    lines.append(((" " * (margin - 1), ""), ("└", "faint"), *_joined(ends, pitch)))
    return lines


def scale_words(recent: Sequence[tuple[str, int | None]]) -> str:
    """Return `min 1.2 s  median 3 s  max 9 s`; empty without durations."""
    known = [ms for _, ms in recent if ms is not None]
    if not known:
        return ""
    parts = (("min", min(known)), ("median", median_of(known)), ("max", max(known)))
    return "  ".join(f"{name} {short_duration(ms)}" for name, ms in parts)


class _Scale:
    """Heights in eighths of a line; the longest is `top`."""

    def __init__(self, durations: Sequence[int], top: int) -> None:
        self._least, self._most = max(min(durations), 1), max(*durations, 1)
        self._top = top

    def height(self, duration_ms: int | None) -> int:
        if duration_ms is None:
            return 0
        if self._most <= self._least * _WIDE:
            return max(-(-duration_ms * self._top // self._most), 1)
        share = log(max(duration_ms, 1) / self._least) / log(self._most / self._least)
        return 1 + round((self._top - 1) * share)

    def labels(self, durations: Sequence[int], rows: int) -> dict[int, str]:
        """Return durations by the line where their bars end, 1 at the bottom."""
        found: dict[int, str] = {}
        # The shortest and the longest replace a median on the same line.
        for ms in (median_of(durations), min(durations), max(durations)):
            found[max(1, min(rows, -(-self.height(ms) // _STEPS)))] = short_duration(ms)
        return found


def _part(height: int, row: int) -> str:
    """Return the part of a bar in one line."""
    inside = height - (row - 1) * _STEPS
    return " " if inside <= 0 else BARS[min(inside, _STEPS) - 1]


def _end(status: str, width: int) -> Span:
    glyph, style = ("·", "dim") if status == "success" else STATUS_GLYPHS[status]
    return f"{glyph:^{width}}", style


def _joined(bars: Sequence[Span], pitch: int) -> tuple[Span, ...]:
    """Join bars, `pitch` columns apart; merge neighbours of one style."""
    return tuple(
        ("".join(f"{text:<{pitch}}" for text, _ in same), style)
        for style, same in groupby(bars, key=lambda bar: bar[1])
    )


class HistoryView(LineView):
    """The past runs of the schedule; `up` on the first one goes to the page above."""

    def action_up(self) -> None:
        if self.cursor == 0:
            self.screen.set_focus(None)
        else:
            super().action_up()


class ScheduleScreen(SortingScreen[None], EditScreen[None]):
    """One schedule. It is given by its name, and followed if it is renamed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        *("back", "fields", "up", "down", "page_up", "page_down", "top", "bottom"),
        "tail",
    )

    DEFAULT_CSS = """
    ScheduleScreen #detail, ScheduleScreen #facts { scrollbar-size-vertical: 1; }
    ScheduleScreen #facts, ScheduleScreen #past { height: auto; }
    ScheduleScreen #about, ScheduleScreen #past { margin-top: 1; }
    ScheduleScreen #trend { height: 8; margin-bottom: 1; }
    ScheduleScreen #history-room { height: 12; }
    ScheduleScreen.-wide #detail { layout: horizontal; overflow: hidden; }
    ScheduleScreen.-wide #facts { height: 1fr; width: 1fr; }
    ScheduleScreen.-wide #past { height: 1fr; width: 1fr; margin: 0 0 0 1; }
    ScheduleScreen.-wide #trend { height: 35%; }
    ScheduleScreen.-tail OutputTail { height: 12; margin-top: 1; }
    ScheduleScreen.-wide.-tail #detail { layout: grid; grid-size: 2 2; grid-rows: 1fr 30%; }
    ScheduleScreen.-wide.-tail #facts { height: 100%; row-span: 2; }
    ScheduleScreen.-wide.-tail OutputTail { height: 1fr; max-height: 100%; }
    ScheduleScreen.-wide.-tail.-high #detail { grid-rows: 1fr 22%; }
    ScheduleScreen.-wide.-tail.-high #facts { row-span: 1; }
    ScheduleScreen.-wide.-tail.-high OutputTail { column-span: 2; }
    ScheduleScreen.-wide.-tail.-high.-full #facts { row-span: 2; }
    ScheduleScreen.-wide.-tail.-high.-full OutputTail { column-span: 1; }
    ScheduleScreen.-flat #status { display: none; }
    ScheduleScreen.-wide #history-room { height: 1fr; }
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (120, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-tall"), (44, "-high")]
        self.schedule_name = name
        self.found: ScheduleDetail | None = None
        self.history: run_list.RunSource | None = None
        self._is_full = self._is_gone = False
        self._timer: Timer | None = None
        self._paced: ThrottledQuery[ScheduleDetail | None] = ThrottledQuery(self, "schedule")

    def compose(self) -> ComposeResult:
        yield TextLine(id="top")
        yield Banner(id="banner")
        with VerticalScroll(id="detail", can_focus=False):
            with VerticalScroll(id="facts", can_focus=False):
                yield Facts(id="ahead")
                yield Facts(id="about")
            with Vertical(id="past"):
                yield TrendView(id="trend")
                yield Facts(id="history-title")
                yield Vertical(id="history-room")
            yield OutputTail()
        yield StatusLine()
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#keys", KeyLine).show_place("schedule")
        self.query_one("#history-title", Facts).show_rows([Title("Runs")])
        self._show_top()
        self.query_one(Banner).show_trouble()
        self.query_one(OutputTail).place()
        self._read_detail()

    def targets(self) -> Targets | None:
        return None if self._is_gone else Targets(names=(self.schedule_name,))

    def _read_detail(self) -> None:
        name, zone = self.schedule_name, self.app.zone
        schedule_id = None if self.found is None else self.found.schedule.id
        self._paced.ask(
            lambda client: read_detail(client, name, schedule_id=schedule_id, zone=zone),
            self._take,
        )

    def on_changed(self) -> None:
        self.query_one(Banner).show_trouble()
        self._read_detail()
        if self.history is not None:
            self.history.read()

    def on_resize(self) -> None:
        self.query_one(Banner).show_trouble()
        self.query_one(OutputTail).place()
        self._tick()

    def action_tail(self) -> None:
        """Show or hide the output of the run under the cursor."""
        self.query_one(OutputTail).switch()

    def on_line_view_moved(self) -> None:
        self._read_tail()

    def _read_tail(self) -> None:
        for view in self.query(HistoryView):
            line = view.current()
            self.query_one(OutputTail).show_run(None if line is None else line.key)

    def _take(self, found: ScheduleDetail | None) -> None:
        self._is_gone = found is None
        if found is None:
            words = f"there is no schedule {self.schedule_name!r}: it was removed"
            self.query_one("#ahead", Facts).show_rows([Cells(((f" {clean(words)}", "warn"),))])
            self.set_focus(None)
            for name in ("#about", "#past"):
                self.query_one(name).display = False
            return
        self.found = found
        self.schedule_name = found.schedule.name
        self.query_one("#about").display = self.query_one("#past").display = True
        if self.history is None:
            self._begin_history(found.schedule.id)
        self.query_one("#trend", TrendView).show_runs(found.recent)
        self._tick()

    def _begin_history(self, schedule_id: int) -> None:
        self.history = run_list.RunSource(self, changed=self._show_history, schedule_id=schedule_id)
        view = HistoryView(
            self.history, run_list.HISTORY_COLUMNS, id="history", empty="no runs yet"
        )
        self.query_one("#history-room").mount(view)
        self.history.read()
        if self.has_class("-wide"):
            view.focus()

    def on_line_view_opened(self, message: LineView.Opened) -> None:
        from edgecron.tui.run_screen import RunScreen

        line = message.line
        if line is not None and self.app.screen is self:  # Otherwise the key was pressed twice.
            self.app.push_screen(RunScreen(line.key))

    def _show_history(self) -> None:
        for view in self.query(HistoryView):
            view.source_changed()
        self._tick()

    def _tick(self) -> None:
        """Redraw distances, and again when their words change."""
        found, now, zone = self.found, self.app.now(), self.app.zone
        if found is None or self._is_gone or not self.is_current:
            return
        self._show_top()
        # Where all is in one column, past runs must not be far below.
        most = UPCOMING if self._is_full or self.has_class("-wide") else _FEW_NEXT
        ahead = upcoming_rows(found, most=most, zone=zone, now=now)
        self.query_one("#ahead", Facts).show_rows(ahead)
        about = definition_rows(
            found, is_full=self._is_full, labels=self.app.labels, zone=zone, now=now
        )
        self.query_one("#about", Facts).show_rows(about)
        paces = [view.tick() for view in self.query(HistoryView)]
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(min(_LONGEST_S, self._pace_s(found), *paces), self._tick)

    def _pace_s(self, found: ScheduleDetail) -> float:
        times = [fire.due_at for fire in found.outlook.upcoming[:1]]
        times += [at for at in (found.schedule.last_run_at,) if at is not None]
        now = self.app.now()
        return min((pace_of(abs((at - now).total_seconds())) for at in times), default=_LONGEST_S)

    def _show_top(self) -> None:
        name = clean(self.schedule_name)
        spans: list[Span] = [(" edgecron ", "bold"), (" schedule  ", "dim"), (name, "bold")]
        right: list[Span] = []
        if self.found is not None:
            parts = standing_parts(self.found, zone=self.app.zone, now=self.app.now())
            used = sum(display_width(text) for text, _ in spans)
            right = [*whole_parts(parts, self.size.width - used - 3), (" ", "")]
        self.query_one("#top", TextLine).show(spans, right=right)

    def on_screen_resume(self) -> None:
        self._tick()

    def on_screen_suspend(self) -> None:
        if self._timer is not None:
            self._timer.stop()

    # Scrolling.

    @property
    def _page(self) -> VerticalScroll:
        """The part that scrolls: everything, or the left one of two columns."""
        name = "#facts" if self.has_class("-wide") else "#detail"
        return self.query_one(name, VerticalScroll)

    def action_up(self) -> None:
        self._page.scroll_up(animate=False)

    def action_down(self) -> None:
        page = self._page
        if page.scroll_offset.y < page.max_scroll_y:
            page.scroll_down(animate=False)
        else:
            for view in self.query(HistoryView):
                view.focus()

    def action_page_up(self) -> None:
        self._page.scroll_page_up(animate=False)

    def action_page_down(self) -> None:
        self._page.scroll_page_down(animate=False)

    def action_top(self) -> None:
        self._page.scroll_home(animate=False)

    def action_bottom(self) -> None:
        self._page.scroll_end(animate=False)

    # Actions.

    def current_schedule(self) -> str | None:
        return None if self._is_gone else self.schedule_name

    def schedule_saved(self, name: str) -> None:
        if self.found is None or name != self.schedule_name:
            self._read_detail()

    def action_back(self) -> None:
        self.dismiss(None)

    def action_fields(self) -> None:
        self._is_full = not self._is_full
        self.set_class(self._is_full, "-full")
        self._tick()
