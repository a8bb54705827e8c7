"""Connections for any thread of a program: one is lent to each that asks, and given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseBusy
from edgecron.embedding.beside import AWAIT_HINT, MOST_WAIT_S, is_on_loop

if TYPE_CHECKING:
    from edgecron.client import Client

_KEPT = 4  # so many wait for their next use


class ClientPool:
    """Lends Clients of one database. `opened` makes one; the file is opened when it is used.

    A fork leaves the parent's to the parent: see `forget`.
    """

    def __init__(self, opened: Callable[[], Client]) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._idle: list[Client] = []

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A Client of this thread's own, for as long as the block lasts.

        On the thread of an event loop it waits only a moment for another's lock.
        """
        with self._lock:
            lent_by = self._idle
            client = lent_by.pop() if lent_by else None
        client = client or self._opened()
        try:
            if is_on_loop():
                with client.waiting_at_most(MOST_WAIT_S):
                    yield client
            else:
                yield client
        except BaseException as error:
            # Whatever state it is in: the next one begins with a new one.
            client.close()
            if isinstance(error, DatabaseBusy) and is_on_loop():
                raise DatabaseBusy(error.message, hint=AWAIT_HINT) from error
            raise
        with self._lock:
            # Not where all were closed, or left to our parent, meanwhile.
            is_kept = lent_by is self._idle and len(lent_by) < _KEPT
            if is_kept:
                self._idle.append(client)
        if not is_kept:
            client.close()

    def close(self) -> None:
        """Close those that nobody uses; the next use opens the database anew."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def forget(self) -> None:
        """In a child that was forked: what the parent has open stays the parent's."""
        self._lock = threading.Lock()
        self._idle = []
