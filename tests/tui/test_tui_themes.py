"""Which theme fits, and that NO_COLOR stays for those who are started from the dashboard."""

from __future__ import annotations

import os

import pytest

from edgecron.tui.own_engine import engine_environment
from edgecron.tui.themes import detect_theme, set_no_color


@pytest.mark.parametrize(
    ("environment", "theme"),
    [
        ({"TERM": "linux"}, "terminal"),
        ({"TERM": "xterm"}, "terminal"),
        ({"TERM": "screen-256color"}, "edgecron-dark"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "edgecron-dark"),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "edgecron-light"),
        ({"TERM": "xterm-256color", "COLORFGBG": "15;0"}, "edgecron-dark"),
        ({"TEXTUAL_COLOR_SYSTEM": "truecolor"}, "edgecron-dark"),
    ],
)
def test_the_theme_fits_what_the_terminal_says_of_itself(
    environment: dict[str, str], theme: str
) -> None:
    assert detect_theme(environment) == theme


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("value", ["yes", "", None])
def test_no_color_is_as_it_was_for_those_who_are_started_from_here(
    monkeypatch: pytest.MonkeyPatch, value: str | None, is_plain: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if value is not None:
        monkeypatch.setenv("NO_COLOR", value)

    with set_no_color(is_plain):
        within = "NO_COLOR" in os.environ
        os.environ.pop("NO_COLOR", None)  # as some versions of Textual do

    assert within is is_plain
    assert os.environ.get("NO_COLOR") == value
    assert engine_environment().get("NO_COLOR") == value
