"""Where the database, the configuration and the state folder live."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from edgecron.errors import InvalidInput

DATABASE_NAME = "edgecron.db"
_STATE_SUFFIX = ".state"


def database_path(given: str | None = None, *, environ: Mapping[str, str] | None = None) -> Path:
    """The database file: what was given, else EDGECRON_DB, else the default of this user.

    Root's default is /var/lib/edgecron/edgecron.db, everyone else's lies in the user data folder.
    Raises InvalidInput for a path that can't be.
    """
    env = os.environ if environ is None else environ
    named = given or env.get("EDGECRON_DB")
    if named:
        if "\0" in named:
            raise InvalidInput(f"database path {named[:60]!a} holds a NUL character")
        try:
            path = Path(named).expanduser().absolute()
        except RuntimeError as error:
            raise InvalidInput(f"database path {named!r}: {error}") from error
        try:
            str(path).encode()
        except UnicodeEncodeError:
            # SQLite takes no other names, and a locale that is not UTF-8 makes some of them so.
            raise InvalidInput(
                f"database path {str(path)!a} is not valid UTF-8",
                hint="take another name, or a UTF-8 locale",
            ) from None
        return path
    if os.name == "posix" and os.geteuid() == 0:
        return Path("/var/lib/edgecron") / DATABASE_NAME
    from platformdirs import user_data_path

    return user_data_path("edgecron", appauthor=False) / DATABASE_NAME


def state_dir(database: Path) -> Path:
    """The folder beside a database that holds journals, FIFOs and locks."""
    return database.with_name(database.name + _STATE_SUFFIX)
