"""Changes of schedules: what was done, by whom, from where, and what differs since."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from edgecron.base.values import NamedTuple, dataclass

HTTP = "http"  # the origin of changes that a server makes for its clients
MOST_CHANGES = 200  # of a schedule; older records are removed as new ones are made
PYTHON = "python"  # the origin of changes by a program


class Act(StrEnum):
    """The kinds of changes."""

    ADD = "add"
    EDIT = "edit"
    PAUSE = "pause"
    RESUME = "resume"
    RESCHEDULE = "reschedule"
    REMOVE = "remove"
    UNDO = "undo"
    PART = "part"  # it belongs to the change before it; front ends never see it


class Author(NamedTuple):
    """From where a change came, and the user who made it; None if unknown."""

    origin: str = PYTHON
    user: str | None = None


class Difference(NamedTuple):
    """A field whose value changed. A value of None means unset, or the default."""

    field: str
    old: object
    new: object

    @property
    def key(self) -> str:
        return self.field


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a schedule. `revision` is the revision that it made.

    `is_complete` is False if retention has removed the definition before or after the change. Then
    `changes` lack the differences between the two.
    """

    schedule: str
    revision: int
    at: datetime
    act: Act
    origin: str
    user: str | None
    changes: tuple[Difference, ...]
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """An undo, planned or done: what it changes, and the next times without it and with it.

    `seen` is the revision of the schedule that it starts from, `made` the one that it makes.
    `undone` is the change that it reverts; None if it returns to the definition of `revision`.
    `is_removed`: the schedule does not exist afterwards.
    """

    schedule: str
    seen: int
    made: int
    revision: int
    undone: Change | None
    changes: tuple[Difference, ...]
    next_before: tuple[datetime, ...]
    next_after: tuple[datetime, ...]
    is_removed: bool
