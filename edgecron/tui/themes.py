"""Which theme the dashboard has: the one that is asked for, else one that fits the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from textual.theme import BUILTIN_THEMES, Theme

from edgecron.base.errors import InvalidConfig
from edgecron.base.values import NamedTuple
from edgecron.formats.config import Config


class Look(NamedTuple):
    """How text looks: what it is drawn in, by the names of a theme's variables; "" leaves as it is.

    `style` is text as `bold reverse`, or the name of a variable after a `$`.
    """

    color: str = ""
    style: str = ""
    background: str = ""


TEXT_STYLES: dict[str, Look] = {
    "dim": Look("muted"),
    "faint": Look("faint"),
    "bold": Look(style="bold"),
    "accent": Look("primary"),
    "good": Look("success"),
    "bad": Look("error"),
    "warn": Look("warning"),
    "busy": Look("secondary", "bold"),
    "wait": Look("primary"),
    "left": Look("muted"),
    "tab": Look("primary", "bold reverse"),
    "heat1": Look("heat1"),
    "heat2": Look("heat2"),
    "heat3": Look("heat3"),
    "heat4": Look("heat4"),
    # Of whole lines.
    "heading": Look("muted"),
    "marked": Look(style="italic"),
    "cursor": Look(
        "block-cursor-foreground", "$block-cursor-text-style", "block-cursor-background"
    ),
    "cursor-blurred": Look(background="panel"),
}

# Glyph and look of each status: narrow letters that every terminal font has.
STATUS_GLYPHS: dict[str, tuple[str, str]] = {
    "queued": ("○", "wait"),
    "running": ("▸", "busy"),
    "success": ("✓", "good"),
    "failed": ("✗", "bad"),
    "skipped": ("–", "warn"),
    "cancelled": ("⊘", "left"),
    "interrupted": ("!", "bad"),
}
STATE_GLYPHS: dict[str, tuple[str, str]] = {
    "active": ("●", "good"),
    "running": ("▸", "busy"),
    "paused": ("‖", "warn"),
    "broken": ("✗", "bad"),
    "vanished": ("?", "warn"),
    "done": ("·", "dim"),
}

DARK = Theme(
    name="edgecron-dark",
    primary="#7aa2f7",
    secondary="#56b6c2",
    accent="#e0af68",
    warning="#e0af68",
    error="#f7768e",
    success="#9ece6a",
    foreground="#c8d0e0",
    background="#14161b",
    surface="#1b1e25",
    panel="#232731",
    dark=True,
    variables={
        "muted": "#8089a0",
        "faint": "#525a6d",
        "block-cursor-background": "#2b3a5c",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-text-style": "none",
        "border": "#7aa2f7",
        "border-blurred": "#343a48",
        "scrollbar": "#343a48",
        "scrollbar-background": "#14161b",
        "scrollbar-hover": "#4a5266",
        "scrollbar-active": "#7aa2f7",
    },
)
LIGHT = Theme(
    name="edgecron-light",
    primary="#2457c5",
    secondary="#0b7a8a",
    accent="#9a5b00",
    warning="#9a5b00",
    error="#c0233f",
    success="#2f7a1f",
    foreground="#22262e",
    background="#fbfbf9",
    surface="#f3f3ef",
    panel="#e8e8e2",
    dark=False,
    variables={
        "muted": "#6b7280",
        "faint": "#a3a8b0",
        "block-cursor-background": "#cfdcf7",
        "block-cursor-foreground": "#0d1a33",
        "block-cursor-text-style": "none",
        "border": "#2457c5",
        "border-blurred": "#d2d2ca",
        "scrollbar": "#c8c8c0",
        "scrollbar-background": "#fbfbf9",
        "scrollbar-hover": "#a8a8a0",
        "scrollbar-active": "#2457c5",
    },
)
# The terminal's own sixteen colours and its own ground, whatever they are: nothing is drawn that
# depends on which of them is light and which is dark.
TERMINAL = Theme(
    name="terminal",
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_cyan",
    accent="ansi_magenta",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-text-style": "reverse",
        "border": "ansi_blue",
        "border-blurred": "ansi_bright_black",
        "input-cursor-background": "ansi_default",
        "input-cursor-foreground": "ansi_default",
        "input-cursor-text-style": "reverse",
        "input-selection-background": "ansi_blue",
        "input-selection-foreground": "ansi_bright_white",
        "screen-selection-background": "ansi_blue",
        "screen-selection-foreground": "ansi_bright_white",
        "scrollbar": "ansi_bright_black",
        "scrollbar-background": "ansi_default",
        "scrollbar-hover": "ansi_blue",
        "scrollbar-active": "ansi_blue",
    },
)
THEMES = (DARK, LIGHT, TERMINAL)


_KEY = "dashboard.theme"
_AUTO = "auto"
_MANY = ("truecolor", "24bit")
_LIGHT_GROUNDS = ("7", "15")  # of the sixteen colours, as COLORFGBG numbers them


def theme_of(config: Config, environment: Mapping[str, str], *, is_colored: bool) -> str:
    """The name of the theme. Raises InvalidConfig where there is none of the name asked for."""
    asked = _AUTO if config.find(_KEY) is None else str(config.get(_KEY))
    known = {theme.name for theme in THEMES} | set(BUILTIN_THEMES)
    if asked != _AUTO and asked not in known:
        raise InvalidConfig(
            f"dashboard.theme is {asked!r} ({config.place_of(_KEY)}), and there is no such theme",
            hint=f"expected auto or one of {', '.join(sorted(known))}",
        )
    if not is_colored:
        return TERMINAL.name  # Others would be drawn in shades of grey, which are colours too.
    return detect_theme(environment) if asked == _AUTO else asked


def detect_theme(environment: Mapping[str, str]) -> str:
    """The theme that fits what a terminal says of itself."""
    term = environment.get("TERM", "")
    has_many = any(
        environment.get(name, "").lower() in _MANY
        for name in ("COLORTERM", "TEXTUAL_COLOR_SYSTEM")  # the latter tells of a browser
    ) or any(part in term for part in ("256color", "kitty", "direct", "ghostty", "alacritty"))
    if not has_many:
        return TERMINAL.name  # Of sixteen colours the terminal's own are the ones that fit.
    ground = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if ground in _LIGHT_GROUNDS else DARK.name


@contextmanager
def set_no_color(is_plain: bool) -> Iterator[None]:
    """Have Textual find NO_COLOR in the environment, or not; to everybody else it stays as it is.

    Textual counts an empty one, which means nothing, and some versions of it take it away.
    """
    kept = os.environ.pop("NO_COLOR", None)
    if is_plain:
        os.environ["NO_COLOR"] = "1"
    try:
        yield
    finally:
        os.environ.pop("NO_COLOR", None)
        if kept is not None:
            os.environ["NO_COLOR"] = kept
