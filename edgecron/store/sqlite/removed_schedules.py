"""Delete removed schedules that have no runs left, with all rows that belong to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from edgecron.base.values import NamedTuple
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.statistics import keep_measures

MOST_ROWS = 250  # that one transaction deletes
_AT_ONCE = 20  # schedules of one query
# The tables whose rows belong to a schedule, with the rest of their keys.
_OWNED = {
    "schedule_scopes": "scope_kind, scope_id",
    "schedule_upstreams": "upstream",
    "schedule_revisions": "revision",
    "schedule_changes": "revision",
    "state": "key",
}
_OWNED_COUNT = " + ".join(
    f"(SELECT count(*) FROM {table} WHERE schedule_id = s.id)" for table in _OWNED
)
# The schedule with the highest id stays: its id would be given again.
_FORGETTABLE = """s.deleted_at IS NOT NULL AND s.id < (SELECT max(id) FROM schedules)
    AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.schedule_id = s.id)"""


class Forgettable(NamedTuple):
    """A schedule that can be deleted, and how many rows that deletes."""

    schedule_id: int
    rows: int


def find_forgettable(database: Database, *, before_ms: int) -> Iterator[list[Forgettable]]:
    """The schedules that were removed before an instant and have no runs left, by id."""
    after_id = 0
    while found := database.rows(
        f"""SELECT s.id, 1 + {_OWNED_COUNT} FROM schedules AS s INDEXED BY schedules_removed
            WHERE {_FORGETTABLE} AND s.deleted_at < :before AND s.id > :after
            ORDER BY s.id LIMIT {_AT_ONCE}""",
        {"before": before_ms, "after": after_id},
    ):
        after_id = found[-1][0]
        yield [Forgettable(*row) for row in found]


def delete_schedules(database: Database, ids: Sequence[int]) -> list[int]:
    """Delete those of these schedules that still can be, in a transaction; their ids.

    The statistics of a schedule stay.
    """
    gone = database.rows(
        f"""SELECT s.id FROM json_each(:ids) AS w CROSS JOIN schedules AS s
                ON s.id = w.value WHERE {_FORGETTABLE}""",
        {"ids": json.dumps(list(ids))},
    )
    for (schedule_id,) in gone:
        keep_measures(database, schedule_id)
        database.change("DELETE FROM schedules WHERE id = :id", {"id": schedule_id})
    return [row[0] for row in gone]


def delete_owned(database: Database, schedule_id: int) -> bool:
    """Delete some rows that belong to a schedule, in a transaction; whether more can be left.

    From then on, the schedule counts as forgotten: it can't be restored as it was.
    """
    params = {"id": schedule_id, "limit": MOST_ROWS - 1}
    is_forgettable = database.change(
        f"""UPDATE schedules AS s SET removed_state = 'forgotten'
            WHERE s.id = :id AND {_FORGETTABLE}""",
        {"id": schedule_id},
    )
    if not is_forgettable:
        return False
    for table, key in _OWNED.items():
        deleted = database.change(
            f"""DELETE FROM {table} WHERE schedule_id = :id AND ({key}) IN (
                    SELECT {key} FROM {table} WHERE schedule_id = :id LIMIT :limit)""",
            params,
        )
        if deleted:
            return True
    return False
