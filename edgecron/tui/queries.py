"""How the parts of a screen ask the database: by topic, with one place for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from textual.screen import Screen, ScreenResultType

from edgecron.client.protocol import Client
from edgecron.tui.database_app import Host

if TYPE_CHECKING:
    from textual.timer import Timer


T = TypeVar("T")


class QueryScreen(Screen[ScreenResultType]):
    """A screen whose parts ask; an answer that comes after it has gone is dropped."""

    app: Host

    def ask(
        self,
        topic: str,
        question: Callable[[Client], T],
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

    def interrupt(self, topic: str) -> None:
        """End the answering of a question of this screen: another one takes its place."""
        self.app.interrupt(f"{id(self)} {topic}")


_MOST_BUSY = 0.05  # of the time may go into answers to one question


class ThrottledQuery(Generic[T]):
    """A question that is asked whenever something changes. What is asked too early waits, and
    only the last of what waits is asked.

    `least_s` is the least time between two.
    """

    def __init__(self, screen: QueryScreen[Any], topic: str, *, least_s: float = 0.0) -> None:
        self._screen = screen
        self._topic = topic
        self._least_ms = least_s * 1000
        self._next_ms = 0.0
        self._timer: Timer | None = None

    def ask(self, question: Callable[[Client], T], answer: Callable[[T], None]) -> None:
        """Ask now, or as soon as it may be."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        wait_ms = self._next_ms - self._screen.app.clock.monotonic_ms()
        if wait_ms > 0:
            self._timer = self._screen.set_timer(
                wait_ms / 1000, lambda: self._ask(question, answer)
            )
        else:
            self._ask(question, answer)

    def skip_wait(self) -> None:
        """Let the next question go at once: somebody waits for it."""
        self._next_ms = 0.0

    def _ask(self, question: Callable[[Client], T], answer: Callable[[T], None]) -> None:
        clock = self._screen.app.clock

        def timed(client: Client) -> tuple[T, int]:
            begun_ms = clock.monotonic_ms()
            found = question(client)
            return found, clock.monotonic_ms() - begun_ms

        def answered(found: tuple[T, int]) -> None:
            pause_ms = max(self._least_ms, found[1] / _MOST_BUSY)
            self._next_ms = clock.monotonic_ms() + pause_ms
            answer(found[0])

        self._screen.ask(self._topic, timed, answered)
