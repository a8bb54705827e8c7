"""What stands before a screen until it is left: questions, the palette, help."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.screen import ModalScreen, ScreenResultType

from edgecron.tui.bindings import bindings


class Overlay(ModalScreen[ScreenResultType | None]):
    """Left by the key for going back, and by escape, whatever else that is; then it is None."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("back")

    def key_escape(self, event: events.Key) -> None:
        # No binding: Textual drops it where the key for going back is another one.
        event.stop()
        self.action_leave()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_back(self) -> None:
        self.action_leave()
