"""The keys that the bottom line names: the few that matter where one is."""

from __future__ import annotations

from edgecron.config.actions import ACTIONS
from edgecron.tui.lines import Span

# An action, and its short name at the bottom.
_EVERYWHERE = (("quit", "quit"),)
_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "schedules": (("open", "details"), ("sort", "sort")),
    "upcoming": (("open", "details"),),
    "runs": (),
    "schedule": (("back", "back"), ("fields", "all fields")),
}
_SHOWN = {"enter": "⏎", "escape": "esc", "space": "␣", "delete": "del"}


def footer_spans(place: str) -> list[Span]:
    """The keys of a place."""
    spans: list[Span] = [(" ", "")]
    for action, name in (*_PLACES[place], *_EVERYWHERE):
        key = ACTIONS[action].keys[0]
        spans += [(_SHOWN.get(key, key), f"accent@do('{action}')"), (f" {name}   ", "dim")]
    return spans
