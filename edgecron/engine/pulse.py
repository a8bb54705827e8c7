"""Who is told that an engine gets on with its work: what restarts an engine that hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

FindNext = Callable[[], tuple[str, int] | None]


class Pulse(Protocol):
    """Told by the engine's own thread, at what it does anyway. May neither raise nor wait."""

    @property
    def every_ms(self) -> int | None:
        """So often it must be told; None: whenever the engine looks by itself."""

    def looked(self, *, running: int, find_next: FindNext) -> None:
        """The engine has done a step, or seen that there is nothing to do.

        `find_next` gives the schedule that fires next and when, None where nothing is to come.
        Raises what that raises.
        """

    def troubled(self, error: Exception) -> None:
        """The engine can't work, and tries again: it is alive."""

    def stopping(self, *, running: int) -> None:
        """The engine ends, and looks after what still runs. Told again at each look."""


class Unheard:
    """Nobody is told."""

    every_ms = None

    def looked(self, *, running: int, find_next: FindNext) -> None:
        pass

    def troubled(self, error: Exception) -> None:
        pass

    def stopping(self, *, running: int) -> None:
        pass
