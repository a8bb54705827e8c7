"""Find damage in a database, and repair rows that refer to missing ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgecron.base.errors import DatabaseBusy, QueryInterrupted
from edgecron.base.values import NamedTuple
from edgecron.planning.retention import batches_of
from edgecron.store.sqlite.connection import Database

Rows = Callable[[str], list[tuple[Any, ...]]]

_MOST = 5  # damages that are listed: one usually shows in many places
_HEADING = "*** in database"
_GROWING = frozenset({"executions", "outputs"})  # tables that grow with each run
_OF_SCHEDULES = (
    *("schedule_scopes", "schedule_revisions", "schedule_changes", "schedule_upstreams"),
    "state",
)
# How to repair rows that refer to missing ones, by table and parent, if that loses no history.
_REPAIRS = {
    **{
        (table, "schedules"): f"""DELETE FROM {table}
            WHERE schedule_id NOT IN (SELECT id FROM schedules)"""
        for table in _OF_SCHEDULES
    },
    ("outputs", "executions"): """DELETE FROM outputs
        WHERE execution_id NOT IN (SELECT id FROM executions)""",
    ("schedules", "groups"): """INSERT INTO groups (name)
        SELECT DISTINCT group_name FROM schedules
        WHERE group_name IS NOT NULL AND group_name NOT IN (SELECT name FROM groups)""",
}


def is_write_locked(path: Path, *, wait_s: float) -> bool:
    """Whether another process holds the write lock for longer than we wait. Writes nothing."""
    database = Database(path, busy_wait_s=wait_s, must_exist=True)
    try:
        with database.transaction():
            return False
    except DatabaseBusy:
        return True
    finally:
        database.close()


def find_damage(database: Database, *, is_deep: bool = False) -> list[str]:
    """Return SQLite's descriptions of damage; [] if all is well. Reads the whole file.

    `is_deep` also compares each index with its table. Raises DatabaseUnusable if the file can't be
    read to its end.
    """
    return damage_of(database.rows, is_deep=is_deep)


def damage_of(rows: Rows, *, is_deep: bool) -> list[str]:
    """As `find_damage`, over the connection of `rows`, whose errors it raises."""
    check = "integrity_check" if is_deep else "quick_check"
    # SQLite 3.54 checks the list of free pages only with its own table.
    for check_sql in (f"PRAGMA {check}({_MOST})", "PRAGMA quick_check(sqlite_schema)"):
        damage = _damage_lines(rows, check_sql)
        if damage:
            return damage
    return [orphan_words(one) for one in find_orphans(rows)]


def find_damage_within(
    database: Database, is_over: Callable[[], bool]
) -> tuple[list[str], tuple[str, ...]]:
    """Look for damage, table by table, until `is_over`; the largest tables come last.

    Returns the damage and the tables that were not read to their end.
    """
    tables = [
        name
        for (name,) in database.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]
    tables.sort(key=lambda name: (name in _GROWING, name))
    read = 0
    with suppress(QueryInterrupted), database.until(is_over):
        for table in ("sqlite_schema", *tables):
            if is_over():
                break
            damage = _damage_lines(database.rows, f"PRAGMA quick_check({table})")
            damage = damage or [orphan_words(one) for one in find_orphans(database.rows, table)]
            if damage:
                return damage, ()
            read += table != "sqlite_schema"
    return [], tuple(tables[read:])


class Orphans(NamedTuple):
    """Rows of a table that refer to rows of another table that are missing."""

    table: str
    parent: str
    row_count: int


def find_orphans(rows: Rows, table: str | None = None) -> list[Orphans]:
    """Find the rows of one table, or of all, that refer to missing rows."""
    among = "" if table is None else f"('{table}')"
    found = rows(
        f"""SELECT "table", parent, count(*) FROM pragma_foreign_key_check{among}
            GROUP BY "table", parent ORDER BY "table", parent"""
    )
    return [Orphans(*row) for row in found]


def orphan_words(orphans: Orphans) -> str:
    """`schedule_scopes: 9 rows refer to schedules that are missing`."""
    rows = "1 row refers" if orphans.row_count == 1 else f"{orphans.row_count:,} rows refer"
    return f"{orphans.table}: {rows} to missing {orphans.parent}"


def repair_orphans(database: Database) -> Iterator[Orphans]:
    """Remove rows of missing schedules and runs, and create missing groups.

    Yields what each transaction repaired. Output can have gigabytes, so it is removed in slices;
    fires can start between two slices. Runs of a missing schedule stay: they are history.
    """
    orphans = [one for one in find_orphans(database.rows) if is_repairable(one)]
    small = [one for one in orphans if one.table != "outputs"]
    if small:
        with database.transaction():
            for one in small:
                repair(database, one)
        yield from small
    for one in orphans:
        if one.table == "outputs":
            yield from _repair_outputs(database, one)


def _repair_outputs(database: Database, orphans: Orphans) -> Iterator[Orphans]:
    while page := database.rows(
        """SELECT o.execution_id, length(o.chunks) FROM outputs AS o
           WHERE NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = o.execution_id)
           ORDER BY o.execution_id LIMIT 1000"""
    ):
        for batch in batches_of(dict(page)):
            with database.transaction():
                count = database.change(
                    """DELETE FROM outputs
                       WHERE execution_id IN (SELECT value FROM json_each(:ids))""",
                    {"ids": json.dumps(batch)},
                )
            yield orphans._replace(row_count=count)


def repair(database: Database, orphans: Orphans) -> None:
    """Repair these rows, inside the caller's transaction."""
    database.change(_REPAIRS[orphans.table, orphans.parent])


def is_repairable(orphans: Orphans) -> bool:
    """Whether a repair loses no history."""
    return (orphans.table, orphans.parent) in _REPAIRS


def _damage_lines(rows: Rows, check_sql: str) -> list[str]:
    lines = [line for row in rows(check_sql) for line in str(row[0]).splitlines()]
    damage = [line for line in lines if line != "ok" and not line.startswith(_HEADING)]
    return damage[:_MOST]
