"""Run SQL statements over one connection, and turn SQLite's errors into edgecron's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import apsw

from edgecron.base.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseGone,
    DatabaseUnusable,
    EdgecronError,
    QueryInterrupted,
    Unreadable,
)
from edgecron.store.sql.connection import RESTORE, OwnConnection, Params, too_new
from edgecron.store.sqlite.database_file import lost_log

_NAMES = re.compile(r"'(?:[^']|'')*'|:([a-z_]\w*)")  # of parameters, none within a text


class TranslatedErrors:
    """Turn SQLite's errors into edgecron's, each with a next step.

    A class, because each statement needs it: a generator takes three times as long.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            _raise_translated(error, self._path)


def _raise_translated(error: BaseException, path: Path) -> NoReturn:
    """Raise edgecron's error for one of SQLite's, and any other error as it is."""
    try:
        raise error
    except apsw.BusyError as error:
        raise busy(path) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DatabaseDamaged(
            f"database {path} is damaged or not a database ({error})",
            hint="check the path; if it held schedules, move it away and restore a backup",
        ) from error
    except apsw.FullError as error:
        raise full(path) from error
    except apsw.ReadOnlyError as error:
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
            raise gone(path) from error
        raise _unwritable(path) from error
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise DatabaseUnusable(
            f"database {path} can't be opened ({error})",
            hint="check that its folder exists and belongs to you",
        ) from error
    except (apsw.SQLError, apsw.SchemaChangeError) as error:
        raise DatabaseDamaged(
            f"database {path} does not have the tables of this edgecron ({error})",
            hint="another program changed them; restore a backup",
        ) from error
    except (apsw.IOError, apsw.ProtocolError, apsw.NoMemError, apsw.LockedError) as error:
        # The index of the log could not grow.
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:
            raise full(path) from error
        raise DatabaseUnusable(
            f"database {path} can't be used ({error})",
            hint="check its disk and the limits of this process; for more: edgecron doctor",
        ) from error
    except EdgecronError:
        raise
    except apsw.InterruptError as error:
        raise QueryInterrupted(f"a query of database {path} was interrupted") from error
    except apsw.ConnectionClosedError as error:
        raise lost_log(path) from error  # `renew` closed it, and could not open it again yet.
    except (apsw.ConstraintError, apsw.MismatchError, ArithmeticError, ValueError) as error:
        # Some other program wrote a row that makes no sense.
        raise Unreadable(
            f"database {path} has content that can't be read ({error!r:.300})",
            hint=f"to see the damage: edgecron doctor --deep; {RESTORE}",
        ) from error


def busy(path: Path) -> DatabaseBusy:
    """The error for a database that is locked for too long."""
    return DatabaseBusy(
        f"database {path} is locked by another process",
        hint="try again in a moment; if it lasts, see: edgecron doctor",
    )


def gone(path: Path) -> DatabaseGone:
    """The error for a database that was deleted, moved or replaced."""
    hint = "put it back, or start again"
    if os.path.lexists(path):
        # SQLite would take the old log for the log of the new file.
        hint = (
            "put it back; or, before a program opens the new file, move away the -wal and -shm"
            " of the old one, then start again"
        )
    return DatabaseGone(
        f"database {path} was deleted, moved or replaced while it was open", hint=hint
    )


def emptied(path: Path) -> DatabaseGone:
    """The error for a database whose file was cut to nothing."""
    return DatabaseGone(
        f"database {path} was emptied while it was open",
        hint="move it away with its -wal, and restore a backup",
    )


def full(path: Path) -> DatabaseFull:
    """The error for a full disk."""
    return DatabaseFull(f"no space left to write database {path}", hint="free some disk space")


def _unwritable(path: Path) -> DatabaseUnusable:
    """The error for a database that SQLite can't write, or whose log it can't write."""
    if os.access(path, os.W_OK) and not os.access(path.parent, os.W_OK):
        return DatabaseUnusable(
            f"database {path} can't be used: this user can't write in its folder",
            hint="SQLite needs files beside the database, even to read it; use a copy elsewhere",
        )
    return DatabaseUnusable(
        f"database {path} can't be written", hint="check its owner, mode and file system"
    )


