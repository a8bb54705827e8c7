"""Screens whose questions are answered without one: at once, or in turn."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from textual.geometry import Size

from edgecron.client import Client
from tests.support.clock import FakeClock


class AtOnce:
    """A screen whose questions are answered as they are asked; it counts them."""

    def __init__(self, client: Client, clock: FakeClock) -> None:
        self.app = self
        self.clock = clock
        self.now = clock.now
        self.zone = ZoneInfo("UTC")
        self.size = Size(80, 24)
        self.asked = 0
        self.client = client

    def ask(
        self,
        topic: str,
        question: Callable[[Client], object],
        answer: Callable[[object], None],
        *,
        refused: Callable[[], object] | None = None,
    ) -> None:
        self.asked += 1
        answer(question(self.client))

    def interrupt(self, topic: str) -> None:
        """Nothing is being answered when something is asked."""

    def call_after_refresh(self, callback: Callable[[], None]) -> None:
        """Nothing is drawn."""
        callback()

    def set_timer(self, delay: float, callback: Callable[[], None]) -> None:
        callback()


class InTurn(AtOnce):
    """A screen whose questions are answered one after the other, when it is said."""

    def __init__(self, client: Client, clock: FakeClock) -> None:
        super().__init__(client, clock)
        self.waiting: list[
            tuple[Callable[..., object], Callable[..., object], Callable[[], object] | None]
        ] = []

    def ask(
        self,
        topic: str,
        question: Callable[[Client], object],
        answer: Callable[[object], None],
        *,
        refused: Callable[[], object] | None = None,
    ) -> None:
        self.waiting.append((question, answer, refused))

    def answer_next(self) -> None:
        question, answer, _ = self.waiting.pop(0)
        answer(question(self.client))

    def refuse_next(self) -> None:
        """Fail to answer the next question, as with a database that can't be read."""
        _, _, refused = self.waiting.pop(0)
        if refused is not None:
            refused()
