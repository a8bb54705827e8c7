"""Whose a database is. What lies beside it says which processes are ended and which files removed:
so much is believed of our own user alone."""

from __future__ import annotations

import os
from pathlib import Path

from edgecron.base.errors import DatabaseUnusable, EdgecronError
from edgecron.base.files import Weakness, find_weakness, has_other_users
from edgecron.base.paths import is_root, state_dir


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


def find_opening(database: Path) -> Weakness | None:
    """What lets others than root decide what root's engine runs; None where nothing does.

    For root alone: what anybody else runs is run with no more rights than theirs.
    """
    if not is_root() or not has_other_users():
        return None
    if os.path.exists(database) and not os.path.isfile(database):
        return None  # A device or a folder: it is refused for that, and its mode is left alone.
    for path in (database, state_dir(database)):
        weakness = find_weakness(path)
        if weakness is not None:
            return weakness
    return None


def open_refusal(database: Path) -> DatabaseUnusable | None:
    """The error where others than root decide what root's engine would run; None elsewhere."""
    opening = find_opening(database)
    if opening is None:
        return None
    return DatabaseUnusable(
        f"database {database} is not root's alone: {opening.words}",
        hint=f"who may change that runs what they like as root: {opening.mend}",
    )


def refuse_open(database: Path) -> None:
    """Raises DatabaseUnusable where others than root decide what root's engine would run."""
    refusal = open_refusal(database)
    if refusal is not None:
        raise refusal
