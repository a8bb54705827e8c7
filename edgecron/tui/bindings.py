"""Bind keys to actions, and find the actions of a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from edgecron.formats.config_keys import ACTIONS
from edgecron.tui.keys import DEFAULT_KEYS

# A name that no key has. Textual reads an empty name as "keep the default key".
_NO_KEY = "no-key"


def bindings(*actions: str) -> list[BindingType]:
    """Return the bindings of a widget's `action_NAME` methods, with the default keys."""
    return [
        Binding(
            ",".join(DEFAULT_KEYS[action]),
            action,
            ACTIONS[action].help,
            id=action,
            show=False,
        )
        for action in actions
    ]


def keymap(keys: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return Textual's keymap for the keys that differ from the defaults."""
    return {
        action: ",".join(names) or _NO_KEY
        for action, names in keys.items()
        if names != DEFAULT_KEYS.get(action)
    }


def find_action_node(screen: Screen[Any], action: str) -> DOMNode | None:
    """Find the node that has an action: the focused widget, its ancestors, or the application."""
    return next((node for node in _focus_path(screen) if action in _actions_of(node)), None)


def actions_of(screen: Screen[Any]) -> list[str]:
    """Return the actions available on a screen, in the order of the help screen."""
    known = set(chain.from_iterable(_actions_of(node) for node in _focus_path(screen)))
    return [action for action in ACTIONS if action in known]


def _focus_path(screen: Screen[Any]) -> Iterator[DOMNode]:
    yield from (screen.focused or screen).ancestors_with_self


def _actions_of(node: DOMNode) -> Iterator[str]:
    # Read the class, not the active bindings: an action without a key is still available.
    for kind in type(node).__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id in ACTIONS:
                yield binding.id
