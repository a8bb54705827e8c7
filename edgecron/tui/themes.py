"""Which theme the dashboard has: the one that is asked for, else one that fits the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from textual.theme import BUILTIN_THEMES

from edgecron.base.errors import InvalidConfig
from edgecron.formats.config import Config
from edgecron.tui.looks import DARK, LIGHT, TERMINAL, THEMES

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
    return fitting_theme(environment) if asked == _AUTO else asked


def fitting_theme(environment: Mapping[str, str]) -> str:
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
def no_color_where(is_plain: bool) -> Iterator[None]:
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
