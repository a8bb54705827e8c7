"""Which actions there are where one is, and who does them: for clicks and for the palette."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from edgecron.formats.config_actions import ACTIONS


def find_performer(screen: Screen[Any], action: str) -> DOMNode | None:
    """Who does an action on a screen: what has the focus, what that lies in, or the application."""
    return next((node for node in _asked(screen) if action in _actions_of(node)), None)


def actions_of(screen: Screen[Any]) -> list[str]:
    """The actions that there are on a screen, in the order of help."""
    known = set(chain.from_iterable(_actions_of(node) for node in _asked(screen)))
    return [action for action in ACTIONS if action in known]


def _asked(screen: Screen[Any]) -> Iterator[DOMNode]:
    yield from (screen.focused or screen).ancestors_with_self


def _actions_of(node: DOMNode) -> Iterator[str]:
    # Not by its active bindings: an action that was left without a key is still there.
    for kind in type(node).__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id in ACTIONS:
                yield binding.id
