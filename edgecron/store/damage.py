"""Whether the file holds what it should, and lets itself be written: SQLite's own checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgecron.errors import DatabaseBusy
from edgecron.store.connection import Database

_MOST = 5  # one damage usually shows in many places
_HEADING = "*** in database"


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


def find_damage(database: Database, *, is_deep: bool) -> list[str]:
    """What is damaged, in SQLite's words; none where all is well. It reads the whole file, and
    where `is_deep` holds each index against its table.

    Raises DatabaseUnusable where that can't be read to its end.
    """
    return damage_of(database.rows, is_deep=is_deep)


def damage_of(rows: Callable[[str], list[tuple[Any, ...]]], *, is_deep: bool) -> list[str]:
    """The same, of a connection that is asked by `rows`; raises what that raises."""
    check = "integrity_check" if is_deep else "quick_check"
    # SQLite 3.54 looks at the list of free pages with its own table, and not with all of them.
    for check_sql in (f"PRAGMA {check}({_MOST})", "PRAGMA quick_check(sqlite_schema)"):
        lines = [line for row in rows(check_sql) for line in str(row[0]).splitlines()]
        damage = [line for line in lines if line != "ok" and not line.startswith(_HEADING)]
        if damage:
            return damage[:_MOST]
    return [
        f"row {row[0]} of {row[1]} refers to a row of {row[2]} that is missing"
        for row in rows(
            f"""SELECT coalesce(rowid, '?'), "table", parent
                FROM pragma_foreign_key_check LIMIT {_MOST}"""
        )
    ]
