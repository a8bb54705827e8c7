"""The store: the only place that knows SQL.

`SqliteStore` is one connection for one thread. `contract.Store` is what an engine asks of it;
the rest serves people: schedules, history, outputs.
"""

from __future__ import annotations

from pathlib import Path

from edgecron.store.connection import Database
from edgecron.store.forengines import ForEngines
from edgecron.store.forpeople import ForPeople
from edgecron.store.keeping import Keeping
from edgecron.store.migrate import migrate, refuse_planted

__all__ = ["SqliteStore", "open_store"]


def open_store(
    path: Path,
    *,
    now_ms: int,
    must_exist: bool = False,
    busy_wait_s: float = 30.0,
    seed: bytes | None = None,
) -> SqliteStore:
    """Open a database and bring it to this schema; see `Database` for what is refused.

    `seed` is that of a new one; None is a random one, which every one but a test's has.
    """
    database = Database(path, busy_wait_s=busy_wait_s, must_exist=must_exist)
    try:
        with database.seldom():
            migrate(database, now_ms=now_ms, seed=seed)
            refuse_planted(database)
            return SqliteStore(database)
    except BaseException:
        database.close()
        raise


class SqliteStore(ForEngines, ForPeople, Keeping):
    """Everything that is kept, over one connection."""
