"""Spans and lines on the screen: text that is shown or typed, and sections of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from edgecron.base.safetext import JOINER, clean
from edgecron.base.values import NamedTuple
from edgecron.tui.keys import bindings
from edgecron.tui.themes import SHADES, TEXT_STYLES, TextStyle
from edgecron.views.phrases import display_width, fit, folded

Span = tuple[str, str]  # text, already cleaned, and the name of its text style
BARS = "▁▂▃▄▅▆▇█"  # from an eighth of a line to a whole one

_AUTO = "auto"  # black or white, whichever contrasts more with the background
_GAP = "   "
LEAST_CONTRAST = 4.5  # WCAG 2.1 AA
_STEPS = 20  # from a colour to black or white


class KeptLines(Widget):
    """A widget that keeps its drawn lines until one of them changes.

    Textual asks all visible widgets for their lines whenever one of them changes: for a key that
    moves a cursor, that took as long as the line under the cursor.
    """

    _kept: tuple[Region, list[Strip]] | None = None  # and the part of the widget that they show

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._kept is None or self._kept[0] != crop:
            self._kept = crop, super().render_lines(crop)
        return self._kept[1]

    def _set_dirty(self, *regions: Region) -> None:
        super()._set_dirty(*regions)
        self._kept = None


class StyledWidget(KeptLines):
    """A widget that draws its own lines in the theme's text styles.

    A component class of a stylesheet for each style would be matched against all rules, again for
    each widget and change: half the time until the first paint.
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._text_styles: dict[tuple[str, str], Style] = {}
        self._variables: Mapping[str, str] | None = None  # of the theme
        self._told_size: Size | None = None  # in the last Resize; None while hidden

    @on(events.Resize)
    def _note_size(self, event: events.Resize) -> None:
        self._told_size = event.size

    @on(events.Hide)
    def _forget_size(self) -> None:
        self._told_size = None

    def check_size(self) -> None:
        """Post the Resize that is missing, if any. Call it after a layout.

        Textual sends none to a hidden widget that is shown again if anything reads its region
        before the layout. Its lines would stay blank.
        """
        size = self.region.size
        if size and size != self._told_size:
            self.post_message(events.Resize(size, self.virtual_size, self.container_size))

    def theme_style(self, name: str, *, on: str = "") -> Style:
        """Return a text style by its name, to add to a base style; nothing for "".

        It can be read on the background of the style `on`, such as the line under the cursor.
        """
        found = self._text_styles.get((name, on))
        if found is None:
            found = Style.null()
            if name:
                ground = (TEXT_STYLES[on].background if on else "") or "background"
                found = rich_style_of(TEXT_STYLES[name], self.app.theme_variables, ground=ground)
            self._text_styles[name, on] = found
        return found

    def notify_style_update(self) -> None:
        # Textual calls this for each list when the focus moves, too.
        super().notify_style_update()
        if self.app.theme_variables != self._variables:
            self._variables = self.app.theme_variables
            self.theme_changed()

    def theme_changed(self) -> None:
        """Draw in the text styles of another theme."""
        self._text_styles.clear()
        self.refresh()


def rich_style_of(
    style: TextStyle, variables: Mapping[str, str], *, ground: str = "background"
) -> Style:
    """Translate a text style with a theme's variables; unknown names leave the base as it is.

    Text is made lighter or darker if it can't be read on its own background, else on `ground`.
    """
    background = _color(variables.get(style.background, ""))
    below = background or _color(variables.get(ground, ""))
    color = variables.get(style.color, "")
    if color.startswith(_AUTO):
        text = None if background is None else background.get_contrast_text(1)
    else:
        text = _color(color)
    if text is not None and below is not None and style.color not in SHADES:
        text = readable(text, below)
    attributes = style.attributes
    if attributes.startswith("$"):
        attributes = variables.get(attributes[1:], "")
    return Style(color=_rich(text), bgcolor=_rich(background)) + Style.parse(attributes)


def _color(text: str) -> Color | None:
    return Color.parse(text) if text else None


def readable(text: Color, ground: Color) -> Color:
    """Return a colour of text with enough contrast to its ground; the terminal's own stay."""
    if text.ansi is not None or ground.ansi is not None:
        return text
    ground = ground.with_alpha(1)
    text = ground.blend(text, text.a, 1)
    end = max((Color(255, 255, 255), Color(0, 0, 0)), key=lambda color: contrast(color, ground))
    return next(
        (
            nearer
            for step in range(_STEPS)
            if contrast(nearer := text.blend(end, step / _STEPS, 1), ground) >= LEAST_CONTRAST
        ),
        end,
    )


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours by WCAG 2.1, from 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _rich(color: Color | None) -> RichColor | None:
    return color.rich_color if color is not None and color.a > 0 else None


def first_of(spans: Sequence[Span], room: int) -> list[Span]:
    """Cut the end of spans that are too wide, and show a sign for it."""
    shown = []
    for text, style in spans:
        if room <= 0:
            break
        part = fit(text, room) if display_width(text) > room else text
        shown.append((part, style))
        room -= display_width(part)
    return shown


