"""Read the recorded changes of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecron.base.errors import Unreadable
from edgecron.base.units import from_ms
from edgecron.model.schedule import Act, Change
from edgecron.views.changes import find_differences

if TYPE_CHECKING:
    from edgecron.client.schedule_changes import ScheduleChanges
    from edgecron.store.sqlite.revisions import ChangeRow, StoredDefinition

_MOST_PARTS = 3  # records of one change


class ChangeLog:
    """The recorded changes of the schedules of a database."""

    def __init__(self, database: ScheduleChanges) -> None:
        self._database = database
        self._store = database.store

    def find(self, name: str, *, before: int | None, limit: int) -> list[Change]:
        """Return changes of a schedule before a revision, newest first. Raises NotFound."""
        schedule_id = self._database.past_id(name)
        found = self.find_groups(schedule_id, before=before, limit=limit)
        return [self.change_of(name, rows) for rows in found]

    def find_groups(
        self, schedule_id: int, *, before: int | None = None, limit: int = 1
    ) -> list[list[ChangeRow]]:
        """Return the records of each change, newest first; those of one change, too."""
        rows = self._store.find_changes(schedule_id, before=before, limit=limit * _MOST_PARTS)
        groups: list[list[ChangeRow]] = []
        part: list[ChangeRow] = []
        for row in rows:
            part.append(row)
            if row.act is not Act.PART:
                groups.append(part)
                part = []
        return groups[:limit]

    def change_of(self, name: str, rows: Sequence[ChangeRow]) -> Change:
        first, last = rows[-1], rows[0]
        before, after, is_complete = None, None, True
        try:
            after = self._store.find_definition(first.schedule_id, last.revision)
            if first.act is not Act.ADD:
                before = self.find_before(first)
                is_complete = before is not None
            if after is None or not _covers(after, last.revision, last.at_ms + 1):
                is_complete = False
        except Unreadable:
            is_complete = False
        changes = find_differences(
            None if before is None or not is_complete else before.spec,
            None if after is None or not is_complete else after.spec,
            state=state_of(rows),
        )
        return Change(
            schedule=name if after is None else after.spec.name,
            revision=last.revision,
            at=from_ms(first.at_ms),
            act=first.act,
            origin=first.origin,
            user=first.user,
            changes=changes,
            is_complete=is_complete,
        )

    def find_before(self, row: ChangeRow) -> StoredDefinition | None:
        """Return the definition that a change was made from; None if retention removed it."""
        found = self._store.find_definition(row.schedule_id, row.revision - 1)
        return found if found is not None and _covers(found, -1, row.at_ms) else None


def _covers(stored: StoredDefinition, revision: int, until_ms: int) -> bool:
    """Whether a definition was valid up to an instant, or is that of a revision."""
    until = stored.known_until_ms
    return stored.revision == revision or until is None or until >= until_ms


def state_of(rows: Sequence[ChangeRow]) -> dict[str, list[object]]:
    """Put the states of the records of one change together."""
    state: dict[str, list[object]] = {}
    for row in reversed(rows):
        for key, (old, new) in row.state.items():
            state[key] = [state[key][0] if key in state else old, new]
    return {key: two for key, two in state.items() if two[0] != two[1]}
