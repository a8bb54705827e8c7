"""The banner at the top: what keeps the database from being read, for as long as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.tui.performing import actions_of
from edgecron.tui.spans import SpanLine
from edgecron.views.letters import folded
from edgecron.views.phrases import error_words

if TYPE_CHECKING:
    from edgecron.tui.telling import Telling

_MOST_LINES = 3


class Banner(SpanLine):
    """Not there where nothing is the matter; calm where there is no database yet, which is made
    with a first schedule."""

    app: Telling

    def tell(self) -> None:
        """Show what is the matter now, folded to the width of the screen."""
        error = self.app.trouble
        self.display = error is not None
        is_calm = self.app.is_absent and "add" in actions_of(self.screen)
        self.set_class(is_calm, "-calm")
        if error is None:
            return
        words = f"! {error_words(error)}"
        if is_calm:
            key = self.app.label("add")
            words = f"{error.message} yet: {key} makes it, with a first schedule"
        lines = list(folded(clean(words), max(1, self.screen.size.width - 2)))[:_MOST_LINES]
        self.styles.height = len(lines)
        self.show(*([(f" {line}", "bold")] for line in lines))
