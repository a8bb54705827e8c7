"""ReadingStore: a database as commands open it that only read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from edgecron.store.sql.reads import Reads
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.migrate import migrate, refuse_planted


class ReadingStore(Database, Reads):
    """The reads of one thread."""


StoreT = TypeVar("StoreT", bound=ReadingStore)


def open_as(
    kind: type[StoreT],
    path: Path,
    *,
    now_ms: int,
    must_exist: bool = False,
    busy_wait_s: float = 30.0,
    reads_if_full: bool = False,
    seed: bytes | None = None,
) -> StoreT:
    """Open a database as this kind of store, and bring it to this edgecron's schema.

    A new database gets this `seed`, by default a random one. Only tests give a seed. Raises the
    errors of `Database`.
    """
    store = kind(path, busy_wait_s=busy_wait_s, must_exist=must_exist, reads_if_full=reads_if_full)
    try:
        migrate(store, now_ms=now_ms, seed=seed)
        refuse_planted(store)
        store.read_identity()
    except BaseException:
        store.close()
        raise
    return store
