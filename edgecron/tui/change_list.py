"""The changes of a schedule: some lines on its screen, and all of them over it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from edgecron.base.safetext import clean
from edgecron.model.schedule import Act, Change
from edgecron.tui.dialogs import Overlay
from edgecron.tui.list_model import Span
from edgecron.tui.text_line import Cells, Row, ScrolledLines, TextLine, Title
from edgecron.views.changes import act_words, author_words, change_lines, mask_change
from edgecron.views.glyphs import CHANGED, CREATED, REMOVED
from edgecron.views.phrases import folded
from edgecron.views.times import near_time

NEWEST = 3  # changes on the screen of a schedule
MOST = 200  # changes in the list
_STYLES = {Act.ADD: "good", Act.REMOVE: "bad", Act.EDIT: "warn", Act.UNDO: "accent"}
_GLYPH_STYLES = {CREATED: "good", CHANGED: "warn", REMOVED: "bad"}
_INDENT = 8


def change_rows(changes: Sequence[Change], *, zone: tzinfo, now: datetime) -> list[Row]:
    """Return a line for each change: its revision, its time, what it did and who made it."""
    if not changes:
        return []
    note: tuple[Span, ...] = (("c ", "accent@screen.changes"), ("all", "dim@screen.changes"))
    rows: list[Row] = [Title("Changes", note)]
    for change in changes:
        lines = change_lines(mask_change(change), zone=zone, now=now)
        what = ", ".join(line.text for line in lines) if change.act is not Act.ADD else ""
        rows.append(Cells((*_head(change, zone=zone, now=now), (f"  {clean(what)}", "dim"))))
    return rows


def _head(change: Change, *, zone: tzinfo, now: datetime) -> list[Span]:
    return [
        (f"{change.revision:>4}  ", "dim"),
        (f"{near_time(change.at, zone=zone, now=now):<12}  ", ""),
        (f"{act_words(change):<9}", _STYLES.get(change.act, "")),
        (f"  {clean(author_words(change))}", "dim"),
    ]


def all_lines(
    changes: Sequence[Change], *, zone: tzinfo, now: datetime, width: int
) -> list[list[Span]]:
    """Return every change with its differences, folded to a width."""
    lines: list[list[Span]] = []
    for change in changes:
        if lines:
            lines.append([])
        lines.append(_head(change, zone=zone, now=now))
        for glyph, text in change_lines(mask_change(change), zone=zone, now=now):
            sign = glyph.letter
            for part in folded(clean(text), max(8, width - _INDENT)):
                span = (f"{sign} {part}", _GLYPH_STYLES[glyph])
                lines.append([(" " * (_INDENT - 2), ""), span])
                sign = " "
        if not change.is_complete:
            lines.append([(" " * _INDENT, ""), ("retention removed the definition", "dim")])
    return lines


class ChangeList(Overlay[None]):
    """Show all changes of a schedule, to scroll. Escape and q leave it."""

    DEFAULT_CSS = """
    ChangeList { align: center middle; }
    ChangeList #box {
        width: 100; max-width: 98%; height: auto; padding: 0 1;
        border: round $border; border-title-color: $primary; background: $surface;
        border-subtitle-color: $muted;
    }
    ChangeList ScrolledLines { height: auto; scrollbar-size-vertical: 1; background: $surface; }
    """

    def __init__(
        self, name: str, changes: Sequence[Change], *, zone: tzinfo, now: datetime
    ) -> None:
        super().__init__()
        self._schedule = name
        self._changes = changes
        self._zone, self._now = zone, now

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content(f"Changes of {clean(self._schedule)}")
            box.border_subtitle = Content(
                clean(f"edgecron undo {self._schedule} REVISION returns to a revision   esc back")
            )
            with ScrolledLines():
                yield TextLine(id="changes")

    def on_mount(self) -> None:
        self.query_one(ScrolledLines).focus()

    def on_resize(self) -> None:
        width = min(100, int(self.size.width * 0.98)) - 5
        lines = all_lines(self._changes, zone=self._zone, now=self._now, width=width)
        shown = self.query_one("#changes", TextLine)
        shown.show(*(lines or [[("no changes are recorded", "dim")]]))
        shown.styles.height = max(1, len(lines))
        self.query_one(ScrolledLines).styles.max_height = max(3, self.size.height - 4)

    def key_q(self, event: events.Key) -> None:
        event.stop()
        self.action_leave()

    def key_c(self, event: events.Key) -> None:
        event.stop()
        self.action_leave()
