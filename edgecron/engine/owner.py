"""Whose a database is. What lies beside it says which processes are ended and which files removed:
so much is believed of our own user alone."""

from __future__ import annotations

import os
from pathlib import Path

from edgecron.errors import EdgecronError
from edgecron.paths import state_dir


def find_stranger(database: Path) -> int | None:
    """The user that a database or its state folder belongs to; None where that is ours.

    What is missing belongs to nobody, and a symbolic link to who has made it.
    """
    return next(
        (
            owner
            for path in (database, state_dir(database))
            if (owner := owner_of(path)) not in (None, os.geteuid())
        ),
        None,
    )


def owner_of(path: Path) -> int | None:
    """The user that a file or folder belongs to; None where it is missing."""
    try:
        return path.lstat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return None


def refuse_foreign(database: Path) -> None:
    """Raises EdgecronError where a database, or its state folder, is another user's."""
    stranger = find_stranger(database)
    if stranger is not None:
        raise EdgecronError(
            f"database {database} belongs to user {stranger}, and you are user {os.geteuid()}:"
            " none of its runs is taken over or ended",
            hint="repeat as that user",
        )
