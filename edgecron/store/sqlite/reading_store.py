"""ReadingStore: a database as commands open it that only read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar, Unpack

from edgecron.store.sql.connection import Opening
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
    seed: bytes | None = None,
    **how: Unpack[Opening],
) -> StoreT:
    """Open a database as this kind of store, and bring it to this edgecron's schema.

    A new database gets this `seed`, by default a random one. Only tests give a seed. Raises the
    errors of `Database`.
    """
    store = kind(path, **how)
    try:
        migrate(store, now_ms=now_ms, seed=seed)
        refuse_planted(store)
        store.read_identity()
    except BaseException:
        store.close()
        raise
    return store
