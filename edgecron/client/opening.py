"""An open database: its store, its clock, and the bell of its engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from edgecron.base.clock import Clock, SystemClock
from edgecron.base.paths import database_path, state_dir
from edgecron.base.units import from_ms
from edgecron.store.forks import loading

if TYPE_CHECKING:
    from edgecron.planning.retention import Retention
    from edgecron.store.sqlite import SqliteStore

BUSY_WAIT_S = 30.0  # for another's lock, before DatabaseBusy is raised
TRIES = 20  # of a change that others keep making first


class Opened:
    """What every part of the face stands on. The file is opened on first use.

    Another's lock is waited for up to `busy_wait_s`, then DatabaseBusy is raised.
    """

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        clock: Clock | None = None,
        must_exist: bool = False,
        retention: Retention | None = None,
        busy_wait_s: float = BUSY_WAIT_S,
    ) -> None:
        given = str(database) if database is not None else None
        if given is None:
            from edgecron.formats.config import load  # Programs, as a rule, name theirs.

            found = load().find("database")
            given = None if found is None else str(found.text)
        self.path = database_path(given)
        self._clock: Clock = clock or SystemClock()
        self._must_exist = must_exist
        self._retention = retention
        self._busy_wait_s = busy_wait_s
        self._open_store: SqliteStore | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; harmless when it is closed already."""
        if self._open_store is not None:
            self._open_store.close()
            self._open_store = None

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def store(self) -> SqliteStore:
        """The open store."""
        if self._open_store is None:
            with loading:  # A fork while this thread imports leaves the child waiting forever.
                from edgecron.store.sqlite import open_store

            self._open_store = open_store(
                self.path,
                now_ms=self._clock.now_ms(),
                must_exist=self._must_exist,
                busy_wait_s=self._busy_wait_s,
            )
        return self._open_store

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Wait less long for another's lock, within."""
        before, self._busy_wait_s = self._busy_wait_s, min(seconds, self._busy_wait_s)
        opened = self._open_store
        try:
            if opened is None:
                yield
            else:
                with opened.waiting_at_most(self._busy_wait_s):
                    yield
        finally:
            self._busy_wait_s = before
            if opened is None and self._open_store is not None:
                self._open_store.wait_at_most(before)

    @property
    def place(self) -> str:
        """Where the database is, for people to read."""
        return str(self.path)

    def now(self) -> datetime:
        """Wall time of this client's clock, aware, in UTC."""
        return from_ms(self._clock.now_ms())

    def _ring(self) -> None:
        from contextlib import suppress

        from edgecron.engine.wake import ring_engines

        # What was asked for is done, and engines see it within a minute: an error here would say
        # that it failed.
        with suppress(OSError):
            ring_engines(state_dir(self.path))
