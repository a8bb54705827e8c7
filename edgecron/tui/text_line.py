"""A line of text in looks: what a status line, a heading and a footer are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from edgecron.base.safetext import clean
from edgecron.tui.list_model import Span
from edgecron.tui.themes import TEXT_STYLES, Look
from edgecron.views.phrases import display_width, fit

_AUTO = "auto"  # black or white, whatever is read better on the background


class StyledWidget(Widget):
    """A widget that draws its lines itself."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._look_styles: dict[str, Style] = {}

    def look(self, name: str) -> Style:
        """What a look adds to the style of what it is drawn on; nothing for ""."""
        found = self._look_styles.get(name)
        if found is None:
            found = (
                rich_style_of(TEXT_STYLES[name], self.app.theme_variables) if name else Style.null()
            )
            self._look_styles[name] = found
        return found

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._look_styles.clear()


def rich_style_of(look: Look, variables: Mapping[str, str]) -> Style:
    """A look in a theme of these variables; what it does not know is left as it is."""
    background = _color(variables.get(look.background, ""))
    color = variables.get(look.color, "")
    if color.startswith(_AUTO):
        text = None if background is None else background.get_contrast_text(1)
    else:
        text = _color(color)
    style = look.style
    if style.startswith("$"):
        style = variables.get(style[1:], "")
    return Style(color=_rich(text), bgcolor=_rich(background)) + Style.parse(style)


def _color(text: str) -> Color | None:
    return Color.parse(text) if text else None


def _rich(color: Color | None) -> RichColor | None:
    return color.rich_color if color is not None and color.a > 0 else None


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


class TextLine(StyledWidget):
    """Lines of spans, one to a line; where a line has no room its end is cut.

    A look may be `look@action`: a click on it is that action of the screen.
    """

    DEFAULT_CSS = "TextLine { height: 1; width: 1fr; }"

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


class LineInput(Input):
    """One line of text, without a border. Of what is pasted the first line is taken, cleaned."""

    DEFAULT_CSS = """
    LineInput, LineInput:focus { border: none; height: 1; padding: 0; background: $surface; }
    """

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        lines = event.text.splitlines()
        if lines:
            self.replace(clean(lines[0]), *self.selection)
