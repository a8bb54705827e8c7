"""A database of a PostgreSQL server in the place of a virtual machine's file."""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import errors, pq

from edgecron.base.paths import make_folders, read_location
from edgecron.store.postgres.connection import CHANNEL
from edgecron.store.postgres.store import open_store
from tests.simulation.points import Fault, read_statement
from tests.support.postgres import wait_for_end
from tests.support.stores import ServerClock, ServerStores

if TYPE_CHECKING:
    from tests.simulation.machine import Machine

_NAPS = 5  # of a writer that waits for another one, before the database is busy
_WAIT_MS = 50  # between two tries to change a row that another transaction has changed
_NOTIFY = f"NOTIFY {CHANNEL};"  # not the quiet one


class ServerSide:
    """The database of one machine, and who has written to it."""

    def __init__(self, url: str, folder: Path, *, start_ms: int) -> None:
        """`url` is that of an empty database of edgecron; `folder` is the machine's."""
        self.location = read_location(url)
        self.clock = ServerClock(start_ms)
        self.writes: Counter[str] = Counter()  # by the names of processes
        self._url = url
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(folder))
            ServerStores(url, clock=self.clock).create(now_ms=start_ms, seed=bytes(16))
            store = open_store(url, now_ms=start_ms)
        self.path = store.path
        store.close()
        make_folders(self.path.parent)

    def watch(self, machine: Machine, patch: pytest.MonkeyPatch) -> None:
        """Let connections that are opened have points, and wait for no row for long."""
        watched = type("Watched", (Watched,), {"machine": machine})
        connect = partial(psycopg.connect, cursor_factory=watched, options="-c lock_timeout=5")
        patch.setattr(psycopg, "connect", connect)
        patch.setenv("XDG_STATE_HOME", str(machine.folder))

    def listen(self, name: str) -> Notices:
        return Notices(self, name)

    def open_reader(self) -> Reader:
        return Reader(self._url)

    def close(self) -> None:
        self.clock.close()


class Reader:
    """Who judges: a connection of its own, in the words that the judge has for a file."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("SET search_path = edgecron")

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> psycopg.Cursor[Any]:
        text = re.sub(r":([a-z]+)", r"%(\1)s", sql).encode()
        return self._connection.execute(text, params)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.execute(sql).fetchall()

    def __enter__(self) -> None:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")

    def __exit__(self, *_: object) -> None:
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Watched(psycopg.Cursor[Any]):
    """Its statements are points of the machine: a process can end there, or meet a fault.

    A server would let a process wait in it. Here only the process that moves could end the wait
    of others, so each waits in the machine.
    """

    machine: Machine

    def execute(self, query: Any, params: Any = None, **options: Any) -> Watched:
        stepper = self.machine.current
        if stepper is None:
            super().execute(query, params, **options)
            return self
        text = self._meet(query)
        if "SELECT pg_advisory_xact_lock" in text:
            self._wait_in_line(text)
        else:
            self._execute_alone(query, params, options)
        self._note(stepper.name, text)
        return self

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        if self.machine.current is not None:
            self._meet(query)
        super().executemany(query, params_seq, **options)

    def _meet(self, query: Any) -> str:
        text: str = query.decode() if isinstance(query, bytes) else query
        fault = self.machine.reach(*read_statement(text))
        if fault is Fault.BUSY:
            raise errors.LockNotAvailable("held by another program")
        if fault is Fault.FULL:
            raise errors.DiskFull("no space")
        if fault is Fault.UNSURE:
            super().execute(text.encode())
            assert self.machine.current is not None
            self._note(self.machine.current.name, text)
        if fault in (Fault.UNSURE, Fault.IO):
            self._lose_connection()
        return text

    def _note(self, name: str, text: str) -> None:
        if self.machine.server is not None and _NOTIFY in text:
            self.machine.server.writes[name] += 1

    def _wait_in_line(self, text: str) -> None:
        for _ in range(_NAPS):
            self.machine.nap()
            super().execute(text.replace("pg_advisory", "pg_try_advisory").encode())
            if self.fetchone() == (True,):
                return
        raise errors.LockNotAvailable("another connection is writing")

    def _execute_alone(self, query: Any, params: Any, options: Mapping[str, Any]) -> None:
        """Execute it. Outside of a transaction, wait for rows that others have changed."""
        machine = self.machine
        is_alone = self.connection.info.transaction_status is pq.TransactionStatus.IDLE
        while True:
            try:
                super().execute(query, params, **options)
            except errors.LockNotAvailable:
                if not is_alone or self.connection.info.transaction_status:
                    raise
                until_ms = machine.true_ms + _WAIT_MS
                machine.sleep(
                    lambda until_ms=until_ms: machine.true_ms >= until_ms,  # type: ignore[misc]
                    lambda until_ms=until_ms: until_ms - machine.true_ms,  # type: ignore[misc]
                )
            else:
                return

    def _lose_connection(self) -> None:
        """Raise what the driver raises; the server has rolled back by then."""
        with socket.socket(fileno=os.dup(self.connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        wait_for_end(self.connection.info.backend_pid)
        super().execute("SELECT 1")


class Notices:
    """What an engine hears from the server: that other connections have written."""

    NUMBER = 4_000_000  # no real descriptor has it
    look_after_ms = 0
    poll_ms = None

    def __init__(self, server: ServerSide, name: str) -> None:
        self._server = server
        self._name = name
        self._heard = -1
        self._has_news = True  # What came before is unknown.

    @property
    def has_come(self) -> bool:
        return self._heard != self._count()

    def _count(self) -> int:
        return self._server.writes.total() - self._server.writes[self._name]

    def arm(self) -> list[int]:
        return [self.NUMBER]

    def clear(self) -> None:
        self._has_news |= self.has_come
        self._heard = self._count()

    def take_news(self) -> bool:
        has_news, self._has_news = self._has_news, False
        return has_news

    def take_followed(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held."""