_AT_ONCE = 64  # rows


class Statements(OwnConnection):
    """Runs statements over a connection that `Database` opens."""

    _connection: apsw.Connection

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path

    def rows(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """All rows of a statement. It is read to its end, so that no read lock stays."""
        self._check_process()
        with self.in_use, TranslatedErrors(self.path):
            try:
                return _drained(self._connection.execute(sql, params))
            except (apsw.SQLError, apsw.SchemaChangeError):
                self.check_version()  # Raises a better error if the tables are of another version.
                raise

    def each(self, sql: str, params: Params | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, a few at a time, for results that are too large for memory.

        SQLite can't restart its log until the iterator is exhausted or closed.
        """
        self._check_process()
        with TranslatedErrors(self.path):
            try:
                with self.in_use:
                    rows = self._connection.execute(sql, params)
                try:
                    while True:
                        with self.in_use:  # To take it for each row takes longer than the row.
                            some = list(islice(rows, _AT_ONCE))
                        if not some:
                            return
                        yield from some
                finally:
                    with self.in_use:
                        rows.close(True)
            except (apsw.SQLError, apsw.SchemaChangeError):
                self.check_version()
                raise

    def interrupt(self) -> None:
        """Make a statement that is running raise QueryInterrupted. Callable from any thread."""
        with suppress(apsw.ConnectionClosedError):  # Then none is running.
            self._connection.interrupt()

    @contextmanager
    def until(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Make statements within the block raise QueryInterrupted once `is_over` returns True."""
        self._connection.set_progress_handler(is_over, 1000)
        try:
            yield
        finally:
            self._connection.set_progress_handler(None)

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run a statement that writes; how many rows it changed."""
        self._check_transaction()
        self._connection.execute(sql, params)
        return self._connection.changes()

    def change_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a statement that writes once for each set of parameters."""
        self._check_transaction()
        self._connection.executemany(sql, _in_order(sql, params))

    def returning_each(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING once for each set of parameters; all its rows."""
        self._check_transaction()
        if not params:
            return []
        return _drained(self._connection.executemany(sql, _in_order(sql, params)))

    def returning_all(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING to its end; all its rows."""
        self._check_transaction()
        return _drained(self._connection.execute(sql, params))

    @contextmanager
    def unique(self, column: str, problem: EdgecronError) -> Iterator[None]:
        """Raise `problem` if a statement within the block repeats a value of a unique column."""
        try:
            yield
        except apsw.ConstraintError as error:
            if column not in str(error):
                raise
            raise problem from error

    def as_value(self, value: object) -> Any:
        """A Python object as the value of a parameter, for a function of ours to read."""
        return apsw.pyobject(value)

    def check_version(self) -> None:
        """Raise if the schema is not of the version that our statements fit."""
        known = self._version
        if known is None:
            return
        found: Any = self._connection.execute("PRAGMA user_version").fetchall()[0][0]
        if found > known:
            raise too_new(self.path, found, known=known)
        if found < known:
            raise DatabaseUnusable(
                f"database {self.path} has become version {found} while it was open as {known}",
                hint="restart edgecron: it upgrades the database when it opens it",
            )

    def _check_transaction(self) -> None:
        # Each statement would be committed alone: half a decision, and a sync for every row.
        assert self._connection.in_transaction, "a write outside of a transaction"


def _in_order(sql: str, params: Sequence[Params]) -> Iterable[Any]:
    """The values of a statement's parameters by number: by name takes a tenth longer."""
    names = _names_of(sql)
    return map(itemgetter(*names), params) if len(names) > 1 else params


@lru_cache(maxsize=256)
def _names_of(sql: str) -> tuple[str, ...]:
    """The names of the parameters, in the order of SQLite's numbers: each by its first place."""
    return tuple(dict.fromkeys(name for name in _NAMES.findall(sql) if name))


def _drained(found: apsw.Cursor) -> list[tuple[Any, ...]]:
    """All rows of a statement.

    If a row can't be read (such as a text that is not UTF-8), close the statement. Otherwise it
    would keep its read lock as long as the error is referenced.
    """
    try:
        return found.fetchall()
    except BaseException:  # an interrupt, too
        found.close(True)
        raise
