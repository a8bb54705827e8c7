"""A line of text in looks: what a status line, a heading and a footer are made of."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from edgecron.tui.painted import Painted
from edgecron.tui.tables import Span
from edgecron.views.letters import display_width, fit

_GAP = "   "


def whole_parts(parts: Sequence[Sequence[Span]], width: int) -> list[Span]:
    """Parts with gaps between them, as many as fit as a whole; the first one comes in any case."""
    spans: list[Span] = []
    room = width
    for part in parts:
        room -= sum(display_width(text) for text, _ in part)
        if spans and room < len(_GAP):
            break
        if spans:
            spans.append((_GAP, ""))
            room -= len(_GAP)
        spans += part
    return spans


class SpanLine(Painted):
    """Lines of spans, one to a line; where a line has no room its end is cut.

    A look may be `look@action`: a click on it is that action of the screen.
    """

    DEFAULT_CSS = "SpanLine { height: 1; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._left: tuple[tuple[Span, ...], ...] = ()
        self._right: tuple[Span, ...] = ()

    def show(self, *left: Sequence[Span], right: Sequence[Span] = ()) -> None:
        """Show these lines; `right` at the end of the first, as far as there is room."""
        lines, end = tuple(tuple(line) for line in left), tuple(right)
        if (lines, end) != (self._left, self._right):
            self._left, self._right = lines, end
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        spans = self._left[y] if y < len(self._left) else ()
        right = self._right if y == 0 else ()
        used = sum(display_width(text) for text, _ in spans)
        needed = sum(display_width(text) for text, _ in right)
        segments = self.segments(spans, width, base)
        if right and used + needed + 2 <= width:
            segments.append(Segment(" " * (width - used - needed), base))
            segments += self.segments(right, needed, base)
        return Strip(segments).adjust_cell_length(width, base)

    def segments(self, spans: Sequence[Span], room: int, base: Style) -> list[Segment]:
        """Spans in their looks; the end of what has no room is cut."""
        segments = []
        for text, look in spans:
            if room <= 0:
                break
            shown = fit(text, room) if display_width(text) > room else text
            segments.append(Segment(shown, base + self._span_look(look)))
            room -= display_width(shown)
        return segments

    def _span_look(self, name: str) -> Style:
        name, _, action = name.partition("@")
        style = self.look(name)
        return style + Style.from_meta({"@click": action}) if action else style
