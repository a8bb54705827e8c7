"""The end of the output of the selected line's run, beside or below the lists, live."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical
from textual.timer import Timer

from edgecron.base.errors import NotFound
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.model.choices import ACTIVE, Status
from edgecron.tui.queries import QueryScreen
from edgecron.tui.text_line import KeptLines, Span, TextLine
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.phrases import failure_words, status_words, took_ms
from edgecron.views.run_words import no_output_words
from edgecron.views.times import distance, short_duration

if TYPE_CHECKING:
    from edgecron.client.following import Piece
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.tui.output_view import OutputView

_ROWS = 34  # from this height of the terminal on, there is room below the list
_BESIDE = 140  # from this width on, the panes are side by side
_LIVE_S = 0.5  # between two reads of a run that is active
_MOST_BYTES = 64 * 1024  # of an output
_NEWEST = 8  # runs among which one is chosen
_FAILED = (Status.FAILED, Status.INTERRUPTED)


class Tail(NamedTuple):
    """A run, and what it printed from a position on; `position` is the end of that.

    `removed_at` is when retention removed the output.
    """

    run: Execution
    pieces: tuple[Piece, ...]
    position: int
    removed_at: datetime | None = None
    machine: str | None = None  # of a running run, if engines run on other machines


def find_run(client: Client, name: str) -> Execution | None:
    """Return the run of a schedule to show: a running one, else the last that ran, else any."""
    runs = client.history(name, limit=_NEWEST)
    running = (run for run in runs if run.status is Status.RUNNING)
    ran = (run for run in runs if run.started_at is not None)
    return next(running, next(ran, next(iter(runs), None)))


def read_tail(client: Client, target: int | str, shown: Tail | None) -> Tail | None:
    """Read the output of a run, or of a schedule's run, after what is shown of that run."""
    # Loaded when needed: the first screen must not wait for it.
    from edgecron.client.sentences import find_place

    try:
        run = find_run(client, target) if isinstance(target, str) else client.execution(target)
    except NotFound:
        return None
    if run is None:
        return None
    is_same = shown is not None and shown.run.id == run.id
    position = shown.position if shown is not None and is_same else 0
    if shown is not None and is_same and shown.run.status not in ACTIVE:
        return Tail(run, (), position)
    with client.follower(run.id, position=position) as follower:
        pieces = follower.read_kept(run)
    position += sum(skipped + len(chunk.content) for skipped, chunk in pieces)
    output = None if position or run.status in ACTIVE else client.output(run.id)
    removed_at = None if output is None else output.removed_at
    machine = shown.machine if shown is not None and is_same else find_place(client, run)
    return Tail(run, tuple(_last_of(pieces)), position, removed_at, machine)


