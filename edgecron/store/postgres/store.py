"""PostgresStore: the database of a server as engines and clients use it, over one connection.

`open_store` creates the schema `edgecron`, or brings an older one up to date. `Listening` hears
when other connections have written, over the connection of an engine itself.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path

import psycopg
from psycopg import errors, sql

from edgecron.base.errors import DatabaseUnusable, NotFound
from edgecron.base.paths import files_of_server
from edgecron.model.run import Output
from edgecron.store.contract import Claimant, ClaimBatch, Decision, Lease
from edgecron.store.postgres.connection import CHANNEL, QUIET, ServerDatabase, TurnTaken
from edgecron.store.sql.claims import claim_due
from edgecron.store.sql.connection import too_new
from edgecron.store.sql.ends import pack_output
from edgecron.store.sql.engines import note_presence
from edgecron.store.sql.rows import SPEC_COLUMNS
from edgecron.store.sql.writes import Writes

# The advisory lock of the engines that claim due schedules of a queue. Who finds it taken leaves
# them to that engine, and does not wait in the line of all writers only to find nothing.
_CLAIMANTS = 0x65646765
_SENDERS = 0x6564676563726F6F  # that of the process that sends notices
_ASK_AGAIN_MS = 4_000  # An engine stores output for some seconds after it was asked.
_FOLLOW = "follow "  # begins a notice: another machine follows the output of this run
# A script that has landed never changes, because databases have run it.
SCRIPTS = (
    "0001_foundation.sql",
    "0002_leases.sql",
    "0003_search_path.sql",
    "0004_placement.sql",
    "0005_foreign_writes.sql",
    "0006_drained_engines.sql",
    "0007_polling.sql",
    "0008_queue_order.sql",
    "0009_new_runs.sql",
)
SCHEMA_VERSION = len(SCRIPTS)
_FOLDER = Path(__file__).parent


def open_store(
    url: str,
    *,
    now_ms: int,
    must_exist: bool = False,
    busy_wait_s: float = 30.0,
    reads_if_full: bool = False,
    seed: bytes | None = None,
) -> PostgresStore:
    """Open a database of a server, and bring it to this edgecron's schema.

    A new database gets this `seed`, by default a random one. Only tests give a seed. With
    `must_exist`, raises NotFound for a database without our tables. `reads_if_full` is for files.
    """
    store = PostgresStore(url, busy_wait_s=busy_wait_s)
    try:
        _migrate(store, now_ms=now_ms, must_exist=must_exist, seed=seed)
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
            with self.taking_turns(queues.pop() if len(queues) == 1 else None), self.transaction():
                batch = claim_due(self, decisions, claimant=claimant, now_ms=now_ms)
                self.is_quiet = not batch.decided and not batch.has_replaced
                return batch
        except TurnTaken:
            return ClaimBatch()

    def note_presence(
        self, engine_id: int, *, now_ms: int, written_bytes: int | None = None
    ) -> None:
        """Record that an engine is running, and what it has written to the disk so far."""
        with self.transaction():
            note_presence(self, engine_id, now_ms=now_ms, written_bytes=written_bytes)
            self.is_quiet = True

    @property
    def leases(self) -> PostgresStore:
        """The leases of engines on several machines: this store keeps them."""
        return self

    @property
    def is_writable(self) -> bool:
        """Whether this role can write, on a server that is not a standby."""
        found = self.row(
            "SELECT has_table_privilege('engines', 'UPDATE') AND NOT pg_is_in_recovery()"
        )
        return found == (True,)

    def need_writable(self) -> None:
        """Raise DatabaseUnusable if this role can only read."""
        if self.row("SELECT has_table_privilege('engines', 'INSERT')") != (True,):
            raise DatabaseUnusable(
                f"database {self.place} lets this role only read",
                hint="an engine needs a role that can write; see: edgecron help postgres",
            )

    def renew_lease(
        self, engine_id: int, *, machine: str, lease_ms: int, polls_ms: int | None = None
    ) -> Lease | None:
        """Renew an engine's lease by the server's clock; None if other engines took it for dead.

        Wakes no engine. Raises SchemaTooNew if a newer edgecron has migrated the database.
        """
        asked_ms = self._asked_ms()
        found = self.row(
            """WITH former AS (SELECT stale_after FROM engines WHERE id = :id)
               UPDATE engines AS n SET machine = :machine, heartbeat_at = server_ms(),
                   stale_after = server_ms() + :lease, polls_ms = :polls
               FROM former WHERE n.id = :id AND n.stopped_at IS NULL AND n.died = 0
               RETURNING (SELECT changes FROM versions), (SELECT schema FROM versions),
                   n.heartbeat_at,
                   coalesce(former.stale_after < n.heartbeat_at, true),
                   (SELECT min(o.stale_after) FROM engines AS o
                    WHERE o.stopped_at IS NULL AND o.machine <> :machine)""",
            {"id": engine_id, "machine": machine, "lease": lease_ms, "polls": polls_ms},
        )
        if found is None:
            return None
        changes, schema, now_ms, was_stale, next_stale_ms = found
        self._check_version(schema)
        self._note_time(now_ms, asked_ms)
        return Lease(self.mark_of(changes), now_ms, bool(was_stale), next_stale_ms)

    def ask_for_output(self, execution_id: int) -> None:
        """Have the engine of a running run store its output for some seconds, if it listens."""
        asked_ms, now_ms = self.notes.get("asked_for_output", {}), self._asked_ms()
        if now_ms < asked_ms.get(execution_id, -_ASK_AGAIN_MS) + _ASK_AGAIN_MS:
            return
        self.notes["asked_for_output"] = {execution_id: now_ms}
        with suppress(DatabaseUnusable):  # A standby passes no notices on.
            self.rows(
                "SELECT pg_notify(:channel, :payload)::text",
                {"channel": CHANNEL, "payload": f"{_FOLLOW}{execution_id}"},
            )

    def count_stored_bytes(self, execution_id: int) -> int:
        """Count how many bytes the stored output of a run covers."""
        found = self.row(
            "SELECT stdout_bytes + stderr_bytes FROM outputs WHERE execution_id = :id",
            {"id": execution_id},
        )
        return 0 if found is None else int(found[0])

    def store_printed(self, execution_id: int, output: Output, *, engine_id: int) -> None:
        """Store the output so far of a running run of an engine. Wakes no engine.

        Skip a run that another engine is ending: its final output stays.
        """
        columns = pack_output(output)
        if columns is None:
            return
        self.row(
            """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes, stderr_bytes,
                   dropped_bytes, dropped_after)
               SELECT id, :encoding, :chunks, :stdout, :stderr, :dropped, :dropped_after
               FROM executions
               WHERE id = :id AND status = 'running' AND engine_id = :engine
               FOR SHARE SKIP LOCKED
               ON CONFLICT (execution_id) DO UPDATE SET encoding = excluded.encoding,
                   chunks = excluded.chunks, stdout_bytes = excluded.stdout_bytes,
                   stderr_bytes = excluded.stderr_bytes, dropped_bytes = excluded.dropped_bytes,
                   dropped_after = excluded.dropped_after
               RETURNING execution_id""",
            {**columns, "id": execution_id, "engine": engine_id},
        )

    @contextmanager
    def sending_alone(self, *, wait_s: float) -> Iterator[bool]:
        """Let no other machine send notices within the block; yields False if one still does.

        Another connection holds the lock in a transaction, which a pooler does not divide.
        """
        with self._translated(), self._connect() as other, other.transaction():
            other.execute(f"SET LOCAL lock_timeout = {round(wait_s * 1000)}".encode())
            other.execute("SET LOCAL statement_timeout = 0")
            other.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            try:
                with other.transaction():
                    other.execute(f"SELECT pg_advisory_xact_lock({_SENDERS})".encode())
            except errors.LockNotAvailable:
                is_ours = False
            else:
                is_ours = True
            yield is_ours

    def find_last_ids(self) -> dict[str, int]:
        """The last id that each table has given."""
        rows = self.rows(
            """SELECT s.relname::text, coalesce(pg_sequence_last_value(s.oid), 0)
               FROM pg_class AS s WHERE s.relkind = 'S'
                   AND s.relnamespace = 'edgecron'::regnamespace"""
        )
        return {name.removesuffix("_id_seq"): int(last) for name, last in rows}

    def set_last_ids(self, last_ids: Mapping[str, int]) -> None:
        """Let tables give ids beyond these, and beyond all that they have."""
        for name in self.find_last_ids():
            self.rows(
                f"""SELECT setval('{name}_id_seq', last) FROM (
                    SELECT greatest(:last, (SELECT max(id) FROM {name})) AS last) AS found
                    WHERE last > 0""",
                {"last": last_ids.get(name, 0)},
            )

    def mend(self) -> bool:
        """Return False: a lost connection is opened again by the next statement."""
        return False

    def tidy(self) -> None:
        """Do nothing: the server tidies its log and tables by itself."""


def _migrate(
    database: ServerDatabase, *, now_ms: int, must_exist: bool = False, seed: bytes | None = None
) -> None:
    """Bring a database to this edgecron's schema, in one transaction.

    A new database gets `seed`, by default a random one. Raises SchemaTooNew for a database of a
    newer edgecron; with `must_exist`, NotFound for a new one.
    """
    version = _version_of(database)
    if version == 0 and must_exist:
        raise NotFound(
            f"database {database.place} has no tables of edgecron",
            hint="check the URL, or add a first schedule: edgecron add --help",
        )
    if version != SCHEMA_VERSION:
        with database.transaction():
            _bring_up(database, now_ms=now_ms, seed=seed)
    database.expect_version(SCHEMA_VERSION)


def _bring_up(database: ServerDatabase, *, now_ms: int, seed: bytes | None) -> None:
    # Read again under the lock: another process might have migrated the database.
    version = _version_of(database)
    if version == SCHEMA_VERSION:
        return
    database.run_script("CREATE SCHEMA IF NOT EXISTS edgecron")
    database.run_script((_FOLDER / "functions.sql").read_text(encoding="utf-8"))
    for script in SCRIPTS[version:]:
        database.run_script((_FOLDER / "migrations" / script).read_text(encoding="utf-8"))
    database.run_script(_edited_trigger())
    if version == 0:
        database.is_new = True
        database.change("INSERT INTO versions (id, schema) VALUES (1, 0)")
        database.write_identity(now_ms=now_ms, seed=seed)
    database.change("UPDATE versions SET schema = :version", {"version": SCHEMA_VERSION})


def _version_of(database: ServerDatabase) -> int:
    """The schema version, 0 without a schema."""
    if database.row("SELECT to_regclass('edgecron.versions')::text") == (None,):
        return 0
    [(version,)] = database.rows("SELECT schema FROM versions")
    if version > SCHEMA_VERSION:
        raise too_new(database.place, version, known=SCHEMA_VERSION)
    return int(version)


def _edited_trigger() -> str:
    """The trigger that gives an edit by SQL a revision, over all columns of a definition."""
    columns = ", ".join('"user"' if name == "user" else name for name in SPEC_COLUMNS)
    listed = ", ".join(f"'{name}'" for name in SPEC_COLUMNS)
    return f"""CREATE OR REPLACE FUNCTION note_edit() RETURNS trigger LANGUAGE plpgsql
