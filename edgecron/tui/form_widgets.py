"""Widgets of the form: fields with a label and a problem, and the preview of times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Static, TextArea

from edgecron.base.safetext import JOINER, clean
from edgecron.tui.database_app import DatabaseApp
from edgecron.tui.form_check import FormCheck, TimeLine
from edgecron.tui.form_fields import FieldKind, FormField
from edgecron.tui.text_line import Facts, LineInput, Span, TextLine, Title, edits_of, laid_out
from edgecron.views.phrases import OK, PROBLEM, WARNING, Glyph, display_width, folded
from edgecron.views.times import distance, weekday_time

_TAB = "    "
_AWAY = 10  # columns of a distance
_GAP = 3  # between two columns of times
_MOST_LINES = 4  # of one time in words
Spans = tuple[Span, ...]


_EDITS = edits_of(TextArea.BINDINGS, but=("up", "down"))


class FieldLine(LineInput):
    """A field of one line; up and down go to the next fields."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", show=False, priority=True),
        Binding("down,enter", "app.focus_next", show=False, priority=True),
    ]

    def __init__(self, text: str, *, default: str) -> None:
        super().__init__(text, placeholder=default, compact=True, select_on_focus=False)
        self.cursor_blink = False


class FieldLines(TextArea):
    """A field of several lines, as high as they are. A paste is cleaned of terminal codes."""

    DEFAULT_CSS = """
    FieldLines, FieldLines:focus {
        border: none; padding: 0; height: auto; min-height: 1; max-height: 8;
        background: $surface; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, compact=True, highlight_cursor_line=False, soft_wrap=True)
        self.cursor_blink = False
        self.move_cursor(self.document.end)

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        text = "\n".join(event.text.splitlines()).replace("\t", _TAB)
        self.replace(clean(text, keep=f"\n{JOINER}"), *self.selection)

    async def on_key(self, event: events.Key) -> None:
        # At the first and last line, the arrows go to the next field.
        row = self.cursor_location[0]
        if event.key == "up" and row == 0:
            self.screen.focus_previous()
        elif event.key == "down" and row == self.document.line_count - 1:
            self.screen.focus_next()
        elif event.character == JOINER:  # Textual drops it: Python calls it not printable.
            self.replace(JOINER, *self.selection)
        elif event.key in _EDITS:
            await self.run_action(_EDITS[event.key])
        else:
            return
        event.prevent_default()
        event.stop()


class FormFields(VerticalScroll, can_focus=False):
    """The fields; up and down go to the next one, unless a field uses these keys itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]


class SectionHead(Facts, can_focus=True):
    """The head of a section that can be folded; a folded one names the values that differ."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space,left,right", "fold", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = "SectionHead:focus { background: $panel; }"

    class Toggled(Message):
        """The user opened or folded the section."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, number: int, title: str) -> None:
        super().__init__(id=f"section-{number}", classes="section")
        self._number = number
        self._title = title

    def show_fold(self, *, is_open: bool, values: str, count: int) -> None:
        """Show whether the section is open; if it is folded, its values or how many fields."""
        words = "" if is_open else clean(values)[:40] or f"{count} fields"
        title = f"{'▾' if is_open else '▸'} {self._title}"
        self.show_rows([Title(title, ((words, "accent" if values else "dim"),) if words else ())])

    def action_fold(self) -> None:
        self.post_message(self.Toggled(self._number))

    def on_click(self) -> None:
        self.action_fold()


