"""Database: one SQLite connection with its transactions, its log and its waits for locks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import apsw

from edgecron.base.errors import DatabaseFull, DatabaseUnusable
from edgecron.base.forks import hold_in_forks
from edgecron.store.sqlite.database_file import (
    MOUNTS,
    Logs,
    check_sqlite_version,
    configure,
    look_at,
    may_be_lost,
    open_file,
    prepare_file,
    refuse_lost_log,
)
from edgecron.store.sqlite.statements import Statements, TranslatedErrors, emptied, gone

_PAUSE_S = 0.003  # twice as long as the longest nap
_LONG_TRIES = 800  # about a second, with what each nap takes beside its millisecond
_on_long_wait: list[Callable[[Path], object]] = []  # at most one: the command line's


def tell_long_waits(tell: Callable[[Path], object]) -> None:
    """Call this when another connection's lock was waited for during about a second."""
    _on_long_wait[:] = [tell]


class BusyWait:
    """SQLite's busy handler of one connection.

    `waits` counts the naps; `failures` counts the locks that were found taken and are not recorded
    in the database yet.
    """

    def __init__(self, path: Path, *, most_s: float) -> None:
        self.waits = 0
        self.failures = 0
        self._path = path
        self.wait_at_most(most_s)

    def wait_at_most(self, most_s: float) -> None:
        """Wait up to so long for each lock from now on; 0 does not wait."""
        self._tries = round(most_s * 1000)

    @contextmanager
    def waiting_at_most(self, most_s: float) -> Iterator[None]:
        """Wait up to so long for each lock within the block."""
        tries = self._tries
        self.wait_at_most(most_s)
        try:
            yield
        finally:
            self._tries = tries

    def nap(self, tries_before: int) -> bool:
        """Wait a moment; False to give up."""
        if tries_before >= self._tries:
            return False
        self.failures += tries_before == 0
        self.waits += 1
        if tries_before == _LONG_TRIES:
            for tell in _on_long_wait:
                tell(self._path)
        # A constant, slightly random nap. SQLite's own back-off gives one of eight processes nearly
        # all turns (measured), because whoever waited longest sleeps longest.
        time.sleep(0.0005 + os.urandom(1)[0] / 256_000)
        return True


_MORE_THAN_VERSIONS = 2**32  # SQLite's `data_version` has 32 bits
# The files (device and inode) that were in use when this process was forked.
_SPOILED: set[tuple[int, int] | None] = set()
_LEFT_TO_PARENT: list[apsw.Connection] = []  # kept from the garbage collector, which closes too


