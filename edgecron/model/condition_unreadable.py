"""A stored condition that this edgecron can't read: it never holds."""

from __future__ import annotations

from edgecron.base.values import dataclass
from edgecron.model.condition_facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """What a text says is not known here: nothing says that it holds."""

    text: str

    @property
    def schedule(self) -> None:
        return None

    def words(self) -> str:
        return f"{self.text!a}, a condition that this edgecron can't read"

    def is_met(self, facts: Facts) -> bool:
        return False
