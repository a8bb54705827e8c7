"""The keys of actions: from the configuration, to Textual's names, labels and bindings.

Two actions can share a key if one exists only in outputs and the other only in lists. Any other
shared key is refused. The command line checks keys, too, so Textual is loaded only for bindings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from unicodedata import name as unicode_name

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config import Config
from edgecron.formats.config_keys import ACTIONS

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.dom import DOMNode
    from textual.screen import Screen

# Actions that exist only in outputs, or only in lists and forms; of these, some only in one list.
# All others exist everywhere.
IN_OUTPUT = frozenset(
    {
        *("search_next", "search_previous", "follow", "wrap", "timestamps", "copy", "save"),
        *("pager", "older_run", "newer_run", "facts"),
    }
)
IN_LISTS = frozenset(
    {
        *("open", "tail", "scan", "notices", "simulate", "span", "sort", "reverse", "fields"),
        *("mark_all", "mark_range"),
        *(
            "pause",
            "resume",
            "reschedule",
            "add",
            "add_form",
            "edit",
            "delete",
            "undo",
            "redo",
            "backfill",
        ),
        *(
            "changes",
            "graph",
            "failures",
            "acknowledge",
            "zoom_in",
            "zoom_out",
            "earlier",
            "later",
            "present",
        ),
    }
)
IN_TIMELINE = frozenset({"zoom_in", "zoom_out", "earlier", "later", "present"})
IN_SIMULATION = frozenset({"span"})
IN_FAILURES = frozenset({"acknowledge"})
_APART = ((IN_OUTPUT, IN_LISTS), (IN_FAILURES, {"add", *IN_OUTPUT}), (IN_TIMELINE, IN_SIMULATION))

_SECTION = "dashboard.keys"
# Textual's names of letters, if they are not the Unicode name with underscores.
_LETTER_NAMES = {
    "/": "slash", "\\": "backslash", "@": "at", "-": "minus", "+": "plus", "_": "underscore",
}  # fmt: skip
# Keys for which most terminals send the same code as for another key.
_SENT_ALIKE = {
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+h": "backspace",
    "ctrl+[": "escape",
    "ctrl+space": "ctrl+@",
    "ctrl+@": "ctrl+@",
    "ctrl+\\": "ctrl+\\",
    "ctrl+]": "ctrl+]",
    "ctrl+^": "ctrl+^",
    "ctrl+_": "ctrl+_",
}
_LABELS = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "escape": "esc", "delete": "del",
    "insert": "ins", "pageup": "pgup", "pagedown": "pgdn", "backspace": "bksp",
}  # fmt: skip


def keys_of(config: Config) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of each action by Textual's names, in the order of help; () without a key.

    Raises InvalidConfig if one key stands for two actions in one place.
    """
    configured = _configured(config)
    _refuse_clashes(config, configured)
    return {action: _named(texts) for action, texts in configured.items()}


def labels_of(config: Config) -> Mapping[str, tuple[str, ...]]:
    """Return the keys of each action as people read them, such as `^p` or `esc`.

    The key line shows the first one.
    """
    return {
        action: tuple(label_of(text) for text in texts)
        for action, texts in _configured(config).items()
    }


def label_of(text: str) -> str:
    """Return the label of a configured key."""
    modifiers, name = _split_key(text)
    label = _LABELS.get(name, name)
    if modifiers == ["ctrl"] and len(name) == 1:
        return f"^{label}"
    return "+".join([*modifiers, label])


def _named(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in _names_of(text)))


def _configured(config: Config) -> dict[str, tuple[str, ...]]:
    # `config.get` is slow, and most people have changed no key.
    return {
        name: action.keys
        if config.find(f"{_SECTION}.{name}") is None
        else config.get(f"{_SECTION}.{name}")
        for name, action in ACTIONS.items()
    }


def _refuse_clashes(config: Config, configured: Mapping[str, tuple[str, ...]]) -> None:
    users: dict[str, list[str]] = {}
    for action, texts in configured.items():
        for text in texts:
            for name in _names_of(text):
                for other in users.setdefault(name, []):
                    if _share_a_place(action, other):
                        raise _clash(config, text, other, action)
                users[name].append(action)


def _share_a_place(one: str, other: str) -> bool:
    return one != other and not any(
        (one in here and other in there) or (other in here and one in there)
        for here, there in _APART
    )


def _clash(config: Config, text: str, one: str, other: str) -> InvalidConfig:
    both = " and ".join(
        f"{action} ({config.place_of(f'dashboard.keys.{action}')})" for action in (one, other)
    )
    return InvalidConfig(
        f"key {text} stands for two actions: {both}",
        hint=f"give dashboard.keys.{one} or dashboard.keys.{other} another key",
    )


def _names_of(text: str) -> tuple[str, ...]:
    """Return Textual's names of a key; two if terminals send it in two ways."""
    modifiers, name = _split_key(text)
    if "ctrl" in modifiers:
        name = name.lower()  # Terminals send the same for both.
    elif "alt" in modifiers and len(name) == 1 and name.isupper():
        modifiers, name = sorted([*modifiers, "shift"]), name.lower()
    own = "+".join([*modifiers, _letter_name(name)])
    alike = _SENT_ALIKE.get("+".join([*modifiers, name]))
    return (own,) if alike is None else (alike, own)


def _split_key(text: str) -> tuple[list[str], str]:
    """Split a key into sorted modifiers and its name; the name can be `+` itself."""
    head, _, name = text[:-1].rpartition("+")
    return sorted(head.split("+")) if head else [], name + text[-1]


def _letter_name(name: str) -> str:
    if len(name) > 1 or name.isalnum():
        return name
    return _LETTER_NAMES.get(name) or unicode_name(name).lower().replace(" ", "_").replace("-", "_")


_FOR_MARKED = (
    *(("run", "run"), ("pause", "pause"), ("resume", "resume"), ("reschedule", "move")),
    *(("cancel", "cancel"), ("delete", "remove"), ("back", "unmark"), ("mark_range", "range")),
)
_GLYPHS = {"enter": "⏎", "space": "␣"}


def mark_spans(
    labels: Mapping[str, tuple[str, ...]], known: Sequence[str], *, width: int
) -> list[tuple[str, str]]:
    """Return the keys for marked lines: those whose words fit the width."""
    spans: list[tuple[str, str]] = []
    for action, name in _FOR_MARKED:
        if action in known and labels[action]:
            key = f"  {key_words(labels[action][0])} "
            width -= len(key + name)
            if width < 0:
                break
            target = f"@app.perform('{action}')"
            spans += [(key, f"accent{target}"), (name, f"dim{target}")]
    return spans


def key_words(label: str) -> str:
    """Return the label of a key, or a glyph for it."""
    return _GLYPHS.get(label, label)


# The default keys.
DEFAULT_KEYS: Mapping[str, tuple[str, ...]] = {
    name: _named(action.keys) for name, action in ACTIONS.items()
}
DEFAULT_LABELS: Mapping[str, tuple[str, ...]] = {
    name: tuple(label_of(key) for key in action.keys) for name, action in ACTIONS.items()
}


# A name that no key has. Textual reads an empty name as "keep the default key".
_NO_KEY = "no-key"


def bindings(*actions: str) -> list[BindingType]:
    """Return the bindings of a widget's `action_NAME` methods, with the default keys."""
    from textual.binding import Binding

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
    from textual.binding import Binding

    # Read the class, not the active bindings: an action without a key is still available.
    for kind in type(node).__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id in ACTIONS:
                yield binding.id
