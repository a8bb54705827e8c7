"""The filter of a list: a line of input, what matches, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from edgecron.base.errors import InvalidInput
from edgecron.base.safetext import clean
from edgecron.tui.database_app import DatabaseApp
from edgecron.tui.keys import actions_of, bindings, mark_spans
from edgecron.tui.list_view import LineView
from edgecron.tui.text_line import KeptLines, LineInput, Span, TextLine
from edgecron.views.phrases import PROBLEM, WARNING, display_width, error_words, folded

if TYPE_CHECKING:
    from edgecron.model.filters import Filter
    from edgecron.tui.database_app import DatabaseApp

_PAUSE_S = 0.12  # after the last letter, before the list is filtered
_SIGN, _LEAST_INPUT = 3, 12  # columns
_MOST_LINES = 3  # of a problem


class ListPane(Vertical, KeptLines):
    """A list of the first screen above its filter line, with what stands beside both."""

    def __init__(
        self, view: LineView, *, above: Sequence[Widget] = (), below: Sequence[Widget] = ()
    ) -> None:
        filter_line = FilterLine(view, id=f"{view.id}-foot")
        super().__init__(*above, view, *below, filter_line, id=f"{view.id}-pane", classes="pane")
        self.border_title = (view.id or "").capitalize()


class FilterLine(Horizontal):
    """Edit the filter of a list; hidden if there is no filter, mark or trouble.

    Enter keeps the filter, the key for going back removes it. A problem stands below.
    """

    app: DatabaseApp

    BINDINGS: ClassVar[list[BindingType]] = bindings("back")
    DEFAULT_CSS = """
    FilterLine { height: 1; background: $surface; display: none; }
    FilterLine .sign { width: 3; }
    FilterLine LineInput { width: 1fr; }
    FilterLine .said { width: 1fr; }
    FilterLine .problem { display: none; dock: bottom; }
    """

    def __init__(self, view: LineView, *, id: str) -> None:
        super().__init__(id=id)
        self._view = view
        self._source = view.source
        self._empty = view.empty
        self._problem = ""
        self._is_writing = False
        self._timer: Timer | None = None

    def _compose_parts(self) -> None:
        """Make the parts when they are first needed: four inputs cost much of the first paint."""
        if not self.children:
            line = LineInput(
                placeholder=self._source.filter_example, compact=True, select_on_focus=False
            )
            line.take_enter(self._enter, pass_on=self.app.pass_on)
            self.mount(
                TextLine([(" / ", "accent")], classes="sign"),
                line,
                TextLine(classes="said"),
                TextLine(classes="problem"),
            )

    @property
    def _input(self) -> LineInput:
        return self.query_one(LineInput)

    def write(self) -> None:
        """Open the filter for typing."""
        self._is_writing = self.display = True
        self.show()
        self.screen.set_focus(self._input)  # Immediately: the next key is meant for it.

    def clear(self) -> bool:
        """Remove the filter; return whether there was one."""
        was_there = self._source.filter is not None or bool(self._problem)
        for line in self.query(LineInput):
            with line.prevent(Input.Changed):
                line.value = ""
        self._apply("")
        return was_there

    def found(self) -> None:
        """Show the count of a list that was read again, and drop marks of lines that are gone."""
        gone = self._source.gone_of(self._view.marked)
        if gone:
            self._view.mark(self._view.marked - gone)
        self.show()

    def show(self) -> None:
        """Show how many lines match and are marked, or what is wrong with the filter."""
        is_filtered = self._source.filter is not None or bool(self._problem)
        shows_line = is_filtered or self._is_writing
        self.display = shows_line or bool(self._view.marked or self._source.trouble)
        if self.display:
            self._compose_parts()
        elif not self.children:
            return
        self.query_one(".sign", TextLine).display = shows_line
        self._input.display = shows_line
        self._show_problem()
        spans = self._spans()
        said = self.query_one(".said", TextLine)
        if shows_line:
            width = sum(display_width(text) for text, _ in spans)
            said.styles.width = max(1, min(width, self._view.size.width - _SIGN - _LEAST_INPUT))
            said.show(spans)
        else:
            said.styles.width = "1fr"
            said.show([(" ", ""), *spans])

    def _show_problem(self) -> None:
        words = f"{PROBLEM.letter} {clean(self._problem)}" if self._problem else ""
        lines = [*folded(words, max(1, self._view.size.width - 2))][:_MOST_LINES] if words else []
        shown = self.query_one(".problem", TextLine)
        shown.display = bool(lines)
        shown.styles.height = len(lines)
        shown.show(*([(f" {line}", "bad")] for line in lines))
        self.styles.height = 1 + len(lines)

    def _spans(self) -> list[Span]:
        spans: list[Span] = []
        if self._source.filter is not None:
            spans += self._count_spans(self._source.filter)
        if self._view.marked:
            spans.append((f" ▌{len(self._view.marked):,} marked ", "accent"))
            if not self._is_writing:  # Otherwise the keys are letters of the filter.
                room = self._view.size.width - 2 - sum(display_width(text) for text, _ in spans)
                if self._source.filter is not None or self._problem:
                    room -= _SIGN + max(_LEAST_INPUT, display_width(self._input.value) + 1)
                spans += mark_spans(self.app.labels, actions_of(self.screen), width=room)
        if self._source.trouble:
            spans.append((f" {WARNING.letter} {clean(self._source.trouble)} ", "warn"))
        return spans

    def _count_spans(self, wanted: Filter) -> list[Span]:
        unused = self._source.unused_keys(wanted)
        spans: list[Span] = []
        if unused:
            spans.append((f" {WARNING.letter} {', '.join(unused)} has no effect here ", "warn"))
        if self._source.is_awaited:
            return [*spans, (" searching ... ", "dim")]
        count = self._source.count
        if self._source.is_counted:
            return [*spans, (f" {count:,} {'match' if count == 1 else 'matches'} ", "dim")]
        return [*spans, (f" over {count:,} matches ", "dim")]

    def on_resize(self) -> None:
        self.show()

    def on_input_changed(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE_S, self._read_filter)

    def _enter(self) -> None:
        self._read_filter()
        self.screen.set_focus(self._view)

    def on_descendant_blur(self) -> None:
        self._is_writing = False
        self.show()

    def action_back(self) -> None:
        self.clear()
        self.screen.set_focus(self._view)

    def _read_filter(self) -> None:
        self._apply(self._input.value.strip())

    def _apply(self, text: str) -> None:
        # Loaded when needed: the first paint needs neither filters nor times.
        from edgecron.base.value_texts import read_past
        from edgecron.model.filters import parse_filter

        def read_time(words: str) -> datetime:
            return read_past(words, what="time", now=self.app.now())

        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        try:
            wanted = parse_filter(text, read_time=read_time) if text else None
        except InvalidInput as error:
            self._problem = error_words(error)
            self.show()
            return
        self._problem = ""
        is_same = (wanted and wanted.terms) == (self._source.filter and self._source.filter.terms)
        if not is_same:
            key = self.app.label("back")
            nothing = f"nothing matches: {key} removes the filter" if key else "nothing matches"
            self._view.empty = self._empty if wanted is None else nothing
            self._view.end_range()
            self._source.filter_by(wanted)
        self.show()
