"""Scrolling lists of any length, which draw and read only the visible lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import GAP, Column, Line, SortedSource, Source
from edgecron.tui.list_strips import MARGIN, ListStrips
from edgecron.tui.text_line import Span, StyledWidget, pace_of

# Actions that move the cursor or the lines, that need the last line or all, and that need a line.
_MOVES = frozenset(
    {"up", "down", "page_up", "page_down", "top", "left", "right", "sort", "reverse"}
)
_OF_ALL = frozenset({"bottom", "mark_all", "mark_range"})
_OF_LINE = frozenset(
    {
        *("open", "mark", "run", "pause", "resume", "reschedule", "cancel", "delete", "backfill"),
        *("edit", "changes", "graph", "acknowledge"),
    }
)


class LineView(StyledWidget, ScrollView, can_focus=True):
    """Show the lines of a source, with a cursor and marks.

    The cursor stays on its line when other lines come or go; on the first line it stays there. A
    list that can't have the focus is led by another widget.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "up",
        "down",
        "page_up",
        "page_down",
        "top",
        "bottom",
        "open",
        "mark",
        "mark_all",
        "mark_range",
    )
    DEFAULT_CSS = """
    LineView { overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """
    cursor: reactive[int] = reactive(0, repaint=False)

    class Moved(Message):
        """The cursor moved to another line."""

        def __init__(self, view: LineView) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> LineView:
            return self.view

    class Opened(Moved):
        """The user opened a line: Enter, or a second click. A later key can move the cursor."""

        def __init__(self, view: LineView) -> None:
            super().__init__(view)
            self.line = view.current()

    class Marked(Moved):
        """The marks changed."""

    class Headed(Moved):
        """The user clicked the heading of a column."""

        def __init__(self, view: LineView, column: int) -> None:
            super().__init__(view)
            self.column = column

    def __init__(
        self, source: Source, columns: Sequence[Column], *, id: str, empty: str = ""
    ) -> None:
        super().__init__(id=id)
        self.source = source
        self.columns = tuple(columns)
        self._strips = ListStrips(self, self.columns)
        self.empty = empty
        self._is_known = False  # has the source answered; before, an empty list says nothing
        self.marked: set[int] = set()
        # While lines are marked as the cursor moves: the first one, those marked before, and all.
        self._range: tuple[int, frozenset[int], Sequence[int]] | None = None
        self.sorted_by: tuple[list[int], bool] = [], False  # column numbers, is it descending
        self._key: int | None = None
        self._wanted_key: int | None = None  # of the line to move the cursor to, once it is known
        self._early: list[events.Key] = []  # keys for lines that are not read yet
        self._is_left = False  # did another key come before they were: it can move the focus
        self._drawn: dict[int, Line | str | None] = {}  # by line of the screen
        self._drawn_at = 0  # the line of the screen where the cursor was drawn
        self._base, self._width = Style.null(), 0  # of a line without a cursor
        self._shown: dict[int, Strip] = {}  # by line of the screen, the heading included

    def _tell(self, message: LineView.Moved) -> None:
        """Send a message to the screen, not first to each widget around the list."""
        if self.is_attached:
            self.screen.post_message(message)

    # Showing lines.

    def seek(self, key: int) -> None:
        """Move the cursor to a line as soon as the source knows its index."""
        self._wanted_key = key
        self._find_wanted()

    def _find_wanted(self) -> None:
        at = None if self._wanted_key is None else self.source.index_of(self._wanted_key)
        if at is not None:
            self.cursor, self._wanted_key = at, None

    def source_changed(self) -> None:
        """Show what the source has now."""
        self._is_known = True
        count, before = self.source.count, (self.cursor, self.scroll_offset.y)
        line = self.current() if self.cursor < count else None
        if self._key is not None and self.cursor > 0 and (line is None or line.key != self._key):
            found = self.source.index_of(self._key)
            if found is not None and found != self.cursor:
                # Keep its place on the screen, too.
                self.set_reactive(LineView.cursor, found)
                shift = found - self._drawn_at - self.scroll_offset.y
                self._resize(count)
                self.scroll_to(
                    y=self.scroll_offset.y + shift, animate=False, force=True, immediate=True
                )
        self._resize(count)
        if self.cursor >= count:
            self.set_reactive(LineView.cursor, max(0, count - 1))
        self._find_wanted()
        self._note_key()
        if (self.cursor, self.scroll_offset.y) == before:
            self.refresh_line(self.scroll_offset.y)  # The heading can show what was read, too.
            self._redraw()  # Often only lines that are read ahead changed.
        else:
            self.refresh()
        self._want()
        if self._early and not self.source.is_awaited:
            self.call_later(self._send_early)  # Behind later keys, which wait for these.

    def current(self) -> Line | None:
        """Return the line under the cursor; None if there is none or it is not read yet."""
        return self.source.line(self.cursor) if self.source.count else None

    def target_keys(self) -> list[int]:
        """Return the keys of the marked lines, or of the line under the cursor."""
        if self.marked:
            return sorted(self.marked)
        line = self.current()
        return [] if line is None else [line.key]

    def _resize(self, count: int) -> None:
        self.virtual_size = Size(max(1, self.scrollable_content_region.width), count + 1)

    def _note_key(self) -> None:
        line = self.current()
        key = None if line is None else line.key
        if key != self._key:
            self._key = key
            self._tell(self.Moved(self))
        self._drawn_at = self.cursor - self.scroll_offset.y

    def _want(self) -> None:
        first = self.scroll_offset.y
        self.source.want(first, first + max(1, self.size.height))

    @property
    def widths(self) -> list[int]:
        """The width of each column; 0 if it is hidden."""
        return self._strips.widths(self.scrollable_content_region.width)

    @property
    def page(self) -> int:
        """How many lines fit below the heading."""
        return max(1, self.scrollable_content_region.height - 1)

    def on_resize(self, event: events.Resize) -> None:
        self._resize(self.source.count)
        self._show_cursor()
        self._want()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        # Lines that stay on the screen are not drawn again, only moved.
        shift, last = round(new_value) - round(old_value), self.page
        drawn = {y - shift: line for y, line in self._drawn.items() if 0 <= y - shift < last}
        shown = {y - shift: strip for y, strip in self._shown.items() if 0 < y - shift <= last}
        super().watch_scroll_y(old_value, new_value)
        self._drawn, self._shown = drawn, {y: strip for y, strip in shown.items() if y - 1 in drawn}
        self._want()

    def tick(self) -> float:
        """Redraw lines whose distances changed; return the seconds until the next change."""
        self._redraw()
        return self.pace_s

    @property
    def pace_s(self) -> float:
        """How many seconds the distances of the visible lines stay the same, at least."""
        first = self.scroll_offset.y
        return pace_of(self.source.nearest_s(first, first + self.page))

    def _redraw(self) -> None:
        """Draw the visible lines that changed since they were drawn."""
        first = self.scroll_offset.y
        for y, drawn in self._drawn.items():
            if self._at(first + y) != drawn:
                self.refresh_line(first + y + 1)

    def _at(self, index: int) -> Line | str | None:
        """Return a line, None if it is not read yet; after the last line, the words there."""
        if index < self.source.count:
            return self.source.line(index)
        return self.empty if index == 0 and self._is_known else ""

    def theme_changed(self) -> None:
        super().theme_changed()
        self._strips.forget_styles()

    def render_lines(self, crop: Region) -> list[Strip]:
        # Keep lines that were drawn. When the list scrolls, Textual would draw each line again, and
        # Python would have to collect what this leaves behind.
        self._base, self._width = self.rich_style, self.scrollable_content_region.width
        for y in crop.line_range:
            if y not in self._shown:
                self._shown[y] = self.render_line(y)
        return [self._shown[y].crop(*crop.column_span) for y in crop.line_range]

    def _set_dirty(self, *regions: Region) -> None:
        super()._set_dirty(*regions)
        for y in [y for region in regions for y in region.line_range] or list(self._shown):
            self._shown.pop(y, None)

    def render_line(self, y: int) -> Strip:
        base, width = self._base, self._width
        if y == 0:
            return self._strips.row(" ", self.titles(), base + self.theme_style("heading"), width)
        index = self.scroll_offset.y + y - 1
        line = self._drawn[y - 1] = self._at(index)
        if isinstance(line, str):
            return self._strips.words(line, base, width)
        on = "" if line is None else line.style
        if index == self.cursor:
            on = "cursor" if self.has_focus or not self.can_focus else "cursor-blurred"
        base = base + self.theme_style(on)
        if line is None:
            return self._strips.words("…", base, width, on=on)
        is_marked = line.key in self.marked
        if is_marked:
            base = base + self.theme_style("marked")
        return self._strips.row("▌" if is_marked else " ", line.cells, base, width, on=on)

    def show_order(self) -> None:
        """Show by which column the lines are in order: the first visible one of this order."""
        self.end_range()
        source = self.source
        if isinstance(source, SortedSource):
            columns = [at for at, each in source.sorted_by.items() if each == source.sort]
            self.sorted_by = columns, source.is_descending
        self.refresh()

    def titles(self) -> list[tuple[Span, ...]]:
        """Return the headings of the columns; an arrow shows the order."""
        found: list[tuple[Span, ...]] = []
        columns, is_descending = self.sorted_by
        sorted_by = next((at for at in columns if self.widths[at]), None)
        for at, title in enumerate(column.title for column in self.columns):
            if at == sorted_by:
                arrow, room = "▴▾"[is_descending], self.widths[at] - 1
                title = f"{title} {arrow}".strip() if len(title) < room else title[:room] + arrow
            found.append(((title, ""),))
        return found

    # Moving the cursor, and marking.

    def on_key(self, event: events.Key) -> None:
        self.keep(event)

    def keep(self, event: events.Key) -> None:
        """Keep a key that was typed ahead of the lines that it is for."""
        if self._must_wait(event):
            event.stop()
            event.prevent_default()
            self._early.append(event)

    def _must_wait(self, key: events.Key) -> bool:
        count = self.source.count
        has_lines = self._is_known or count > 0
        is_line_read = not self.source.is_awaited and (not count or self.current() is not None)
        if has_lines and is_line_read and self.source.is_whole and not self._early:
            self._is_left = False
            return False
        found = self.screen.active_bindings.get(key.key)
        action = "" if found is None else found.binding.action
        if action == "back":
            self._early.clear()  # The user does not want to wait for them.
        self._is_left |= action not in _MOVES | _OF_ALL | _OF_LINE
        if self._is_left or not self.has_focus:
            return False  # The application sends it to the widget that has the focus then.
        if not has_lines or any(kept.time < key.time for kept in self._early):
            return True
        if self.source.is_awaited and action in _MOVES:
            return True  # The lines of the new filter are others.
        return not is_line_read if action in _OF_LINE else action in _OF_ALL

    def _send_early(self) -> None:
        early, self._early, self._is_left = self._early, [], False
        # A key that the application gave back can follow a later one.
        for key in sorted(early, key=lambda key: key.time):
            self._forward_event(events.Key(key.key, key.character))

    def watch_cursor(self, old: int, new: int) -> None:
        self._show_cursor()  # Scrolling redraws everything.
        self._note_key()
        self._mark_range()
        for index in (old, new):
            self.refresh_line(index + 1)

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, self.source.count - 1))

    def on_hide(self, event: events.Hide) -> None:
        # It may come when the list is already wanted again. Textual would take the focus away.
        if self.has_focus:
            event.prevent_default()

    def on_focus(self) -> None:
        self._is_left = False
        self.refresh_line(self.cursor + 1)

    def on_blur(self) -> None:
        self._early.clear()
        self.refresh_line(self.cursor + 1)

    def _show_cursor(self) -> None:
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True, immediate=True)
        elif self.cursor >= top + self.page:
            self.scroll_to(y=self.cursor - self.page + 1, animate=False, force=True, immediate=True)

    def action_up(self) -> None:
        self.cursor -= 1

    def action_down(self) -> None:
        self.cursor += 1

    def action_page_up(self) -> None:
        self.cursor -= self.page

    def action_page_down(self) -> None:
        self.cursor += self.page

    def action_top(self) -> None:
        self.cursor = 0

    def action_bottom(self) -> None:
        self.cursor = self.source.count - 1

    def action_open(self) -> None:
        if self.current() is not None:
            self._tell(self.Opened(self))

    def action_mark(self) -> None:
        self._range = None
        line = self.current()
        if line is not None:
            self.mark(self.marked ^ {line.key})
            self.cursor += 1

    def mark(self, keys: Iterable[int]) -> None:
        """Mark exactly these lines."""
        self.marked = set(keys)
        self.refresh()
        self._tell(self.Marked(self))

    def clear_marks(self) -> bool:
        """Remove all marks; return whether there were any."""
        self._range = None
        was_marked = bool(self.marked)
        if was_marked:
            self.mark(())
        return was_marked

    def action_mark_all(self) -> None:
        if not self.clear_marks():
            self.source.ask_keys(self.mark)

    def action_mark_range(self) -> None:
        """Mark lines from here on as the cursor moves, until the same key ends this."""
        line = self.current()
        if self._range is not None or line is None:
            self._range = None
            return
        begun, before = line.key, frozenset(self.marked)

        def take(keys: Sequence[int]) -> None:
            self._range = begun, before, keys
            self._mark_range()

        self.source.ask_keys(take)

    def end_range(self) -> None:
        """Mark no more lines as the cursor moves: other lines are between them now."""
        self._range = None

    def _mark_range(self) -> None:
        line = self.current()
        if self._range is not None and line is not None:
            begun, before, keys = self._range
            if begun in keys and line.key in keys:
                first, last = sorted((keys.index(begun), keys.index(line.key)))
                self.mark(before.union(keys[first : last + 1]))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = self.scroll_offset.y + offset.y - 1
        if offset.y == 0:
            self._click_heading(offset.x)
        if offset.y == 0 or index >= self.source.count:
            return
        is_again = index == self.cursor and event.chain == 2
        self._early.clear()  # They were for the lines around another cursor.
        self.cursor = index
        if is_again:
            self.action_open()

    def _click_heading(self, x: int) -> None:
        end = MARGIN
        for column, width in enumerate(self.widths):
            end += width + (GAP if width else 0)
            if width and x < end:
                self._tell(self.Headed(self, column))
                return
