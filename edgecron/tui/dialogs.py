"""Dialogs over the current screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from itertools import pairwise
from typing import ClassVar, Generic, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType

from edgecron.base.errors import InvalidInput
from edgecron.base.safetext import clean
from edgecron.base.units import find_meant_duration, parse_duration_ms
from edgecron.base.value_texts import read_time
from edgecron.tui.early_keys import TypedAheadApp
from edgecron.tui.keys import bindings
from edgecron.tui.text_line import Facts, LineInput, Row, ScrolledLines, Span, TextLine
from edgecron.views.phrases import PROBLEM, error_words, fit, folded
from edgecron.views.times import spoken_time

_WIDTH = 64  # columns of the text
_MOST_LINES = 12  # of explaining words
_LOW = 16  # lines of a screen; below, there are no gaps
_CHECK_LINES, _MOST_CHECK_LINES = 2, 5
T = TypeVar("T")


class Overlay(ModalScreen[ScreenResultType | None]):
    """A screen over another one. Escape and the key for going back leave it with None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("back")

    def key_escape(self, event: events.Key) -> None:
        # Not a binding: Textual drops it if the key for going back is changed.
        event.stop()
        self.action_leave()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_back(self) -> None:
        self.action_leave()


class Field(NamedTuple):
    """A line of input: its label, its first text, and an example."""

    label: str
    text: str = ""
    example: str = ""


class CheckResult(NamedTuple, Generic[T]):
    """The result of checking what was typed; `value` None is not acceptable."""

    words: str
    value: T | None = None


ShowCheck = Callable[[CheckResult[T]], None]
Check = Callable[[tuple[str, ...], ShowCheck[T]], None]


class Dialog(Overlay[T]):
    """A box in the middle of the screen; it returns None if it was left.

    `words` can contain text of other people: it is cleaned and folded here.
    """

    app: TypedAheadApp

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog #box {
        width: 70; max-width: 96%; height: auto; max-height: 90%; padding: 1 2 0 2;
        border: round $border; border-title-color: $primary; background: $surface;
    }
    Dialog.-danger #box { border: round $error; border-title-color: $error; }
    Dialog #words { height: auto; margin-bottom: 1; }
    Dialog #check { height: 2; }
    Dialog #choices { height: 1; margin-bottom: 1; }
    Dialog .field { height: 1; margin-bottom: 1; }
    Dialog .label { width: 12; }
    Dialog.-low #box { padding: 0 2; max-height: 100%; }
    Dialog.-low #words, Dialog.-low #choices, Dialog.-low .field { margin-bottom: 0; }
    """

    def __init__(self, title: str, words: Sequence[str] = (), *, is_danger: bool = False) -> None:
        super().__init__(classes="-danger" if is_danger else None)
        self._title = clean(title)
        self._words = tuple(clean(text) for text in words)

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            # As Content: text of other people must not be read as markup.
            box.border_title = Content(self._title)
            yield TextLine(id="words")
            yield from self.compose_fields()
            yield TextLine(id="choices")

    def compose_fields(self) -> ComposeResult:
        """Yield the fields."""
        yield from ()

    def on_mount(self) -> None:
        self.show_choices()

    def on_resize(self) -> None:
        self._show_words()

    @property
    def text_width(self) -> int:
        """The columns for text."""
        return max(10, min(_WIDTH, self.size.width * 96 // 100 - 6))

    @property
    def answer_lines(self) -> int:
        """The lines below the words, without gaps."""
        return 1

    def _show_words(self) -> None:
        is_low = self.size.height < _LOW
        self.set_class(is_low, "-low")
        if is_low:
            self.app.clear_notifications()  # They would cover the keys that answer.
        # Fields and keys are more important than explaining words.
        most = max(0, self.size.height - 2 - self.answer_lines) if is_low else _MOST_LINES
        width = self.text_width
        lines = _cut([part for text in self._words for part in folded(text, width)], most, width)
        shown = self.query_one("#words", TextLine)
        shown.display = bool(lines)
        shown.styles.height = len(lines)
        shown.show(*[[(line, "")] for line in lines])

    def show_choices(self) -> None:
        """Show the keys that answer."""


class ConfirmDialog(Dialog[bool]):
    """A yes-or-no question; it returns True for yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "agree", show=False),
        Binding("n,q", "leave", show=False),
    ]

    def __init__(
        self,
        title: str,
        words: Sequence[str] = (),
        *,
        yes: str,
        no: str = "go back",
        is_danger: bool = False,
    ) -> None:
        super().__init__(title, words, is_danger=is_danger)
        self._yes = yes
        self._no = no

    def on_mount(self) -> None:
        super().on_mount()
        self.app.drop_keys()  # A key typed before the question was shown must not answer it.

    def show_choices(self) -> None:
        self.query_one("#choices", TextLine).show(
            [
                *choice("⏎", self._yes, "agree"),
                *choice("esc", self._no, "leave"),
            ]
        )

    def action_agree(self) -> None:
        self.dismiss(True)


