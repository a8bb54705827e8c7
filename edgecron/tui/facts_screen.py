"""A read-only screen: a list, and the facts of the line under the cursor beside or below it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget

from edgecron.tui.bindings import bindings
from edgecron.tui.dialogs import FactsDetail
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import QueryScreen
from edgecron.tui.status import KeyLine
from edgecron.tui.text_line import Facts, Row, TextLine


class FactsScreen(QueryScreen[None]):
    """A list with facts. `PLACE` names the screen for the line of keys."""

    PLACE: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = bindings("back")
    DEFAULT_CSS = """
    FactsScreen #parts { height: 1fr; }
    FactsScreen #facts { height: 9; margin-top: 1; }
    FactsScreen.-low #facts { display: none; }
    FactsScreen.-wide #parts { layout: grid; grid-size: 2 1; grid-columns: 5fr 3fr; }
    FactsScreen.-wide #facts { height: 1fr; margin: 0 0 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (140, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-middle"), (30, "-tall")]

    @abstractmethod
    def make_list(self) -> LineView:
        """Return the list."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """Return the facts of the line under the cursor, and those of the whole list."""

    def compose_below(self) -> Sequence[Widget]:
        """Return what stands between the list and the status line."""
        return ()

    def compose(self) -> ComposeResult:
        yield TextLine(id="top")
        with Container(id="parts"):
            yield self.make_list()
            yield Facts(id="facts")
        yield from self.compose_below()
        yield TextLine(id="status")
        yield KeyLine(id="keys")

    def on_mount(self) -> None:
        self.query_one("#keys", KeyLine).show_place(self.PLACE)
        self.query_one(LineView).focus()
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Show the title, and read the content."""

    def show_title(self, words: str) -> None:
        """Show the title of the screen."""
        self.query_one("#top", TextLine).show(
            [(" edgecron ", "bold"), (f" {words}", "dim")], right=[("read-only", "dim"), (" ", "")]
        )

    def show_facts(self) -> None:
        """Show the facts of the line under the cursor."""
        self.query_one("#facts", Facts).show_rows(self.rows())

    def on_line_view_moved(self) -> None:
        self.show_facts()

    def on_line_view_opened(self) -> None:
        if self.app.screen is self and (rows := self.rows()):
            self.app.push_screen(FactsDetail(rows))

    def action_back(self) -> None:
        self.dismiss(None)
