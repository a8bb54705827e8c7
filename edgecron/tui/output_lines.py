"""Draw the output of a run: its lines, following the end or staying at a place, and its title.

`output_view` adds keys and mouse.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import tzinfo
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.client.follow import Piece
from edgecron.model.claim import Stream
from edgecron.tui.list_model import Span
from edgecron.tui.output_text import OutputLine, OutputText, Selection, find_matches
from edgecron.tui.wrapping import Mark, marked, shown, window
from edgecron.views.phrases import count_words, display_width, fit, size_words

ERROR_MARK = "▌"  # at the margin of what came on stderr
_MARGIN = 2
_MOST_BYTES = 20 * 1024 * 1024  # over 100,000 lines of usual length
_TIME = 14  # columns of a time with its gap
_MOST_WANTED = 24  # columns of the searched text


class OutputLines(ScrollView):
    """Show the lines of an output, each in one row, or wrapped.

    It follows new lines until it is scrolled up. Then the line at the top stays there when other
    lines come, go or are wrapped.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"output--{name}" for name in ("error", "note", "time", "hit", "hit-now", "selected")
    }
    DEFAULT_CSS = """
    OutputLines {
        height: 1fr; background: $background;
        overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    OutputLines .output--error { color: $warning; }
    OutputLines .output--note { color: $muted; text-style: italic; }
    OutputLines .output--time { color: $muted; }
    OutputLines .output--hit { color: $accent; text-style: bold underline; }
    OutputLines .output--hit-now { color: $accent; text-style: bold reverse; }
    OutputLines .output--selected {
        background: $block-cursor-background; color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    """

    class Changed(Message):
        """The title must change: following, matches or selection changed."""

    def __init__(self, *, zone: tzinfo, id: str) -> None:
        super().__init__(id=id)
        self._zone = zone
        self.printed = OutputText(most_bytes=_MOST_BYTES)
        self.is_following = True
        self.is_wrapped = self.has_times = False
        self.has_errors = False  # did anything come on stderr
        self.selection: Selection | None = None
        self.wanted = ""  # the searched text
        self.hits: Sequence[int] = ()  # the lines that contain it
        self.hit: int | None = None  # the current match
        self.empty = ""  # shown if nothing was printed
        self.left = 0  # hidden columns at the left
        self._top: tuple[int, int] | None = None  # the line at the top, and which of its rows
        self._is_moving = False

    # Content.

    def take(self, pieces: Sequence[Piece]) -> None:
        """Show new output."""
        self.printed.extend(pieces)
        self.has_errors |= any(chunk.stream is Stream.STDERR for _, chunk in pieces)
        self.lay_out()

    def finish(self, empty: str) -> None:
        """End the output; show `empty` if nothing was printed."""
        self.printed.finish()
        self.empty = empty
        self.lay_out()

    def say_empty(self, words: str) -> None:
        """Set what is shown as long as nothing was printed; it is clean."""
        if words != self.empty:
            self.empty = words
            self.refresh()

    @property
    def count(self) -> int:
        """The number of lines."""
        return self.printed.end - self.printed.first

    @property
    def margin(self) -> int:
        """The columns before the text of a line."""
        return _MARGIN + (_TIME if self.has_times else 0)

    @property
    def room(self) -> int:
        """The columns for the text of a line."""
        return max(1, self.scrollable_content_region.width - self.margin)

    @property
    def wrap_width(self) -> int | None:
        """The width of wrapped lines; None if they are not wrapped."""
        return self.room if self.is_wrapped else None

    @property
    def height(self) -> int:
        """The rows of all lines."""
        return self.printed.height_at(self.wrap_width)

    @property
    def page(self) -> int:
        """The number of visible rows."""
        return max(1, self.scrollable_content_region.height)

    def lay_out(self) -> None:
        """Show the lines again: the same one at the top, or the end."""
        self.hits = self.printed.search(self.wanted)
        top, height = self._top, self.height
        self.virtual_size = Size(max(1, self.scrollable_content_region.width), max(1, height))
        if self.is_following:
            self._move_to(height)
        elif top is not None:
            self._move_to(self._row_of(*top))
        self.refresh()
        self.post_message(self.Changed())

    def _row_of(self, line: int, part: int) -> int:
        if line < self.printed.first:
            return 0
        part = min(part, len(self.printed.rows_of(line, self.wrap_width)) - 1)
        return self.printed.row_of(line, self.wrap_width) + part

    def on_resize(self) -> None:
        self.lay_out()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def _move_to(self, row: int) -> None:
        self._is_moving = True
        self.scroll_to(y=max(0, row), animate=False, force=True, immediate=True)
        self._is_moving = False
        self._note_top()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._is_moving:
            return
        self._note_top()
        if self.is_following and round(new_value) < self.max_scroll_y:
            self.is_following = False
            self.post_message(self.Changed())

    def _note_top(self) -> None:
        row = self.scroll_offset.y
        self._top = self.printed.locate(row, self.wrap_width) if row < self.height else None

    def seen_lines(self) -> range:
        """Return the numbers of visible lines."""
        first, height = self.scroll_offset.y, self.height
        last = min(first + self.page, height) - 1
        if not first <= last:
            return range(0)
        width = self.wrap_width
        return range(self.printed.locate(first, width)[0], self.printed.locate(last, width)[0] + 1)

    # Drawing.

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.rich_style
        row = self.scroll_offset.y + y
        if row >= self.height:
            words = f"  {self.empty}" if row == 0 else ""
            return Strip([Segment(fit(words, width), base + self._part_style("note"))], width)
        number, part = self.printed.locate(row, self.wrap_width)
        line = self.printed.line(number)
        segments = [*self._margin_of(line, part, base), *self._text_of(line, part, base)]
        return Strip(segments).adjust_cell_length(width, base)

    def _margin_of(self, line: OutputLine, part: int, base: Style) -> list[Segment]:
        mark = ERROR_MARK if line.stream is Stream.STDERR else " "
        margin = Segment(f"{mark} ", base + self._part_style("error"))
        if not self.has_times:
            return [margin]
        time = ""
        if part == 0 and not line.is_continued:
            time = from_ms(line.at_ms).astimezone(self._zone).strftime("%H:%M:%S.%f")[:12]
        return [Segment(f" {time:<{_TIME - 1}}", base + self._part_style("time")), margin]

    def _text_of(self, line: OutputLine, part: int, base: Style) -> list[Segment]:
        """Return a row of a line in its styles."""
        rows = self.printed.rows_of(line.number, self.wrap_width)
        row, start = rows[part], sum(map(len, rows[:part]))
        first, end, blank = 0, len(row), 0
        if not self.is_wrapped:
            first, end, blank = window(row, self.left, self.room)
        style = "note" if line.stream is None else "error" if line.stream is Stream.STDERR else ""
        spans = marked(row[first:end], start + first, self._marks_of(line), style)
        if self._is_selected_whole(line.number):
            # An empty line must look selected, too.
            rest = self.room - blank - display_width(row[first:end])
            spans.append((" " * max(0, rest), "selected"))
        return [
            Segment(" " * blank, base),
            *(Segment(text, base + self._part_style(name)) for text, name in spans),
        ]

    def _marks_of(self, line: OutputLine) -> list[Mark]:
        """Return the marks of a line: matches, then the selection."""
        text = shown(line.text)
        style = "hit-now" if line.number == self.hit else "hit"
        marks = [Mark(start, end, style) for start, end in find_matches(text, self.wanted)]
        if self.selection is not None:
            selected = self.selection.span_of(line.number, len(text))
            marks += [] if selected is None else [Mark(*selected, "selected")]
        return marks

    def _is_selected_whole(self, number: int) -> bool:
        selection = self.selection
        return (
            selection is not None
            and selection.is_lines
            and selection.span_of(number, 0) is not None
        )

    def _part_style(self, name: str) -> Style:
        if not name:
            return Style.null()
        return self.get_component_rich_style(f"output--{name}", partial=True)


