"""Drawn lines of a list: cells in columns, in the styles that the terminal gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from edgecron.base.values import NamedTuple
from edgecron.tui.list_rows import GAP, Column, share_out
from edgecron.tui.text_line import Span, StyledWidget, first_of, last_of
from edgecron.views.phrases import display_width, fit

MARGIN = 1  # columns at each side of a line


class _Drawn(Strip):
    """A drawn line, which is freed when nothing shows it any more.

    A Strip that is not divided holds itself in its cache. After a hundred keys, Python would need
    40 ms to collect the lines that were scrolled away.
    """

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        at = list(cuts)
        return [self] if at == [self.cell_length] else super().divide(at)


class _Mix(NamedTuple):
    """How a span is drawn on a line; whether a gap behind it can be drawn in the same way."""

    style: Style
    takes_gaps: bool


class ListStrips:
    """Draws lines for a widget; they already have the filters of its application.

    Textual would filter each line again with each frame.
    """

    def __init__(self, widget: StyledWidget, columns: Sequence[Column]) -> None:
        self._widget = widget
        self._columns = columns
        self._shares: tuple[int | None, list[int]] = None, []  # a width, and that of each column
        self._mixes: dict[tuple[Style, str], dict[str, _Mix]] = {}  # by base and `on`, by name

    def forget_styles(self) -> None:
        """Make the styles again when they are next needed: the theme has changed."""
        self._mixes.clear()

    def widths(self, width: int) -> list[int]:
        """Return the width of each column in a line of `width` columns; 0 if it is hidden."""
        room = width - 2 * MARGIN
        if room != self._shares[0]:
            self._shares = room, share_out(self._columns, max(1, room))
        return self._shares[1]

    def words(self, words: str, base: Style, width: int, *, on: str = "") -> Strip:
        """Draw words across a whole line."""
        text = fit(f" {words}", width)
        return _Drawn([Segment(text, self._mix(base, "dim", on).style)], width)

    def row(
        self,
        sign: str,
        cells: Sequence[Sequence[Span]],
        base: Style,
        width: int,
        *,
        on: str = "",
    ) -> Strip:
        """Draw a sign and cells, each in its column, on the style `on` of the line.

        Each segment costs time: a gap joins the text before it if they look the same.
        """
        begin, end = MARGIN, MARGIN  # of the column; where text has ended
        mixes = self._mixes.setdefault((base, on), {})
        plain = self._mix(base, "", on)
        parts = [(sign, self._mix(base, "accent", on))]
        for cell, room, column in zip(cells, self.widths(width), self._columns, strict=True):
            if not room:
                continue
            used = sum(display_width(text) for text, _ in cell)
            if used > room:
                cell = last_of(cell, room) if column.keeps_end else first_of(cell, room)
                used = room
            at = begin + room - used if column.is_right else begin
            begin += room + GAP
            if not used:
                continue
            _add_gap(parts, at - end, plain)
            for text, name in cell:
                parts.append((text, mixes.get(name) or self._mix(base, name, on)))
            end = at + used
        _add_gap(parts, width - end, plain)
        segments = [Segment(text, mix.style) for text, mix in parts]
        return _Drawn(segments, max(width, end)).crop(0, width)

    def _mix(self, base: Style, name: str, on: str) -> _Mix:
        """Return the style of a span as the terminal gets it."""
        mixes, widget = self._mixes.setdefault((base, on), {}), self._widget
        if name not in mixes:
            style = base + widget.theme_style(name, on=on)
            takes_gaps = style.bgcolor == base.bgcolor and not (
                style.reverse or style.underline or style.strike
            )
            for each in widget.app.get_line_filters():
                [(_, shown, _)] = each.apply([Segment(" ", style)], widget.background_colors[1])
                style = shown or style
            mixes[name] = _Mix(style, takes_gaps)
        return mixes[name]


def _add_gap(parts: list[tuple[str, _Mix]], columns: int, plain: _Mix) -> None:
    if columns > 0:
        text, mix = parts[-1]
        if mix.takes_gaps:
            parts[-1] = (text + " " * columns, mix)
        else:
            parts.append((" " * columns, plain))
