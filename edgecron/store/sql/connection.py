"""Connection: what the statements of a store need of the database below them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import edgecron
from edgecron.base.errors import DatabaseUnusable, SchemaTooNew

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.base.errors import EdgecronError

RESTORE = "to restore a backup: edgecron restore FILE"

Params = Mapping[str, Any]


class Opening(TypedDict, total=False):
    """How to open a database.

    With `must_exist`, raise NotFound for a missing file, and for a server's database without our
    tables. A writer waits up to `busy_wait_s` for another one, then raises DatabaseBusy.
    `reads_if_full` is for a file: see `Database`.
    """

    must_exist: bool
    busy_wait_s: float
    reads_if_full: bool


def too_new(place: Path | str, version: int, *, known: int) -> SchemaTooNew:
    """The error for a database of a newer edgecron."""
    return SchemaTooNew(
        f"database {place} is version {version}, this edgecron knows up to {known}",
        hint="upgrade edgecron",
    )


class Connection(Protocol):
    """One connection, for one thread at a time. `sqlite.connection.Database` is one.

    SQL has named parameters (`:name`). Rows are tuples: integers, texts, bytes and None.
    """

    notes: dict[str, Any]  # of the store's modules, kept between transactions
    lease_columns: str  # SQL: the machine of engine `n`, and whether its lease has ended
    load_columns: str  # SQL: when engine `n` last renewed its lease, and how often it polls
    lease_is_over: str  # SQL: whether the lease of an engine has ended
    path: Path  # the file; for a server, beside which this machine keeps its own files
    place: str  # where the database is, for people
    is_new: bool  # whether opening it made it

    def close(self) -> None:
        """Close the connection. Does nothing if it is closed, or belongs to the parent process."""

    @property
    def uuid(self) -> str:
        """The UUID of the database."""

    @property
    def change_mark(self) -> int:
        """A number that changes when another connection commits."""

    @property
    def lock_waits(self) -> int:
        """How often another connection's lock was waited for."""

    @property
    def seed(self) -> bytes:
        """The random seed of jitter and `H`."""

    @property
    def was_locked(self) -> bool:
        """Whether the open transaction had to wait for a lock when it began."""

    def transaction(self, *, is_synced: bool = True) -> AbstractContextManager[None]:
        """One transaction, the only one that writes: committed at the end, rolled back by errors.

        Within an open transaction, it is a part of that one. Without `is_synced`, a power cut can
        take it, but no earlier one.
        """

    def wait_at_most(self, seconds: float) -> None:
        """Wait up to so long for another writer from now on."""

    def waiting_at_most(self, seconds: float) -> AbstractContextManager[None]:
        """Wait up to so long for another writer within the block."""

    def rehearsal(self) -> AbstractContextManager[None]:
        """Roll back all that is written within the block."""

    def interrupt(self) -> None:
        """Make a statement that is running raise QueryInterrupted. Callable from any thread."""

    def keep_pages(self, kib: int) -> None:
        """Keep so many KiB in memory, for a command that reads the same rows repeatedly."""

    def rows(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """All rows of a statement."""

    def each(self, sql: str, params: Params | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, a few at a time, for results that are too large for memory."""

    def row(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run a statement that writes; how many rows it changed."""

    def change_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a statement that writes once for each set of parameters."""

    def returning_each(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING once for each set of parameters; all its rows."""

    def returning(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """Run a statement with RETURNING; its one row, or None."""

    def returning_all(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING; all its rows."""

    def unique(self, column: str, problem: EdgecronError) -> AbstractContextManager[None]:
        """Raise `problem` if a statement within the block repeats a value of a unique column."""

    def as_value(self, value: object) -> Any:
        """A Python object as the value of a parameter, for a function of ours to read."""

    def as_bytes(self, expression: str) -> str:
        """SQL for the bytes of a text that might not be UTF-8; other types stay."""

    def clock_for(self, own: Clock) -> Clock:
        """The clock by which times are due: `own`, or that of the server of this database."""

    def let_others_write(self) -> None:
        """Pause between two slices of a large change, for connections that wait for the lock."""

    def without_overwriting(self) -> AbstractContextManager[None]:
        """Do not overwrite removed rows within the block: retention writes half as much."""

    def find_columns(self, table: str) -> list[str]:
        """The names of the columns of a table."""

    def without_triggers(self, tables: Sequence[str]) -> AbstractContextManager[None]:
        """Write to these tables without their triggers, in the open transaction."""

    def allow_idle(self) -> None:
        """Let the open transaction be idle for long."""

    def find_last_ids(self) -> dict[str, int]:
        """The last id that each table has given, by tables that never give one twice."""

    def set_last_ids(self, last_ids: Mapping[str, int]) -> None:
        """Let tables give ids beyond these, and beyond all that they have."""

    def sending_alone(self, *, wait_s: float) -> AbstractContextManager[bool]:
        """Let no other machine send notices within the block; yields False if one still does."""

    def find_size(self) -> tuple[int, int]:
        """The bytes that the database holds, and the free bytes in its file."""

    def empty_log(self) -> bool:
        """Remove former contents from all files; False if a reader prevents this."""


class RollBack(Exception):
    """Ends a rehearsal."""


class OwnConnection(Connection):
    """Base of the connections of all stores."""

    def __init__(self, place: str) -> None:
        """Connect to nothing yet. `place` is the database, as messages name it."""
        self.place = place
        self.in_use = RLock()
        self.notes = {}
        self._pid = os.getpid()
        self._version: int | None = None  # of the schema that our statements fit
        self._seed_and_uuid: tuple[bytes, str] | None = None  # not read yet
        self._is_open = False  # a transaction
        self._was_locked = False

    def clock_for(self, own: Clock) -> Clock:
        """Return `own`: the clock of the machine that has the file."""
        return own

    @property
    def seed(self) -> bytes:
        """The random seed of jitter and `H`. Raises DatabaseUnusable if it is lost."""
        return (self._seed_and_uuid or self.read_identity())[0]

    @property
    def uuid(self) -> str:
        """The UUID of the database. Raises DatabaseUnusable if it is lost."""
        return (self._seed_and_uuid or self.read_identity())[1]

    def read_identity(self) -> tuple[bytes, str]:
        """Read the seed and the UUID again. Raises DatabaseUnusable if they are lost."""
        row = self.row("SELECT seed, uuid FROM meta")
        if row is None:
            raise DatabaseUnusable(f"database {self.place} has no seed", hint="restore a backup")
        self._seed_and_uuid = found = bytes(row[0]), str(row[1])
        return found

    def write_identity(self, *, now_ms: int, seed: bytes | None) -> None:
        """Give a new database its identity. Without `seed`, the seed is random."""
        from uuid import uuid4  # Few commands create a database.

        self.change(
            """INSERT INTO meta (id, uuid, seed, created_at, created_by)
               VALUES (1, :uuid, :seed, :now, :version)""",
            {
                "uuid": str(uuid4()),
                "seed": seed or os.urandom(16),
                "now": now_ms,
                "version": edgecron.__version__,
            },
        )

    @property
    def was_locked(self) -> bool:
        """Whether the open transaction had to wait for a lock when it began."""
        return self._was_locked

    def row(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def returning(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """Run a statement with RETURNING; its one row, or None."""
        found = self.returning_all(sql, params)
        return found[0] if found else None

    def expect_version(self, version: int) -> None:
        """Refuse to write from now on if the schema is not of this version."""
        self._version = version

    def waiting_at_most(self, seconds: float) -> AbstractContextManager[None]:
        """Wait up to so long for another writer within the block."""
        raise NotImplementedError

    @contextmanager
    def sending_alone(self, *, wait_s: float) -> Iterator[bool]:
        """Yield True: the database is on one machine."""
        yield True

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Iterator[None]:
        """Begin a transaction, or continue the open one, which then commits as a whole."""
        self._check_process()
        with self.in_use:
            if self._is_open:
                yield
                return
            with self._new_transaction(is_synced=is_synced):
                self._is_open = True
                try:
                    yield
                finally:
                    self._is_open = False

    def _new_transaction(self, *, is_synced: bool) -> AbstractContextManager[None]:
        """Begin a transaction, which is committed at the end and rolled back by errors."""
        raise NotImplementedError

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Roll back all that is written within the block.

        Afterwards, the pages and statements that it needed are in memory. Raises DatabaseBusy
        immediately if another connection is writing.
        """
        with self.waiting_at_most(0), suppress(RollBack), self.transaction():
            yield
            raise RollBack

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise DatabaseUnusable(
                f"database {self.place} was opened before a fork",
                hint="open it after the fork, in the child",
            )
