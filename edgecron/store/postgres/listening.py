"""Listening: hear when other connections have written, over the connection of an engine itself.

A pooler can lose notices: it gives the connection to the server to other clients. So another
connection sends one first, and without an answer the engine looks at the change mark instead.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress

import psycopg
from psycopg import sql

from edgecron.store.postgres.connection import CHANNEL, QUIET, ServerDatabase

_POLL_MS = 5_000  # between two looks if no notices come
_ANSWER_MS = 2_000  # for the notice of the other connection
_MOST_OTHERS = 100  # notices that can come before it
FOLLOW = "follow "  # begins a notice: another machine follows the output of this run


class Listening:
    """Notice writes of other connections: a descriptor is readable then.

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
        elif (number := notice.payload.removeprefix(FOLLOW)).isdecimal():
            self._followed.add(int(number))


def _take(connection: psycopg.Connection[object]) -> None:
    """Read what has come, without waiting; its handler takes the notices."""
    connection.pgconn.consume_input()
    while (found := connection.pgconn.notifies()) is not None:
        handler = connection.pgconn.notify_handler
        if handler is not None:
            handler(found)
