"""The line at the bottom that names the most useful keys of the current view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgecron.tui.bindings import actions_of
from edgecron.tui.list_model import Span
from edgecron.tui.text_line import TextLine
from edgecron.views.phrases import display_width

if TYPE_CHECKING:
    from edgecron.tui.database_app import Telling

# An action, and its short name at the bottom; where there is little room the last ones are left
# out first.
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
    """The keys of a place, or how far something is that takes a while."""

    app: Telling

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._place = ""

    def turn_to(self, place: str) -> None:
        """Name the keys of another place."""
        self._place = place
        self.show_keys()

    def on_mount(self) -> None:
        self.watch(self.app, "progress", self.show_keys)

    def on_resize(self) -> None:
        self.show_keys()

    def show_keys(self) -> None:
        """Show what there is room for."""
        if self.app.progress:
            self.show([(" ", ""), (self.app.progress, "busy")])
        elif self._place:
            labels = self.app.labels
            known = {action: labels[action] for action in actions_of(self.screen)}
            self.show(footer_spans(self._place, labels=known, width=self.size.width))


def footer_spans(place: str, *, labels: Mapping[str, tuple[str, ...]], width: int) -> list[Span]:
    """The keys of a place that are known, as many as fit as a whole; the one that explains all
    keys always."""
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
    """A key as the bottom line has it, where a glyph says it in less."""
    return _GLYPHS.get(label, label)


def _width(entry: tuple[str, str, str]) -> int:
    _, key, name = entry
    return display_width(key) + 1 + display_width(name) + len(_GAP)
