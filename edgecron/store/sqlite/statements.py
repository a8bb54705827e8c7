"""Run statements over one connection, in the process that opened it and for its schema.

SQLite's errors become edgecron's, each with a next step.
"""

from __future__ import annotations

import os
from _thread import RLock  # what `threading` gives, which takes 1 ms to load
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from edgecron.base.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseGone,
    DatabaseUnusable,
    EdgecronError,
    QueryInterrupted,
    SchemaTooNew,
    Unreadable,
)
from edgecron.store.sqlite.database_file import unwritable
from edgecron.store.sqlite.lost_files import lost_log

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _S = TypeVar("_S", bound="Statements")
    _R = TypeVar("_R")


RESTORE = "a backup from before is put back by: edgecron restore FILE"


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, each with what to do next."""
    try:
        yield
    except apsw.BusyError as error:
        raise busy(path) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DatabaseDamaged(
            f"database {path} is damaged or not a database ({error})",
            hint="it was left as it is; move it away and restore a backup",
        ) from error
    except apsw.FullError as error:
        raise full(path) from error
    except apsw.ReadOnlyError as error:
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
            raise gone(path) from error
        raise unwritable(path) from error
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise DatabaseUnusable(
            f"database {path} can't be opened ({error})",
            hint="check that its folder exists and belongs to you",
        ) from error
    except (apsw.SQLError, apsw.SchemaChangeError) as error:
        raise DatabaseDamaged(
            f"database {path} does not have the tables of this edgecron ({error})",
            hint="somebody changed them; restore a backup",
        ) from error
    except (apsw.IOError, apsw.ProtocolError, apsw.NoMemError, apsw.LockedError) as error:
        # The index of the log has to grow in its file too.
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:
            raise full(path) from error
        raise DatabaseUnusable(
            f"database {path} can't be used ({error})",
            hint="see what its disk and the limits of this process say; more says: edgecron doctor",
        ) from error
    except EdgecronError:
        raise
    except apsw.InterruptError as error:
        raise QueryInterrupted(f"what was asked of database {path} was interrupted") from error
    except apsw.ConnectionClosedError as error:
        raise lost_log(path) from error  # Let go of, and not opened anew yet.
    except (apsw.ConstraintError, apsw.MismatchError, ArithmeticError, ValueError) as error:
        # A row that no edgecron has written: what follows from it can't be, or be understood.
        raise Unreadable(
            f"database {path} holds what can't be read or gone on from ({error!r:.300})",
            hint=f"what is wrong says: edgecron doctor --deep; {RESTORE}",
        ) from error


def busy(path: Path) -> DatabaseBusy:
    """Of a database that others keep on writing to."""
    return DatabaseBusy(
        f"database {path} is locked by another process",
        hint="try again in a moment; where it lasts, see: edgecron doctor",
    )


def gone(path: Path) -> DatabaseGone:
    """The error for a database whose name another file has now, or none."""
    hint = "put it back, or start anew"
    if os.path.lexists(path):
        # SQLite takes what lies there under its name for the log of the new one.
        hint = (
            "put it back; or move the -wal and -shm of the former away from beside the new one,"
            " before anything opens that, and start anew"
        )
    return DatabaseGone(
        f"database {path} was deleted, moved or replaced while it was open", hint=hint
    )


def emptied(path: Path) -> DatabaseGone:
    """The error for a database that holds nothing any more but what lies in its log."""
    return DatabaseGone(
        f"database {path} was emptied while it was open",
        hint="move it away with its -wal, and restore a backup",
    )


def full(path: Path) -> DatabaseFull:
    """The error for a disk without room for what is written to a database."""
    return DatabaseFull(f"no space left to write database {path}", hint="free some disk space")


def too_new(path: Path, version: int, *, known: int) -> SchemaTooNew:
    """The error for a database that a newer edgecron has made or migrated."""
    return SchemaTooNew(
        f"database {path} is version {version}, this edgecron knows up to {known}",
        hint="upgrade edgecron",
    )


Params = Mapping[str, Any]


class Statements:
    """What is asked of one connection, which `Database` opens."""

    _connection: apsw.Connection

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_use = RLock()
        self._pid = os.getpid()
        self._version: int | None = None  # of the schema, that what we do is made for
        self._keeps = True  # what is compiled, for the next time
        self.notes: dict[str, Any] = {}  # what the store's modules keep between transactions

    def rows(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """All rows of a statement, read to its end so that no read lock lingers."""
        self._check_process()
        with self.in_use, translated_errors(self.path):
            try:
                return _drained(self._connection.execute(sql, params, can_cache=self._keeps))
            except (apsw.SQLError, apsw.SchemaChangeError):
                self.check_version()  # Another version may have other tables, and then says it.
                raise

    def each(self, sql: str, params: Params | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement one by one, for what is too much to be held at once.

        Until it is read to its end or closed, the log can't be begun anew.
        """
        self._check_process()
        with translated_errors(self.path):
            try:
                with self.in_use:
                    rows = self._connection.execute(sql, params)
                try:
                    while True:
                        with self.in_use:
                            row = next(rows, None)
                        if row is None:
                            return
                        yield row
                finally:
                    with self.in_use:
                        rows.close(True)
            except (apsw.SQLError, apsw.SchemaChangeError):
                self.check_version()
                raise

    def interrupt(self) -> None:
        """From any thread: have the statement that is going on, if one is, raise
        QueryInterrupted."""
        with suppress(apsw.ConnectionClosedError):  # Then nothing is.
            self._connection.interrupt()

    @contextmanager
    def until(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Have a statement within raise QueryInterrupted once `is_over`, which is asked often."""
        self._connection.set_progress_handler(is_over, 1000)
        try:
            yield
        finally:
            self._connection.set_progress_handler(None)

    def row(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run a writing statement; how many rows it changed."""
        self._check_transaction()
        self._connection.execute(sql, params, can_cache=self._keeps)
        return self._connection.changes()

    def change_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a writing statement once for each set of parameters."""
        self._check_transaction()
        self._connection.executemany(sql, params)

    def returning_each(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        """Run a writing statement with RETURNING once for each set of parameters; all its rows."""
        self._check_transaction()
        return _drained(self._connection.executemany(sql, params)) if params else []

    def returning(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """Run a writing statement with RETURNING, drained; its one row, or None."""
        self._check_transaction()
        found = _drained(self._connection.execute(sql, params, can_cache=self._keeps))
        return found[0] if found else None

    def returning_all(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a writing statement with RETURNING, drained; all its rows."""
        self._check_transaction()
        return _drained(self._connection.execute(sql, params))

    @contextmanager
    def seldom(self) -> Iterator[None]:
        """Keep nothing of what is compiled within: it is asked once in the life of an engine."""
        before, self._keeps = self._keeps, False
        try:
            yield
        finally:
            self._keeps = before

    def expect_version(self, version: int) -> None:
        """Write nothing any more once the schema is of another version than this."""
        self._version = version

    def check_version(self) -> None:
        """Raise where the schema is of another version than what we do is made for."""
        known = self._version
        if known is None:
            return
        found: Any = self._connection.execute("PRAGMA user_version").fetchall()[0][0]
        if found > known:
            raise too_new(self.path, found, known=known)
        if found < known:
            raise DatabaseUnusable(
                f"database {self.path} has become version {found} while it was open as {known}",
                hint="start edgecron anew: it is brought up to date when it is opened",
            )

    def _check_transaction(self) -> None:
        # By itself it would be committed by itself: half a decision, or a sync for every row.
        assert self._connection.in_transaction, "a write outside of a transaction"

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise DatabaseUnusable(
                f"database {self.path} was opened before a fork",
                hint="open it after the fork, in the child",
            )


def _drained(found: apsw.Cursor) -> list[tuple[Any, ...]]:
    """All rows of a statement, which is ended where one of them can't be read, as of a text that is
    none: with its read lock it would live as long as anybody has that error."""
    try:
        return found.fetchall()
    except BaseException:  # an interrupt, too
        found.close(True)
        raise


def seldom(ask: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Keep no compiled statement of a function that an engine calls once in its life."""

    def asked(database: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with database.seldom():
            return ask(database, *args, **kwargs)

    return asked
