"""Sections of facts: labels and their texts, folded to the width of the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.geometry import Size

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.tui.bindings import bindings
from edgecron.tui.list_model import Span, first_of
from edgecron.tui.text_line import TextLine
from edgecron.views.phrases import display_width, folded

_LABEL = 16  # columns of a label with its gap
_NARROW = 44  # columns; below, a label stands above its text


class Title(NamedTuple):
    """The heading of a section; `note` stands at its right end."""

    text: str
    note: tuple[Span, ...] = ()


class Fact(NamedTuple):
    """A label and its text; the text is cleaned here and keeps its lines."""

    label: str
    text: str
    style: str = ""


class Cells(NamedTuple):
    """A line of spans, cut if it is too long; its text is already clean."""

    spans: tuple[Span, ...]
    label: str = ""


Row = Title | Fact | Cells


def laid_out(rows: Sequence[Row], width: int) -> list[tuple[Span, ...]]:
    """Lay out rows as lines of at most `width` columns."""
    lines: list[tuple[Span, ...]] = []
    for row in rows:
        match row:
            case Title():
                if lines:
                    lines.append(())
                lines.append(_title(row, width))
            case Cells():
                shown = _labelled(row.label, width)
                room = width - sum(display_width(text) for text, _ in shown)
                lines.append((*shown, *first_of(row.spans, room)))
            case Fact():
                lines += _folded(row, width)
    return lines


def _title(row: Title, width: int) -> tuple[Span, ...]:
    head: list[Span] = [(" ", ""), (row.text, "bold"), (" ", "")]
    room = width - len(row.text) - 3
    noted = ((" ", ""), *row.note) if row.note else ()
    rest = room - sum(display_width(text) for text, _ in noted)
    if rest < 2:
        noted, rest = (), max(0, room)
    return (*head, ("─" * rest, "faint"), *noted)


def _labelled(label: str, width: int) -> tuple[Span, ...]:
    if width < _NARROW:
        return ((f" {label} " if label else "  ", "dim"),)
    return ((f" {label:<{_LABEL}}", "dim"),)


def _folded(row: Fact, width: int) -> Iterator[tuple[Span, ...]]:
    label = _labelled(row.label, width)
    indent = display_width(label[0][0]) if width >= _NARROW else 2
    if width < _NARROW and row.label:
        yield label
        label = (("  ", ""),)
    for line in clean(row.text, keep="\n").split("\n"):
        for part in folded(line, max(1, width - indent - 1)):
            yield (*label, (part, row.style))
            label = ((" " * indent, ""),)


class Facts(TextLine):
    """Show sections of facts, as high as they are."""

    DEFAULT_CSS = "Facts { height: auto; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: tuple[Row, ...] = ()
        self._lines: list[tuple[Span, ...]] = []
        self._width = 0

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows, unless they are shown already."""
        if tuple(rows) != self._rows:
            before = len(self._lines)
            self._rows, self._width = tuple(rows), 0
            self._lay_out(self.size.width)
            self.refresh(layout=len(self._lines) != before)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._lay_out(width)
        return len(self._lines)

    def _lay_out(self, width: int) -> None:
        if width > 0 and width != self._width:
            self._width = width
            self._lines = laid_out(self._rows, width)

    def lines(self) -> Sequence[tuple[Span, ...]]:
        self._lay_out(self.size.width)
        return self._lines


class ScrolledLines(VerticalScroll):
    """Lines that are scrolled with the configured keys."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "up", "down", "page_up", "page_down", "top", "bottom"
    )

    def action_up(self) -> None:
        self.scroll_relative(y=-1, animate=False)

    def action_down(self) -> None:
        self.scroll_relative(y=1, animate=False)

    def action_page_up(self) -> None:
        self.scroll_page_up(animate=False)

    def action_page_down(self) -> None:
        self.scroll_page_down(animate=False)

    def action_top(self) -> None:
        self.scroll_home(animate=False)

    def action_bottom(self) -> None:
        self.scroll_end(animate=False)
