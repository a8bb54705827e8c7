"""Widgets that draw text in looks: what a look is in the theme, worked out once.

Looks as component classes of a stylesheet would be matched against all of its rules, for each
widget and each change of its styles anew: half the time until the first paint.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from edgecron.tui.looks import LOOKS, Look

_AUTO = "auto"  # black or white, whatever is read better on the background


class Painted(Widget):
    """A widget that draws its lines itself."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._look_styles: dict[str, Style] = {}

    def look(self, name: str) -> Style:
        """What a look adds to the style of what it is drawn on; nothing for ""."""
        found = self._look_styles.get(name)
        if found is None:
            found = style_of(LOOKS[name], self.app.theme_variables) if name else Style.null()
            self._look_styles[name] = found
        return found

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._look_styles.clear()


def style_of(look: Look, variables: Mapping[str, str]) -> Style:
    """A look in a theme of these variables; what it does not know is left as it is."""
    background = _color(variables.get(look.background, ""))
    color = variables.get(look.color, "")
    if color.startswith(_AUTO):
        text = None if background is None else background.get_contrast_text(1)
    else:
        text = _color(color)
    style = look.style
    if style.startswith("$"):
        style = variables.get(style[1:], "")
    return Style(color=_rich(text), bgcolor=_rich(background)) + Style.parse(style)


def _color(text: str) -> Color | None:
    return Color.parse(text) if text else None


def _rich(color: Color | None) -> RichColor | None:
    return color.rich_color if color is not None and color.a > 0 else None
