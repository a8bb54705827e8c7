"""What a test does with the database below a store, in the words of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import SqliteStore, open_store
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


class Stores(Protocol):
    """A database that engines of a virtual world share."""

    def create(self, *, now_ms: int, seed: bytes) -> None:
        """Make the database."""

    def open(self, *, now_ms: int) -> SqliteStore:
        """Open it as an engine does.

        The type of one store stands for both: the tests ask only what both have.
        """

    def open_reader(self) -> Database:
        """Open it for who judges."""


class FileStores:
    """A database file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, *, now_ms: int, seed: bytes) -> None:
        new_database(self._path, now_ms=now_ms, seed=seed)

    def open(self, *, now_ms: int) -> SqliteStore:
        return open_store(self._path, now_ms=now_ms)

    def open_reader(self) -> Database:
        return Database(self._path)


class ServerStores:
    """A database of a server. Engines reach it at `url`, who judges at `own_url`."""

    def __init__(self, url: str, own_url: str | None = None) -> None:
        self._url = url
        self._own_url = own_url or url

    def create(self, *, now_ms: int, seed: bytes) -> None:
        reader = self._open(self._own_url, now_ms=now_ms)
        with reader.transaction():
            reader.change("UPDATE meta SET seed = :seed", {"seed": seed})
        reader.close()

    def open(self, *, now_ms: int) -> SqliteStore:
        return self._open(self._url, now_ms=now_ms)

    def open_reader(self) -> Database:
        return self._open(self._own_url, now_ms=0)

    @staticmethod
    def _open(url: str, *, now_ms: int) -> SqliteStore:
        from edgecron.store.postgres.store import open_store  # its driver is an extra

        return cast("SqliteStore", open_store(url, now_ms=now_ms, busy_wait_s=5.0))
