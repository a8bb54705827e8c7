"""How the parts of a screen ask the database: by topic, with one place for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.screen import Screen, ScreenResultType

from edgecron.client.face import Face
from edgecron.tui.host import Host

T = TypeVar("T")


class AskingScreen(Screen[ScreenResultType]):
    """A screen whose parts ask; an answer that comes after it has gone is dropped."""

    app: Host

    def ask(
        self,
        topic: str,
        question: Callable[[Face], T],
        answer: Callable[[T], None],
        *,
        refused: Callable[[], None] | None = None,
    ) -> None:
        """Have a question answered; one of the same topic of this screen that was not begun is
        forgotten. `refused` is called where no answer comes of it; what went wrong is told."""

        def answered(found: T) -> None:
            if self._is_whole:
                answer(found)

        def failed() -> None:
            if refused is not None and self._is_whole:
                refused()

        self.app.ask(f"{id(self)} {topic}", question, answered, refused=failed)

    @property
    def _is_whole(self) -> bool:
        return all(part.is_attached for part in (self, *self.children))

    def break_off(self, topic: str) -> None:
        """End the answering of a question of this screen: another one takes its place."""
        self.app.break_off(f"{id(self)} {topic}")
