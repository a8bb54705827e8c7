"""The first screen: schedules, upcoming runs and past runs, side by side or as tabs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer
from textual.widget import AwaitMount

from edgecron.base.errors import NotFound
from edgecron.model.choices import ACTIVE
from edgecron.tui import lanes, run_list, schedule_list, upcoming
from edgecron.tui.action_screen import EditScreen
from edgecron.tui.database_app import Engines, Overview
from edgecron.tui.keys import bindings
from edgecron.tui.list_filter import FilterLine, ListPane
from edgecron.tui.list_rows import Targets
from edgecron.tui.list_view import LineView
from edgecron.tui.output_tail import OutputTail, has_room
from edgecron.tui.queries import DatabaseSource, SortingScreen, ThrottledQuery
from edgecron.tui.status import (
    Banner,
    Cards,
    KeyLine,
    StatusLine,
    read_engines,
    read_overview,
    run_detail,
    schedule_detail,
)
from edgecron.tui.text_line import Span, StyledWidget, TextLine
from edgecron.tui.upcoming import UpcomingBar, WeekView

_ENGINES_S = 10.0  # an engine that died commits nothing, so engines are polled
_LONGEST_S = 60.0
_BLANK_S = 0.25  # at most, before there are lines to draw
_PAUSE_S = 0.12  # after the cursor stopped, before details of its line are read
_BESIDE_LANES = 7  # rows: signs, axis, legend, first sign in words, filter and its problem
_NARROW = 50  # columns; below, the tabs replace the name of the program
# The columns of each list, and what an empty one says.
_LISTS = {
    "timeline": (lanes.COLUMNS, "no schedules yet"),
    "schedules": (schedule_list.COLUMNS, "no schedules yet"),
    "upcoming": (upcoming.COLUMNS, "no upcoming runs"),
    "runs": (run_list.COLUMNS, "no runs yet"),
}
_PANES = tuple(_LISTS)
_FIRST = "timeline"
_WIDE, _TALL = 140, 30  # columns and rows that have room for all lists but the timeline
_ALL_LISTS = "schedules"  # the name of the class that shows these


class HomeScreen(SortingScreen[None], EditScreen[None]):
    """The timeline and the lists of one database."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("filter", "back", "tail")

    def __init__(self) -> None:
        super().__init__(classes=f"-{_FIRST}")
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (_WIDE, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-flat"), (10, "-low"), (_TALL, "-tall")]
        self._paced: ThrottledQuery[Overview] = ThrottledQuery(self, "overview")
        self._timer: Timer | None = None
        self._tick_at_ms = inf  # when it ends
        self._detail_timer: Timer | None = None
        self._front = _FIRST  # the list that has, or had, the focus
        self._is_begun = asyncio.Event()  # Are there lines, or why there are none?
        self._has_lists = False  # all of them, not only the first one
        self._added: AwaitMount | None = None

    def compose(self) -> ComposeResult:
        self.schedules = schedule_list.ScheduleSource(self, changed=lambda: self._show("schedules"))
        self.upcoming = upcoming.UpcomingSource(self, changed=self._show_upcoming)
        self.runs = run_list.RunSource(self, changed=lambda: self._show("runs"))
        self.timeline = lanes.TimelineSource(self, changed=self._show_timeline)
        self._sources: Mapping[str, DatabaseSource[Any]] = {
            "timeline": self.timeline,
            "schedules": self.schedules,
            "upcoming": self.upcoming,
            "runs": self.runs,
        }
        yield TextLine(id="top")
        yield Banner(id="banner")
        with Container(id="panes"):
            yield self._make_pane(_FIRST)
            yield OutputTail()
        yield Cards(id="cards")
        yield TextLine(id="cursor-detail")
        yield StatusLine()
        yield KeyLine()

    def on_compose(self) -> None:
        """Take the class of the output before there are widgets, which would be styled again."""
        self.set_class(has_room(self), "-tail", update=False)

    def _make_pane(self, name: str) -> ListPane:
        columns, empty = _LISTS[name]
        if name in ("timeline", "schedules") and (key := self.app.label("add")):
            empty += f": press {key} to add one"
        if name == "timeline":
            return ListPane(
                lanes.TimelineView(self.timeline, id=name, empty=empty),
                above=[lanes.SignLine(id="signs")],
                below=[TextLine(id="timeline-note")],
            )
        is_upcoming = name == "upcoming"
        days = [UpcomingBar(id="upcoming-bar"), WeekView(self, id="week")] if is_upcoming else []
        return ListPane(LineView(self._sources[name], columns, id=name, empty=empty), below=days)

    async def on_mount(self) -> None:
        self.current_view().show_order()
        self.screen_layout_refresh_signal.subscribe(self, self._check_sizes)
        self._focus_list(_FIRST)
        self.query_one(OutputTail).place()
        self.query_one(Banner).show_trouble()
        self._tick()
        self.set_interval(_ENGINES_S, self._read_engines)
        self.timeline.read()
        # Nothing is laid out or drawn before there are lines, unless the database is slow.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_begun.wait(), _BLANK_S)
        self.call_after_refresh(self._add_lists)

    async def _add_lists(self) -> None:
        """Add the lists that are not in front, and read everything."""
        if self._added is not None:
            await self._added
            return
        others = [self._make_pane(name) for name in _PANES if name != _FIRST]
        self._added = self.query_one("#panes").mount_all(others, before="#tail")
        await self._added
        if not self.query("#schedules"):
            return  # The application ended meanwhile.
        self._has_lists = True
        for name in ("schedules", "upcoming"):
            self.query_one(f"#{name}", LineView).show_order()
        self._read_all()

    def _read_all(self) -> None:
        if self._front == _FIRST:
            self.timeline.read()
        if not self._has_lists:
            return
        self.schedules.read()
        self.runs.read()
        self.upcoming.read()
        self._paced.ask(read_overview, self._show_overview)
        self.query_one(WeekView).read()

    def _read_engines(self) -> None:
        if self.app.overview is not None:
            self.ask("engines", read_engines, self._show_engines)

    def _show_engines(self, found: Engines) -> None:
        overview = self.app.overview
        if overview is not None and found != overview.engines:
            self._show_overview(overview._replace(engines=found))

    def on_changed(self) -> None:
        self._is_begun.set()
        self.query_one(Banner).show_trouble()
        if self.app.is_absent:
            self.add_class("-empty")
            self.query_one(KeyLine).show_keys()
        self._read_all()

    def _show(self, name: str) -> None:
        view = self.query_one(f"#{name}", LineView)
        view.source_changed()
        title = f"{name.capitalize()} {view.source.count:,}{self._more(view)}"
        pane = self.query_one(f"#{name}-pane")
        if pane.border_title != title:  # Otherwise Textual draws the whole pane again.
            pane.border_title = title
        self.filter_line_of(name).found()
        if view.has_focus:
            self._show_detail()
        if view.region:
            self._tick_within(view.pace_s)

    def _more(self, view: LineView) -> str:
        """Return the sign that a list has more lines than were read."""
        is_cut = view.source is self.runs and self.runs.is_cut
        return "+" if is_cut or (view.id == "upcoming" and self.upcoming.found.has_more) else ""

    def _show_timeline(self) -> None:
        self._is_begun.set()
        self._show("timeline")
        # The output gets the rows that the lanes leave.
        self.query_one("#timeline-pane").styles.max_height = self.timeline.count + _BESIDE_LANES
        self._show_signs()

    def _show_signs(self) -> None:
        """Show what concerns all lanes: above them the time and its signs, below a legend."""
        view, source = self.query_one(lanes.TimelineView), self.timeline
        signs = source.signs(self.upcoming.found.fires)
        self.query_one(lanes.SignLine).show_signs(view, signs)
        line = self.query_one("#timeline-note", TextLine)
        keys = " ".join(filter(None, map(self.app.label, ("zoom_in", "zoom_out"))))
        note, right = lanes.note_lines(source, signs, keys=keys, width=self.size.width)
        line.show(*note, right=right)

    def _show_upcoming(self) -> None:
        self._show("upcoming")
        self._show_signs()
        app = self.app
        self.query_one(UpcomingBar).show_fires(self.upcoming.found, now=app.now(), zone=app.zone)

    def _show_overview(self, found: Overview) -> None:
        self.app.overview = found
        is_trusted = found.engines.is_clock_trusted
        for source in (self.timeline, self.schedules, self.upcoming):
            source.is_clock_trusted = is_trusted
        # Runs of removed schedules can still be looked at.
        self.set_class(not found.schedules and not self.runs.count, "-empty")
        self.query_one(KeyLine).show_keys()
        self._tick()

    def _tick(self) -> None:
        """Redraw distances, and again when their words change."""
        self.query_one(StatusLine).draw()
        paces = [view.tick() for view in self.query(LineView) if view.region]
        if self.upcoming.is_outdated:
            self.upcoming.read()
        for week in self.query(WeekView):
            if week.is_outdated:
                week.read()
        self._tick_at_ms = inf
        self._tick_within(min(paces, default=_LONGEST_S))

    def _tick_within(self, pace_s: float) -> None:
        """Redraw distances after so many seconds, or sooner."""
        at_ms = self.app.clock.monotonic_ms() + pace_s * 1000
        if at_ms < self._tick_at_ms:
            if self._timer is not None:
                self._timer.stop()
            self._timer, self._tick_at_ms = self.set_timer(pace_s, self._tick), at_ms

    def _check_sizes(self, _: object) -> None:
        for part in self.query_one("#panes").query(StyledWidget):
            part.check_size()

    # The list in front.

    async def open_list(self, name: str) -> None:
        """Show the timeline or a list."""
        if name == "timeline":
            self._focus_list(name)
            self.timeline.read()
        else:
            if not self._has_lists:  # To await them again would lay out all again.
                await self._add_lists()
            self._focus_list(name)

    def _focus_list(self, name: str) -> None:
        # Immediately: the next key is meant for it.
        self.set_focus(self.query_one(f"#{name}", LineView))

    def on_descendant_focus(self) -> None:
        focused = self.focused
        if not isinstance(focused, LineView) or focused.id not in _PANES:
            return
        self._front = focused.id
        self._place_lists()
        self.query_one(OutputTail).place()
        self._show_tabs()
        self.query_one("#keys", KeyLine).show_place(focused.id)
        self.call_after_refresh(self.filter_line_of(focused.id).show)  # Now it has a width.
        self._show_detail()

    def _place_lists(self) -> None:
        """Show the list in front; in a large terminal, all lists but the timeline."""
        size, shown = self.app.size, self._front
        if shown != _FIRST and size.width >= _WIDE and size.height >= _TALL:
            shown = _ALL_LISTS
        if not self.has_class(f"-{shown}"):  # To style and lay out all again takes 30 ms.
            self.update_classes({f"-{name}": name == shown for name in _PANES})

    def on_line_view_moved(self) -> None:
        self._show_detail()

    def _show_detail(self) -> None:
        """Show details of the line under the cursor, once the cursor has stopped."""
        if self._detail_timer is not None:
            self._detail_timer.stop()
        self._detail_timer = self.set_timer(_PAUSE_S, self._read_detail)

    def _read_detail(self) -> None:
        line, name = self.current_view().current(), self.current_schedule()
        self._tick_within(self.current_view().pace_s)  # The list can show other lines now.
        self._show_tabs()
        self._read_tail()
        if line is None or name is None:
            self._take_detail(())
        elif self.current_source() is self.timeline and self.timeline.chosen is not None:
            self._take_detail(((self.timeline.chosen_words(), ""),))
        elif self.current_source() is self.runs:
            run = self.runs.execution(line.key)
            if run is not None:
                self._take_detail(run_detail(run, zone=self.app.zone, now=self.app.now()))
                without = () if run.status in ACTIVE else ("cancel",)
                self.query_one("#keys", KeyLine).show_place("runs", without=without)
        else:

            def take(spans: Sequence[Span]) -> None:
                if line == self.current_view().current():  # Otherwise another one is read.
                    self._take_detail(spans)

            self.ask("about", lambda client: schedule_detail(client, name), take)

    def action_tail(self) -> None:
        """Show or hide the output of the line under the cursor."""
        self.query_one(OutputTail).switch()

    def _read_tail(self) -> None:
        line, source = self.current_view().current(), self.current_source()
        run = self.timeline.chosen_run() if source is self.timeline else None
        if run is not None:
            self.query_one(OutputTail).show_run(run.run_id)
        elif source is self.runs and line is not None:
            self.query_one(OutputTail).show_run(line.key)
        else:
            self.query_one(OutputTail).show_run(self.current_schedule())

    def _take_detail(self, spans: Sequence[Span]) -> None:
        self.query_one("#cursor-detail", TextLine).show([(" ", ""), *spans])

    def on_resize(self) -> None:
        self._place_lists()
        self.query_one(OutputTail).place()
        self._show_tabs()
        self.query_one(Banner).show_trouble()
        self._tick()

    def _show_tabs(self) -> None:
        """Show the lists, and the place of the cursor in the one in front."""
        view, is_narrow = self.current_view(), self.size.width < _NARROW
        count = view.source.count
        place = f"{view.cursor + 1:,} of {count:,}{self._more(view)} " if count else ""
        spans: list[Span] = [] if is_narrow else [(" edgecron ", "bold"), ("  ", "")]
        for name in _PANES:
            number = self.app.label(name)
            style = "tab" if name == view.id else "dim"
            spans.append((f" {number} {name.capitalize()} ", f"{style}@app.perform('{name}')"))
            spans.append((" ", ""))
        self.query_one("#top", TextLine).show(spans, right=[(place, "dim")])

    # Opening, and targets of actions.

    def on_line_view_opened(self, message: LineView.Opened) -> None:
        if self.app.screen is not self:
            return  # The key was pressed twice.
        view, line = message.view, message.line
        run = self.timeline.chosen_run() if view.source is self.timeline else None
        if run is not None:
            self.open_run(run.run_id)
        elif view.source is self.runs and line is not None:
            self.open_run(line.key)
        elif line is not None and view.id is not None:
            name = self._sources[view.id].schedule_of(line.key)
            if name is not None:
                self.open_schedule(name)

    def current_schedule(self) -> str | None:
        """Return the schedule of the line under the cursor; None without one."""
        line = self.current_view().current()
        return None if line is None else self.current_source().schedule_of(line.key)

    def schedule_saved(self, name: str) -> None:
        self.run_worker(self._seek_schedule(name))

    def open_schedule(self, name: str) -> None:
        """Open the screen of a schedule."""
        from edgecron.tui.schedule_screen import ScheduleScreen

        self.app.push_screen(ScheduleScreen(name))

    def targets(self) -> Targets | None:
        keys = self.current_view().target_keys()
        return self.current_source().targets(keys) if keys else None

    def open_run(self, execution_id: int) -> None:
        """Open the screen of a run."""
        from edgecron.tui.run_screen import RunScreen

        self.app.push_screen(RunScreen(execution_id))

    def action_reschedule(self) -> None:
        view = self.current_view()
        why = None
        if view.source is self.upcoming and not view.marked and self.upcoming.count:
            why = self.upcoming.why_fixed(view.cursor)
        if why is None:
            super().action_reschedule()
        else:
            self.app.show_notice(why, severity="warning")

    def clear_marks(self) -> None:
        for view in self.query(LineView):
            view.clear_marks()

    def current_view(self) -> LineView:
        """Return the list in front."""
        focused = self.focused
        if isinstance(focused, LineView):
            return focused
        return self.query_one(f"#{self._front}", LineView)

    def current_source(self) -> DatabaseSource[Any]:
        """Return the source of the list in front."""
        return self._sources[self.current_view().id or _FIRST]

    def filter_line_of(self, name: str) -> FilterLine:
        """Return the filter line of a list."""
        return self.query_one(f"#{name}-foot", FilterLine)

    def action_back(self) -> None:
        """Remove the marks; if there are none, the filter."""
        view = self.current_view()
        if isinstance(view, lanes.TimelineView) and view.clear_chosen():
            return
        if not view.clear_marks() and view.id is not None:
            self.filter_line_of(view.id).clear()

    def action_filter(self) -> None:
        view = self.current_view()
        if view.id is not None:
            self.filter_line_of(view.id).write()

    def on_line_view_marked(self, message: LineView.Marked) -> None:
        view = message.view
        if view.id in _PANES:
            self.filter_line_of(view.id).show()
        if view.id == "runs" and len(view.marked) == run_list.MOST_MARKED:
            self.app.show_notice(
                f"marked the newest {run_list.MOST_MARKED:,}; use a filter to mark fewer"
            )

    def sorted_view(self) -> LineView:
        return self.current_view()

    # Going to a schedule.

    def go_to(self, name: str) -> None:
        """Remove the filter, move the cursor to a schedule, and open its screen."""

        def found() -> None:
            self.open_schedule(name)
            self.app.release_keys()

        self.prepare(self._seek_schedule(name, found))

    async def _seek_schedule(self, name: str, then: Callable[[], None] = lambda: None) -> None:
        try:
            found = await self.answer_to("schedule to go to", lambda one: one.schedule(name).id)
        except NotFound as error:
            self.app.show_error(error)
            return
        front = _FIRST if self._front == _FIRST else "schedules"
        self._focus_list(front)
        self.filter_line_of(front).clear()
        self.query_one(f"#{front}", LineView).seek(found)
        then()
