"""What conditions are and what they may look at."""

from __future__ import annotations

from typing import Protocol


class Facts(Protocol):
    """How things stand, for conditions to judge by."""

    @property
    def now_ms(self) -> int:
        """Wall time."""

    def last_success_ms(self, schedule: str) -> int | None:
        """When the newest success of a schedule ended, in any scope; None where there is none."""


class Condition(Protocol):
    """One condition, as it is kept in `text`."""

    @property
    def text(self) -> str:
        """The canonical text, which `parse_condition` reads back."""

    @property
    def schedule(self) -> str | None:
        """The schedule whose runs it looks at; None where it looks at none."""

    def words(self) -> str:
        """What it is, after `waits for`: `a success of backup within 1h`."""

    def is_met(self, facts: Facts) -> bool:
        """Whether it holds."""
