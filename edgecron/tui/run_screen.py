"""The screen of one run: its facts, and its output, live."""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.timer import Timer
from textual.widgets import Input

from edgecron.base.errors import EdgecronError, NotFound
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.following import Follower, Piece
from edgecron.client.protocol import Client
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution
from edgecron.tui.database_thread import Deliver, raise_here
from edgecron.tui.keys import bindings
from edgecron.tui.list_rows import Targets
from edgecron.tui.output_export import ExportScreen
from edgecron.tui.output_view import ERROR_MARK, OutputView
from edgecron.tui.queries import ThrottledQuery
from edgecron.tui.run_facts import (
    Neighbor,
    RunFacts,
    all_facts,
    changes_each_second,
    find_neighbor,
    read_run,
    summary_lines,
    title_spans,
    wait_words,
)
from edgecron.tui.status import Banner, KeyLine, StatusLine
from edgecron.tui.text_line import Facts, LineInput, ScrolledLines, Span, TextLine
from edgecron.views.phrases import count_words, fit, size_words
from edgecron.views.run_words import no_output_words

_TICK_S = 1.0  # a duration is shown in seconds
_MOST_SHORT = 6  # lines of the summary
_MOST_WANTED = 24  # columns of the searched text


class RunScreen(ExportScreen):
    """One run, by its id."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(
        *("back", "filter", "facts", "older_run", "newer_run", "copy", "save", "pager")
    )

    DEFAULT_CSS = """
    RunScreen #run { height: 1fr; layout: vertical; }
    RunScreen #short { height: auto; }
    RunScreen ScrolledLines {
        display: none; height: auto; max-height: 60%; scrollbar-size-vertical: 1;
    }
    RunScreen #printed { height: 1fr; }
    RunScreen #output-title { background: $surface; }
    RunScreen #search { display: none; height: 1; }
    RunScreen #search-label { width: 2; }
    RunScreen.-searching #search { display: block; }
    RunScreen.-searching #keys { display: none; }
    RunScreen.-flat #status { display: none; }
    RunScreen.-full #short { display: none; }
    RunScreen.-full ScrolledLines { display: block; }
    RunScreen.-wide.-tall #run { layout: horizontal; }
    RunScreen.-wide.-tall #short { display: none; }
    RunScreen.-wide.-tall ScrolledLines {
        display: block; width: 58; height: 1fr; max-height: 100%;
        border-right: solid $border-blurred;
    }
    RunScreen.-wide.-tall.-full ScrolledLines { display: none; }
    """

    def __init__(self, execution_id: int, *, is_full: bool = False) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (140, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-low"), (30, "-tall")]
        self.execution_id = execution_id
        self.found: RunFacts | None = None
        self.end: OutputEnd | None = None
        self._is_full = is_full  # are all facts shown
        self._feed: OutputFeed | None = None
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield TextLine(id="top")
        yield Banner(id="banner")
        with Container(id="run"):
            yield TextLine(id="short")
            with ScrolledLines(id="facts-pane"):
                yield Facts(id="facts")
            with Vertical(id="printed"):
                yield TextLine(id="output-title")
                yield OutputView(zone=self.app.zone, id="output")
        yield StatusLine()
        with Horizontal(id="search"):
            yield TextLine([(" /", "accent")], id="search-label")
            yield LineInput(id="wanted", compact=True)
        yield KeyLine()

    def on_mount(self) -> None:
        self._read_again = ThrottledQuery[RunFacts | NotFound](self, "run")
        self.set_class(self._is_full, "-full")
        self.query_one(Banner).show_trouble()
        self.set_focus(self.view)
        self.query_one(LineInput).take_enter(self._enter_search, pass_on=self.app.pass_on)
        self._read_run()
        self._feed = OutputFeed(
            self.app.opened,
            self.execution_id,
            deliver=self.app.deliver,
            take=self.view.take,
            ended=self._note_end,
            refused=self._note_feed_trouble,
        )
        self._feed.start()

    async def on_unmount(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            # On a thread: a silent supervisor must not block the screen.
            await asyncio.to_thread(feed.close)

    # Reading.

    def _read_run(self) -> None:
        execution_id = self.execution_id

        def read(client: Client) -> RunFacts | NotFound:
            try:
                return read_run(client, execution_id)
            except NotFound as error:
                return error

        self._read_again.ask(read, self._take)

    def _take(self, found: RunFacts | NotFound) -> None:
        if isinstance(found, NotFound):
            self.query_one("#top", TextLine).show([(f" {clean(found.message)}", "warn")])
            return
        self.found = found
        self._tick()

    def on_changed(self) -> None:
        self.query_one(Banner).show_trouble()
        if self._is_live:
            self._read_run()

    @property
    def _is_live(self) -> bool:
        """Whether the run can still change."""
        return self.end is None and (self.found is None or self.found.run.status in ACTIVE)

    def _note_end(self, end: OutputEnd) -> None:
        self.end = end
        run = end.execution
        words = no_output_words(
            run,
            spec=None if self.found is None else self.found.spec,
            printed_bytes=end.printed_bytes,
            removed_at=end.removed_at,
            zone=self.app.zone,
        )
        self.view.finish(f"run {run.id} {clean(words)}")
        self._read_run()

    def _note_feed_trouble(self, error: EdgecronError) -> None:
        if not isinstance(error, NotFound):
            self.app.show_error(error)

    def current_schedule(self) -> str | None:
        return None if self.found is None else self.found.run.schedule

    def targets(self) -> Targets:
        names = () if self.found is None else (self.found.run.schedule,)
        return Targets(names=names, run_ids=(self.execution_id,))

    # Showing.

    def on_resize(self) -> None:
        self.query_one(Banner).show_trouble()
        self._tick()

    def _tick(self) -> None:
        """Show the facts; for a running run, again after a second."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        found = self.found
        if found is None or not self.is_current:
            return
        now, zone = self.app.now(), self.app.zone
        label = self.app.label
        left, right = title_spans(found.run, older=label("older_run"), newer=label("newer_run"))
        self.query_one("#top", TextLine).show(left, right=right)
        most = min(_MOST_SHORT, max(1, (self.size.height - 4) // 3))
        lines = summary_lines(found, now=now, zone=zone, width=self.size.width, most=most)
        short = self.query_one("#short", TextLine)
        short.styles.height = len(lines)
        short.show(*lines)
        self.query_one(Facts).show_rows(all_facts(found, now=now, zone=zone))
        if self.end is None:
            self.view.say_empty(_nothing_words(found, now=now, zone=zone))
        self._show_title()
        self._show_keys()
        if self.end is None and changes_each_second(found):
            self._timer = self.set_timer(_TICK_S, self._tick)

    def on_descendant_focus(self) -> None:
        self._show_keys()

    def _show_keys(self) -> None:
        """Offer only what the run allows: one that has ended can't be followed or cancelled."""
        without = () if self._is_live else ("follow", "cancel")
        self.query_one(KeyLine).show_place("run", without=without)

    def on_screen_resume(self) -> None:
        self._tick()

    def on_output_view_changed(self) -> None:
        self._show_title()

    def _show_title(self) -> None:
        left, right = output_title(
            self.view,
            is_live=self._is_live,
            printed_bytes=None if self.end is None else self.end.printed_bytes,
            width=self.size.width,
        )
        self.query_one("#output-title", TextLine).show(left, right=right)

    # Actions.

    def action_back(self) -> None:
        if self.has_class("-searching"):
            self.view.search("")
            self._close_search()
        elif not self.view.clear_selection():
            self.dismiss()

    def action_facts(self) -> None:
        self._is_full = not self._is_full
        self.set_class(self._is_full, "-full")
        pane = self.query_one(ScrolledLines)
        self.set_focus(pane if self._is_full and not self.has_class("-wide") else self.view)

    def action_filter(self) -> None:
        self.add_class("-searching")
        wanted = self.query_one(LineInput)
        wanted.value = self.view.wanted
        self.set_focus(wanted)  # Immediately: the next key is meant for it.

    def _close_search(self) -> None:
        self.view.end_search()
        self.remove_class("-searching")
        self.set_focus(self.view)

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.has_class("-searching"):
            self.view.search(event.value)

    def _enter_search(self) -> None:
        wanted = self.query_one(LineInput).value
        if wanted != self.view.wanted:
            self.view.search(wanted)
        self._close_search()

    def action_older_run(self) -> None:
        self._go_to(Neighbor.OLDER, "this is the schedule's oldest run")

    def action_newer_run(self) -> None:
        self._go_to(Neighbor.NEWER, "this is the schedule's newest run")

    def _go_to(self, beside: Neighbor, why_none: str) -> None:
        execution_id, is_full = self.execution_id, self._is_full

        def show(found: int | None) -> None:
            if found is None:
                self.app.show_notice(why_none)
            elif self.is_current:
                self.app.switch_screen(RunScreen(found, is_full=is_full))

        self.ask("beside", lambda client: find_neighbor(client, execution_id, beside), show)


def _nothing_words(found: RunFacts, *, now: datetime, zone: tzinfo) -> str:
    """Say why there is no output yet."""
    if found.run.status is not Status.QUEUED:
        place = "" if found.machine is None else f"runs on {clean(found.machine)}: "
        return f"{place}nothing printed yet"
    waits = wait_words(found, now=now, zone=zone)
    return f"has not started yet: {waits}" if waits else "has not started yet"


def output_title(
    view: OutputView, *, is_live: bool, printed_bytes: int | None, width: int
) -> tuple[list[Span], list[Span]]:
    """Return the left and right parts of the title; `printed_bytes` once the run has ended."""
    left: list[Span] = [(" Output", "bold")]
    if view.count:
        over = "over " if view.printed.dropped_bytes else ""
        left.append((f"  {over}{count_words(view.printed.printed_lines, 'line')}", "dim"))
    if printed_bytes:
        left.append((f", {size_words(printed_bytes)}", "dim"))
    if view.printed.first and width >= 80:
        left.append((f", the first {view.printed.first:,} are not loaded", "dim"))
    if view.has_errors:
        left += [(f"   {ERROR_MARK}", "warn"), (" stderr", "dim")]
    if view.left:
        left.append((f"   from column {view.left + 1}", "dim"))
    return left, [*_state(view, is_live=is_live), (" ", "")]


def _state(view: OutputView, *, is_live: bool) -> list[Span]:
    if view.selection is not None:
        count = count_words(view.selection.line_count, "line")
        return [(f"{count} selected", "accent"), (": y copies", "dim")]
    if view.wanted:
        return _search_state(view)
    if not is_live:
        return []
    if view.is_following:
        return [("following", "busy")]
    return [("paused", "warn"), (": f follows", "dim")]


def _missing_words(view: OutputView) -> str:
    """Say that a text was not found, and what could not be searched."""
    if view.printed.dropped_bytes:
        return f"not in what was kept: {size_words(view.printed.dropped_bytes)} dropped"
    if view.printed.first:
        return f"not found: the first {view.printed.first:,} lines are not loaded"
    return "not found"


def _search_state(view: OutputView) -> list[Span]:
    wanted = clean(view.wanted)
    shown = fit(wanted, _MOST_WANTED) if len(wanted) > _MOST_WANTED else wanted
    if not view.hits:
        return [(f"/{shown}", "dim"), (f"  {_missing_words(view)}", "warn")]
    lines = count_words(len(view.hits), "line")
    if view.hit is None:
        return [(f"/{shown}", "dim"), (f"  in {lines}", "")]
    place = bisect_right(view.hits, view.hit)  # sorted
    return [(f"/{shown}", "dim"), (f"  {place} of {lines}", ""), ("  n N", "accent")]


_PACE_S = 0.05  # between two deliveries
_MOST_BYTES = 256 * 1024  # of one delivery; a longer piece goes alone
_RETRY_S = 1.0
_JOIN_S = 8.0  # longer than the wait for a silent supervisor


class OutputEnd(NamedTuple):
    """The end of a run: how much it printed, and when retention removed the output."""

    execution: Execution
    printed_bytes: int
    removed_at: datetime | None


class OutputFeed:
    """Follow a run to its end; call `take`, `ended` and `refused` on the screen's thread.

    The same error is reported once. One delivery is on its way at a time. If a run prints faster
    than the screen can show, its supervisor keeps the last part and counts the skipped bytes.
    """

    def __init__(
        self,
        opened: Callable[[], Client],
        execution_id: int,
        *,
        deliver: Deliver,
        take: Callable[[Sequence[Piece]], None],
        ended: Callable[[OutputEnd], None],
        refused: Callable[[EdgecronError], None],
    ) -> None:
        self._opened = opened
        self._execution_id = execution_id
        self._deliver = deliver
        self._take = take
        self._ended = ended
        self._refused = refused
        self._position = 0
        self._last_error: str | None = None  # message of the last error
        self._closing = threading.Event()
        self._is_taken = threading.Event()
        self._is_taken.set()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name=f"dashboard-output-{execution_id}")

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread within 8 s, and deliver nothing more. Call it once."""
        self._closing.set()
        self._is_taken.set()
        os.write(self._wake_write, b"x")
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _serve(self) -> None:
        try:
            while not self._closing.is_set() and not self._is_followed():
                self._closing.wait(_RETRY_S)
        except Exception as error:  # noqa: BLE001 - a defect, raised on the screen's thread
            self._call(partial(raise_here, error))

    def _is_followed(self) -> bool:
        """Follow the run; return False if the database can't be used now, to try again."""
        is_open = False
        try:
            with self._opened() as client:
                client.change_mark()  # It opens the database.
                is_open = True
                self._follow(client)
        except EdgecronError as error:
            if error.message != self._last_error:
                self._last_error = error.message
                self._call(partial(self._refused, error))
            return is_open and isinstance(error, NotFound)
        return True

    def _follow(self, client: Client) -> None:
        execution = client.execution(self._execution_id)
        with client.follower(self._execution_id, position=self._position) as follower:
            if execution.status in ACTIVE:
                self._deliver_pieces(follower.read_kept(execution))
            while execution.status in ACTIVE and not self._closing.is_set():
                execution = self._wait(client, follower, execution)
                self._deliver_pieces(follower.read(execution))
            self._deliver_pieces(follower.read_stored())
        output = client.output(self._execution_id)
        end = OutputEnd(
            execution,
            0 if output is None else output.stdout_bytes + output.stderr_bytes,
            None if output is None else output.removed_at,
        )
        self._call(partial(self._ended, end))

    def _wait(self, client: Client, follower: Follower, execution: Execution) -> Execution:
        """Wait until the run may have something new; return its current state."""
        due_s = 0.0
        if execution.status is Status.QUEUED:
            due_s = (execution.due_at - client.now()).total_seconds()
        elif follower.is_due_for_check:
            client.take_over()  # Without an engine, this ends a run that is over.
        follower.wait((self._wake_read,), until_s=due_s)
        return client.execution(self._execution_id)

    def _deliver_pieces(self, pieces: Iterable[Piece]) -> None:
        batch: list[Piece] = []
        batch_bytes = 0
        for skipped, chunk in pieces:
            if batch and batch_bytes + len(chunk.content) > _MOST_BYTES:
                self._deliver_batch(batch)
                batch, batch_bytes = [], 0
            batch.append((skipped, chunk))
            batch_bytes += len(chunk.content)
        if batch:
            self._deliver_batch(batch)

    def _deliver_batch(self, batch: list[Piece]) -> None:
        self._is_taken.wait()
        if self._closing.is_set():
            return
        self._position += sum(skipped + len(chunk.content) for skipped, chunk in batch)
        self._is_taken.clear()
        self._call(partial(self._take_batch, batch))
        self._closing.wait(_PACE_S)

    def _take_batch(self, batch: Sequence[Piece]) -> None:
        self._is_taken.set()
        self._take(batch)

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function on the screen's thread, unless the feed is closed by then."""
        self._deliver(lambda: None if self._closing.is_set() else function())
