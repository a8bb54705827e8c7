"""PostgresStore: the database of a server as engines and clients use it, over one connection."""

from __future__ import annotations

from pathlib import Path

from edgecron.base.errors import DatabaseUnusable
from edgecron.base.paths import files_of_server
from edgecron.store.contract import Lease
from edgecron.store.postgres.connection import ServerDatabase
from edgecron.store.postgres.migrate import migrate
from edgecron.store.sql.writes import Writes


def open_store(
    url: str,
    *,
    now_ms: int,
    must_exist: bool = False,
    busy_wait_s: float = 30.0,
    seed: bytes | None = None,
) -> PostgresStore:
    """Open a database of a server, and bring it to this edgecron's schema.

    A new database gets this `seed`, by default a random one. Only tests give a seed. With
    `must_exist`, raises NotFound for a database without our tables.
    """
    store = PostgresStore(url, busy_wait_s=busy_wait_s)
    try:
        migrate(store, now_ms=now_ms, must_exist=must_exist, seed=seed)
        store.path = files_of_server(store.uuid)
    except BaseException:
        store.close()
        raise
    return store


class PostgresStore(ServerDatabase, Writes):
    """The store of one thread: `protocol.Store`, and more for clients."""

    path: Path

    @property
    def leases(self) -> PostgresStore:
        """The leases of engines on several machines: this store keeps them."""
        return self

    def need_writable(self) -> None:
        """Raise DatabaseUnusable if this role can only read."""
        if self.row("SELECT has_table_privilege('engines', 'INSERT')") != (True,):
            raise DatabaseUnusable(
                f"database {self.place} lets this role only read",
                hint="an engine needs a role that can write; see: edgecron help postgres",
            )

    def renew_lease(self, engine_id: int, *, machine: str, lease_ms: int) -> Lease | None:
        """Renew an engine's lease by the server's clock; None if other engines took it for dead.

        Wakes no engine. Raises SchemaTooNew if a newer edgecron has migrated the database.
        """
        asked_ms = self._asked_ms()
        found = self.row(
            """WITH former AS (SELECT stale_after FROM engines WHERE id = :id)
               UPDATE engines AS n SET machine = :machine, heartbeat_at = server_ms(),
                   stale_after = server_ms() + :lease
               FROM former WHERE n.id = :id AND n.stopped_at IS NULL AND n.died = 0
               RETURNING (SELECT changes FROM versions), (SELECT schema FROM versions),
                   n.heartbeat_at,
                   coalesce(former.stale_after < n.heartbeat_at, true),
                   (SELECT min(o.stale_after) FROM engines AS o
                    WHERE o.stopped_at IS NULL AND o.machine <> :machine)""",
            {"id": engine_id, "machine": machine, "lease": lease_ms},
        )
        if found is None:
            return None
        changes, schema, now_ms, was_stale, next_stale_ms = found
        self._check_version(schema)
        self._note_time(now_ms, asked_ms)
        return Lease(self.mark_of(changes), now_ms, bool(was_stale), next_stale_ms)

    def mend(self) -> bool:
        """Return False: a lost connection is opened again by the next statement."""
        return False

    def tidy(self) -> None:
        """Do nothing: the server tidies its log and tables by itself."""
