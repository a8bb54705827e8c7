"""The store's part in retention, and what it says of its own size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.store.opened import OpenStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgecron.planning.retention import Forgotten, Limits, Removed


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

    def forget(self, schedule_id: int, *, is_trial: bool) -> Forgotten:
        """Remove what a schedule said before, and what a removed one said at all, for good.

        What an active run was decided with stays, and what past runs printed and were given.
        """
        from edgecron.planning.retention import Forgotten
        from edgecron.store.forgetting import (
            batches_of,
            blank_removed,
            empty_log,
            find_forgettable,
            remove_unneeded,
        )

        unneeded, kept = find_forgettable(self._database, schedule_id)
        if is_trial:
            return Forgotten(removed=len(unneeded.snapshots), kept=kept, is_log_empty=True)
        count = 0
        for batch in batches_of(unneeded.snapshots):
            with self._database.transaction():
                count += remove_unneeded(self._database, unneeded, batch)
        with self._database.transaction():
            blank_removed(self._database, schedule_id)
        return Forgotten(removed=count, kept=kept, is_log_empty=empty_log(self._database))

    def find_all_named(self, name: str) -> list[int]:
        """Every schedule of a name: the one that lives, and those that were removed."""
        rows = self._database.rows(
            "SELECT id FROM schedules WHERE name = :name ORDER BY id", {"name": name}
        )
        return [row[0] for row in rows]

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
