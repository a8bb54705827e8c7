"""Reading executions, those of removed schedules as well."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from edgecron.base.errors import Unreadable
from edgecron.base.units import to_ms
from edgecron.model.choices import Cause, Status
from edgecron.model.listing import RunPage
from edgecron.model.run import Execution
from edgecron.store.connection import Database
from edgecron.store.pages import COLUMNS, Wanted, find_page
from edgecron.store.rows import execution_of
from edgecron.store.sense import unreadable
from edgecron.store.statements import Params

# CROSS keeps the order of the tables: with statistics SQLite may begin with schedules, and sort.
_FROM = "FROM executions AS e CROSS JOIN schedules AS s ON s.id = e.schedule_id"


def find_execution(database: Database, execution_id: int) -> Execution | None:
    """One execution, or None. Raises Unreadable."""
    return _find_one(database, f"{_FROM} WHERE e.id = :id", {"id": execution_id})


def find_executions(
    database: Database,
    *,
    schedule_id: int | None = None,
    former_ids: Sequence[int] = (),
    statuses: tuple[Status, ...] = (),
    causes: tuple[Cause, ...] = (),
    before_id: int | None = None,
    limit: int = 20,
) -> RunPage:
    """A page of executions, newest first; the next page is asked for before its last id.

    Those of `former_ids` are among those of a schedule.
    """
    schedule_ids = None if schedule_id is None else (schedule_id, *former_ids)
    wanted = Wanted(
        schedule_ids=schedule_ids, statuses=statuses, causes=causes, before_id=before_id
    )
    return find_page(database, wanted, limit=limit)


def find_waiting(database: Database, *, limit: int) -> list[Execution]:
    """Executions that wait for a condition, those whose deadline comes first before the others."""
    return _find_readable(
        database,
        """FROM executions AS e INDEXED BY executions_owed
           CROSS JOIN schedules AS s ON s.id = e.schedule_id
           WHERE e.waiting_for IS NOT NULL ORDER BY e.wait_until, e.id LIMIT :limit""",
        {"limit": limit},
    )


def last_execution_of(database: Database, schedule_id: int) -> Execution | None:
    """The newest execution of a schedule that was to run and did, or failed to; None: none.

    Raises Unreadable.
    """
    return _find_one(
        database,
        f"""{_FROM} WHERE e.schedule_id = :schedule AND e.claimed_at IS NOT NULL
            ORDER BY e.id DESC LIMIT 1""",
        {"schedule": schedule_id},
    )


def find_next_attempt(database: Database, execution: Execution) -> Execution | None:
    """The attempt of the same fire that follows an execution, or None where there is none.

    Raises Unreadable.
    """
    return _find_one(
        database,
        f"""{_FROM} WHERE e.schedule_id = :schedule AND e.scope_kind = :scope_kind
                AND e.scope_id = :scope_id AND e.plan_at = :plan AND e.fire_key = :fire_key
                AND e.attempt = :attempt""",
        {
            "schedule": execution.schedule_id,
            "scope_kind": execution.scope_kind,
            "scope_id": execution.scope_id,
            "plan": to_ms(execution.plan_at),
            "fire_key": execution.fire_key,
            "attempt": execution.attempt + 1,
        },
    )


def find_later(
    database: Database, schedule_id: int, *, after_id: int, limit: int
) -> list[Execution]:
    """The readable executions of a schedule after an id, oldest first."""
    wanted = Wanted(schedule_ids=(schedule_id,), after_id=after_id)
    return find_page(database, wanted, limit=limit).runs[::-1]


def find_removed(database: Database, name: str) -> tuple[int, int] | None:
    """(id, deleted_at) of the newest removed schedule of this name, or None."""
    row = database.row(
        """SELECT id, deleted_at FROM schedules WHERE name = :name AND deleted_at IS NOT NULL
           ORDER BY id DESC LIMIT 1""",
        {"name": name},
    )
    return None if row is None else (row[0], row[1])


def find_removals(database: Database, name: str) -> list[tuple[int, int]]:
    """(id, deleted_at) of every removed schedule of this name, the newest first."""
    return database.rows(
        """SELECT id, deleted_at FROM schedules INDEXED BY schedules_removed
           WHERE deleted_at IS NOT NULL AND name = :name ORDER BY deleted_at DESC, id DESC""",
        {"name": name},
    )


def count_active(database: Database) -> dict[Status, int]:
    """How many executions are queued and running."""
    rows = database.rows(
        """SELECT status, count(*) FROM executions
           WHERE status IN ('queued', 'running') GROUP BY status"""
    )
    return {Status(status): count for status, count in rows}


def _find_one(database: Database, rest: str, params: Params) -> Execution | None:
    """The execution that the rest of a statement finds, or None. Raises Unreadable, with its id."""
    try:
        row = database.row(f"SELECT {COLUMNS} {rest}", params)
    except Unreadable as error:
        found = database.row(f"SELECT e.id {rest}", params)
        assert found is not None
        raise unreadable(f"run {found[0]}", error) from error
    return None if row is None else execution_of(row)


def _find_readable(database: Database, rest: str, params: Params) -> list[Execution]:
    """The readable executions among those that the rest of a statement finds, in its order."""
    with suppress(Unreadable):
        rows = database.rows(f"SELECT {COLUMNS} {rest}", params)
        return [execution_of(row) for row in rows]
    found: list[Execution] = []
    for (execution_id,) in database.rows(f"SELECT e.id {rest}", params):
        with suppress(Unreadable):
            one = find_execution(database, execution_id)
            found += [] if one is None else [one]
    return found