def _last_of(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the last pieces, which are enough for any screen."""
    room = _MOST_BYTES
    kept: list[Piece] = []
    for skipped, chunk in reversed(pieces):
        if room <= 0:
            break
        kept.append((skipped, chunk))
        room -= len(chunk.content)
    if len(kept) < len(pieces):
        kept[-1] = (0, kept[-1][1])
    return kept[::-1]


def has_room(screen: QueryScreen[Any]) -> bool:
    """Return whether the terminal has room for an output beside or below the lists."""
    size = screen.app.size
    # The days below the upcoming runs need the room, unless the panes are side by side.
    is_free = size.width >= _BESIDE or not screen.has_class("-upcoming")
    return size.height >= _ROWS and is_free


class OutputTail(Vertical, KeptLines):
    """Show the run of a line and the end of its output, until another line is selected."""

    DEFAULT_CSS = """
    OutputTail { display: none; height: 30%; min-height: 6; max-height: 50%; }
    OutputTail > #tail-title { background: $surface; }
    OutputTail > #tail-words { display: none; }
    OutputTail.-failed > #tail-words { display: block; }
    """
    screen: QueryScreen[Any]

    def __init__(self) -> None:
        super().__init__(id="tail")
        self.border_title = "Output"
        self._is_wanted: bool | None = None  # None: if there is room
        self._view: OutputView | None = None
        self._target: int | str | None = None
        self._shown: Tail | None = None
        self._timer: Timer | None = None

    def place(self) -> None:
        """Show or hide it, as the user wants or the terminal has room."""
        is_shown = self._is_wanted
        if is_shown is None:
            is_shown = has_room(self.screen)
        is_new = is_shown and not self.screen.has_class("-tail")
        self.screen.set_class(is_shown, "-tail")
        if is_new and (self._target is not None or self._is_wanted):
            self._read()

    def switch(self) -> None:
        """Show it if it is hidden, else hide it."""
        self._is_wanted = not self.screen.has_class("-tail")
        self.place()

    async def _compose_view(self) -> OutputView:
        # Loaded when needed: the first screen must not wait for it.
        from edgecron.tui.output_view import OutputView

        view = OutputView(zone=self.screen.app.zone, id="tail-output")
        view.can_focus = False  # Keys are for the list.
        self._view = view
        await self.mount(TextLine(id="tail-title"), TextLine(id="tail-words"), view)
        return view

    def show_run(self, target: int | str | None) -> None:
        """Show a run by its id, or the last one of a schedule; None shows nothing."""
        self._target = target
        if self.screen.has_class("-tail"):
            self._read()

    def _read(self) -> None:
        target, shown = self._target, self._shown

        def read(client: Client) -> Tail | None:
            return None if target is None else read_tail(client, target, shown)

        async def take(found: Tail | None) -> None:
            view = self._view or await self._compose_view()
            if target == self._target and shown is self._shown:
                self._take(found, view)

        self.screen.ask("tail", read, lambda found: self.call_next(take, found))

    def _take(self, found: Tail | None, view: OutputView) -> None:
        before, self._shown = self._shown, found
        if found is None or before is None or found.run.id != before.run.id:
            view.restart()
        if found is not None and found.pieces:
            view.take(found.pieces)
        is_live = found is not None and found.run.status in ACTIVE
        if found is not None and not is_live and (before is None or before.run != found.run):
            view.finish(self._empty_words(found))
        elif found is not None and is_live:
            is_queued = found.run.status is Status.QUEUED
            view.say_empty("has not started yet" if is_queued else "nothing printed yet")
        elif found is None:
            view.say_empty("no run yet")
        self._show_title()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_LIVE_S, self._read_live) if is_live else None

    def _read_live(self) -> None:
        """Read again what an active run printed, if anybody can see it."""
        if self.screen.is_current and self.screen.has_class("-tail"):
            self._read()
        else:
            self._timer = self.set_timer(_LIVE_S, self._read_live)

    def _empty_words(self, found: Tail) -> str:
        words = no_output_words(
            found.run,
            spec=None,
            printed_bytes=found.position,
            removed_at=found.removed_at,
            zone=self.screen.app.zone,
        )
        return clean(f"run {found.run.id} {words}")

    def _show_title(self) -> None:
        found, app = self._shown, self.screen.app
        key = app.label("tail")
        right: list[Span] = [(f"{key} ", "accent@screen.tail"), ("hide ", "dim@screen.tail")]
        if found is None:
            self.query_one("#tail-title", TextLine).show([(" Output", "bold")], right=right)
            self.remove_class("-failed")
            return
        run, now = found.run, app.now()
        glyph, style = STATUS_GLYPHS[run.status.value]
        is_placed = found.machine is not None and run.status is Status.RUNNING
        place = f" on {clean(found.machine or '')}" if is_placed else ""
        left: list[Span] = [
            (f" {clean(run.schedule)}", "bold"),
            (f"  run {run.id}{place}  ", "dim"),
            (f"{glyph} {status_words(run)}", style),
        ]
        took = took_ms(run, now=now)
        if took is not None:
            left.append((f"  {short_duration(took)}", "dim"))
        if run.finished_at is not None:
            left.append((f"  {distance(run.finished_at, now)}", "dim"))
        self.query_one("#tail-title", TextLine).show(left, right=right)
        words = failure_words(run) if run.status in _FAILED else ""
        self.set_class(bool(words), "-failed")
        self.query_one("#tail-words", TextLine).show([("  ", ""), (clean(words), "bad")])
