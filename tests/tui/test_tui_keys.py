"""Keys of the configuration become keys of Textual."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest
from textual.app import App
from textual.events import Key

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config import Config
from edgecron.formats.config_keys import ACTIONS, read_keys
from edgecron.tui.keys import IN_LISTS, IN_OUTPUT, keys_of, label_of, labels_of

LETTERS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~§€é"


def config_of(**keys: str) -> Config:
    environ = {f"EDGECRON_DASHBOARD_KEYS_{name.upper()}": key for name, key in keys.items()}
    return Config((), environ=environ)


def names_of(written: str) -> tuple[str, ...]:
    """Of a key that no other action has."""
    others = dict.fromkeys(ACTIONS, "none")
    return keys_of(config_of(**others | {"save": written}))["save"]


def test_without_a_configuration_each_action_has_its_own_keys() -> None:
    keys = keys_of(config_of())

    assert list(keys) == list(ACTIONS)
    assert keys["up"] == ("k", "up")
    assert keys["bottom"] == ("G", "end")
    assert keys["filter"] == ("slash",)
    assert keys["mark_all"] == ("asterisk",)
    assert keys["palette"] == ("ctrl+p", "colon")
    assert keys["help"] == ("question_mark", "f1")


def test_places_name_actions_that_there_are() -> None:
    assert set(ACTIONS) >= IN_LISTS | IN_OUTPUT
    assert not IN_LISTS & IN_OUTPUT


class Listening(App[None]):
    """Keeps the names of the keys that are pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def on_key(self, event: Key) -> None:
        self.names.append(event.key)


@cache
def names_in_textual() -> dict[str, str]:
    """Each letter, and the name of its key."""

    async def press() -> list[str]:
        app = Listening()
        async with app.run_test() as pilot:
            await pilot.press(*LETTERS)
        return app.names

    return dict(zip(LETTERS, asyncio.run(press()), strict=True))


@pytest.mark.parametrize("letter", LETTERS)
def test_letters_are_called_as_textual_calls_them(letter: str) -> None:
    assert read_keys((letter,), "key") == (letter,)
    if letter == ",":
        return  # It divides keys in a variable; in a file it may stand.
    assert names_of(letter) == (names_in_textual()[letter],)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("ctrl+X", ("ctrl+x",)),
        ("alt+X", ("alt+shift+x",)),
        ("shift+ctrl+f7", ("ctrl+shift+f7",)),
        ("ctrl++", ("ctrl+plus",)),
        ("ctrl+i", ("tab", "ctrl+i")),
        ("ctrl+space", ("ctrl+@", "ctrl+space")),
        ("ctrl+_", ("ctrl+_", "ctrl+underscore")),
        ("Z,z,alt+z", ("Z", "z", "alt+z")),
        ("none", ()),
    ],
)
def test_modifiers_are_as_terminals_send_them(written: str, names: tuple[str, ...]) -> None:
    assert names_of(written) == names


@pytest.mark.parametrize(
    ("written", "label"),
    [("ctrl+p", "^p"), ("escape", "esc"), ("up", "↑"), ("G", "G"), ("?", "?"), ("+", "+"),
     ("space", "space"), ("ctrl+pageup", "ctrl+pgup"), ("shift+tab", "shift+tab"),
     ("alt++", "alt++")],
)  # fmt: skip
def test_labels_are_short(written: str, label: str) -> None:
    assert label_of(written) == label


def test_labels_stand_beside_the_keys() -> None:
    assert labels_of(config_of(quit="Q,ctrl+c"))["quit"] == ("Q", "^c")
    assert labels_of(config_of(quit="none"))["quit"] == ()


def test_one_key_for_two_actions_of_one_place_is_refused_and_names_both() -> None:
    with pytest.raises(InvalidConfig) as raised:
        keys_of(config_of(run="q"))

    assert raised.value.message == (
        "key q stands for two actions: run (EDGECRON_DASHBOARD_KEYS_RUN) and quit (default)"
    )
    assert raised.value.hint == "give dashboard.keys.run or dashboard.keys.quit another key"


def test_a_key_that_terminals_send_alike_is_the_same_key() -> None:
    with pytest.raises(InvalidConfig, match=r"key ctrl\+m stands for two actions: open"):
        keys_of(config_of(wrap="enter", run="ctrl+m"))


def test_output_and_lists_may_share_a_key() -> None:
    keys = keys_of(config_of(add="n", wrap="p"))

    assert keys["add"] == keys["search_next"] == ("n",)
    assert keys["wrap"] == keys["pause"] == ("p",)
