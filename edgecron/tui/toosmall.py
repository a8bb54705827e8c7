"""What is shown in place of everything where the terminal is too small for it."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import Screen

from edgecron.tui.spans import SpanLine
from edgecron.views.letters import folded

LEAST_COLUMNS = 40
LEAST_ROWS = 10


def is_too_small(size: Size) -> bool:
    return size.width < LEAST_COLUMNS or size.height < LEAST_ROWS


def small_words(size: Size) -> str:
    """What is the matter, in few letters."""
    return f"too small: {size.width}x{size.height}, needs {LEAST_COLUMNS}x{LEAST_ROWS}"


class TooSmall(Screen[None]):
    """Lies over the other screens until there is room for them again."""

    DEFAULT_CSS = "TooSmall > SpanLine { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield SpanLine()

    def on_mount(self) -> None:
        self._look()

    def on_resize(self, event: events.Resize) -> None:
        self._look()

    def on_screen_resume(self) -> None:
        self._look()

    def _look(self) -> None:
        size = self.app.size
        if is_too_small(size):
            lines = folded(small_words(size), max(1, size.width))
            self.query_one(SpanLine).show(*([(line, "bold")] for line in lines))
        elif self.is_current:
            self.dismiss()