class Database(Statements):
    """One connection, for one thread of one process."""

    # Engines of a file run on its machine.
    lease_columns, load_columns, lease_is_over = "NULL, 0", "NULL, NULL", "1 = 1"

    def __init__(
        self,
        path: Path,
        *,
        busy_wait_s: float = 30.0,
        must_exist: bool = False,
        reads_if_full: bool = False,
        mounts: Path = MOUNTS,
    ) -> None:
        """Open the file, or create it with mode 0600 in a folder of mode 0700.

        A writer waits up to `busy_wait_s` for another's lock, then raises DatabaseBusy. With
        `must_exist`, a missing file raises NotFound. A file that can't be trusted (a link, on a
        network file system, not a database, corrupt, of another program) raises DatabaseUnusable
        and stays as it is. `mounts` is the system's table of mounts.

        With `reads_if_full`, a database on a full disk can be read: if SQLite has no room for the
        index of the log, no other process can use the database until this one closes it.
        """
        super().__init__(path)
        self.wal_pages = 0  # of the log, after our latest commit
        self._data_version = -1
        self._renewals = 0
        check_sqlite_version()
        self.is_new = prepare_file(path, must_exist=must_exist, mounts=mounts)
        if may_be_lost(path):
            refuse_lost_log(path, wait_s=busy_wait_s)
        self.identity, _ = look_at(path)
        self._busy_wait = BusyWait(path, most_s=busy_wait_s)
        if self.identity in _SPOILED:
            raise DatabaseUnusable(
                f"database {path} was in use when this process was forked",
                hint="fork before you use it, or start children with 'spawn'",
            )
        hold_in_forks(self)
        with self.in_use:
            try:
                self._open()
            except DatabaseFull:
                if not reads_if_full:
                    raise
                self._open(is_alone=True)

    def _open(self, *, is_alone: bool = False) -> None:
        with TranslatedErrors(self.path):
            self._connection = open_file(self.path)
            try:
                if is_alone:  # Before the first read: then the index of the log is in memory.
                    self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                configure(self._connection, self.path, wait_for_lock=self._busy_wait.nap)
                # While we waited for the lock, another file might have taken the place of ours.
                self.check_file()
                self._logs = Logs(self.path, self._connection)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the connection. Does nothing if it is closed, or belongs to the parent process."""
        if os.getpid() != self._pid:
            return
        with self.in_use:
            self._logs.prepare_close()
            self._connection.close()

    def reset_in_child(self, *, was_in_use: bool) -> None:
        """In a forked child, close our copy; if that is impossible, refuse the file from now on."""
        if was_in_use or not self._leave_to_parent():
            _SPOILED.add(self.identity)

    def _leave_to_parent(self) -> bool:
        """Close our copy of the connection without changing a file; False if that is impossible.

        SQLite must forget the locks of the parent, or it would take them for ours. A copy within a
        transaction stays open: only the parent may end that. So does one that another thread of
        the parent was using (the garbage collector does not take `in_use`): its mutex is locked.
        """
        try:
            if not self._connection.in_transaction:
                # The parent still writes to the log.
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close(True)
                return True
        except (AttributeError, apsw.ConnectionClosedError):  # not open yet, or any more
            return True
        except apsw.ThreadingViolationError:
            pass
        _LEFT_TO_PARENT.append(self._connection)
        return False

    @property
    def lock_waits(self) -> int:
        """How often another connection's lock was waited for, a millisecond each time."""
        return self._busy_wait.waits

    @property
    def change_mark(self) -> int:
        """A number that changes when another connection commits, and with `renew`."""
        self.check_file()
        self._logs.check()
        found = self.row("PRAGMA data_version")
        assert found is not None
        if found[0] != self._data_version:
            with self.in_use, TranslatedErrors(self.path):
                self.check_version()
            self._data_version = int(found[0])
        # After `renew`, SQLite counts from the same number as the connection before.
        return self._data_version + self._renewals * _MORE_THAN_VERSIONS

    @contextmanager
    def _new_transaction(self, *, is_synced: bool) -> Iterator[None]:
        """One `BEGIN IMMEDIATE`, committed at the end and rolled back by any exception.

        Without `is_synced`, the commit does not wait for the disk: a power cut can take it, unless
        a later commit has waited. It never takes an earlier one and leaves a later one.

        Raises SchemaTooNew if a newer edgecron has migrated the database. If COMMIT itself raises,
        the caller can't know whether it happened.
        """
        self.check_file()
        self._logs.check()
        failures_before = self._busy_wait.failures
        syncing = nullcontext() if is_synced else self._unsynced()
        with TranslatedErrors(self.path), syncing:
            self._connection.execute("BEGIN IMMEDIATE")
            self._was_locked = self._busy_wait.failures > failures_before
            changes_before = self._connection.total_changes()
            try:
                # Under the lock, so that nobody changes the schema before we write.
                self.check_version()
                yield
                noted = self._note_lock_failures(changes_before)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._busy_wait.failures -= noted

    @contextmanager
    def _unsynced(self) -> Iterator[None]:
        """Let commits not wait for the disk; SQLite refuses a change within a transaction."""
        self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._connection.execute("PRAGMA synchronous = FULL")

    def _note_lock_failures(self, changes_before: int) -> int:
        """Record the locks that were found taken, if this transaction writes anyway; how many."""
        failures = self._busy_wait.failures
        is_ours = self._version is not None  # A database of an older version lacks the column.
        if not failures or not is_ours or self._connection.total_changes() == changes_before:
            return 0
        self._connection.execute(
            "UPDATE meta SET lock_failures = lock_failures + :count", {"count": failures}
        )
        return failures

    @property
    def connection(self) -> apsw.Connection:
        """The connection itself, for work on the whole file.

        Raises DatabaseUnusable in another process, or if the file is not the one we opened.
        """
        self._check_process()
        self.check_file()
        self._logs.check()
        return self._connection

    def as_bytes(self, expression: str) -> str:
        """SQL for the bytes of a text that might not be UTF-8; other types stay."""
        return f"iif(typeof({expression}) = 'text', CAST({expression} AS BLOB), {expression})"

    def let_others_write(self) -> None:
        """Pause between two slices of a large change, so that a waiting connection gets the lock.

        A connection that waits asks for the lock every 1.5 ms at most. Beside slices of 12 ms, it
        waited up to 28 ms with this pause, and up to 2 s without (measured).
        """
        time.sleep(_PAUSE_S)

    def wait_at_most(self, seconds: float) -> None:
        """Wait up to so long for another's lock from now on."""
        self._busy_wait.wait_at_most(seconds)

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Wait up to so long for another's lock within the block."""
        with self._busy_wait.waiting_at_most(seconds):
            yield

    def keep_pages(self, kib: int) -> None:
        """Keep up to so many KiB of pages in memory, for a command that reads them repeatedly."""
        self._check_process()
        with self.in_use, TranslatedErrors(self.path):
            self._connection.execute(f"PRAGMA cache_size = -{kib}")

    def forget_pages(self) -> None:
        """Drop the pages in memory: after a disk error, the file might be readable again."""
        self._check_process()
        with self.in_use, TranslatedErrors(self.path):
            self._connection.execute("PRAGMA shrink_memory")

    @contextmanager
    def without_overwriting(self) -> Iterator[None]:
        """Do not overwrite freed pages within the block.

        With output, that would double what is written to the disk.
        """
        self.rows("PRAGMA secure_delete = FAST")
        try:
            yield
        finally:
            self.rows("PRAGMA secure_delete = ON")

    def find_columns(self, table: str) -> list[str]:
        """The names of the columns of a table."""
        rows = self.rows("SELECT name FROM pragma_table_info(:table)", {"table": table})
        return [name for (name,) in rows]

    @contextmanager
    def without_triggers(self, tables: Sequence[str]) -> Iterator[None]:
        """Write without triggers, to all tables."""
        self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        try:
            yield
        finally:
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)

    def find_last_ids(self) -> dict[str, int]:
        """The last id that each table has given, by tables that never give one twice."""
        return {
            str(name): int(last)
            for name, last in self.rows("SELECT name, seq FROM sqlite_sequence")
        }

    def set_last_ids(self, last_ids: Mapping[str, int]) -> None:
        """Let tables give ids beyond these, and beyond all that they have."""
        known = self.find_last_ids()
        for (name,) in self.rows(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        ):
            last = max(known.get(name, 0), last_ids.get(name, 0))
            params = {"name": name, "last": last}
            self.change("DELETE FROM sqlite_sequence WHERE name = :name", {"name": name})
            self.change("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)", params)

    def allow_idle(self) -> None:
        """Do nothing: a transaction of ours can be idle for as long as it wants."""

    def find_size(self) -> tuple[int, int]:
        """The bytes that the database holds, and the free bytes in its file."""
        [(used_bytes, free_bytes)] = self.rows(
            """SELECT (page_count - freelist_count) * page_size, freelist_count * page_size
               FROM pragma_page_count, pragma_freelist_count, pragma_page_size"""
        )
        return used_bytes, free_bytes

    def empty_log(self) -> bool:
        """Move the whole log into the file and empty it; False if another process reads from it.

        Until then the log holds the pages as they were before.
        """
        with self.in_use, TranslatedErrors(self.path):
            try:
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                return False
        return True

    def checkpoint(self) -> bool:
        """Move the log into the database as far as readers allow, without waiting.

        Returns whether the whole log was moved.
        """
        self._check_process()
        self._logs.check()
        # Busy: another connection is doing it.
        with self.in_use, TranslatedErrors(self.path), suppress(apsw.BusyError):
            mode = apsw.SQLITE_CHECKPOINT_PASSIVE
            in_log, moved = self._connection.wal_checkpoint(mode=mode)
            return in_log == moved
        return False

    @property
    def unmoved_bytes(self) -> int:
        """How much of the log is not in the database yet; 0 while a connection moves it."""
        self._check_process()
        self._logs.check()
        with self.in_use, TranslatedErrors(self.path):
            try:
                in_log, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            except apsw.BusyError:
                return 0
        found = self.row("PRAGMA page_size")
        return max(in_log - moved, 0) * (found[0] if found else 0)

    def leave_checkpoints_to_others(self) -> None:
        """Never checkpoint in this connection's commits, so that no commit takes long.

        `wal_pages` is kept up to date from then on.
        """
        self._connection.wal_autocheckpoint(0)
        self._connection.set_wal_hook(self._note_wal)

    def _note_wal(self, _connection: object, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def check_file(self) -> None:
        """Raise DatabaseGone if the file was deleted, replaced or emptied while it was open."""
        # Writing to a deleted file loses the rows; to a replaced one, it makes a second history.
        identity, is_emptied = look_at(self.path)
        if identity != self.identity:
            raise gone(self.path)
        if is_emptied:
            raise emptied(self.path)

    @property
    def has_lost_log(self) -> bool:
        """Whether the log was deleted or replaced since the database was opened."""
        return self._logs.are_lost

    def renew(self) -> None:
        """Open the database again after its log was deleted, without losing what the log held.

        Only for the single connection of a process. Raises LogLost as long as another process has
        that log open, and DatabaseGone if another log has taken its place.
        """
        self._check_process()
        self.check_file()
        with self.in_use, TranslatedErrors(self.path):
            self._logs.save()
            refuse_lost_log(self.path, wait_s=0)
            self._open()
        self._data_version = -1
        self._renewals += 1
