"""What is done with a whole database file: copied, written anew, rebuilt, had alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from edgecron.store.connection import Database
from edgecron.store.opening import open_alone
from edgecron.store.translating import translated_errors


@contextmanager
def rebuilding(database: Database) -> Iterator[None]:
    """Let tables be rebuilt that others refer to, in a transaction that begins in here.

    Foreign keys can't be switched within one; whoever does this looks for what then dangles. A
    person's own views stay as they are: while a table is rebuilt, they refer to one that is gone.
    What is sorted for new indexes lies on the disk: that of a million runs takes 60 MB.
    """
    connection = database.connection
    with database.in_use:  # A fork waits for it, here as anywhere.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)
        connection.config(apsw.SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 1)
        connection.execute("PRAGMA temp_store = FILE")
    try:
        yield
    finally:
        with database.in_use:
            connection.config(apsw.SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 0)
            # A ROLLBACK that failed leaves a transaction, in which neither can be set any more.
            if not connection.in_transaction:
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)


def rewrite(database: Database) -> None:
    """Write the whole file anew, without what is free in it.

    The new one lies on the disk meanwhile: in memory it took more than the database itself.
    """
    connection = database.connection
    with translated_errors(database.path):
        database.check_version()
        connection.execute("PRAGMA temp_store = FILE")
        try:
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")


@contextmanager
def snapshot(database: Database) -> Iterator[None]:
    """What is read within it is one state of the database; writers go on meanwhile."""
    connection = database.connection
    with translated_errors(database.path):
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            yield
        finally:
            connection.execute("ROLLBACK")


def copy_to(database: Database, target: Path) -> None:
    """Copy all that is committed, page by page, into an empty file that is there.

    Raises apsw's errors as they are: they are of either of the two files.
    """
    for _ in copy_pages(database, target, pages=-1):
        pass


def copy_pages(database: Database, target: Path, *, pages: int) -> Iterator[tuple[int, int]]:
    """Copy the database into an empty file, so many pages at a time; how many of how many.

    Within a `snapshot`: without one each commit of others makes the copy begin anew. Raises
    apsw's errors as they are: they are of either file.
    """
    copy = open_alone(target)
    try:
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        with copy.backup("main", database.connection, "main") as copying:
            while not copying.done:
                copying.step(pages)
                yield copying.page_count - copying.remaining, copying.page_count
    finally:
        copy.close()


def leave_wal(database: Database) -> bool:
    """Make it one plain file that nobody else can open until it is closed.

    False where somebody else has it open; nothing has changed then.
    """
    connection = database.connection
    with translated_errors(database.path):
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode is None or mode[0] != "delete":
                return False
            connection.execute("BEGIN EXCLUSIVE")
        except apsw.BusyError:
            return False
        database.check_file()  # Who had it alone before us may have put another one there.
        return True