SET search_path = edgecron, pg_catalog AS $$
BEGIN
    UPDATE schedules SET revision = revision + 1, updated_at = server_ms() WHERE id = NEW.id;
    INSERT INTO schedule_revisions (schedule_id, revision, at, origin, snapshot)
    SELECT id, revision, updated_at, 'sql', (
        SELECT json_object_agg(key, value) FROM json_each(row_to_json(s)) AS c
        WHERE key IN ({listed}))::text
    FROM schedules AS s WHERE id = NEW.id;
    INSERT INTO schedule_changes (schedule_id, revision, at, act, origin)
    SELECT id, revision, updated_at, 'edit', 'sql' FROM schedules WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER schedules_edited AFTER UPDATE OF {columns} ON schedules FOR EACH ROW
WHEN (NEW.revision = OLD.revision AND NEW.deleted_at IS NULL)
EXECUTE FUNCTION note_edit();"""


# Writes of other connections.

_POLL_MS = 5_000  # between two looks if no notices come
_ANSWER_MS = 2_000  # for the notice of the other connection
_MOST_OTHERS = 100  # notices that can come before it


class Listening:
    """Notice writes of other connections: a descriptor is readable then.

    A pooler can lose notices: it gives the connection to the server to other clients. So another
    connection sends one first, and without an answer the engine looks at the change mark instead.

    `hears_all`: also those that give no engine anything to do, such as a claim that leaves no run
    waiting. Otherwise each fire would wake every engine.
    """

    look_after_ms = 0  # A notice comes after the commit.

    def __init__(self, database: ServerDatabase, *, hears_all: bool) -> None:
        self._database = database
        self._heard = ("", QUIET) if hears_all else ("",)
        self._connection: psycopg.Connection[object] | None = None  # the one that listens
        self._own_pid = 0
        self._hears = False
        self._has_news = False
        self._awaited = ""
        self._followed: set[int] = set()

    @property
    def poll_ms(self) -> int | None:
        """How often to look for changes; None if the server or a pooler passes notices on."""
        return None if self._hears else _POLL_MS

    def arm(self) -> list[int]:
        """Listen; the descriptors to wait for, if any. Raises DatabaseUnusable."""
        with self._database.connected() as connection:
            if connection is not self._connection:
                self._connection, self._own_pid = connection, connection.info.backend_pid
                connection.add_notify_handler(self._note)
                # A pooler passes on notices to whoever has the connection by then.
                self._hears = not self._database.is_pooled and self._begin(connection)
                self._has_news = True  # What came before is unknown.
            return [connection.fileno()] if self._hears else []

    def clear(self) -> None:
        """Take the notices that came. A lost connection is news: the next look opens a new one."""
        connection = self._connection
        if connection is not None:
            with suppress(psycopg.OperationalError):
                _take(connection)
            self._has_news |= connection.broken

    def take_news(self) -> bool:
        """Whether another connection has written since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def take_followed(self) -> set[int]:
        """Return the runs whose output other machines have asked for since the last call."""
        followed, self._followed = self._followed, set()
        return followed

    def close(self) -> None:
        """Do nothing: the connection belongs to the store."""

    def _begin(self, connection: psycopg.Connection[object]) -> bool:
        self._awaited = os.urandom(8).hex()
        try:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            with psycopg.connect(self._database.url, autocommit=True, connect_timeout=10) as other:
                other.execute(
                    sql.SQL("NOTIFY {}, {}").format(sql.Identifier(CHANNEL), self._awaited)
                )
        except psycopg.Error:
            if connection.broken:
                raise
            return False  # It is forbidden, or no further connection is.
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN)
        for _ in range(_MOST_OTHERS):
            if not self._awaited or not poller.poll(_ANSWER_MS):
                break
            _take(connection)
        return not self._awaited

    def _note(self, notice: psycopg.Notify) -> None:
        """Note a notice, also one that comes with the answer to a statement."""
        if notice.payload in self._heard:
            is_own = (
                self._connection is not None and notice.pid == self._connection.info.backend_pid
            )
            self._has_news |= not is_own
        elif notice.payload == self._awaited:
            self._awaited = ""
        elif (number := notice.payload.removeprefix(_FOLLOW)).isdecimal():
            self._followed.add(int(number))


def _take(connection: psycopg.Connection[object]) -> None:
    """Read what has come, without waiting; its handler takes the notices."""
    connection.pgconn.consume_input()
    while (found := connection.pgconn.notifies()) is not None:
        handler = connection.pgconn.notify_handler
        if handler is not None:
            handler(found)
