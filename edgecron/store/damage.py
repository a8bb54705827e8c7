"""Whether the file holds what it should, and lets itself be written: SQLite's own checks."""

from __future__ import annotations

from pathlib import Path

from edgecron.errors import DatabaseBusy
from edgecron.store.connection import Database

_MOST = 5  # one damage usually shows in many places


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
    check = "integrity_check" if is_deep else "quick_check"
    found = [str(row[0]) for row in database.rows(f"PRAGMA {check}({_MOST})")]
    damage = [words for words in found if words != "ok"]
    if not damage:
        damage = [
            f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is missing"
            for row in database.rows("SELECT * FROM pragma_foreign_key_check LIMIT 5")
        ]
    return damage
