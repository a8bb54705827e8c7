"""The line at the bottom that names the most useful keys of the current view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgecron.tui.bindings import actions_of
from edgecron.tui.list_model import Span
from edgecron.tui.text_line import TextLine
from edgecron.views.phrases import display_width

if TYPE_CHECKING:
    from edgecron.tui.database_app import DatabaseApp

# The actions of each place, and their short names. If there is no room, the last ones are left out.
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
        ("cancel", "end"),
        ("filter", "filter"),
    ),
    "schedule": (
        ("back", "back"),
        ("edit", "edit"),
        ("fields", "all fields"),
        ("run", "run now"),
        ("pause", "pause"),
        ("reschedule", "move"),
    ),
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
        ("cancel", "end"),
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
    known = [
        (action, key_words(labels[action][0]), name)
        for action, name in (*_PLACES.get(place, ()), *_EVERYWHERE)
        if labels.get(action)
    ]
    always, name = _ALWAYS
    last = [(always, key_words(label), name) for label in labels.get(always, ())[:1]]
    room = width - 1 - sum(_width(entry) for entry in last)
    shown = []
    for entry in known:
        room -= _width(entry)
        if room < 0:
            break
        shown.append(entry)
    spans: list[Span] = [(" ", "")]
    for action, key, name in (*shown, *last):
        target = f"@app.perform('{action}')"
        spans += [(f"{key} ", f"accent{target}"), (name, f"dim{target}"), (_GAP, "")]
    return spans


def key_words(label: str) -> str:
    """Return the label of a key, or a glyph for it."""
    return _GLYPHS.get(label, label)


def _width(entry: tuple[str, str, str]) -> int:
    _, key, name = entry
    return display_width(key) + 1 + display_width(name) + len(_GAP)
