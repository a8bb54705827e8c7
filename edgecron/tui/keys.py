"""The keys of actions, as the configuration has them and as Textual calls them. Pure.

Some actions share a key by design, in different places: what reads output has no use for what
lists do, and the other way about. Two that could both be meant are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from unicodedata import name as unicode_name

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config import Config
from edgecron.formats.config_keys import ACTIONS

# Where actions are: in what reads output, in lists and forms, or, all the others, everywhere.
IN_OUTPUT = frozenset(
    {
        *("search_next", "search_previous", "follow", "wrap", "timestamps", "copy", "save"),
        *("pager", "left", "right", "older_run", "newer_run", "facts"),
    }
)
IN_LISTS = frozenset(
    {
        *("open", "sort", "fields", "mark_all"),
        *("pause", "resume", "reschedule", "add", "edit", "delete", "undo", "backfill"),
    }
)

_SECTION = "dashboard.keys"
# What Textual calls a letter where that is not its Unicode name with underscores.
_LETTER_NAMES = {
    "/": "slash", "\\": "backslash", "@": "at", "-": "minus", "+": "plus", "_": "underscore",
}  # fmt: skip
# What terminals send for two keys alike; where they tell them apart, by their own name.
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
    """The keys of each action, in the order of help, by Textual's names; () where it has none.

    Raises InvalidConfig where one key would do two things in one place, and names both.
    """
    written = _written(config)
    _refuse_clashes(config, written)
    return {action: _named(texts) for action, texts in written.items()}


def labels_of(config: Config) -> Mapping[str, tuple[str, ...]]:
    """The keys of each action as people read them, such as `^p` or `esc`; the first is the
    footer's."""
    return {
        action: tuple(label_of(text) for text in texts)
        for action, texts in _written(config).items()
    }


def label_of(text: str) -> str:
    """A key of the configuration as people read it."""
    modifiers, name = _parted(text)
    label = _LABELS.get(name, name)
    if modifiers == ["ctrl"] and len(name) == 1:
        return f"^{label}"
    return "+".join([*modifiers, label])


def _named(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in _names_of(text)))


def _written(config: Config) -> dict[str, tuple[str, ...]]:
    # What reads settings takes its time, and most people have changed none.
    return {
        name: action.keys
        if config.find(f"{_SECTION}.{name}") is None
        else config.get(f"{_SECTION}.{name}")
        for name, action in ACTIONS.items()
    }


def _refuse_clashes(config: Config, written: Mapping[str, tuple[str, ...]]) -> None:
    users: dict[str, list[str]] = {}
    for action, texts in written.items():
        for text in texts:
            for name in _names_of(text):
                for other in users.setdefault(name, []):
                    if _share_a_place(action, other):
                        raise _clash(config, text, other, action)
                users[name].append(action)


def _share_a_place(one: str, other: str) -> bool:
    return one != other and not any(
        one in here and other in there
        for here, there in ((IN_OUTPUT, IN_LISTS), (IN_LISTS, IN_OUTPUT))
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
    """What Textual calls a key; two names where terminals send it in two ways."""
    modifiers, name = _parted(text)
    if "ctrl" in modifiers:
        name = name.lower()  # No terminal tells the two apart.
    elif "alt" in modifiers and len(name) == 1 and name.isupper():
        modifiers, name = sorted([*modifiers, "shift"]), name.lower()
    own = "+".join([*modifiers, _letter_name(name)])
    alike = _SENT_ALIKE.get("+".join([*modifiers, name]))
    return (own,) if alike is None else (alike, own)


def _parted(text: str) -> tuple[list[str], str]:
    """The modifiers, in Textual's order, and the name; the name may be `+` itself."""
    head, _, name = text[:-1].rpartition("+")
    return sorted(head.split("+")) if head else [], name + text[-1]


def _letter_name(name: str) -> str:
    if len(name) > 1 or name.isalnum():
        return name
    return _LETTER_NAMES.get(name) or unicode_name(name).lower().replace(" ", "_").replace("-", "_")


# Those that hold unless the configuration says otherwise.
DEFAULT_KEYS: Mapping[str, tuple[str, ...]] = {
    name: _named(action.keys) for name, action in ACTIONS.items()
}
DEFAULT_LABELS: Mapping[str, tuple[str, ...]] = {
    name: tuple(label_of(key) for key in action.keys) for name, action in ACTIONS.items()
}
