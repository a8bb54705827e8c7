"""PostgresStore: the database of a server as engines and clients use it, over one connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from pathlib import Path

from edgecron.base.errors import DatabaseUnusable
from edgecron.base.paths import files_of_server
from edgecron.store.contract import Claimant, ClaimBatch, Decision, Lease
from edgecron.store.postgres.connection import ServerDatabase, TurnTaken
from edgecron.store.postgres.migrate import migrate
from edgecron.store.sql.claims import claim_due
from edgecron.store.sql.engines import note_presence
from edgecron.store.sql.writes import Writes

# The advisory lock of the engines that claim due schedules of a queue. Who finds it taken leaves
# them to that engine, and does not wait in the line of all writers only to find nothing.
_CLAIMANTS = 0x65646765


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
    _turn: str | None = None  # the queue whose due schedules the next transaction claims

    def _try_lock(self) -> str:
        lock = super()._try_lock()
        if self._turn is None:
            return lock
        queue = int.from_bytes(sha1(self._turn.encode()).digest()[:4], "big", signed=True)
        return f"CASE WHEN pg_try_advisory_xact_lock({_CLAIMANTS}, {queue}) THEN {lock} END"

    @contextmanager
    def taking_turns(self, queue: str | None) -> Iterator[None]:
        """Raise TurnTaken from a transaction if another engine claims from the queue meanwhile."""
        self._turn = queue
        try:
            yield
        finally:
            self._turn = None

    def claim_due(
        self, decisions: Sequence[Decision], *, claimant: Claimant, now_ms: int
    ) -> ClaimBatch:
        """Carry out the plans of schedules that have not changed; skip the others.

        Skip all of them if another engine is claiming from their queue.
        """
        queues = {one.spec.placed_queue for one in decisions}
        try:
            # With work of other queues, which that engine might not take, wait instead.
            with self.taking_turns(queues.pop() if len(queues) == 1 else None), self.together():
                batch = claim_due(self, decisions, claimant=claimant, now_ms=now_ms)
                self.is_quiet = not batch.decided and not batch.has_replaced
                return batch
        except TurnTaken:
            return ClaimBatch()

    def note_presence(
        self, engine_id: int, *, now_ms: int, written_bytes: int | None = None
    ) -> None:
        """Record that an engine is running, and what it has written to the disk so far."""
        with self.together():
            note_presence(self, engine_id, now_ms=now_ms, written_bytes=written_bytes)
            self.is_quiet = True

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
