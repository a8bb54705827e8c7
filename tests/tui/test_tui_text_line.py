"""What looks are in a theme."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style

from edgecron.tui.text_line import rich_style_of
from edgecron.tui.themes import TextStyle

VARIABLES = {
    "muted": "#808080",
    "text": "auto 87%",
    "own": "ansi_green",
    "ground": "#101010",
    "chosen": "bold reverse",
}


def test_a_look_is_drawn_in_the_colours_of_the_theme() -> None:
    assert rich_style_of(TextStyle("muted", "bold"), VARIABLES) == Style(color="#808080", bold=True)
    assert rich_style_of(TextStyle("own"), VARIABLES).color == Color.from_ansi(2)


def test_what_a_theme_does_not_know_is_left_as_it_is() -> None:
    assert rich_style_of(TextStyle("heat9", background="heat8"), VARIABLES) == Style.null()


def test_a_theme_may_name_a_style() -> None:
    assert rich_style_of(TextStyle(attributes="$chosen"), VARIABLES) == Style(
        bold=True, reverse=True
    )


def test_text_of_no_colour_of_its_own_is_read_well_on_its_background() -> None:
    assert rich_style_of(TextStyle("text", background="ground"), VARIABLES).color == Color.parse(
        "#ffffff"
    )
