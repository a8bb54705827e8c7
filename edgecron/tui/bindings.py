"""Bindings of actions: their keys as they are unless changed, and how changed ones replace them."""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import Binding, BindingType

from edgecron.formats.config_actions import ACTIONS
from edgecron.tui.keys import DEFAULT_KEYS

# A name that no key has: Textual takes an empty one for none that is changed.
_NO_KEY = "no-key"


def bindings(*actions: str) -> list[BindingType]:
    """Bindings for `action_NAME` of a widget, by their names in the configuration."""
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
    """What Textual is told of keys that are not the default ones."""
    return {
        action: ",".join(names) or _NO_KEY
        for action, names in keys.items()
        if names != DEFAULT_KEYS.get(action)
    }
