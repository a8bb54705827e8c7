"""The store's part in retention, and what it says of its own size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.store.opened import OpenStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgecron.retention import Limits, Removed


class Keeping(OpenStore):
    """What a store keeps, and what it lets go of."""

    def begin_pruning(self, limits: Limits) -> Iterator[Removed | None] | None:
        from edgecron.store.pruning import begin_turn

        begun = begin_turn(self._database, limits)
        return None if begun is None else begun.slices()

    def prune(
        self, limits: Limits, *, schedule_id: int | None, is_trial: bool
    ) -> Iterator[Removed | None]:
        """Remove what is beyond these limits, a transaction at each turn: see `pruning.Pass`."""
        from edgecron.store.pruning import begin_asked

        begun = begin_asked(self._database, limits, schedule_id=schedule_id, is_trial=is_trial)
        return begun.slices()

    def is_removed(self, execution_id: int) -> bool:
        """Whether there was an execution of this id, and is none any more: none is given twice."""
        row = self._database.row(
            """SELECT 1 WHERE :id BETWEEN 1 AND (SELECT max(id) FROM executions)
                   AND NOT EXISTS (SELECT 1 FROM executions WHERE id = :id)""",
            {"id": execution_id},
        )
        return row is not None

    def find_size(self) -> tuple[int, int]:
        """The bytes that the database holds, and those that are free in its file."""
        from edgecron.store.removing import free_bytes, used_bytes

        return used_bytes(self._database), free_bytes(self._database)

    def compact(self) -> None:
        """Write the whole file anew, without what is free in it; nobody else writes meanwhile."""
        from edgecron.store.whole import rewrite

        rewrite(self._database)
        self._database.checkpoint()
