"""What a test does with the database below a store, in the words of each kind."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Protocol, cast

import apsw

from edgecron.base.paths import Location, read_location
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import SqliteStore, open_store
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database

if TYPE_CHECKING:
    from edgecron.store.sql.connection import Connection

_REFERENCES = (
    ("executions", "schedule_id", "schedules"),
    ("schedule_revisions", "schedule_id", "schedules"),
    ("schedule_scopes", "schedule_id", "schedules"),
    ("schedule_upstreams", "schedule_id", "schedules"),
    ("schedule_changes", "schedule_id", "schedules"),
    ("outputs", "execution_id", "executions"),
    ("state", "schedule_id", "schedules"),
)


def check_soundness(store: Connection) -> None:
    """Check that nothing is damaged, and that no row refers to a missing one."""
    if isinstance(store, Database):
        assert store.rows("PRAGMA integrity_check") == [("ok",)], "I21"
        assert store.rows("PRAGMA foreign_key_check") == [], "I21"
        return
    for table, column, parent in _REFERENCES:
        missing = f"SELECT {column} FROM {table} EXCEPT SELECT id FROM {parent}"
        assert store.rows(missing) == [], f"I21 {table}"


def drop_trigger(store: Connection, name: str, table: str) -> None:
    """Drop a trigger, inside the caller's transaction."""
    of = "" if isinstance(store, Database) else f" ON {table}"
    store.change(f"DROP TRIGGER {name}{of}")


class ServerClock(FakeClock):
    """The clock of a server, and of every machine that has its time.

    Databases that `ServerStores` makes with it read it from its file.
    """

    def __init__(self, start_ms: int) -> None:
        self._file = NamedTemporaryFile(dir="/dev/shm")  # noqa: SIM115 - it goes with the clock
        os.fchmod(self._file.fileno(), 0o644)  # The server is another user.
        super().__init__(start_ms)
        self._show()

    def close(self) -> None:
        """Remove its file."""
        self._file.close()

    @property
    def path(self) -> str:
        """The file that shows its time."""
        return self._file.name

    def advance_ms(self, duration_ms: int) -> None:
        super().advance_ms(duration_ms)
        self._show()

    def suspend_ms(self, duration_ms: int) -> None:
        super().suspend_ms(duration_ms)
        self._show()

    def step_ms(self, by_ms: int) -> None:
        super().step_ms(by_ms)
        self._show()

    def set_ms(self, instant_ms: int) -> None:
        super().set_ms(instant_ms)
        self._show()

    def reboot(self, *, down_ms: int = 0) -> None:
        super().reboot(down_ms=down_ms)
        self._show()

    def _show(self) -> None:
        os.pwrite(self._file.fileno(), f"{FakeClock.now_ms(self):020}".encode(), 0)


class Stores(Protocol):
    """A database that engines of a virtual world share."""

    @property
    def location(self) -> Location:
        """Where clients find it."""

    def create(self, *, now_ms: int, seed: bytes) -> None:
        """Make the database."""

    def open(self, *, now_ms: int) -> SqliteStore:
        """Open it as an engine does.

        The type of one store stands for both: the tests ask only what both have.
        """

    def open_reader(self) -> Database:
        """Open it for who judges."""

    def run_sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement through a plain connection of its own, as any SQL shell does."""

    def set_version(self, version: int) -> None:
        """Record another version of the schema, as a newer edgecron does after a migration."""


class FileStores:
    """A database file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def location(self) -> Location:
        return self._path

    def create(self, *, now_ms: int, seed: bytes) -> None:
        new_database(self._path, now_ms=now_ms, seed=seed)

    def open(self, *, now_ms: int) -> SqliteStore:
        return open_store(self._path, now_ms=now_ms)

    def open_reader(self) -> Database:
        return Database(self._path)

    def run_sql(self, statement: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self._path))
        connection.set_busy_timeout(10_000)  # An engine writes, too.
        found = connection.execute(statement).fetchall()
        connection.close()
        return found

    def set_version(self, version: int) -> None:
        self.run_sql(f"PRAGMA user_version = {version}")


class ServerStores:
    """A database of a server. Engines reach it at `url`, who judges at `own_url`.

    With a `clock`, the server's time is that of the clock.
    """

    def __init__(
        self, url: str, own_url: str | None = None, *, clock: ServerClock | None = None
    ) -> None:
        self._url = url
        self._own_url = own_url or url
        self._clock = clock
        self._opened: list[SqliteStore] = []

    def close(self) -> None:
        """Close all that engines have opened."""
        for store in self._opened:
            store.close()

    @property
    def location(self) -> Location:
        return read_location(self._url)

    def create(self, *, now_ms: int, seed: bytes) -> None:
        reader = self._open(self._own_url, now_ms=now_ms)
        with reader.transaction():
            reader.change("UPDATE meta SET seed = :seed", {"seed": seed})
            if self._clock is not None:
                reader.run_script(  # type: ignore[attr-defined]
                    f"""CREATE OR REPLACE FUNCTION server_ms() RETURNS bigint LANGUAGE sql VOLATILE
                        AS $$ SELECT pg_read_file('{self._clock.path}')::bigint $$"""
                )
        reader.close()

    def open(self, *, now_ms: int) -> SqliteStore:
        self._opened.append(self._open(self._url, now_ms=now_ms))
        return self._opened[-1]

    def open_reader(self) -> Database:
        return self._open(self._own_url, now_ms=0)

    def run_sql(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self._own_url) as connection:
            connection.execute("SET search_path = edgecron")
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    def set_version(self, version: int) -> None:
        self.run_sql(f"UPDATE versions SET schema = {version}")

    @staticmethod
    def _open(url: str, *, now_ms: int) -> SqliteStore:
        from edgecron.store.postgres.store import open_store  # its driver is an extra

        return cast("SqliteStore", open_store(url, now_ms=now_ms, busy_wait_s=5.0))
