"""Whether the file holds what it should: SQLite's own checks of its pages and references."""

from __future__ import annotations

from edgecron.store.connection import Database

_MOST = 5  # one damage usually shows in many places


def find_damage(database: Database) -> list[str]:
    """What is damaged, in SQLite's words; none where all is well. It reads the whole file.

    Raises DatabaseUnusable where that can't be read to its end.
    """
    found = [str(row[0]) for row in database.rows(f"PRAGMA quick_check({_MOST})")]
    damage = [words for words in found if words != "ok"]
    if not damage:
        damage = [
            f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is missing"
            for row in database.rows("SELECT * FROM pragma_foreign_key_check LIMIT 5")
        ]
    return damage
