"""ServerDatabase: one connection to a PostgreSQL server, with its transactions and its errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any, cast

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from edgecron.base.clock import Clock, ServerTime
from edgecron.base.errors import DatabaseUnusable, EdgecronError, NotFound
from edgecron.store.contract import LEASE_MS
from edgecron.store.postgres import dialect
from edgecron.store.postgres.dialect import Statement
from edgecron.store.sql.connection import OwnConnection, Params, too_new

LEAST_SERVER = 15  # the major version of PostgreSQL
CHANNEL = "edgecron"  # of NOTIFY: each transaction that has written
QUIET = "quiet"  # the notice of a transaction that gives no engine anything to do
# The advisory lock of all writers of a database. A claim counts the runs of all machines against
# the limits of groups and schedules, so two claims never run side by side: SKIP LOCKED would find
# no locked row to skip.
_WRITERS = 0x6564676563726F6E
_IN_TRANSACTION = pq.TransactionStatus.INTRANS
# The server would compile statements whose cost it overestimates: 1.5 s instead of 0.2 s.
_SET = "SET search_path = edgecron, pg_catalog; SET jit = off"
_SET_LOCAL = _SET.replace("SET", "SET LOCAL")
# Whatever the role's default is: a writer must see what the writer before it has committed.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
# The most transactions of others between two connections. A change mark falls with each new
# connection: its server can be another one, which lacks our last transactions and has newer ones.
_MOST_UNSEEN = 2**32
# A machine that is cut off says nothing. Its connection ends after about 25 s, on both sides: the
# server must not keep the lock of all writers for it. A URL can say otherwise.
_SIGNS_OF_LIFE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "application_name": "edgecron",
}
_MOST_IDLE_MS = 10_000  # that a transaction of a writer is left open by its process


class TurnTaken(Exception):
    """Another engine is claiming due schedules of the same queue."""


class ServerDatabase(OwnConnection):
    """One connection, for one thread at a time of one process."""

    # An engine that has just registered has no lease yet, and is not ours.
    lease_is_over = f"coalesce(coalesce(stale_after, started_at + {LEASE_MS}) < server_ms(), true)"
    load_columns = "n.heartbeat_at, n.polls_ms"
    lease_columns = f"""coalesce(n.machine, ''),
        coalesce(coalesce(n.stale_after, n.started_at + {LEASE_MS}) < server_ms(), true)"""

    def __init__(self, url: str, *, busy_wait_s: float = 30.0) -> None:
        """Connect to the server.

        A writer waits up to `busy_wait_s` for another writer, then raises DatabaseBusy. Raises
        DatabaseUnusable if the server can't be reached or refuses the connection.
        """
        super().__init__(dialect.place_of(url))
        self.is_new = False
        self._lock_waits = 0
        self._lock_failures = 0  # not recorded yet
        self.url = url
        self._busy_wait_ms = round(busy_wait_s * 1000)
        self._own_changes = 0  # transactions of ours that have written
        self._time: ServerTime | None = None
        self._own_clock: Clock | None = None
        self.is_pooled = False
        self._may_be_interrupted = False  # by this process
        self._was_open = False
        self._has_written = False  # the open transaction
        self.is_quiet = False  # the open transaction wakes no engine
        with self._translated():
            self._connection = self._connect()
        self._was_open = True

    def _connect(self) -> psycopg.Connection[Any]:
        conninfo = make_conninfo("", **{**_SIGNS_OF_LIFE, **conninfo_to_dict(self.url)})
        connection = psycopg.connect(conninfo, autocommit=True)
        try:
            dialect.adapt(connection)
            self._check_server(connection.info.server_version)
            [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
            # A pooler such as PgBouncer names a process of its own, and may give each transaction
            # another connection to the server: nothing of a session lasts.
            self.is_pooled = pid != connection.info.backend_pid
            if self.is_pooled:
                connection.prepare_threshold = None
            else:
                connection.execute(_SET)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_again(self) -> psycopg.Connection[Any]:
        self._connection.close()
        self._connection = self._connect()
        self._own_changes += _MOST_UNSEEN
        return self._connection

    def _check_server(self, version: int) -> None:
        if version // 10_000 < LEAST_SERVER:
            raise DatabaseUnusable(
                f"database {self.place} is on PostgreSQL {version // 10_000}",
                hint=f"edgecron needs PostgreSQL {LEAST_SERVER} or newer",
            )

    def close(self) -> None:
        """Close the connection. Does nothing if it is closed, or belongs to the parent process."""
        if os.getpid() == self._pid:
            with self.in_use:
                self._connection.close()

    # The identity of the database.

    @property
    def lock_waits(self) -> int:
        """How often another writer was waited for."""
        return self._lock_waits

    @property
    def change_mark(self) -> int:
        """A number that rises when another connection commits, and falls with a new server."""
        asked_ms = self._asked_ms()
        found = self.row("SELECT changes, schema, server_ms() FROM versions")
        assert found is not None
        self._check_version(found[1])
        self._note_time(found[2], asked_ms)
        return self.mark_of(found[0])

    def mark_of(self, changes: int) -> int:
        """The change mark, of a count of all transactions that have written."""
        return changes - self._own_changes

    # The server's clock.

    def clock_for(self, own: Clock) -> ServerTime:
        """The clock of the server, as each transaction and each look for changes shows it."""
        self._time = own if isinstance(own, ServerTime) else ServerTime(own)
        self._own_clock = own
        _ = self.change_mark  # the first answer
        return self._time

    def _asked_ms(self) -> int:
        return 0 if self._own_clock is None else self._own_clock.boottime_ms()

    def _note_time(self, server_ms: int, asked_ms: int) -> None:
        if self._time is not None:
            self._time.note(server_ms, asked_ms=asked_ms)

    # Statements.

    def rows(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        statement = dialect.to_postgres(sql)
        with self.connected() as connection:
            try:
                cursor = self._ask(connection, statement, params)
            except psycopg.OperationalError:
                if self._is_open or not connection.broken:
                    raise
                # The server has ended it while it was idle, perhaps by a restart.
                cursor = self._ask(self._connect_again(), statement, params)
            if not (cursor.statusmessage or "").startswith("SELECT"):
                self._note_written(cursor)
            return [] if cursor.description is None else cursor.fetchall()

    def _ask(
        self, connection: psycopg.Connection[Any], statement: Statement, params: Params | None
    ) -> psycopg.Cursor[Any]:
        if self._is_open or not self.is_pooled:
            return connection.execute(statement.text, statement.values(params))
        try:
            connection.execute(f"{_BEGIN}; {_SET_LOCAL}".encode())
            cursor = connection.execute(statement.text, statement.values(params))
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        return cursor

    def each(self, sql: str, params: Params | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, a few at a time, for results that are too large for memory.

        Behind a pooler, all of them at the first.
        """
        if self.is_pooled:
            yield from self.rows(sql, params)
            return
        with self._translated():
            with self.connected() as connection:
                cursor = connection.cursor("each", withhold=True)
            try:
                with self.in_use:
                    statement = dialect.to_postgres(sql)
                    cursor.execute(statement.text, statement.values(params))
                while True:
                    with self.in_use:
                        some = cursor.fetchmany(64)
                    if not some:
                        return
                    yield from some
            finally:
                with self.in_use, suppress(psycopg.OperationalError):  # The server drops it too.
                    cursor.close()

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run a statement that writes; how many rows it changed."""
        return self._write(sql, params).rowcount

    def change_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a statement that writes once for each set of parameters."""
        self._check_transaction()
        for one in self._together(sql, params):
            self._note_written(one)

    def returning_each(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING once for each set of parameters; all its rows."""
        self._check_transaction()
        found = []
        for cursor in self._together(sql, params):
            self._has_written = True
            found += cursor.fetchall()
            while cursor.nextset():
                found += cursor.fetchall()
        found.sort(key=itemgetter(0))  # Rows of one statement come in any order.
        return found

    def _together(self, sql: str, params: Sequence[Params]) -> Iterator[psycopg.Cursor[Any]]:
        """Run a statement once for each set of parameters, in as few statements as possible."""
        for some in dialect.without_repeated_ids(params):
            types = dialect.types_of(some) if len(some) > 1 else None
            text = None if types is None else dialect.to_postgres_many(sql, types)
            with self._connection.cursor() as cursor:
                if types is not None and text is not None:
                    arrays = {name: [one[name] for one in some] for name, kind in types if kind}
                    cursor.execute(text, arrays)
                else:
                    statement = dialect.to_postgres(sql)
                    values = [statement.values(one) for one in some]
                    cursor.executemany(statement.text, values, returning="RETURNING" in sql)
                yield cursor

    def returning_all(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING; all its rows."""
        return self._write(sql, params).fetchall()

    def _write(self, sql: str, params: Params | None) -> psycopg.Cursor[Any]:
        self._check_transaction()
        statement = dialect.to_postgres(sql)
        cursor = self._connection.execute(statement.text, statement.values(params))
        self._note_written(cursor)
        return cursor

    def _note_written(self, cursor: psycopg.Cursor[Any]) -> None:
        self._has_written |= cursor.rowcount > 0

    def run_script(self, script: str) -> None:
        """Run the statements of a migration, which are written for PostgreSQL."""
        self._check_transaction()
        self._connection.execute(script.encode())

    def as_value(self, value: object) -> str:
        """A collection of texts as the value of a parameter, for a function of ours to read."""
        return json.dumps(sorted(cast("Iterable[str]", value)))

    def as_bytes(self, expression: str) -> str:
        """The same expression: the server keeps no text that is not UTF-8."""
        return expression

    @contextmanager
    def unique(self, column: str, problem: EdgecronError) -> Iterator[None]:
        """Raise `problem` if a statement within the block repeats a value of a unique column."""
        try:
            # A failed statement ends a transaction of PostgreSQL, except behind a savepoint.
            with self._connection.transaction():
                yield
        except errors.UniqueViolation as error:
            if column.rpartition(".")[2] not in (error.diag.message_detail or ""):
                raise
            raise problem from error

    # Transactions.

    @contextmanager
    def _new_transaction(self, *, is_synced: bool) -> Iterator[None]:
        """One transaction, the only one that writes: committed at the end, rolled back by errors.

        Without `is_synced`, a crash of the server can take it, but no earlier one. If COMMIT itself
        raises, the caller can't know whether it happened.
        """
        with self.connected() as connection:
            try:
                self._begin(connection, is_synced=is_synced)
            except psycopg.OperationalError:
                if not connection.broken:
                    raise
                # The server has ended it while it was idle: nothing was written.
                connection = self._connect_again()
                self._begin(connection, is_synced=is_synced)
            try:
                yield
                noted = self._commit(connection)
            except BaseException:
                _roll_back(connection)
                raise
        self._lock_failures -= noted

    def _commit(self, connection: psycopg.Connection[Any]) -> int:
        """Commit; how many locks that were found taken the transaction has recorded."""
        if not self._has_written:
            connection.execute("COMMIT")
            return 0
        noted = 0 if self._version is None else self._lock_failures
        locks = f"UPDATE meta SET lock_failures = lock_failures + {noted};" if noted else ""
        notice = f"NOTIFY {CHANNEL}" + (f", '{QUIET}'" if self.is_quiet else "")
        connection.execute(
            f"{locks} UPDATE versions SET changes = changes + 1; {notice}; COMMIT".encode()
        )
        self._own_changes += 1
        return noted

    def _begin(self, connection: psycopg.Connection[Any], *, is_synced: bool) -> None:
        self._has_written = self.is_quiet = False
        asked_ms = self._asked_ms()
        durability = "" if is_synced else "SET LOCAL synchronous_commit = off;"
        # Only writes of other programs are foreign: a URL can give us another name.
        try:
            # Other programs hold locks of rows, too. 0 would wait without end.
            found = _results(
                connection,
                f"""{_BEGIN}; {_SET_LOCAL}; {durability}
                    SET LOCAL application_name = 'edgecron';
                    SET LOCAL lock_timeout = {max(self._busy_wait_ms, 1)};
                    SET LOCAL idle_in_transaction_session_timeout = {_MOST_IDLE_MS};
                    SELECT {self._try_lock()}; {self._ask_version()}""",
            )
            if found[0] == (None,):
                raise TurnTaken
            self._was_locked = found[0] == (0,)
            for _, server_ms in found[1:]:
                self._note_time(server_ms, asked_ms)
            if self._was_locked:
                if not self._busy_wait_ms:
                    raise errors.LockNotAvailable("another connection is writing")
                self._lock_waits += 1
                self._lock_failures += 1
                _results(connection, f"SELECT pg_advisory_xact_lock({_WRITERS})")
                found = [(), *_results(connection, self._ask_version())]
            for version, _ in found[1:]:
                self._check_version(version)
        except BaseException:
            _roll_back(connection)
            raise

    def _try_lock(self) -> str:
        """Try the lock of all writers; NULL if another engine has the turn."""
        return f"pg_try_advisory_xact_lock({_WRITERS})"

    def _ask_version(self) -> str:
        """Ask under the lock, so that no other program changes the schema before we write."""
        return "" if self._version is None else "SELECT schema, server_ms() FROM versions"

    def let_others_write(self) -> None:
        """Do nothing: the server gives its lock to the writer that has waited longest."""

    def wait_at_most(self, seconds: float) -> None:
        """Wait up to so long for another writer from now on."""
        self._busy_wait_ms = round(seconds * 1000)

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Wait up to so long for another writer within the block."""
        before_ms = self._busy_wait_ms
        self.wait_at_most(seconds)
        try:
            yield
        finally:
            self._busy_wait_ms = before_ms

    def keep_pages(self, kib: int) -> None:
        """Do nothing: the server keeps pages in its own memory."""

    def interrupt(self) -> None:
        """Make a statement that is running raise QueryInterrupted. Callable from any thread."""
        self._may_be_interrupted = True
        self._connection.cancel()

    @contextmanager
    def without_overwriting(self) -> Iterator[None]:
        """Change nothing: the server never overwrites removed rows."""
        yield

    def find_columns(self, table: str) -> list[str]:
        """The names of the columns of a table."""
        rows = self.rows(
            """SELECT column_name::text FROM information_schema.columns
               WHERE table_schema = 'edgecron' AND table_name = :table ORDER BY ordinal_position""",
            {"table": table},
        )
        return [name for (name,) in rows]

    @contextmanager
    def without_triggers(self, tables: Sequence[str]) -> Iterator[None]:
        """Write to these tables without their triggers, in the open transaction."""
        self.run_script("\n".join(f"ALTER TABLE {one} DISABLE TRIGGER USER;" for one in tables))
        yield
        self.run_script("\n".join(f"ALTER TABLE {one} ENABLE TRIGGER USER;" for one in tables))

    def allow_idle(self) -> None:
        """Let the open transaction be idle for long."""
        self.run_script("SET LOCAL idle_in_transaction_session_timeout = 0")

    def find_size(self) -> tuple[int, int]:
        """About the bytes of our rows on the server, and of the space that others have left.

        The server gives space of removed rows to new ones, never back. So the live rows of the
        tables that grow are counted, and retention ends when enough rows are removed.
        """
        self.rows("SELECT pg_stat_force_next_flush()")  # our own rows, of up to a second ago
        [(size_bytes, used_bytes)] = self.rows(dialect.SIZES)
        return used_bytes, max(0, size_bytes - used_bytes)

    def empty_log(self) -> bool:
        """Return True: the server keeps its own log, and removes old rows by itself."""
        return True

    # The version of the schema, and errors.

    def _check_version(self, found: int) -> None:
        if self._version is not None and found != self._version:
            raise too_new(self.place, found, known=self._version)

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection; outside of a transaction, a new one if it was lost."""
        self._check_process()
        with self.in_use, self._translated():
            if self._connection.broken and not self._is_open:
                self._connect_again()
            yield self._connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            place, was_asked = str(self.place), self._may_be_interrupted
            found = dialect.translate(error, place, was_asked=was_asked)
            if isinstance(found, NotFound) and self._was_open:
                # Another one can take its place, as after a restore.
                found = DatabaseUnusable(found.message, hint=found.hint)
            raise found from error

    def _check_transaction(self) -> None:
        # Each statement would be committed alone: half a decision, and a sync for every row.
        is_open = self._connection.info.transaction_status == _IN_TRANSACTION
        assert is_open, "a write outside of a transaction"


def _results(connection: psycopg.Connection[Any], statements: str) -> list[tuple[Any, ...]]:
    """Run statements in one round trip; the rows of all of them."""
    cursor = connection.execute(statements.encode())
    found = [] if cursor.description is None else cursor.fetchall()
    while cursor.nextset():
        found += [] if cursor.description is None else cursor.fetchall()
    return found


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.OperationalError):  # A lost connection has rolled back already.
        connection.rollback()
