"""Check the database file for damage with SQLite's own checks, and repair orphaned rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgecron.base.errors import DatabaseBusy, QueryInterrupted
from edgecron.base.values import NamedTuple
from edgecron.store.sqlite.connection import Database

Rows = Callable[[str], list[tuple[Any, ...]]]

_MOST = 5  # one damage usually shows in many places
_HEADING = "*** in database"
_GROWING = frozenset({"executions", "outputs"})  # with the runs, and not with the schedules
_OF_SCHEDULES = ("schedule_scopes", "schedule_revisions", "schedule_upstreams", "state")
# What mends rows that refer to nothing, by table and parent, where no history is lost.
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
    """Whether somebody holds the write lock for longer than we wait. Nothing is written."""
    database = Database(path, busy_wait_s=wait_s, must_exist=True)
    try:
        with database.transaction():
            return False
    except DatabaseBusy:
        return True
    finally:
        database.close()


def find_damage(database: Database, *, is_deep: bool = False) -> list[str]:
    """What is damaged, in SQLite's words; none where all is well. It reads the whole file, and
    where `is_deep` holds each index against its table.

    Raises DatabaseUnusable where that can't be read to its end.
    """
    return damage_of(database.rows, is_deep=is_deep)


def damage_of(rows: Rows, *, is_deep: bool) -> list[str]:
    """The same, of a connection that is asked by `rows`; raises what that raises."""
    check = "integrity_check" if is_deep else "quick_check"
    # SQLite 3.54 looks at the list of free pages with its own table, and not with all of them.
    for check_sql in (f"PRAGMA {check}({_MOST})", "PRAGMA quick_check(sqlite_schema)"):
        damage = _damage_lines(rows, check_sql)
        if damage:
            return damage
    return [orphan_words(one) for one in find_orphans(rows)]


def find_damage_within(
    database: Database, is_over: Callable[[], bool]
) -> tuple[list[str], tuple[str, ...]]:
    """What is damaged in the tables that can be read before `is_over`, the vital ones first; and
    the tables that were not read to their end."""
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
    """Which rows, of one table or of all, refer to what is missing."""
    among = "" if table is None else f"('{table}')"
    found = rows(
        f"""SELECT "table", parent, count(*) FROM pragma_foreign_key_check{among}
            GROUP BY "table", parent ORDER BY "table", parent"""
    )
    return [Orphans(*row) for row in found]


def orphan_words(orphans: Orphans) -> str:
    """`schedule_scopes: 9 rows refer to schedules that are missing`."""
    rows = "1 row refers" if orphans.row_count == 1 else f"{orphans.row_count:,} rows refer"
    return f"{orphans.table}: {rows} to {orphans.parent} that are missing"


def repair_orphans(database: Database) -> Iterator[Orphans]:
    """Remove the rows that nothing can reach without their schedule or run, and make the groups
    that schedules name; what each transaction repaired.

    Output is removed in slices: there can be gigabytes of it, and fires wait meanwhile. Runs of a
    missing schedule stay: they are history, which a backup may still explain.
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
    # Opening a database loads this module: 2 ms, which only `doctor` needs.
    from edgecron.planning.retention import batches_of
    from edgecron.store.sqlite.retention_rows import find_orphaned_outputs, remove_orphaned_outputs

    after_id = -(2**63)
    while page := find_orphaned_outputs(database, after_id=after_id):
        for batch in batches_of(page):
            ids = [one.execution_id for one in batch]
            with database.transaction():
                count = remove_orphaned_outputs(database, ids)
            yield orphans._replace(row_count=count)
        after_id = page[-1].execution_id


def repair(database: Database, orphans: Orphans) -> None:
    """Repair such rows, inside the caller's transaction."""
    database.change(_REPAIRS[orphans.table, orphans.parent])


def is_repairable(orphans: Orphans) -> bool:
    """Whether a repair loses no history."""
    return (orphans.table, orphans.parent) in _REPAIRS


def _damage_lines(rows: Rows, check_sql: str) -> list[str]:
    lines = [line for row in rows(check_sql) for line in str(row[0]).splitlines()]
    damage = [line for line in lines if line != "ok" and not line.startswith(_HEADING)]
    return damage[:_MOST]
