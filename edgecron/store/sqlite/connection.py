"""Database: one SQLite connection with its transactions, its log and its place among writers.

SQLite only reports that another connection writes, so a waiting process naps for a millisecond and
tries again. Two of three runs that a program queued in a row had to nap (measured). Threads of one
process therefore wait for each other in `WriterQueue`, without naps.
"""

from __future__ import annotations

import os
import time
from _thread import RLock  # what `threading` gives, which takes 1 ms to load
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from edgecron.base.errors import DatabaseUnusable
from edgecron.store.sqlite.database_file import (
    MOUNTS,
    check_sqlite_version,
    configure,
    open_file,
    prepare_file,
)
from edgecron.store.sqlite.forks import close_in_children, is_spoiled
from edgecron.store.sqlite.lost_files import (
    Logs,
    identity_of,
    look_at,
    may_be_lost,
    refuse_lost_log,
)
from edgecron.store.sqlite.statements import Statements, busy, emptied, gone, translated_errors

if TYPE_CHECKING:
    from edgecron.store.sqlite.forks import Identity


_TURN_MS = 100  # how often a waiting thread counts its wait
_LONG_TRIES = 800  # about a second, with what each nap takes beside its millisecond
_turns: dict[Identity, RLock] = {}  # a few bytes for each file
_tell_wait: list[Callable[[Path], object]] = []  # at most one: the command line's


def tell_long_waits(tell: Callable[[Path], object]) -> None:
    """Set what is called after a wait of about a second for another process."""
    _tell_wait[:] = [tell]


