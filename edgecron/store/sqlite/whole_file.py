"""Work on the whole database file: rebuild, compact and copy it; find damage and repair it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from edgecron.base.errors import DatabaseFull, DatabaseUnusable, QueryInterrupted
from edgecron.base.units import MIB
from edgecron.base.values import NamedTuple
from edgecron.planning.retention import batches_of
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.database_file import open_alone
from edgecron.store.sqlite.statements import TranslatedErrors


@contextmanager
def rebuilding(database: Database) -> Iterator[None]:
    """Allow a transaction that begins within the block to rebuild tables that others refer to.

    Foreign keys are off, so the caller must look for rows that refer to nothing. A person's own
    views do not stop the rebuilding of a table. Sorting for new indexes uses the disk: for a
    million runs it takes 60 MB.
    """
    connection = database.connection
    with database.in_use:  # A fork waits for this lock.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)
        connection.config(apsw.SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 1)
        connection.execute("PRAGMA temp_store = FILE")
    try:
        yield
    finally:
        with database.in_use:
            connection.config(apsw.SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 0)
            # If a ROLLBACK failed, the transaction is still open, and neither can be set.
            if not connection.in_transaction:
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)


def compact(database: Database) -> None:
    """Rewrite the whole file without its free pages, and move the log into it.

    Other processes can't write during that. SQLite builds the new file on the disk: in memory, it
    took more than the size of the database.
    """
    connection = database.connection
    with TranslatedErrors(database.path):
        database.check_version()
        connection.execute("PRAGMA temp_store = FILE")
        try:
            connection.execute("VACUUM")
        finally:
            connection.execute("PRAGMA temp_store = MEMORY")
    database.checkpoint()


@contextmanager
def snapshot(database: Database) -> Iterator[None]:
    """Read one state of the database within the block, while others write."""
    connection = database.connection
    with TranslatedErrors(database.path):
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
            yield
        finally:
            connection.execute("ROLLBACK")


def copy_to(database: Database, target: Path) -> None:
    """Copy all that is committed into an existing empty file. Raises apsw's errors."""
    for _ in copy_pages(database, target, pages=-1):
        pass


