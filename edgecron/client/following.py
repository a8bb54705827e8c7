"""Interfaces that follow the output of a run, and the runs of a schedule: here or over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from edgecron.client.follow import Piece
    from edgecron.model.run import Execution


class Follower(Protocol):
    """The output of a run from a position on, each byte once. For one thread."""

    execution_id: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def is_due_for_check(self) -> bool:
        """Whether nothing was heard for a while: check whether anything looks after the run."""

    @property
    def is_silent(self) -> bool:
        """Whether the last `wait` ended without news."""

    def read(self, execution: Execution) -> list[Piece]:
        """Return what it printed since the last call; `execution` is the run as it is now."""

    def read_kept(self, execution: Execution) -> list[Piece]:
        """Return what it has printed so far, if it is still kept."""

    def read_stored(self) -> Iterable[Piece]:
        """Return the rest, after its end was recorded."""

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there can be news, or one of these descriptors is readable; return those."""


class LaterRuns(Protocol):
    """The runs of a schedule that begin from now on."""

    @property
    def is_due_for_check(self) -> bool:
        """Whether it is time to check that the schedule still exists."""

    def wait(self) -> None:
        """Sleep until a run may have begun."""

    def find_next(self) -> Execution | None:
        """Return the next run that has begun, each once; None if there is none yet."""
