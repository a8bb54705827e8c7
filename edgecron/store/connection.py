"""A connection to the one SQLite file: statements, transactions, locks, its log, error types."""

from __future__ import annotations

import os
import time
from _thread import RLock  # what `threading` gives, which takes 1 ms to load
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from edgecron.errors import DatabaseUnusable
from edgecron.store.forks import close_in_children, is_spoiled
from edgecron.store.logfiles import Logs, may_be_lost, refuse_lost_log
from edgecron.store.opening import check_sqlite_version, configure, open_file
from edgecron.store.place import MOUNTS, identity_of, look_at, prepare_file
from edgecron.store.translating import busy, emptied, gone, too_new, translated_errors
from edgecron.store.turns import give_away, turn_of

_LITTLE_KIB = 512  # of SQLite's two megabytes; claims take as long (measured)
_TURN_MS = 100  # somebody may want to know that we still wait
_MORE_THAN_VERSIONS = 2**32  # that SQLite tells: they have 32 bits
_LEFT_TO_PARENT: list[apsw.Connection] = []  # kept from the garbage collector, which closes too

Params = Mapping[str, Any]


class _Undone(Exception):
    """Ends a rehearsal."""


class Database:
    """One connection, for one thread of one process."""

    def __init__(
        self,
        path: Path,
        *,
        busy_wait_s: float = 30.0,
        must_exist: bool = False,
        mounts: Path = MOUNTS,
    ) -> None:
        """Open the file, or create it with mode 0600 in a folder of mode 0700.

        A writer waits up to `busy_wait_s` for another's lock, then DatabaseBusy is raised.
        With `must_exist`, a missing file raises NotFound. What can't be trusted (a link, a
        network file system, no database, a corrupt one, another program's) raises
        DatabaseUnusable, and is left as it is. `mounts` is the system's table of mounts.
        """
        self.path = path
        self.wal_pages = 0  # of the log, after our latest commit
        self.lock_waits = 0  # how often another's lock was waited for, some milliseconds each time
        self._lock_failures = 0  # times that another's lock was found, not put down yet
        self._version: int | None = None  # of the schema, that what we do is made for
        self._data_version = -1
        self._renewals = 0
        self._is_together = False
        self._keeps = True  # what is compiled, for the next time
        self._pid = os.getpid()
        self._busy_tries = max(1, round(busy_wait_s * 1000))
        check_sqlite_version()
        self.is_new = prepare_file(path, must_exist=must_exist, mounts=mounts)
        if may_be_lost(path):
            refuse_lost_log(path, patience_s=busy_wait_s)
        self.identity = identity_of(path)
        self._next = turn_of(self.identity)
        if is_spoiled(self.identity):
            raise DatabaseUnusable(
                f"database {path} was in use when this process was forked",
                hint="fork before it is used, or start children anew, as 'spawn' does",
            )
        self.in_use = RLock()
        close_in_children(self)
        with self.in_use:
            self._open()

    def _open(self) -> None:
        with translated_errors(self.path):
            self._connection = open_file(self.path)
            try:
                configure(self._connection, self.path, wait_for_lock=self._wait_for_lock)
                # It may have waited for who put another file in its place: ours has no name then.
                self.check_file()
                self._logs = Logs(self.path, self._connection)
            except BaseException:
                self._connection.close()
                raise

    def _wait_for_lock(self, tries_before: int) -> bool:
        # A constant, slightly random nap: SQLite's own back-off gives one of eight processes
        # nearly all of the turns (measured), because whoever waited longest sleeps longest.
        if self._busy_tries == 0:
            return False
        self._lock_failures += tries_before == 0
        if tries_before >= self._busy_tries:
            return False
        self.lock_waits += 1
        from random import random  # nearly nobody has to wait

        time.sleep(0.0005 + random() * 0.001)
        return True

    def close(self) -> None:
        """Close the connection; harmless when it is closed already, or belongs to our parent."""
        if os.getpid() != self._pid:
            return
        with self.in_use:
            self._logs.prepare_close()
            self._connection.close()
        give_away(self._next)

    def leave_to_parent(self) -> bool:
        """In a child: close our copy of the connection; whether that could be done.

        SQLite must forget what it has locked as our parent, or it would take a lock of ours for
        one of those. Not within a transaction: its end is the parent's alone.
        """
        with suppress(AttributeError, apsw.ConnectionClosedError):  # not open yet, or any more
            if self._connection.in_transaction:
                _LEFT_TO_PARENT.append(self._connection)
                return False
            # The log is the parent's, and is still being written.
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._connection.close(True)
        return True

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

    def row(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run a writing statement; how many rows it changed."""
        self._check_transaction()
        self._connection.execute(sql, params, can_cache=self._keeps)
        return self._connection.changes()

    def change_each(self, sql: str, params: Sequence[Params]) -> list[int]:
        """Run a writing statement once for each set of parameters; how many rows each changed."""
        self._check_transaction()
        execute, changes = self._connection.execute, self._connection.changes
        counts = []
        for one in params:
            execute(sql, one)
            counts.append(changes())
        return counts

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

    @property
    def data_version(self) -> int:
        """A number that changes when another connection has committed, and with `renew`."""
        self.check_file()
        self._logs.check()
        found = self.row("PRAGMA data_version")
        assert found is not None
        if found[0] != self._data_version:
            with self.in_use, translated_errors(self.path):
                self.check_version()
            self._data_version = int(found[0])
        # A new connection counts anew, from the same number as the one before it.
        return self._data_version + self._renewals * _MORE_THAN_VERSIONS

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One `BEGIN IMMEDIATE`, committed at the end and rolled back by any exception.

        Raises SchemaTooNew where a newer edgecron has migrated the database meanwhile. When COMMIT
        itself raises, whether it happened is unknown to the caller.
        """
        if self._is_together:
            yield
            return
        self._check_process()
        self.check_file()
        self._logs.check()
        with self._turn(), self.in_use, translated_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            changes_before = self._connection.total_changes()
            try:
                # Under the lock: what is written is of the schema that it is written to.
                self.check_version()
                yield
                noted = self._note_lock_failures(changes_before)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._lock_failures -= noted

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Be the one of our process who writes. Raises DatabaseBusy where others keep on."""
        turn = self._next
        if not turn.acquire(blocking=False):
            self._wait_for_turn(turn)
        try:
            yield
        finally:
            give_away(turn)

    def _wait_for_turn(self, turn: RLock) -> None:
        self._lock_failures += self._busy_tries > 0
        for _ in range(0, self._busy_tries, _TURN_MS):
            self.lock_waits += 1
            if turn.acquire(timeout=_TURN_MS / 1000):
                return
        raise busy(self.path)

    def _note_lock_failures(self, changes_before: int) -> int:
        """Put down how often another's lock was found, where this transaction writes anyway; how
        many were put down."""
        failures = self._lock_failures
        is_ours = self._version is not None  # else it may lack the column
        if not failures or not is_ours or self._connection.total_changes() == changes_before:
            return 0
        self._connection.execute(
            "UPDATE meta SET lock_failures = lock_failures + :count", {"count": failures}
        )
        return failures

    @property
    def connection(self) -> apsw.Connection:
        """The connection itself, for what is done with the whole file, which is the one we opened.

        Raises DatabaseUnusable where this is another process, or the file another one.
        """
        self._check_process()
        self.check_file()
        self._logs.check()
        return self._connection

    def expect_version(self, version: int) -> None:
        """Write nothing any more once the schema is of another version than this."""
        self._version = version

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let the transactions within be one: committed at the end, all of them or none."""
        with self.transaction():
            self._is_together = True
            try:
                yield
            finally:
                self._is_together = False

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Undo all that is written within, for which no lock is waited.

        It leaves nothing but pages in memory and statements compiled, for what is to be written
        soon. Raises DatabaseBusy where somebody else is writing.
        """
        tries, self._busy_tries = self._busy_tries, 0
        try:
            with suppress(_Undone), self.together():
                yield
                raise _Undone
        finally:
            self._busy_tries = tries

    @contextmanager
    def seldom(self) -> Iterator[None]:
        """Keep nothing of what is compiled within: it is asked once in the life of an engine."""
        before, self._keeps = self._keeps, False
        try:
            yield
        finally:
            self._keeps = before

    def keep_little(self) -> None:
        """Keep few pages in memory: an engine reads the same few, and lives for months."""
        with self.in_use:
            self._connection.execute(f"PRAGMA cache_size = -{_LITTLE_KIB}", can_cache=False)

    def forget_pages(self) -> None:
        """Read every page anew from now on: what was read of the file may have healed since."""
        self._check_process()
        with self.in_use, translated_errors(self.path):
            self._connection.execute("PRAGMA shrink_memory")

    def checkpoint(self) -> bool:
        """Move what the log holds into the database as far as readers allow; never waits.

        Whether all of it was moved.
        """
        self._check_process()
        self._logs.check()
        # Busy: somebody else is at it.
        with self.in_use, translated_errors(self.path), suppress(apsw.BusyError):
            mode = apsw.SQLITE_CHECKPOINT_PASSIVE
            in_log, moved = self._connection.wal_checkpoint(mode=mode)
            return in_log == moved
        return False

    @property
    def unmoved_bytes(self) -> int:
        """How much of the log is not in the database yet; 0 while somebody moves it."""
        self._check_process()
        self._logs.check()
        with self.in_use, translated_errors(self.path):
            try:
                in_log, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            except apsw.BusyError:
                return 0
        found = self.row("PRAGMA page_size")
        return max(in_log - moved, 0) * (found[0] if found else 0)

    def leave_checkpoints_to_others(self) -> None:
        """Never checkpoint inside this connection's commits, which keeps their tail short.

        From then on `wal_pages` counts.
        """
        self._connection.wal_autocheckpoint(0)
        self._connection.set_wal_hook(self._note_wal)

    def _note_wal(self, _connection: object, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def check_file(self) -> None:
        """Raise DatabaseGone where the file was deleted, replaced or emptied meanwhile."""
        # What is written to a deleted file is lost, and to a replaced one is a second history.
        identity, is_emptied = look_at(self.path)
        if identity != self.identity:
            raise gone(self.path)
        if is_emptied:
            raise emptied(self.path)

    @property
    def has_lost_log(self) -> bool:
        """Whether the log was deleted, or replaced, since the database was opened."""
        return self._logs.are_lost

    def renew(self) -> None:
        """Open it anew where its log was deleted, with all that lay in it.

        For the only connection of its process. Raises LogLost as long as somebody else has that
        log open, and DatabaseGone where it is too late: another one has taken its place.
        """
        self._check_process()
        self.check_file()
        with self.in_use, translated_errors(self.path):
            self._logs.save()
            refuse_lost_log(self.path, patience_s=0)
            self._open()
        self._data_version = -1
        self._renewals += 1

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
