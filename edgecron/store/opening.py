"""Opening the one SQLite file: safely, with the settings that everything else relies on.

Nothing else in the package opens the database file. Not even a plain `open()` and `close()`: in
a process that has the file open through SQLite, that drops SQLite's POSIX locks
(https://www.sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from edgecron.base.errors import DatabaseUnusable

APPLICATION_ID = 0x65646763  # 'edgc'
_PAGE_BYTES = 1024  # measured: 0.3 times the bytes per run that 4096 writes
_LEAST_SQLITE = (3, 51, 3)  # earlier ones can corrupt a WAL that two connections reset at once


def open_file(path: Path) -> apsw.Connection:
    """The file, as it is; `configure` comes next."""
    # A folder above may well be a link (/home often is); NOFOLLOW would refuse that too.
    return apsw.Connection(
        str(path.parent.resolve() / path.name),
        flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW,
    )


def configure(
    connection: apsw.Connection, path: Path, *, wait_for_lock: Callable[[int], bool]
) -> None:
    """Make it one of ours, with write-ahead log. Refuses, unchanged, what is another program's.

    `wait_for_lock` is SQLite's busy handler.
    """
    connection.set_busy_handler(wait_for_lock)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
    _refuse_foreign(connection, path)
    # Page size counts only before the first page is written; WAL is kept by the file.
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}", can_cache=False)
    _enter_wal(connection, path, wait_for_lock)
    # FULL: with NORMAL, 18% of the claims were lost in simulated power cuts; none with FULL.
    connection.execute("PRAGMA synchronous = FULL", can_cache=False)
    connection.execute("PRAGMA temp_store = MEMORY")
    # Overwrite what is deleted or changed: a former definition might hold a secret.
    connection.execute("PRAGMA secure_delete = ON", can_cache=False).fetchall()
    connection.create_scalar_function("casefold", _casefold, 1, deterministic=True)


def _casefold(*texts: Any) -> str:
    return str(texts[0]).casefold()


def open_alone(path: Path) -> apsw.Connection:
    """A file that nobody else uses: no locks, which a network file system may not have."""
    connection = apsw.Connection(
        str(path.parent.resolve() / path.name),
        flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW,
        vfs="unix-none",
    )
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # Before it is read: then a log, where it has one, needs no shared memory.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def open_to_look(path: Path) -> apsw.Connection:
    """A file that others use, to read from at once: it neither waits nor writes, nor makes one."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(str(path.parent.resolve() / path.name), flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


def check_sqlite_version() -> None:
    """Refuse a SQLite that can't be trusted with a log."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < _LEAST_SQLITE:
        raise DatabaseUnusable(
            f"SQLite is {apsw.sqlite_lib_version()}, expected 3.51.3 or later",
            hint="upgrade the apsw package",
        )


def _refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    # Before the change to WAL, which would write to the other program's file.
    is_foreign = connection.execute(
        """SELECT application_id != :ours AND (
               application_id != 0 OR user_version != 0
               OR EXISTS (SELECT 1 FROM sqlite_schema))
           FROM pragma_application_id, pragma_user_version""",
        {"ours": APPLICATION_ID},
        can_cache=False,
    ).fetchall()[0][0]
    if is_foreign:
        raise DatabaseUnusable(
            f"database {path} belongs to another program",
            hint="name another file with --db or EDGECRON_DB",
        )


def _enter_wal(
    connection: apsw.Connection, path: Path, wait_for_lock: Callable[[int], bool]
) -> None:
    # The change to WAL does not always ask the busy handler, so it is asked here.
    tries = 0
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL", can_cache=False).fetchone()
        except apsw.BusyError:
            if not wait_for_lock(tries):
                raise
            tries += 1
            continue
        if mode is None or mode[0] != "wal":
            raise DatabaseUnusable(
                f"database {path} can't use write-ahead logging",
                hint="put it on a local file system",
            )
        return