def copy_pages(database: Database, target: Path, *, pages: int) -> Iterator[tuple[int, int]]:
    """Copy the database into an empty file, so many pages at each step; (copied, all) pages.

    Call it within a `snapshot`: otherwise each commit of another connection restarts the copy.
    Raises apsw's errors, which can be about either file.
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
    """Make the database one plain file that no other process can open until we close it.

    False, and nothing has changed, if another process has it open.
    """
    connection = database.connection
    with TranslatedErrors(database.path):
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode is None or mode[0] != "delete":
                return False
            connection.execute("BEGIN EXCLUSIVE")
        except apsw.BusyError:
            return False
        database.check_file()  # Before we got the lock, another file might have taken its place.
        return True


def keep_copy(database: Database, *, suffix: str) -> Path:
    """Copy the database to a file with its name and `suffix`, of mode 0600; the path of the copy.

    The caller holds the write lock, so that no other process commits or makes the same copy. A file
    that has this name is never replaced: if it is not the same, the copy gets a number. Raises
    DatabaseUnusable, and leaves nothing behind, if the copy can't be made.
    """
    path = database.path.parent.resolve() / database.path.name
    new = path.with_name(f"{path.name}{suffix}.new")
    try:
        new.unlink(missing_ok=True)  # of a process that was killed
        _need_space(path)
        try:
            _write(database, new)
            return _name(new, path.with_name(f"{path.name}{suffix}"))
        except BaseException:
            with suppress(OSError):  # Report the first error.
                new.unlink(missing_ok=True)
            raise
    except (OSError, apsw.Error) as error:
        if isinstance(error, apsw.FullError) or getattr(error, "errno", 0) == errno.ENOSPC:
            raise _no_space(path) from error
        raise DatabaseUnusable(
            f"database {path} can't be copied before it is changed ({error})",
            hint=f"it was left as it is; check that you can create files in {path.parent}",
        ) from error


def _write(database: Database, new: Path) -> None:
    descriptor = os.open(
        new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.fchmod(descriptor, 0o600)
        if os.geteuid() == 0:
            # The copy belongs to the owner of the database, not to root.
            owner = os.stat(database.path)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        # SQLite can't copy from a connection that has a write transaction.
        source = Database(database.path, must_exist=True)
        try:
            copy_to(source, new)
        finally:
            source.close()
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(new: Path, wanted: Path) -> Path:
    """Give the copy the first free name, unless an equal file exists; the path of the copy."""
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
    wanted, free = -(-_wanted_bytes(path) // MIB), _free_bytes(path) // MIB
    return DatabaseFull(
        f"no space left to copy database {path} before it is changed:"
        f" {wanted} MiB are needed, {free} MiB are free",
        hint=f"it was left as it is; free some space on the disk of {path.parent}",
    )


def _free_bytes(path: Path) -> int:
    seen = os.statvfs(path.parent)
    return seen.f_bavail * seen.f_frsize


def _wanted_bytes(path: Path) -> int:
    """Room for the copy, and for rebuilt tables in the log and in the database."""
    sizes = [path.stat().st_size]
    with suppress(FileNotFoundError):
        sizes.append(path.with_name(f"{path.name}-wal").stat().st_size)
    return 3 * sum(sizes)


Rows = Callable[[str], list[tuple[Any, ...]]]

_MOST = 5  # damages that are listed: one usually shows in many places
_HEADING = "*** in database"
_GROWING = frozenset({"executions", "outputs"})  # tables that grow with each run
_OF_SCHEDULES = (
    *("schedule_scopes", "schedule_revisions", "schedule_changes", "schedule_upstreams"),
    "state",
)
# How to repair rows that refer to missing ones, by table and parent, if that loses no history.
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


def find_damage(database: Database, *, is_deep: bool = False) -> list[str]:
    """Return SQLite's descriptions of damage; [] if all is well. Reads the whole file.

    `is_deep` also compares each index with its table. Raises DatabaseUnusable if the file can't be
    read to its end.
    """
    return damage_of(database.rows, is_deep=is_deep)


def damage_of(rows: Rows, *, is_deep: bool) -> list[str]:
    """As `find_damage`, over the connection of `rows`, whose errors it raises."""
    check = "integrity_check" if is_deep else "quick_check"
    # SQLite 3.54 checks the list of free pages only with its own table.
    for check_sql in (f"PRAGMA {check}({_MOST})", "PRAGMA quick_check(sqlite_schema)"):
        damage = _damage_lines(rows, check_sql)
        if damage:
            return damage
    return [orphan_words(one) for one in find_orphans(rows)]


def find_damage_within(
    database: Database, is_over: Callable[[], bool]
) -> tuple[list[str], tuple[str, ...]]:
    """Look for damage, table by table, until `is_over`; the largest tables come last.

    Returns the damage and the tables that were not read to their end.
    """
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
    """Find the rows of one table, or of all, that refer to missing rows."""
    among = "" if table is None else f"('{table}')"
    found = rows(
        f"""SELECT "table", parent, count(*) FROM pragma_foreign_key_check{among}
            GROUP BY "table", parent ORDER BY "table", parent"""
    )
    return [Orphans(*row) for row in found]


def orphan_words(orphans: Orphans) -> str:
    """`schedule_scopes: 9 rows refer to schedules that are missing`."""
    rows = "1 row refers" if orphans.row_count == 1 else f"{orphans.row_count:,} rows refer"
    return f"{orphans.table}: {rows} to missing {orphans.parent}"


def repair_orphans(database: Database) -> Iterator[Orphans]:
    """Remove rows of missing schedules and runs, and create missing groups.

    Yields what each transaction repaired. Output can have gigabytes, so it is removed in slices;
    fires can start between two slices. Runs of a missing schedule stay: they are history.
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
    while page := database.rows(
        """SELECT o.execution_id, length(o.chunks) FROM outputs AS o
           WHERE NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.id = o.execution_id)
           ORDER BY o.execution_id LIMIT 1000"""
    ):
        for batch in batches_of(dict(page)):
            with database.transaction():
                count = database.change(
                    """DELETE FROM outputs
                       WHERE execution_id IN (SELECT value FROM json_each(:ids))""",
                    {"ids": json.dumps(batch)},
                )
            yield orphans._replace(row_count=count)


def repair(database: Database, orphans: Orphans) -> None:
    """Repair these rows, inside the caller's transaction."""
    database.change(_REPAIRS[orphans.table, orphans.parent])


def is_repairable(orphans: Orphans) -> bool:
    """Whether a repair loses no history."""
    return (orphans.table, orphans.parent) in _REPAIRS


def _damage_lines(rows: Rows, check_sql: str) -> list[str]:
    lines = [line for row in rows(check_sql) for line in str(row[0]).splitlines()]
    damage = [line for line in lines if line != "ok" and not line.startswith(_HEADING)]
    return damage[:_MOST]