class Lines(Dialog[T]):
    """Lines of input, checked while they are typed; it returns the value of the check.

    `check` gets the texts and passes its result to a function, now or later. A result for texts
    that have changed meanwhile is dropped.
    """

    def __init__(
        self,
        title: str,
        words: Sequence[str] = (),
        *,
        fields: Sequence[Field],
        check: Check[T],
        yes: str,
        is_danger: bool = False,
    ) -> None:
        super().__init__(title, words, is_danger=is_danger)
        self._fields = tuple(fields)
        self._check = check
        self._yes = yes
        self._checked: CheckResult[T] | None = None

    @property
    def answer_lines(self) -> int:
        return len(self._fields) + _CHECK_LINES + super().answer_lines

    def compose_fields(self) -> ComposeResult:
        for number, field in enumerate(self._fields):
            with Horizontal(classes="field"):
                yield TextLine([(field.label, "dim")], classes="label")
                yield LineInput(
                    value=clean(field.text),
                    placeholder=field.example,
                    id=f"field{number}",
                    compact=True,
                )
        yield TextLine(id="check")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#field0", LineInput).focus()
        for field, following in pairwise(self.query(LineInput)):
            field.take_enter(partial(self.set_focus, following), pass_on=self.app.pass_on)
        self.app.release_keys()
        self._check_texts()

    def show_choices(self) -> None:
        self.query_one("#choices", TextLine).show(
            [*choice("⏎", self._yes, "agree"), *choice("esc", "go back", "leave")]
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the fields."""
        return tuple(field.value.strip() for field in self.query(LineInput))

    def on_input_changed(self) -> None:
        self._check_texts()

    def _check_texts(self) -> None:
        texts = self.texts
        self._checked = None

        def show(found: CheckResult[T]) -> None:
            if self.is_attached and self.texts == texts:
                self._checked = found
                self._show_check(found)

        self._check(texts, show)

    def _show_check(self, found: CheckResult[T]) -> None:
        style = "bad" if found.value is None else "good"
        mark = f"{PROBLEM.letter} " if found.value is None else "→ "
        width = self.text_width - 2
        most = _CHECK_LINES if self.size.height < _LOW else _MOST_CHECK_LINES
        first, *more = _cut([*folded(clean(found.words), width)], most, width)
        lines: list[list[Span]] = [[(mark, style), (first, "")]]
        lines += [[("  ", ""), (line, "")] for line in more]
        shown = self.query_one("#check", TextLine)
        shown.styles.height = max(_CHECK_LINES, len(lines))
        shown.show(*(lines if found.words else ()))

    def on_input_submitted(self) -> None:
        self.action_agree()

    def action_agree(self) -> None:
        if self._checked is not None and self._checked.value is not None:
            self.dismiss(self._checked.value)


def _cut(lines: list[str], most: int, width: int) -> list[str]:
    """Keep as many lines as fit; a sign in the last one shows that there are more."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], fit(f"{lines[most - 1]} …", width)] if most else []


def choice(key: str, name: str, action: str) -> list[Span]:
    """Return a key and its action; a click does the same."""
    return [(f"{key} ", f"accent@screen.{action}"), (name, f"@screen.{action}"), ("    ", "")]


class FactsDetail(Overlay[None]):
    """Show all facts of a line, to scroll. Escape leaves it."""

    DEFAULT_CSS = """
    FactsDetail { align: center middle; }
    FactsDetail #box {
        width: 100; max-width: 98%; height: auto; padding: 0 1;
        border: round $border; border-title-color: $primary; background: $surface;
        border-subtitle-color: $muted;
    }
    FactsDetail ScrolledLines {
        height: auto; scrollbar-size-vertical: 1; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("open")

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_subtitle = Content("esc back")
            with ScrolledLines():
                yield Facts(id="detail-facts")

    def on_mount(self) -> None:
        self.query_one(Facts).show_rows(self._rows)
        self.query_one(ScrolledLines).focus()

    def on_resize(self) -> None:
        self.query_one(ScrolledLines).styles.max_height = max(3, self.size.height - 4)

    def action_open(self) -> None:
        self.action_leave()


def check_time(text: str, *, zone: tzinfo, now: datetime) -> CheckResult[datetime]:
    """Read a time, or a duration from now, and say which instant it is."""
    duration = _find_duration(text)
    try:
        instant = read_time(
            text if duration is None else f"in {duration}", what="time", timezone="local", now=now
        )
    except InvalidInput as error:
        return CheckResult(error_words(error))
    return CheckResult(spoken_time(instant, zone=zone, now=now), instant)


def check_move(
    text: str, first: datetime | None, *, is_one: bool, zone: tzinfo, now: datetime
) -> CheckResult[datetime | timedelta]:
    """Read where runs move: to a time, or with `+2h` later than each is due; `first` is soonest."""
    if not text:
        return CheckResult("")
    duration = _find_duration(text) if text.startswith("+") else None
    if duration is None:
        return CheckResult(*check_time(text, zone=zone, now=now))
    delay = timedelta(milliseconds=parse_duration_ms(duration))
    words = f"{'' if is_one else 'each '}{duration} later"
    if first is not None:
        time = spoken_time(first + delay, zone=zone, now=now)
        words = time if is_one else f"{words}, the first {time}"
    return CheckResult(words, delay)


def _find_duration(text: str) -> str | None:
    """Return the duration that `2h`, `+2h` or `2 hours` means."""
    word = text.removeprefix("+").strip()
    return find_meant_duration(word) if word[:1].isdigit() else None