class Choice(TextLine, can_focus=True):
    """A choice among a few values, all visible; left and right change it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", show=False),
        Binding("right,l,space", "step(1)", show=False),
        Binding("enter", "app.focus_next", show=False),
    ]

    class Changed(Message):
        """The user chose another value."""

    def __init__(self, choices: Sequence[str], value: str) -> None:
        super().__init__()
        self._choices = tuple(choices)
        self._is_focused = False
        self.value = value

    def on_mount(self) -> None:
        self._show()

    def on_focus(self) -> None:
        self._is_focused = True
        self._show()

    def on_blur(self) -> None:
        self._is_focused = False
        self._show()

    def action_step(self, by: int) -> None:
        at = self._choices.index(self.value) if self.value in self._choices else 0
        self.choose(self._choices[(at + by) % len(self._choices)])

    def choose(self, value: str) -> None:
        """Choose a value."""
        if value != self.value:
            self.value = value
            self._show()
            self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        offset, left = event.get_content_offset(self), 0
        for choice in self._choices:
            width = len(choice) + 4
            if offset is not None and left <= offset.x < left + width:
                self.choose(choice)
            left += width

    def _show(self) -> None:
        spans: list[Span] = []
        for choice in self._choices:
            is_chosen = choice == self.value
            style = ("accent" if self._is_focused else "bold") if is_chosen else "dim"
            spans.append((f"{'●' if is_chosen else '○'} {choice}  ", style))
        self.show(spans)


Editor = FieldLine | FieldLines | Choice


class _Message(TextLine):
    """A problem below its field, on as many lines as its words need."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # A grid asks for this, and not for the height of the styles.
        return max(1, len(self.lines()))


class FieldRow(Grid):
    """A field with its label, and its problem below.

    If `is_hidden`, the text can't be edited on a screen and is only shown.
    """

    DEFAULT_CSS = """
    FieldRow { grid-size: 2; grid-columns: 17 1fr; grid-rows: auto; height: auto; }
    FieldRow .label { color: $muted; }
    FieldRow.-focused .label { color: $primary; text-style: bold; }
    FieldRow.-wrong .label { color: $error; }
    FieldRow .message { column-span: 2; margin-left: 17; }
    FieldRow FieldLine:focus, FieldRow FieldLines:focus, FieldRow Choice:focus {
        background: $panel;
    }
    """

    def __init__(
        self, field: FormField, text: str, *, choices: Sequence[str], is_hidden: bool
    ) -> None:
        super().__init__(id=f"row-{field.key}")
        self.field = field
        self._first = text
        self._choices = choices
        self._is_hidden = is_hidden
        self.editor: Editor | None = None  # None if hidden
        self._message: _Message | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content(f" {self.field.label}"), classes="label")
        if self._is_hidden:
            yield Static(Content(clean(self._first, keep="\n")), classes="hidden")
        else:
            self.editor = self._make_editor()
            yield self.editor

    def _make_editor(self) -> Editor:
        if self.field.form is FieldKind.CHOICE:
            return Choice(self._choices, self._first)
        if self.field.form is FieldKind.LINES:
            return FieldLines(self._first)
        return FieldLine(self._first, default=self.field.default)

    def on_descendant_focus(self) -> None:
        self.add_class("-focused")

    def on_descendant_blur(self) -> None:
        self.remove_class("-focused")

    @property
    def text(self) -> str:
        """The text of the field."""
        match self.editor:
            case None:
                return self._first
            case FieldLines():
                return self.editor.text
            case _:
                return self.editor.value

    def show_problem(self, words: str, *, is_wrong: bool) -> None:
        """Show a problem or a caution; hide it if `words` are empty."""
        self.set_class(bool(words) and is_wrong, "-wrong")
        if words and self._message is None:
            # Made when needed: few fields ever have a problem.
            self._message = _Message(classes="message")
            self.mount(self._message)
        if self._message is None:
            return
        self._message.display = bool(words)
        sign, style = (PROBLEM, "bad") if is_wrong else (WARNING, "warn")
        # A row of a section that opens now has no size yet.
        fields = self.screen.query_one(FormFields)
        width = max(20, (self.size.width or fields.scrollable_content_region.width) - 20)
        lines = list(folded(clean(words), width)) or [""]
        self._message.show(
            *[
                [("  " if at else f"{sign.letter} ", style), (line, style)]
                for at, line in enumerate(lines)
            ]
        )
        self._message.styles.height = len(lines)


