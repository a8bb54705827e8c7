"""Open a database: its store, its clock, and the bell of its engines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from edgecron.base.clock import Clock, SystemClock
from edgecron.base.paths import database_path, state_dir
from edgecron.base.units import from_ms
from edgecron.store.sqlite.forks import loading

if TYPE_CHECKING:
    from edgecron.planning.retention import Retention
    from edgecron.store.sqlite.store import SqliteStore


BUSY_WAIT_S = 30.0  # for another's lock, before DatabaseBusy is raised
TRIES = 20  # of a change that others keep making first


class OpenDatabase:
    """What every part of `Client` stands on. The file is opened on first use.

    It waits up to `busy_wait_s` for another process's lock, then raises DatabaseBusy."""

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
                from edgecron.store.sqlite.store import open_store

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

    def ring(self) -> None:
        from edgecron.engine.state_folder import ring_engines

        # What was asked for is done, and engines see it within a minute: an error here would say
        # that it failed.
        with suppress(OSError):
            ring_engines(state_dir(self.path))

    def change_mark(self) -> int:
        """A number that is another one when somebody else has committed since.

        Changes made through this Client do not count. Raises DatabaseGone where another file
        has taken the place of the one that is open.
        """
        self.store.check_file()
        return self.store.change_mark

    def interrupt(self) -> None:
        """From any thread: have the question that is being answered raise QueryInterrupted.

        One that comes between two statements of a question, or after it, ends nothing.
        """
        if self._open_store is not None:
            self._open_store.interrupt()

    def lock_waits(self) -> int:
        """How often another's lock was waited for: while it grows, it is. From any thread."""
        return 0 if self._open_store is None else self._open_store.lock_waits

    def database_sizes(self) -> tuple[int, int]:
        """How many bytes the database file and its log have; 0 for one that is not there."""
        return _size_of(str(self.path)), _size_of(f"{self.path}-wal")


def _size_of(path: str) -> int:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return 0
