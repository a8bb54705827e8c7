"""The first screen: schedules, what is to come and what has run; beside each other, or as tabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.timer import Timer

from edgecron.errors import EdgecronError
from edgecron.safetext import clean
from edgecron.tui import runs, schedules, upcoming
from edgecron.tui.about import run_spans, schedule_spans
from edgecron.tui.bindings import bindings
from edgecron.tui.coming import ComingView
from edgecron.tui.footer import footer_spans
from edgecron.tui.lines import LineView, Span
from edgecron.tui.overview import Overview, overview_spans, read_overview
from edgecron.tui.questions import AskingScreen
from edgecron.tui.spans import SpanLine
from edgecron.tui.week import WeekView

_FIRST_LINES = 60
_ENGINES_S = 10.0  # an engine that died commits nothing: it is looked for
_LONGEST_S = 60.0
_CLOSER_S = 0.08
_PANES = ("schedules", "upcoming", "runs")


class HomeScreen(AskingScreen[None]):
    """Three views of one truth."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("schedules", "upcoming", "runs", "sort")

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (140, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-flat"), (10, "-low"), (30, "-tall")]
        self._overview: Overview | None = None
        self._timer: Timer | None = None
        self._closer: Timer | None = None

    def compose(self) -> ComposeResult:
        app = self.app
        self.schedules = schedules.ScheduleSource(
            self, now=app.now, zone=app.zone, changed=lambda: self._show("schedules")
        )
        self.upcoming = upcoming.UpcomingSource(
            self, now=app.now, zone=app.zone, changed=self._show_upcoming
        )
        self.runs = runs.RunSource(
            self, now=app.now, zone=app.zone, changed=lambda: self._show("runs")
        )
        yield SpanLine(id="top")
        yield SpanLine(id="banner")
        with Container(id="panes"):
            with Vertical(id="schedules-pane", classes="pane"):
                yield LineView(
                    self.schedules,
                    schedules.COLUMNS,
                    id="schedules",
                    empty="no schedules yet: a makes one",
                )
            with Vertical(id="upcoming-pane", classes="pane"):
                yield LineView(
                    self.upcoming, upcoming.COLUMNS, id="upcoming", empty="nothing to come"
                )
                yield ComingView(id="coming")
                yield WeekView(self, id="week")
            with Vertical(id="runs-pane", classes="pane"):
                yield LineView(self.runs, runs.COLUMNS, id="runs", empty="nothing has run yet")
        yield SpanLine(id="about")
        yield SpanLine(id="status")
        yield SpanLine(id="keys")

    def on_mount(self) -> None:
        self.schedules.read_first(_FIRST_LINES)
        self.runs.read()
        self.upcoming.read()
        self.schedules.read()
        self._read_overview()
        self.query_one(WeekView).read()
        for name in _PANES:
            self.query_one(f"#{name}-pane").border_title = name.capitalize()
        self.query_one("#schedules", LineView).sorted_by = (1, False)
        self._turn_to("schedules")
        self._tick()
        self.set_interval(_ENGINES_S, self._read_overview)

    def _read_overview(self) -> None:
        self.ask("overview", read_overview, self._show_overview)

    def on_changed(self) -> None:
        self._show_trouble(self.app.trouble)
        self.schedules.read()
        self.runs.read()
        self.upcoming.read()
        self.query_one(WeekView).read()
        self._read_overview()

    def _show_trouble(self, error: EdgecronError | None) -> None:
        banner = self.query_one("#banner", SpanLine)
        banner.display = error is not None
        if error is not None:
            hint = f" ({clean(error.hint)})" if error.hint else ""
            banner.show([(f" ! {clean(error.message)}{hint}", "bold")])

    def _show(self, name: str) -> None:
        view = self.query_one(f"#{name}", LineView)
        view.source_changed()
        more = "+" if name == "upcoming" and self.upcoming.coming.has_more else ""
        title = f"{name.capitalize()} {view.source.count:,}{more}"
        self.query_one(f"#{name}-pane").border_title = title
        self._tick()

    def _show_upcoming(self) -> None:
        self._show("upcoming")
        app = self.app
        self.query_one(ComingView).tell(self.upcoming.coming, now=app.now(), zone=app.zone)

    def _show_overview(self, found: Overview) -> None:
        self._overview = found
        self._tick()

    def _tick(self) -> None:
        """Show how far things are by now, and again when that reads otherwise."""
        pace_s = _LONGEST_S
        if self._overview is not None:
            left, right = overview_spans(self._overview, now=self.app.now(), zone=self.app.zone)
            self.query_one("#status", SpanLine).show([(" ", ""), *left], right=[*right, (" ", "")])
        for view in self.query(LineView):
            if view.region:
                pace_s = min(pace_s, view.tick())
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(pace_s, self._tick)

    # Which view is in front.

    def action_schedules(self) -> None:
        self._turn_to("schedules")

    def action_upcoming(self) -> None:
        self._turn_to("upcoming")

    def action_runs(self) -> None:
        self._turn_to("runs")

    def _turn_to(self, name: str) -> None:
        self.query_one(f"#{name}", LineView).focus()

    def on_descendant_focus(self) -> None:
        focused = self.focused
        if not isinstance(focused, LineView) or focused.id not in _PANES:
            return
        for name in _PANES:
            self.set_class(name == focused.id, f"-{name}")
        self._show_tabs(focused.id)
        self.query_one("#keys", SpanLine).show(footer_spans(focused.id))

        self._look_closer()

    def on_line_view_moved(self) -> None:
        self._look_closer()

    def _look_closer(self) -> None:
        """Tell more of what is under the cursor, once it stays there."""
        if self._closer is not None:
            self._closer.stop()
        self._closer = self.set_timer(_CLOSER_S, self._read_about)

    def _read_about(self) -> None:
        view, zone, now = self.focused, self.app.zone, self.app.now()
        line = view.current() if isinstance(view, LineView) else None
        if line is None or not isinstance(view, LineView):
            self._show_about(())
        elif view.id == "runs":
            run = self.runs.execution(line.key)
            self._show_about(() if run is None else run_spans(run, zone=zone, now=now))
        else:
            found = self.schedules.schedule_line(line.key)
            name = "" if found is None else found.standing.name
            if view.id == "upcoming":
                name = self.upcoming.coming.fires[view.cursor].schedule
            self.ask(
                "about",
                lambda scheduler: schedule_spans(scheduler, name, zone=zone, now=now),
                self._show_about,
            )

    def _show_about(self, spans: Sequence[Span]) -> None:
        self.query_one("#about", SpanLine).show([(" ", ""), *spans])

    def _show_tabs(self, current: str) -> None:
        spans: list[Span] = [(" edgecron ", "bold"), ("  ", "")]
        for number, name in enumerate(_PANES, 1):
            look = "tab" if name == current else "dim"
            spans.append((f" {number} {name.capitalize()} ", f"{look}@screen.{name}"))
            spans.append((" ", ""))
        self.query_one("#top", SpanLine).show(spans)

    # Doing.

    def on_line_view_opened(self, message: LineView.Opened) -> None:
        name = self.named_schedule()
        if message.view.id in ("schedules", "upcoming") and name is not None:
            self.open_schedule(name)

    def named_schedule(self) -> str | None:
        """The schedule under the cursor of the view in front; None where there is none."""
        line = self.focused.current() if isinstance(self.focused, LineView) else None
        if line is None or self.focused is None:
            return None
        if self.focused.id == "schedules":
            found = self.schedules.schedule_line(line.key)
            return None if found is None else found.standing.name
        if self.focused.id == "upcoming":
            index = self.upcoming.index_of(line.key)
            return None if index is None else self.upcoming.coming.fires[index].schedule
        run = self.runs.execution(line.key)
        return None if run is None else run.schedule

    def open_schedule(self, name: str) -> None:
        """Show all about one schedule."""
        from edgecron.tui.scheduledetail import ScheduleScreen

        self.app.push_screen(ScheduleScreen(name))

    def action_sort(self) -> None:
        source, view = self.schedules, self.query_one("#schedules", LineView)
        ways = list(schedules.SORTS)
        if not source.is_descending:
            source.is_descending = True
        else:
            source.is_descending = False
            source.sort = ways[(ways.index(source.sort) + 1) % len(ways)]
        view.sorted_by = (schedules.SORTS[source.sort], source.is_descending)
        view.refresh()
        source.read()