def preview_lines(
    found: FormCheck | None, *, width: int, height: int, zone: tzinfo, now: datetime
) -> list[Spans]:
    """Return at most `height` lines, the most important first."""
    [title] = laid_out([Title("Next times")], width)
    if found is None:
        return [title]
    times = found.times
    words = [line for time in times.lines for line in _worded(time, width)]
    notes = [line for note in times.notes for line in _marked(WARNING, "warn", note, "warn", width)]
    if "timezone" in found.problems:
        words = list(_marked(PROBLEM, "bad", found.problems["timezone"], "bad", width))
    elif not words:
        words = [((" no times yet: fill in 'when'", "dim"),)]
    if times.lines and not times.fires and not times.is_wrong:
        words.append(((" the next time depends on another event", "dim"),))
    # Leave room for some times and their notes.
    words = words[: max(1, height - 1 - min(3, len(times.fires)) - min(1, len(notes)))]
    room = height - 1 - len(words)
    columns = _in_columns(
        found, width=width, height=max(1, room - min(len(notes), 1)), zone=zone, now=now
    )
    parts = [part for part in (words, columns, notes) if part]
    # If there is room, separate the parts.
    gap: list[Spans] = [()] if 1 + sum(map(len, parts)) + len(parts) <= height else []
    lines = [title, *parts[0]]
    for part in parts[1:]:
        lines += [*gap, *part]
    return lines[:height]


def _worded(time: TimeLine, width: int) -> Iterator[Spans]:
    sign, style = (PROBLEM, "bad") if time.is_wrong else (OK, "good")
    text = time.words or time.text
    yield from list(_marked(sign, style, text, "bad" if time.is_wrong else "", width))[:_MOST_LINES]


def _marked(sign: Glyph, sign_style: str, text: str, style: str, width: int) -> Iterator[Spans]:
    for number, part in enumerate(folded(clean(text), max(10, width - 4))):
        head: Span = ("   ", "") if number else (f" {sign.letter} ", sign_style)
        yield head, (part, style)


def _in_columns(
    found: FormCheck, *, width: int, height: int, zone: tzinfo, now: datetime
) -> list[Spans]:
    """Return the times in columns, as many as are needed and fit."""
    cells: list[Spans] = []
    for due_at, _ in found.times.fires:
        time = weekday_time(due_at, found.times.timezone, zone=zone)
        away = distance(due_at, now, is_clock_trusted=found.is_clock_trusted)
        cells.append(((f" {away:<{_AWAY}} ", "accent"), (time, "")))
    if len(found.times.lines) > 1 and height >= len(cells):
        cells = [
            (*cell, (f"  {clean(source or '')}", "dim"))
            for cell, (_, source) in zip(cells, found.times.fires, strict=True)
        ]
    if not cells:
        return []
    widest = max(sum(display_width(text) for text, _ in cell) for cell in cells)
    columns = max(1, min((width + _GAP) // (widest + _GAP), -(-len(cells) // height)))
    rows = min(height, -(-len(cells) // columns))
    lines = []
    for row in range(rows):
        spans: list[Span] = []
        for cell in cells[row : rows * columns : rows]:
            used = sum(display_width(text) for text, _ in cell)
            spans += [*cell, (" " * (widest - used + _GAP), "")]
        lines.append(tuple(spans))
    return lines


class Preview(TextLine):
    """Show the times in the form in words, and the next fires."""

    app: DatabaseApp

    def __init__(self) -> None:
        super().__init__(id="preview")
        self._found: FormCheck | None = None

    def show_check(self, found: FormCheck) -> None:
        """Show the result of a check."""
        self._found = found
        self.refresh()

    def lines(self) -> Sequence[Spans]:
        size, app = self.size, self.app
        return preview_lines(
            self._found, width=size.width, height=size.height, zone=app.zone, now=app.now()
        )
