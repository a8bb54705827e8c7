"""The line at the bottom that names the most useful keys of the current view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgecron.tui.bindings import actions_of
from edgecron.tui.list_model import Span
from edgecron.tui.text_line import TextLine, whole_parts
from edgecron.views.phrases import display_width

if TYPE_CHECKING:
    from edgecron.tui.database_app import DatabaseApp

# The actions of each place, and their short names. If there is no room, the last ones are omitted.
_ALWAYS = ("help", "keys")
_EVERYWHERE = (("quit", "quit"), ("palette", "all actions"))
_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "schedules": (
        ("open", "details"),
        ("run", "run now"),
        ("add", "add"),
        ("edit", "edit"),
        ("pause", "pause"),
        ("filter", "filter"),
        ("sort", "sort"),
    ),
    "upcoming": (
        ("open", "details"),
        ("run", "run now"),
        ("reschedule", "move"),
        ("pause", "pause"),
        ("filter", "filter"),
    ),
    "runs": (
        ("open", "output"),
        ("run", "run again"),
        ("cancel", "cancel"),
        ("filter", "filter"),
    ),
    "schedule": (
        ("back", "back"),
        ("run", "run now"),
        ("edit", "edit"),
        ("pause", "pause"),
        ("reschedule", "move"),
        # The headings of these name their keys, too.
        ("changes", "changes"),
        ("fields", "all fields"),
        ("undo", "undo"),
    ),
    "machine": (("back", "back"), ("open", "all facts")),
    "notices": (("back", "back"), ("open", "all facts")),
    "simulation": (("back", "back"), ("open", "all facts"), ("span", "week, month, year")),
    "run": (
        ("back", "back"),
        ("filter", "search"),
        ("follow", "follow"),
        ("wrap", "wrap"),
        ("copy", "copy"),
        ("save", "save"),
        ("facts", "facts"),
        ("timestamps", "times"),
        ("pager", "pager"),
        ("run", "run again"),
        ("cancel", "cancel"),
    ),
}
_GLYPHS = {"enter": "⏎", "space": "␣"}
_GAP = "   "


class KeyLine(TextLine):
    """Show the keys of a place, or the progress of an action."""

    app: DatabaseApp

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._place = ""

    def show_place(self, place: str) -> None:
        """Show the keys of another place."""
        self._place = place
        self.show_keys()

    def on_mount(self) -> None:
        self.watch(self.app, "progress", self.show_keys)

    def on_resize(self) -> None:
        self.show_keys()

    def show_keys(self) -> None:
        """Show the keys that fit, or the progress of an action."""
        if self.app.progress:
            self.show([(" ", ""), (self.app.progress, "busy")])
        elif self._place:
            labels = self.app.labels
            known = {action: labels[action] for action in actions_of(self.screen)}
            self.show(footer_spans(self._place, labels=known, width=self.size.width))


def footer_spans(place: str, *, labels: Mapping[str, tuple[str, ...]], width: int) -> list[Span]:
    """Return the keys of a place that fit as a whole; the help key is always among them."""

    def part(action: str, name: str) -> tuple[Span, ...]:
        target = f"@app.perform('{action}')"
        key = key_words(labels[action][0])
        return (f"{key} ", f"accent{target}"), (name, f"dim{target}")

    entries = (*_PLACES.get(place, ()), *_EVERYWHERE)
    parts = [part(action, name) for action, name in entries if labels.get(action)]
    last = part(*_ALWAYS) if labels.get(_ALWAYS[0]) else ()
    room = width - 1 - sum(display_width(text) for text, _ in last) - 2 * len(_GAP)
    return [(" ", ""), *whole_parts(parts, room), (_GAP, ""), *last]


def key_words(label: str) -> str:
    """Return the label of a key, or a glyph for it."""
    return _GLYPHS.get(label, label)