def last_of(spans: Sequence[Span], room: int) -> list[Span]:
    """Cut the beginning of spans that are too wide; all letters are narrow."""
    shown: list[Span] = []
    for text, style in reversed(spans):
        if room <= 0:
            break
        shown.insert(0, (text[-room:], style))
        room -= len(shown[0][0])
    return shown


def whole_parts(parts: Sequence[Sequence[Span]], width: int) -> list[Span]:
    """Join parts with gaps: as many whole parts as fit, and always the first."""
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
    """Show lines of spans; a line that is too long is cut.

    A style name can be `style@action`: a click there runs that action of the screen.
    """

    DEFAULT_CSS = "TextLine { height: 1; width: 1fr; }"

    def __init__(
        self, *lines: Sequence[Span], id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._left = tuple(tuple(line) for line in lines)
        self._right: tuple[Span, ...] = ()

    def show(self, *left: Sequence[Span], right: Sequence[Span] = ()) -> None:
        """Show these lines, and `right` at the end of the first one if there is room."""
        lines, end = tuple(tuple(line) for line in left), tuple(right)
        if (lines, end) != (self._left, self._right):
            self._left, self._right = lines, end
            self.refresh()

    def lines(self) -> Sequence[Sequence[Span]]:
        """Return the lines to draw; a subclass can lay them out for its size."""
        return self._left

    def render_line(self, y: int) -> Strip:
        width, base, lines = self.size.width, self.rich_style, self.lines()
        spans = lines[y] if y < len(lines) else ()
        right = self._right if y == 0 else ()
        used = sum(display_width(text) for text, _ in spans)
        needed = sum(display_width(text) for text, _ in right)
        segments = self._segments(spans, width, base)
        if right and used + needed + 2 <= width:
            segments.append(Segment(" " * (width - used - needed), base))
            segments += self._segments(right, needed, base)
        return Strip(segments).adjust_cell_length(width, base)

    def _segments(self, spans: Sequence[Span], room: int, base: Style) -> list[Segment]:
        shown = first_of(spans, room)
        return [Segment(text, base + self._span_style(style)) for text, style in shown]

    def _span_style(self, name: str) -> Style:
        name, _, action = name.partition("@")
        style = self.theme_style(name)
        return style + Style.from_meta({"@click": action}) if action else style


def edits_of(bindings: Iterable[BindingType], *, but: Sequence[str]) -> Mapping[str, str]:
    """Return the actions of keys that edit a text.

    A widget carries them out when the key comes. Textual does so after the letters that arrive
    in the same burst.
    """
    known = (binding for binding in bindings if isinstance(binding, Binding))
    pairs = ((key, one.action) for one in known for key in one.key.split(","))
    return {key: action for key, action in pairs if key not in but}


_EDITS = edits_of(Input.BINDINGS, but=("enter",))


class LineInput(Input):
    """A borderless line of input. A paste inserts its first line, cleaned of terminal codes.

    With `take_enter`, Enter acts before the next key of the same burst is taken.
    """

    DEFAULT_CSS = """
    LineInput, LineInput:focus { border: none; height: 1; padding: 0; background: $surface; }
    """
    # As wide as its text, which scrolls in it. Textual's own lays out the screen for each letter.
    virtual_size: reactive[Size] = reactive(Size(0, 0))
    _entered: Callable[[], object] | None = None
    _pass_on: Callable[[events.Key], None]
    _is_entered = False

    def take_enter(
        self, entered: Callable[[], object], *, pass_on: Callable[[events.Key], None]
    ) -> None:
        """Call `entered` for Enter. If it moves the focus, `pass_on` gets the keys behind it."""
        self._entered, self._pass_on = entered, pass_on

    def on_focus(self) -> None:
        self._is_entered = False

    async def on_key(self, event: events.Key) -> None:
        if self._is_entered and self.app.focused is not self:
            self._pass_on(event)
        elif event.key == "enter" and self._entered is not None:
            self._entered()
            self._is_entered = True
        elif event.character == JOINER:  # Textual drops it: Python calls it not printable.
            self.replace(JOINER, *self.selection)
        elif (action := _EDITS.get(event.key)) is not None:
            await self.run_action(action)
        else:
            return
        event.prevent_default()
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        lines = event.text.splitlines()
        if lines:
            self.replace(clean(lines[0], keep=JOINER), *self.selection)


# (distance of the nearest time, seconds between redraws). A distance is shown in seconds, minutes,
# or hours and minutes.
_PACES = ((3600.0, 60.0), (60.0, 10.0), (0.0, 1.0))
_LABEL = 16  # columns of a label with its gap
_NARROW = 44  # columns; below, a label stands above its text


def pace_of(nearest_s: float) -> float:
    """Return how many seconds the words for a distance stay the same, at least."""
    return next(pace for least, pace in _PACES if nearest_s >= least)


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
