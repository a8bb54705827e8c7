"""Scroll, search and select in the output of a run, by keys and mouse."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import ClassVar

from textual import events
from textual.binding import BindingType

from edgecron.tui.bindings import bindings
from edgecron.tui.output_lines import OutputLines
from edgecron.tui.output_text import Place, Selection, find_matches, selected_text
from edgecron.tui.wrapping import letter_at, shown
from edgecron.views.phrases import display_width

_STEP = 16  # columns of a sideways move


class OutputView(OutputLines, can_focus=True):
    """The output of a run, to scroll, search and select in."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        *("up", "down", "page_up", "page_down", "top", "bottom", "left", "right", "mark"),
        *("follow", "wrap", "timestamps", "search_next", "search_previous"),
    )
    _drag_start: Place | None = None  # where the button was pressed
    _search_start: tuple[tuple[int, int] | None, bool] | None = (
        None  # the view when the search began
    )

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
