"""PostgresStore: the database of a server as engines and clients use it, over one connection."""

from __future__ import annotations

from edgecron.store.postgres.connection import ServerDatabase
from edgecron.store.postgres.migrate import migrate
from edgecron.store.sql.writes import Writes


def open_store(
    url: str, *, now_ms: int, busy_wait_s: float = 30.0, seed: bytes | None = None
) -> PostgresStore:
    """Open a database of a server, and bring it to this edgecron's schema.

    A new database gets this `seed`; None is a random one. Only tests give one.
    """
    store = PostgresStore(url, busy_wait_s=busy_wait_s)
    try:
        migrate(store, now_ms=now_ms, seed=seed)
        store.read_identity()
    except BaseException:
        store.close()
        raise
    return store


class PostgresStore(ServerDatabase, Writes):
    """The store of one thread: `protocol.Store`, and more for clients."""

    def mend(self) -> bool:
        """Return False: a lost connection is opened again by the next statement."""
        return False

    def tidy(self) -> None:
        """Do nothing: the server tidies its log and tables by itself."""