def output_title(
    view: OutputLines, *, is_live: bool, printed_bytes: int | None, width: int
) -> tuple[list[Span], list[Span]]:
    """Return the left and right parts of the title; `printed_bytes` once the run has ended."""
    left: list[Span] = [(" Output", "bold")]
    if view.count:
        left.append((f"  {count_words(view.count, 'line')}", "dim"))
    if printed_bytes:
        left.append((f", {size_words(printed_bytes)}", "dim"))
    if view.printed.first and width >= 80:
        left.append((f", the {view.printed.first:,} before are not kept here", "dim"))
    if view.has_errors:
        left += [(f"   {ERROR_MARK}", "warn"), (" stderr", "dim")]
    if view.left:
        left.append((f"   from column {view.left + 1}", "dim"))
    return left, [*_state(view, is_live=is_live), (" ", "")]


def _state(view: OutputLines, *, is_live: bool) -> list[Span]:
    if view.selection is not None:
        count = count_words(view.selection.line_count, "line")
        return [(f"{count} selected", "accent"), (": y copies", "dim")]
    if view.wanted:
        return _search_state(view)
    if not is_live:
        return []
    if view.is_following:
        return [("following", "busy")]
    return [("paused", "warn"), (": f follows", "dim")]


def _search_state(view: OutputLines) -> list[Span]:
    wanted = clean(view.wanted)
    shown = fit(wanted, _MOST_WANTED) if len(wanted) > _MOST_WANTED else wanted
    if not view.hits:
        return [(f"/{shown}", "dim"), ("  not found", "warn")]
    lines = count_words(len(view.hits), "line")
    if view.hit is None:
        return [(f"/{shown}", "dim"), (f"  in {lines}", "")]
    place = bisect_right(view.hits, view.hit)  # sorted
    return [(f"/{shown}", "dim"), (f"  {place} of {lines}", ""), ("  n N", "accent")]
