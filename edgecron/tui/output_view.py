"""The output of a run: drawn, followed, scrolled, searched and selected, by keys and mouse."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import tzinfo
from itertools import pairwise
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.color import Color
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from edgecron.base.units import from_ms
from edgecron.client.following import Piece
from edgecron.model.run import Stream
from edgecron.tui.keys import bindings
from edgecron.tui.output_colors import PLAIN, TextColor, style_of
from edgecron.tui.output_text import (
    OutputLine,
    OutputText,
    Place,
    Selection,
    find_matches,
    letter_at,
    selected_text,
    shown,
)
from edgecron.tui.text_line import readable
from edgecron.views.phrases import display_width, fit

ERROR_MARK = "▌"  # at the margin of what came on stderr
_MARGIN = 2
_TIME = 14  # columns of a time with its gap
_MOST_COLORS = 1000  # whose styles are kept
_STEP = 16  # columns of a sideways move


class OutputView(ScrollView, can_focus=True):
    """Show the lines of an output, each in one row, or wrapped.

    It follows new lines until it is scrolled up. Then the line at the top stays there when other
    lines come, go or are wrapped.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        *("up", "down", "page_up", "page_down", "top", "bottom", "left", "right", "mark"),
        *("follow", "wrap", "timestamps", "search_next", "search_previous"),
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"output--{name}" for name in ("error", "note", "time", "hit", "hit-now", "selected")
    }
    DEFAULT_CSS = """
    OutputView {
        height: 1fr; background: $background;
        overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    OutputView .output--error { color: $warning; }
    OutputView .output--note { color: $muted; text-style: italic; }
    OutputView .output--time { color: $muted; }
    OutputView .output--hit { color: $accent; text-style: bold underline; }
    OutputView .output--hit-now { color: $accent; text-style: bold reverse; }
    OutputView .output--selected {
        background: $block-cursor-background; color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    """

    class Changed(Message):
        """The title must change: following, matches or selection changed."""

    def __init__(self, *, zone: tzinfo, id: str) -> None:
        super().__init__(id=id)
        self._zone = zone
        self._color_styles: dict[TextColor, Style] = {}
        self.printed = OutputText()
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
        self._drag_start: Place | None = None  # where the button was pressed
        # The view when the search began.
        self._search_start: tuple[tuple[int, int] | None, bool] | None = None

    # Content.

    def take(self, pieces: Sequence[Piece]) -> None:
        """Show new output."""
        self.printed.extend(pieces)
        self.has_errors |= any(chunk.stream is Stream.STDERR for _, chunk in pieces)
        self.lay_out()

    def restart(self) -> None:
        """Begin with the output of another run."""
        self.printed, self.has_errors, self.selection = OutputText(), False, None
        self.is_following, self.left = True, 0
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
        self._color_styles.clear()
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

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        # Textual tells the bar only of moves while it is shown.
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

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
        text = Strip(self._text_of(line, part, base).render(self.app.console))
        if not self.is_wrapped:
            text = text.crop(self.left, self.left + self.room)
        return Strip([*self._margin_of(line, part, base), *text]).adjust_cell_length(width, base)

    def _margin_of(self, line: OutputLine, part: int, base: Style) -> list[Segment]:
        mark = ERROR_MARK if line.stream is Stream.STDERR else " "
        margin = Segment(f"{mark} ", base + self._part_style("error"))
        if not self.has_times:
            return [margin]
        time = ""
        if part == 0 and not line.is_continued:
            time = from_ms(line.at_ms).astimezone(self._zone).strftime("%H:%M:%S.%f")[:12]
        return [Segment(f" {time:<{_TIME - 1}}", base + self._part_style("time")), margin]

    def _text_of(self, line: OutputLine, part: int, base: Style) -> Text:
        """Return a row of a line in its styles: matches, then the selection."""
        rows = self.printed.rows_of(line.number, self.wrap_width)
        start = sum(map(len, rows[:part]))
        style = "note" if line.stream is None else "error" if line.stream is Stream.STDERR else ""
        text = Text(rows[part])
        text.stylize(base + self._part_style(style))  # Rich draws no base style of a Text.
        # A line can have thousands of colours: draw those that are seen.
        seen, end = start, start + len(rows[part])
        if not self.is_wrapped:
            seen = letter_at(rows[part], self.left)
            end = min(end, letter_at(rows[part], self.left + self.room) + 1)
        for (first, color), (last, _) in pairwise(
            [*self.printed.colors_of(line.number), (start + len(rows[part]), PLAIN)]
        ):
            if color != PLAIN and first < end and last > seen:
                text.stylize(self._color_style(color), max(0, first - start), max(0, last - start))
        hit_style = self._part_style("hit-now" if line.number == self.hit else "hit")
        for first, last in find_matches("".join(rows), self.wanted):
            text.stylize(hit_style, max(0, first - start), max(0, last - start))
        selection = self.selection
        span = None if selection is None else selection.span_of(line.number, sum(map(len, rows)))
        if selection is not None and selection.is_lines and span is not None:
            text.pad_right(max(0, self.left + self.room - display_width(rows[part])))
            text.stylize(self._part_style("selected"))  # An empty line must look selected, too.
        elif span is not None:
            first, last = (max(0, letter - start) for letter in span)
            text.stylize(self._part_style("selected"), first, last)
        return text

    def _color_style(self, color: TextColor) -> Style:
        """Return the style of a colour, readable on its ground."""
        found = self._color_styles.get(color)
        if found is not None:
            return found
        found = style_of(color, is_colored=not self.app.no_color)
        has_color = found.color is not None or found.bgcolor is not None
        if has_color and not self.app.native_ansi_color:
            # Textual would draw the sixteen colours in these shades, too.
            shades = self.app.ansi_theme
            text, ground = self.colors[3], self.background_colors[1]
            if found.color is not None:
                text = Color(*found.color.get_truecolor(shades))
            if found.bgcolor is not None:
                ground = Color(*found.bgcolor.get_truecolor(shades, foreground=False))
            found += Style(color=readable(text, ground).rich_color)
        if len(self._color_styles) < _MOST_COLORS:
            self._color_styles[color] = found
        return found

    def _part_style(self, name: str) -> Style:
        if not name:
            return Style.null()
        return self.get_component_rich_style(f"output--{name}", partial=True)

    # Moving.

    def _move(self, rows: int) -> None:
        """Move up or down: the view, or the end of a selection of lines."""
        selection = self.selection
        if selection is None or not selection.is_lines:
            self.scroll_to(y=self.scroll_offset.y + rows, animate=False, immediate=True)
            return
        line = min(max(selection.head.line + rows, self.printed.first), self.printed.end - 1)
        self._select(selection._replace(head=Place(line, 0)))
        self._show_line(line)

    def _show_line(self, number: int, letter: int = 0) -> None:
        """Scroll just enough to show a letter of a line."""
        row = self.printed.row_of(number, self.wrap_width)
        if self.is_wrapped:
            for text in self.printed.rows_of(number, self.wrap_width)[:-1]:
                if letter < len(text):
                    break
                letter -= len(text)
                row += 1
        else:
            column = display_width(shown(self.printed.line(number).text)[:letter])
            if not self.left <= column < self.left + max(1, self.room - _STEP):
                self.left = max(0, column - self.room // 2)
        top = self.scroll_offset.y
        if row < top:
            self.scroll_to(y=row, animate=False, immediate=True)
        elif row >= top + self.page:
            self.scroll_to(y=row - self.page + 1, animate=False, immediate=True)
        self.refresh()

    def action_up(self) -> None:
        self._move(-1)

    def action_down(self) -> None:
        self._move(1)

    def action_page_up(self) -> None:
        self._move(-self.page)

    def action_page_down(self) -> None:
        self._move(self.page)

    def action_top(self) -> None:
        self._move(-self.height)

    def action_bottom(self) -> None:
        if self.selection is not None and self.selection.is_lines:
            self._move(self.height)
        else:
            self.action_follow()

    def action_left(self) -> None:
        self._shift(-_STEP)

    def action_right(self) -> None:
        self._shift(_STEP)

    def _shift(self, columns: int) -> None:
        if self.is_wrapped:
            return
        seen = (shown(self.printed.line(number).text) for number in self.seen_lines())
        widest = max(map(display_width, seen), default=0)
        self.left = max(0, min(self.left + columns, widest - self.room // 2))
        self.refresh()

    def action_follow(self) -> None:
        self.is_following = True
        self.lay_out()

    def action_wrap(self) -> None:
        self.is_wrapped, self.left = not self.is_wrapped, 0
        self.lay_out()

    def action_timestamps(self) -> None:
        self.has_times = not self.has_times
        self.lay_out()

    # Searching.

    def search(self, wanted: str) -> None:
        """Mark the matches of a text, and go to the first one below the top of the screen.

        If there is none below, go to the last one above. Without a match, or with an empty text, go
        back to where the search began. `end_search` ends it.
        """
        if self._search_start is None:
            self._search_start = self._top, self.is_following
        self._top, self.is_following = self._search_start
        self.wanted, self.hit = wanted, None
        self.lay_out()
        seen = self.seen_lines()
        if self.hits and seen:
            self._go_to_hit(min(bisect_left(self.hits, seen.start), len(self.hits) - 1))

    def end_search(self) -> None:
        """End the search, and stay at its match."""
        self._search_start = None

    def action_search_next(self) -> None:
        if self.hits:
            at = 0 if self.hit is None else bisect_right(self.hits, self.hit)
            self._go_to_hit(at % len(self.hits))

    def action_search_previous(self) -> None:
        if self.hits:
            at = 0 if self.hit is None else bisect_left(self.hits, self.hit)
            self._go_to_hit(at - 1)

    def _go_to_hit(self, at: int) -> None:
        self.hit = self.hits[at]
        spans = find_matches(shown(self.printed.line(self.hit).text), self.wanted)
        if self.hit not in self.seen_lines():
            row = self.printed.row_of(self.hit, self.wrap_width)
            self.scroll_to(y=row - self.page // 3, animate=False, immediate=True)
        self._show_line(self.hit, spans[0][0] if spans else 0)
        self.post_message(self.Changed())

    # Selecting.

    def clear_selection(self) -> bool:
        """Drop the selection, else the search; return whether there was any."""
        if self.selection is not None:
            self._select(None)
        elif self.wanted:
            self.wanted, self.hit = "", None
            self.lay_out()
        else:
            return False
        return True

    def selected_text(self) -> str:
        """Return the selected text; empty without a selection."""
        return "" if self.selection is None else selected_text(self.printed, self.selection)

    def action_mark(self) -> None:
        """Begin to select lines here; again: begin at the end of the selection."""
        selection, seen = self.selection, self.seen_lines()
        if not seen:
            return
        if selection is not None and selection.is_lines:
            line = selection.head.line
        else:
            line = self.hit if self.hit is not None and self.hit in seen else seen[-1]
        self._select(Selection(Place(line, 0), Place(line, 0), is_lines=True))

    def _select(self, selection: Selection | None) -> None:
        if selection is not None and self.is_following:
            self.is_following = False  # Selected lines must stay in place.
        self.selection = selection
        self.refresh()
        self.post_message(self.Changed())

    def _place_at(self, x: int, y: int) -> Place:
        """Return the position in the text nearest to a point of the screen."""
        row = min(max(self.scroll_offset.y + y, 0), self.height - 1)
        number, part = self.printed.locate(row, self.wrap_width)
        rows = self.printed.rows_of(number, self.wrap_width)
        column = max(0, x - self.margin) + (0 if self.is_wrapped else self.left)
        return Place(number, sum(map(len, rows[:part])) + letter_at(rows[part], column))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self.count:
            self._select(None)
            self._drag_start = self._place_at(event.x, event.y)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drag_start is None:
            return
        if not 0 <= event.y < self.page:
            step = 1 if event.y > 0 else -1
            self.scroll_to(y=self.scroll_offset.y + step, animate=False, immediate=True)
        place = self._place_at(event.x, event.y)
        if place != self._drag_start:
            # Include the letter under the pointer.
            head = place._replace(letter=place.letter + 1) if place > self._drag_start else place
            self._select(Selection(self._drag_start, head))

    def on_mouse_up(self) -> None:
        if self._drag_start is not None:
            self._drag_start = None
            self.release_mouse()
