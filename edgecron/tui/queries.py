"""Screens and lists that read the database by topic, at the rate that their questions cost."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.reactive import Reactive
from textual.screen import Screen, ScreenResultType
from textual.widget import Widget

from edgecron.base.errors import NotFound
from edgecron.tui.database_app import DatabaseApp
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import SortedSource, Targets
from edgecron.tui.list_view import LineView
from edgecron.tui.status import KeyLine, StatusLine
from edgecron.tui.text_line import Facts, Row, Span, TextLine

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from textual.timer import Timer

    from edgecron.client.protocol import Client
    from edgecron.model.filters import Filter

T = TypeVar("T")
_MOST_BUSY = 0.05  # share of the time that answers to one question can take
# After a key, before lines are read that are not visible: reading would slow down drawing.
_AFTER_DRAWING_S = 0.02


class QueryScreen(Screen[ScreenResultType]):
    """A screen that reads the database; answers that come after it closed are dropped."""

    app: DatabaseApp
    # Widgets that get or lose the focus draw themselves. Textual's own draws the whole screen.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    def on_compose(self) -> None:
        """Take the classes of the terminal's size before there are widgets.

        Textual sets them after the first layout, and then everything is styled and laid out again.
        """
        size = self.app.size
        for length, breakpoints in (
            (size.width, self.HORIZONTAL_BREAKPOINTS),
            (size.height, self.VERTICAL_BREAKPOINTS),
        ):
            names = [name for least, name in breakpoints or () if least <= length]
            self.add_class(*names[-1:], update=False)

    @on(events.Resize)
    def _ignore_old_size(self, event: events.Resize) -> None:
        # While the first screen is laid out, the terminal can get another size. Textual then tells
        # the screen the old size after the new one.
        if event.size != self.app.size:
            event.prevent_default()

    def ask(
        self,
        topic: str,
        question: Callable[[Client], T],
        answer: Callable[[T], None],
        *,
        refused: Callable[[], object] | None = None,
    ) -> None:
        """Read something and pass it to `answer`.

        It replaces a question of the same topic of this screen that was not begun. `refused` is
        called if there is no answer; the application shows the error.
        """

        def answered(found: T) -> None:
            if self._is_whole:
                answer(found)

        def failed() -> None:
            if refused is not None and self._is_whole:
                refused()

        self.app.ask(f"{id(self)} {topic}", question, answered, refused=failed)

    async def answer_to(self, topic: str, question: Callable[[Client], T]) -> T:
        """Read something and return it, in a worker of this screen.

        Raises NotFound. The application shows any other error; then the worker is cancelled.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def find(client: Client) -> tuple[T] | NotFound:
            try:
                return (question(client),)
            except NotFound as error:
                return error

        def take(found: tuple[T] | NotFound) -> None:
            if answer.done():
                return  # The worker was cancelled.
            if isinstance(found, NotFound):
                answer.set_exception(found)
            else:
                answer.set_result(*found)

        self.ask(topic, find, take, refused=answer.cancel)
        return await answer

    def prepare(self, question: Coroutine[Any, Any, None]) -> None:
        """Run a worker that reads something and then opens a question.

        Keys typed until the question is there do not act on this screen.
        """
        held = self.app.hold_keys()

        async def ask() -> None:
            try:
                await question
            finally:
                self.app.drop_keys(held)

        self.run_worker(ask())

    @property
    def _is_whole(self) -> bool:
        return all(part.is_attached for part in (self, *self.children))

    def interrupt(self, topic: str) -> None:
        """Interrupt a question of this screen, because another one replaces it."""
        self.app.interrupt(f"{id(self)} {topic}")


