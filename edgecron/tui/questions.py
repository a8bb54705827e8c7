"""How the parts of a screen ask the database: by topic, with one place for what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from edgecron.api import Scheduler

T = TypeVar("T")


class Questions(Protocol):
    """Whoever takes questions to a desk, and tells people what went wrong."""

    def ask(
        self, topic: str, question: Callable[[Scheduler], T], answer: Callable[[T], None]
    ) -> None:
        """Have a question answered; one of the same topic that was not begun is forgotten."""
