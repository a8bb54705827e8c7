"""How the parts of a screen ask the database: by topic, with one place for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.screen import Screen, ScreenResultType

from edgecron.api import Scheduler
from edgecron.tui.host import Host

T = TypeVar("T")


class AskingScreen(Screen[ScreenResultType]):
    """A screen whose parts ask; an answer that comes after it has gone is dropped."""

    app: Host

    def ask(
        self, topic: str, question: Callable[[Scheduler], T], answer: Callable[[T], None]
    ) -> None:
        """Have a question answered; one of the same topic of this screen that was not begun is
        forgotten."""

        def answered(found: T) -> None:
            if all(part.is_attached for part in (self, *self.children)):
                answer(found)

        self.app.ask(f"{id(self)} {topic}", question, answered)

    def break_off(self, topic: str) -> None:
        """End the answering of a question of this screen: another one takes its place."""
        self.app.break_off(f"{id(self)} {topic}")