class ThrottledQuery(Generic[T]):
    """A question that is repeated when something changes, at most at the rate its cost allows.

    A question that comes too early waits; a newer one replaces it.
    """

    def __init__(self, screen: QueryScreen[Any], topic: str) -> None:
        self._screen = screen
        self._topic = topic
        self._next_ms = 0.0
        self._timer: Timer | None = None

    def ask(self, question: Callable[[Client], T], answer: Callable[[T], None]) -> None:
        """Ask now, or when the pause is over."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        wait_ms = self._next_ms - self._screen.app.clock.monotonic_ms()
        if wait_ms > 0:
            self._timer = self._screen.set_timer(
                wait_ms / 1000, lambda: self._ask(question, answer)
            )
        else:
            self._ask(question, answer)

    def skip_wait(self) -> None:
        """Ask the next question immediately: the user waits for it."""
        self._next_ms = 0.0

    def _ask(self, question: Callable[[Client], T], answer: Callable[[T], None]) -> None:
        clock = self._screen.app.clock

        def timed(client: Client) -> tuple[T, int]:
            begun_ms = clock.monotonic_ms()
            found = question(client)
            return found, clock.monotonic_ms() - begun_ms

        def answered(found: tuple[T, int]) -> None:
            self._next_ms = clock.monotonic_ms() + found[1] / _MOST_BUSY
            answer(found[0])

        self._screen.ask(self._topic, timed, answered)


class DatabaseSource(SortedSource, Generic[T]):
    """Lines that are read from the database; calls `changed` when there is something new to show.

    `topic` is that of its question.
    """

    topic: ClassVar[str]

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        self._screen = screen
        self._query: ThrottledQuery[T] = ThrottledQuery(screen, self.topic)
        self._now = screen.app.now
        self._zone = screen.app.zone
        self._changed = changed
        self.is_clock_trusted = True  # as far as known
        self._is_looking_ahead = False

    def _look_ahead_soon(self, look: Callable[[], None]) -> None:
        """Call `look`, which reads more lines, when the visible ones are drawn; once."""

        def look_once() -> None:
            self._is_looking_ahead = False
            look()

        if not self._is_looking_ahead:
            self._is_looking_ahead = True
            self._screen.set_timer(_AFTER_DRAWING_S, look_once)

    @abstractmethod
    def read(self) -> None:
        """Read the lines again, at most at the rate that this costs."""

    def read_at_once(self) -> None:
        """Read the lines again immediately: the user waits for them."""
        self._screen.interrupt(self.topic)
        self._query.skip_wait()
        self.read()

    def filter_by(self, wanted: Filter | None) -> None:
        super().filter_by(wanted)
        self.is_awaited = wanted is not None  # Without a filter, the cursor stays on its line.
        self.read_at_once()

    @abstractmethod
    def schedule_of(self, key: int) -> str | None:
        """Return the schedule of a line; None if it is not read."""

    @abstractmethod
    def targets(self, keys: Sequence[int]) -> Targets | None:
        """Return these lines as the targets of an action; None if they are unknown."""


class RowSource(SortedSource, Generic[T]):
    """Rows that are all in memory, in the order in which they were read or by a column.

    `VALUES` are what the rows are sorted by, for each column; rows without a value come last.
    """

    VALUES: ClassVar[Sequence[Callable[[Any], Any]]]

    def __init__(self, *, zone: tzinfo) -> None:
        self._zone = zone
        self._read: Sequence[T] = ()
        self.rows: Sequence[T] = ()
        self.now: datetime | None = None
        self.sorts = (None, *range(len(self.VALUES)))
        self.sorted_by = {column: column for column in range(len(self.VALUES))}
        self.sort: int | None = None  # a column; None: as read

    @abstractmethod
    def key_of(self, row: T) -> int:
        """Return the key of a row."""

    def show(self, rows: Sequence[T], *, now: datetime) -> None:
        """Show these rows."""
        self._read, self.now = rows, now
        self.sort_by(self.sort, is_descending=self.is_descending)

    def sort_by(self, sort: int | None, *, is_descending: bool) -> None:
        if sort is None and is_descending:
            sort = 0
        self.sort, self.is_descending = sort, is_descending
        self.rows = self._read
        if sort is not None:
            value = self.VALUES[sort]
            known = [row for row in self._read if value(row) is not None]
            known.sort(key=value, reverse=is_descending)
            self.rows = [*known, *(row for row in self._read if value(row) is None)]
        self.keys = [self.key_of(row) for row in self.rows]


class SortingScreen(QueryScreen[ScreenResultType]):
    """A screen with a list that the user can sort by its columns."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("sort", "reverse")

    def sorted_view(self) -> LineView | None:
        """Return the list that the keys sort; None while there is none."""
        return next(iter(self.query(LineView)), None)

    def action_sort(self) -> None:
        self.change_order(self.sorted_view(), SortedSource.sort_next)

    def action_reverse(self) -> None:
        self.change_order(self.sorted_view(), SortedSource.reverse)

    def on_line_view_headed(self, message: LineView.Headed) -> None:
        self.change_order(message.view, lambda source: source.sort_by_column(message.column))

    def change_order(self, view: LineView | None, change: Callable[[SortedSource], None]) -> None:
        """Change the order of a list, and show it."""
        if view is None:
            return
        source = view.source
        if not isinstance(source, SortedSource):
            self.app.show_notice("this list has only one order")
            return
        self.app.end_notice(source.order_note)
        change(source)
        view.show_order()
        if source.order_note:
            self.app.show_notice(source.order_note)


class FactsScreen(SortingScreen[None]):
    """A list with facts. `PLACE` names the screen for the line of keys."""

    PLACE: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = bindings("back")
    DEFAULT_CSS = """
    FactsScreen #parts { height: 1fr; }
    FactsScreen #facts { height: 9; margin-top: 1; }
    FactsScreen #summary { background: $surface; }
    FactsScreen.-low #facts, FactsScreen.-low #status { display: none; }
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
        """Return what stands between the list and its summary."""
        return ()

    def compose(self) -> ComposeResult:
        yield TextLine(id="top")
        with Container(id="parts"):
            yield self.make_list()
            yield Facts(id="facts")
        yield from self.compose_below()
        yield TextLine(id="summary")
        yield StatusLine()
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one("#keys", KeyLine).show_place(self.PLACE)
        self.query_one(LineView).focus()
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Show the title, and read the content."""

    def show_title(self, words: str, *, note: str = "read-only") -> None:
        """Show the title of the screen."""
        self.query_one("#top", TextLine).show(
            [(" edgecron ", "bold"), (f" {words}", "dim")], right=[(note, "dim"), (" ", "")]
        )

    def show_summary(self, *spans: Span) -> None:
        """Show the counts of the whole list, or how far it is read."""
        self.query_one("#summary", TextLine).show([(" ", ""), *spans])

    def show_facts(self) -> None:
        """Show the facts of the line under the cursor."""
        self.query_one("#facts", Facts).show_rows(self.rows())

    def on_line_view_moved(self) -> None:
        self.show_facts()

    def change_order(self, view: LineView | None, change: Callable[[SortedSource], None]) -> None:
        super().change_order(view, change)
        if view is not None:
            view.source_changed()
            self.show_facts()

    def on_line_view_opened(self) -> None:
        # Loaded when needed: the first screen shows no dialog.
        from edgecron.tui.dialogs import FactsDetail

        if self.app.screen is self and (rows := self.rows()):
            self.app.push_screen(FactsDetail(rows))

    def action_back(self) -> None:
        self.dismiss(None)
