"""Text styles, status glyphs and themes of the dashboard, and which theme fits the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from textual.theme import BUILTIN_THEMES, Theme

from edgecron.base.errors import InvalidConfig
from edgecron.base.values import NamedTuple
from edgecron.formats.config import Config
from edgecron.model.choices import Status
from edgecron.model.listing import ScheduleState
from edgecron.views.phrases import RUN_GLYPHS, SCHEDULE_GLYPHS, UNKNOWN


class _Glyphs(dict[str, tuple[str, str]]):
    """A glyph and a text style for each word; `?` for one that only a newer server knows."""

    def __missing__(self, word: str) -> tuple[str, str]:
        return UNKNOWN.letter, "dim"


_STATUS_STYLES = {
    Status.QUEUED: "wait",
    Status.RUNNING: "busy",
    Status.SUCCESS: "quiet",
    Status.FAILED: "bad",
    Status.SKIPPED: "warn",
    Status.CANCELLED: "left",
    Status.INTERRUPTED: "bad",
}
_STATE_STYLES = {
    ScheduleState.ACTIVE: "good",
    ScheduleState.PAUSED: "warn",
    ScheduleState.BROKEN: "bad",
    ScheduleState.VANISHED: "warn",
    ScheduleState.DONE: "dim",
}
STATUS_GLYPHS = _Glyphs(
    {status.value: (RUN_GLYPHS[status].letter, style) for status, style in _STATUS_STYLES.items()}
)
STATE_GLYPHS = _Glyphs(
    {state.value: (SCHEDULE_GLYPHS[state].letter, style) for state, style in _STATE_STYLES.items()}
)
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
# The terminal's own sixteen colours and background. Nothing depends on which of them are light.
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
_MANY_COLORS = ("truecolor", "24bit")
_LIGHT_GROUNDS = ("7", "15")  # numbers of light colours in COLORFGBG


class TextStyle(NamedTuple):
    """How text is drawn, by names of theme variables; "" leaves the base as it is.

    `attributes` are words such as `bold reverse`, or `$` and the name of a variable.
    """

    color: str = ""
    attributes: str = ""
    background: str = ""


# Colours of signs and lines, which are not to be read.
SHADES = frozenset({"faint", "heat1", "heat2", "heat3", "heat4"})
TEXT_STYLES: dict[str, TextStyle] = {
    "dim": TextStyle("muted"),
    "faint": TextStyle("faint"),
    "bold": TextStyle(attributes="bold"),
    "accent": TextStyle("primary"),
    "good": TextStyle("success"),
    "quiet": TextStyle("quiet"),
    "bad": TextStyle("error"),
    "warn": TextStyle("warning"),
    "busy": TextStyle("secondary", "bold"),
    "wait": TextStyle("primary"),
    "left": TextStyle("muted"),
    "now": TextStyle("warning", "bold"),
    "tab": TextStyle("primary", "bold reverse"),
    "heat1": TextStyle("heat1"),
    "heat2": TextStyle("heat2"),
    "heat3": TextStyle("heat3"),
    "heat4": TextStyle("heat4"),
    # For whole lines.
    "heading": TextStyle("muted"),
    "marked": TextStyle(attributes="italic"),
    "failed": TextStyle("foreground", background="failed-background"),
    "cursor": TextStyle(
        "block-cursor-foreground", "$block-cursor-text-style", "block-cursor-background"
    ),
    "cursor-blurred": TextStyle("foreground", background="panel"),
}


def theme_of(config: Config, environment: Mapping[str, str], *, is_colored: bool) -> str:
    """Return the name of the theme to use. Raises InvalidConfig for an unknown theme."""
    asked = _AUTO if config.find(_KEY) is None else str(config.get(_KEY))
    known = {theme.name for theme in THEMES} | set(BUILTIN_THEMES)
    if asked != _AUTO and asked not in known:
        raise InvalidConfig(
            f"dashboard.theme is {asked!r} ({config.place_of(_KEY)}), and there is no such theme",
            hint=f"expected auto or one of {', '.join(sorted(known))}",
        )
    if not is_colored:
        return (
            TERMINAL.name
        )  # Any other theme would be drawn in shades of grey, which are colours too.
    return detect_theme(environment) if asked == _AUTO else asked


def detect_theme(environment: Mapping[str, str]) -> str:
    """Choose a theme by what the terminal's variables say."""
    term = environment.get("TERM", "")
    has_many = any(
        environment.get(name, "").lower() in _MANY_COLORS
        for name in ("COLORTERM", "TEXTUAL_COLOR_SYSTEM")  # the second is set for a browser
    ) or any(part in term for part in ("256color", "kitty", "direct", "ghostty", "alacritty"))
    if not has_many:
        return TERMINAL.name  # With sixteen colours only, the terminal's own are the best.
    ground = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if ground in _LIGHT_GROUNDS else DARK.name


@contextmanager
def set_no_color(is_plain: bool) -> Iterator[None]:
    """Set or unset NO_COLOR for Textual's start; restore it afterwards.

    Textual obeys an empty NO_COLOR, which means nothing, and some versions delete the variable.
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