class WriterQueue:
    """Wait for other writers on behalf of one connection, up to `most_s` each time.

    `waits` counts the naps, `failures` the times that the lock was taken, until they are recorded.
    """

    def __init__(self, path: Path, identity: Identity | None, *, most_s: float) -> None:
        self.waits = 0
        self.failures = 0
        self._path = path
        self.wait_at_most(most_s)
        # A file without an identity shares no lock.
        self._lock = RLock() if identity is None else _turns.setdefault(identity, RLock())

    def wait_at_most(self, most_s: float) -> None:
        """Set the longest wait."""
        self._tries = max(1, round(most_s * 1000))

    @contextmanager
    def waiting_at_most(self, most_s: float) -> Iterator[None]:
        """Set the longest wait within the block."""
        tries = self._tries
        self.wait_at_most(most_s)
        try:
            yield
        finally:
            self._tries = tries

    def nap(self, tries_before: int) -> bool:
        """SQLite's busy handler: wait a moment for another process; False to give up."""
        # A constant, slightly random nap: SQLite's own back-off gives one of eight processes
        # nearly all of the turns (measured), because whoever waited longest sleeps longest.
        if self._tries == 0:
            return False
        self.failures += tries_before == 0
        if tries_before >= self._tries:
            return False
        self.waits += 1
        if tries_before == _LONG_TRIES:
            for tell in _tell_wait:
                tell(self._path)
        from random import random  # nearly nobody has to wait

        time.sleep(0.0005 + random() * 0.001)
        return True

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Take this process's turn to write. Raises DatabaseBusy after the longest wait."""
        if not self._lock.acquire(blocking=False):
            self._wait()
        try:
            yield
        finally:
            self.give_away()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Within the block, do not wait for other writers, and do not count them."""
        tries, self._tries = self._tries, 0
        try:
            yield
        finally:
            self._tries = tries

    def give_away(self) -> None:
        """Release the turn if this thread has it.

        Ctrl-C can raise right after the turn was taken; closing the connection then releases it.
        """
        with suppress(RuntimeError):  # It is not ours.
            self._lock.release()

    def _wait(self) -> None:
        self.failures += self._tries > 0
        for _ in range(0, self._tries, _TURN_MS):
            self.waits += 1
            if self._lock.acquire(timeout=_TURN_MS / 1000):
                return
        raise busy(self._path)


# A fork copies locks that other threads of the parent hold.
os.register_at_fork(after_in_child=_turns.clear)


_LITTLE_KIB = 512  # instead of two megabytes; claims take as long (measured)
_MORE_THAN_VERSIONS = 2**32  # data versions have 32 bits
_LEFT_TO_PARENT: list[apsw.Connection] = []  # kept from the garbage collector, which closes too


class _Undone(Exception):
    """Ends a rehearsal."""


class Database(Statements):
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

        A writer waits up to `busy_wait_s` for the lock, then DatabaseBusy is raised. With
        `must_exist`, a missing file raises NotFound. A file that can't be trusted (a link, on a
        network file system, not a database, corrupt, another program's) raises DatabaseUnusable,
        and is not changed. `mounts` is the system's table of mounts.
        """
        super().__init__(path)
        self._seed_and_uuid: tuple[bytes, str] | None = None  # not read yet
        self.wal_pages = 0  # of the log, after our latest commit
        self._data_version = -1
        self._renewals = 0
        self._is_together = False
        self._was_locked = False
        check_sqlite_version()
        self.is_new = prepare_file(path, must_exist=must_exist, mounts=mounts)
        if may_be_lost(path):
            refuse_lost_log(path, patience_s=busy_wait_s)
        self.identity = identity_of(path)
        self._turns = WriterQueue(path, self.identity, most_s=busy_wait_s)
        if is_spoiled(self.identity):
            raise DatabaseUnusable(
                f"database {path} was in use when this process was forked",
                hint="fork before it is used, or start children anew, as 'spawn' does",
            )
        close_in_children(self)
        with self.in_use:
            self._open()

    def _open(self) -> None:
        with translated_errors(self.path):
            self._connection = open_file(self.path)
            try:
                configure(self._connection, self.path, wait_for_lock=self._turns.nap)
                # Another process might have replaced the file while we waited.
                self.check_file()
                self._logs = Logs(self.path, self._connection)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        """Close the connection, unless it is closed or belongs to the parent process."""
        if os.getpid() != self._pid:
            return
        with self.in_use:
            self._logs.prepare_close()
            self._connection.close()
        self._turns.give_away()

    def leave_to_parent(self) -> bool:
        """Close a forked child's copy of the connection; whether that was possible.

        SQLite must forget the locks of the parent, or it would confuse ours with them. Within a
        transaction that is impossible: only the parent can end it. So it is if another thread was
        in SQLite, for example the garbage collector: its mutex stays locked in the child.
        """
        try:
            if not self._connection.in_transaction:
                # The parent still writes the log.
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
    def seed(self) -> bytes:
        """The random seed of jitter and H. Raises DatabaseUnusable if it is lost."""
        return (self._seed_and_uuid or self.read_identity())[0]

    @property
    def uuid(self) -> str:
        """The UUID of the database. Raises DatabaseUnusable if it is lost."""
        return (self._seed_and_uuid or self.read_identity())[1]

    def read_identity(self) -> tuple[bytes, str]:
        """Read the seed and the UUID again. Raises DatabaseUnusable if they are lost."""
        row = self.row("SELECT seed, uuid FROM meta")
        if row is None:
            raise DatabaseUnusable(
                f"database {self.path} has lost its seed", hint="restore a backup"
            )
        self._seed_and_uuid = found = bytes(row[0]), str(row[1])
        return found

    @property
    def lock_waits(self) -> int:
        """How many naps this connection took because of another writer."""
        return self._turns.waits

    @property
    def was_locked(self) -> bool:
        """Whether the open transaction had to wait for another writer."""
        return self._was_locked

    @property
    def change_mark(self) -> int:
        """A number that changes when another connection commits, and with `renew`."""
        self.check_file()
        self._logs.check()
        found = self.row("PRAGMA data_version")
        assert found is not None
        if found[0] != self._data_version:
            with self.in_use, translated_errors(self.path):
                self.check_version()
            self._data_version = int(found[0])
        # A new connection starts with the same number as the one before it.
        return self._data_version + self._renewals * _MORE_THAN_VERSIONS

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one `BEGIN IMMEDIATE` transaction; any exception rolls it back.

        Raises SchemaTooNew if a newer edgecron has migrated the database meanwhile. If COMMIT
        itself raises, the caller does not know whether it happened.
        """
        if self._is_together:
            yield
            return
        self._check_process()
        self.check_file()
        self._logs.check()
        failures_before = self._turns.failures
        with self._turns.turn(), self.in_use, translated_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            self._was_locked = self._turns.failures > failures_before
            changes_before = self._connection.total_changes()
            try:
                # Under the lock, so that the schema can't change before we write.
                self.check_version()
                yield
                noted = self._note_lock_failures(changes_before)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._turns.failures -= noted

    def _note_lock_failures(self, changes_before: int) -> int:
        """Record how often the lock was taken, if this transaction writes anyway; how many."""
        failures = self._turns.failures
        is_ours = self._version is not None  # otherwise the column might be missing
        if not failures or not is_ours or self._connection.total_changes() == changes_before:
            return 0
        self._connection.execute(
            "UPDATE meta SET lock_failures = lock_failures + :count", {"count": failures}
        )
        return failures

    @property
    def connection(self) -> apsw.Connection:
        """The SQLite connection, for operations on the whole file.

        Raises DatabaseUnusable in another process, or if the file was replaced.
        """
        self._check_process()
        self.check_file()
        self._logs.check()
        return self._connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """Join the transactions of the block into one."""
        with self.transaction():
            self._is_together = True
            try:
                yield
            finally:
                self._is_together = False

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Undo all writes of the block; never wait for the lock.

        Only pages in memory and compiled statements remain, for writes that come soon. Raises
        DatabaseBusy if another connection is writing.
        """
        with self._turns.without_waiting(), suppress(_Undone), self.together():
            yield
            raise _Undone

    def wait_at_most(self, seconds: float) -> None:
        """Set the longest wait for the lock."""
        self._turns.wait_at_most(seconds)

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Set the longest wait for the lock within the block."""
        with self._turns.waiting_at_most(seconds):
            yield

    def keep_little(self) -> None:
        """Use a small page cache: an engine reads the same few pages for months."""
        with self.in_use:
            self._connection.execute(f"PRAGMA cache_size = -{_LITTLE_KIB}", can_cache=False)

    def forget_pages(self) -> None:
        """Drop cached pages, so that a repaired file is read again."""
        self._check_process()
        with self.in_use, translated_errors(self.path):
            self._connection.execute("PRAGMA shrink_memory")

    def checkpoint(self) -> bool:
        """Move the log into the database as far as readers allow, without waiting; whether all."""
        self._check_process()
        self._logs.check()
        # Busy: another connection does it.
        with self.in_use, translated_errors(self.path), suppress(apsw.BusyError):
            mode = apsw.SQLITE_CHECKPOINT_PASSIVE
            in_log, moved = self._connection.wal_checkpoint(mode=mode)
            return in_log == moved
        return False

    @property
    def unmoved_bytes(self) -> int:
        """How much of the log is not in the database yet; 0 while a checkpoint runs."""
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
        """Never checkpoint in this connection's commits, so that none takes long.

        From then on, `wal_pages` is counted.
        """
        self._connection.wal_autocheckpoint(0)
        self._connection.set_wal_hook(self._note_wal)

    def _note_wal(self, _connection: object, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def check_file(self) -> None:
        """Raise DatabaseGone if the file was deleted, replaced or emptied."""
        # Writes to a deleted file are lost; writes to a replaced one make a second history.
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
        """Open the database again after its log was deleted, with the content of that log.

        For the only connection of a process. Raises LogLost while another process has that log
        open, and DatabaseGone if another log has taken its place.
        """
        self._check_process()
        self.check_file()
        with self.in_use, translated_errors(self.path):
            self._logs.save()
            refuse_lost_log(self.path, patience_s=0)
            self._open()
        self._data_version = -1
        self._renewals += 1
