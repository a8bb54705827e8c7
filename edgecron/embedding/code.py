"""What a program declares, as its engine puts it down where another version has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.embedding.forks import engine_logger
from edgecron.errors import DatabaseUnusable, EdgecronError

if TYPE_CHECKING:
    from edgecron.embedding.registry import Registry


class DeclaredCode:
    """The declarations of a program whose queue that is; `keep` has the database say them, where
    code of a digest has the say there still."""

    def __init__(self, registry: Registry, *, queue: str, keep: Callable[[str], object]) -> None:
        self._registry = registry
        self._keep = keep
        self._told: str | None = None  # what kept it from being said
        self.queue = queue

    @property
    def digest(self) -> str:
        """The same in every process that declares the same."""
        return self._registry.digest

    def put_down(self, *, after: str) -> None:
        """Have the database say what is declared. What keeps it from that is logged, but for what
        its engine minds: raises DatabaseUnusable."""
        try:
            self._keep(after)
        except DatabaseUnusable:
            raise
        except EdgecronError as error:
            self._log(error)

    def _log(self, error: EdgecronError) -> None:
        if str(error) != self._told:  # It is tried again and again.
            engine_logger().error(
                "another version of this program has left, and what this one declares can't take"
                " the place of what that did: %s",
                error,
            )
        self._told = str(error)
