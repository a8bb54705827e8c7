"""Work on the whole database file: copy it, rebuild tables, compact it, hold it alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import apsw

from edgecron.base.errors import DatabaseFull, DatabaseUnusable
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.database_file import open_alone
from edgecron.store.sqlite.sqlite_errors import translated_errors


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


def compact(database: Database) -> None:
    """Rewrite the whole file without its free pages, and move all of the log into it.

    No other process can write meanwhile. SQLite builds the new file on disk: in memory it took more
    than the database itself.
    """
    connection = database.connection
    with translated_errors(database.path):
        database.check_version()
        connection.execute("PRAGMA temp_store = FILE")
        try:
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")
    database.checkpoint()


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


_MIB = 1024 * 1024


def keep_copy(database: Database, *, suffix: str) -> Path:
    """Copy what is committed to a file named like the database and `suffix`, mode 0600; its path.

    For who holds the write lock: nothing is committed then, and nobody else makes this copy. What
    has the name already stays, and is taken for the copy where it is the same; else the copy gets
    a number. Raises DatabaseUnusable where it can't be made; nothing of it is left then.
    """
    path = database.path.parent.resolve() / database.path.name
    new = path.with_name(f"{path.name}{suffix}.new")
    try:
        # Of one that was killed.
        new.unlink(missing_ok=True)
        _need_space(path)
        try:
            _write(database, new)
            return _name(new, path.with_name(f"{path.name}{suffix}"))
        except BaseException:
            with suppress(OSError):  # What went wrong first is told.
                new.unlink(missing_ok=True)
            raise
    except (OSError, apsw.Error) as error:
        if isinstance(error, apsw.FullError) or getattr(error, "errno", 0) == errno.ENOSPC:
            raise _no_space(path) from error
        raise DatabaseUnusable(
            f"database {path} can't be copied before it is changed ({error})",
            hint=f"it was left as it is; see that files can be made in {path.parent}",
        ) from error


def _write(database: Database, new: Path) -> None:
    descriptor = os.open(
        new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.fchmod(descriptor, 0o600)
        if os.geteuid() == 0:
            # The copy is whose the database is, whoever upgrades it.
            owner = os.stat(database.path)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        # A connection in a transaction that writes is no source of a copy.
        source = Database(database.path, must_exist=True)
        try:
            copy_to(source, new)
        finally:
            source.close()
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(new: Path, wanted: Path) -> Path:
    """Give the finished copy the first name that is free, unless it is there already."""
    import filecmp

    for number in count(1):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        if not os.path.lexists(path):
            new.rename(path)
            break
        if not path.is_symlink() and filecmp.cmp(new, path, shallow=False):
            new.unlink()
            break
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path


def _need_space(path: Path) -> None:
    if _free_bytes(path) < _wanted_bytes(path):
        raise _no_space(path)


def _no_space(path: Path) -> DatabaseFull:
    wanted, free = -(-_wanted_bytes(path) // _MIB), _free_bytes(path) // _MIB
    return DatabaseFull(
        f"no space left to copy database {path} before it is changed:"
        f" {wanted} MiB are needed, {free} MiB are free",
        hint=f"it was left as it is; free some space on the disk of {path.parent}",
    )


def _free_bytes(path: Path) -> int:
    seen = os.statvfs(path.parent)
    return seen.f_bavail * seen.f_frsize


def _wanted_bytes(path: Path) -> int:
    """Room for the copy, for a log that holds every table anew, and for these in the database."""
    sizes = [path.stat().st_size]
    with suppress(FileNotFoundError):
        sizes.append(path.with_name(f"{path.name}-wal").stat().st_size)
    return 3 * sum(sizes)
