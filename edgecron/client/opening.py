"""Open a database: its store, its clock, and the bell of its engines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from edgecron.base.clock import Clock, SystemClock
from edgecron.base.errors import Conflict
from edgecron.base.forks import loading
from edgecron.base.paths import database_path, person_name, refuse_missing_folder, state_dir
from edgecron.base.units import from_ms
from edgecron.model.schedule import HTTP, PYTHON, Author
from edgecron.planning.corrections import ClockState, is_plausible, is_trusted, resolve_mark_ms

if TYPE_CHECKING:
    from edgecron.client.engine_health import EngineState
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.engine.state_folder import Doorbells
    from edgecron.model.run import Execution
    from edgecron.planning.retention import Retention
    from edgecron.store.sqlite.reading_store import ReadingStore
    from edgecron.store.sqlite.store import SqliteStore


BUSY_WAIT_S = 30.0  # for another's lock, before DatabaseBusy is raised
TRIES = 20  # of a change that others keep making first


class OpenDatabase:
    """The file, clock and store of a `Client`. The file is opened on first use.

    It waits up to `busy_wait_s` for another process's lock, then raises DatabaseBusy. `origin`
    says in the record of changes from where this client's changes came.
    """

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        clock: Clock | None = None,
        must_exist: bool = False,
        retention: Retention | None = None,
        busy_wait_s: float = BUSY_WAIT_S,
        origin: str = PYTHON,
    ) -> None:
        given = str(database) if database is not None else None
        if given is None:
            from edgecron.formats.config import load  # Most programs name their database.

            found = load().find("database")
            given = None if found is None else str(found.text)
        self.path = database_path(given)
        self._clock: Clock = clock or SystemClock()
        self._must_exist = must_exist
        self._retention = retention
        self._busy_wait_s = busy_wait_s
        self._state_dir = state_dir(self.path)
        self._open_store: ReadingStore | None = None
        self.author = Author(origin)  # of the changes that this client makes

    def author_of(self, origin: str | None = None) -> Author:
        """Return the author of a change. `origin` replaces the origin of `author`, if given.

        A server's clients send their own origin, but the change came over HTTP.
        """
        found = self.author
        if found.origin == HTTP:
            return found
        return Author(origin or found.origin, found.user or person_name())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. Closing twice is harmless."""
        if self._open_store is not None:
            self._open_store.close()
            self._open_store = None

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def store(self) -> ReadingStore:
        """The open store. It reads; that of `Engines` also writes."""
        if self._open_store is None:
            with loading:  # A fork while this thread imports leaves the child waiting forever.
                from edgecron.store.sqlite.reading_store import open_as

                kind = self._load_store_kind()
            if not self._must_exist:
                refuse_missing_folder(self.path)
            self._open_store = open_as(
                kind,
                self.path,
                now_ms=self._clock.now_ms(),
                must_exist=self._must_exist,
                busy_wait_s=self._busy_wait_s,
            )
        return self._open_store

    @staticmethod
    def _load_store_kind() -> type[ReadingStore]:
        from edgecron.store.sqlite.reading_store import ReadingStore

        return ReadingStore

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Bound the wait for another process's lock within this context."""
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
        """Where the database is, for people."""
        return str(self.path)

    def now(self) -> datetime:
        """Return the wall time of this client's clock, aware, in UTC."""
        return from_ms(self._clock.now_ms())

    def clock_state(self) -> ClockState:
        """Return whether this machine's clock can be trusted, as an engine sees it."""
        now_ms = self._clock.now_ms()
        marks = self.store.find_clock_marks()
        mark_ms = resolve_mark_ms(marks.trusted_high_ms)
        is_synchronised = self._clock.is_synchronised()
        return ClockState(
            now_ms=now_ms,
            mark_ms=mark_ms,
            is_synchronised=is_synchronised,
            is_trusted=is_trusted(now_ms, mark_ms=mark_ms, is_synchronised=is_synchronised),
            set_at_ms=marks.set_at_ms,
            set_by_ms=marks.set_by_ms,
        )

    def is_clock_trusted(self) -> bool:
        """Return whether an engine would trust this machine's clock to decide fires."""
        mark_ms = resolve_mark_ms(self.store.find_clock_marks().trusted_high_ms)
        # To ask the kernel, a process loads ctypes: 2 ms.
        is_near = is_plausible(self._clock.now_ms(), mark_ms=mark_ms)
        return is_near or self._clock.is_synchronised() is True

    def local_zone(self) -> str | None:
        """Return the zone that engines last took as local; None before the first engine."""
        return self.store.find_clock_marks().local_timezone

    @cached_property
    def _doorbells(self) -> Doorbells:
        from edgecron.engine.state_folder import Doorbells  # Who only reads does not need it.

        return Doorbells(self._state_dir)

    def ring(self) -> None:
        """Wake the engines after a change."""
        # The change is done, and engines see it within a minute: an error here would say that the
        # change failed.
        with suppress(OSError):
            self._doorbells.ring()

    def change_mark(self) -> int:
        """Return a number that changes with each commit of another connection.

        Raises DatabaseGone if another file has replaced the open one.
        """
        self.store.check_file()
        return self.store.change_mark

    def interrupt(self) -> None:
        """From any thread: let the running statement raise QueryInterrupted.

        Between two statements it does nothing.
        """
        if self._open_store is not None:
            self._open_store.interrupt()

    def lock_waits(self) -> int:
        """Return how often this client waited for another process's lock. From any thread."""
        return 0 if self._open_store is None else self._open_store.lock_waits

    def database_sizes(self) -> tuple[int, int]:
        """Return the sizes of the database file and of its log; 0 for a missing file."""
        return _size_of(str(self.path)), _size_of(f"{self.path}-wal")


def _size_of(path: str) -> int:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return 0


class Engines(OpenDatabase):
    """Write, read engines, and take over runs that dead engines left."""

    @property
    def store(self) -> SqliteStore:
        """The open store, which reads and writes."""
        return cast("SqliteStore", super().store)

    @staticmethod
    def _load_store_kind() -> type[SqliteStore]:
        from edgecron.store.sqlite.store import SqliteStore

        return SqliteStore

    def engines(self) -> list[EngineState]:
        """Return the engines that have not retired, and the health of each."""
        # Most commands ask this only for a hint: without engines, load nothing heavy.
        if not self.store.find_engines():
            return []
        from edgecron.client.engine_health import find_states

        return find_states(self.store, self._state_dir, clock=self._clock)

    def other_databases(self) -> list[DatabaseCopy]:
        """Return the processes that run a copy of this database: each schedule fires in both."""
        from edgecron.engine.other_engines import find_copies

        return find_copies(self.path, uuid=self.store.uuid)

    def disk_problem(self) -> str | None:
        """Return why the disk is too full to record a start; None if it is not."""
        from edgecron.client.doctor_machine import CheckStatus, check_space

        found = check_space(self.path, self._state_dir)
        return next((one.message for one in found if one.status is CheckStatus.PROBLEM), None)

    def has_engine(self, queue: str, *, offer: str | None = None) -> bool:
        """Return whether a working engine takes runs of a queue, and of an offer if given."""
        return any(state.is_working and state.info.takes(queue, offer) for state in self.engines())

    def is_supervised(self, execution: Execution) -> bool:
        """Return whether the supervisor of a running run still runs."""
        from edgecron.supervisor.state_files import is_key, lock_is_held, lock_path

        key = execution.supervisor_id
        if key is None or not is_key(key):
            return False
        return lock_is_held(lock_path(self._state_dir, key))

    def take_over(self) -> None:
        """Record the ends of runs that dead engines left, if no engine is working.

        Otherwise ended runs would still look active. Does nothing in another user's database.
        """
        if self.store.count_active() and not any(state.is_working for state in self.engines()):
            from edgecron.client.engine_health import record_left_ends
            from edgecron.engine.state_folder import find_foreign_owner

            if find_foreign_owner(self.path) is None:
                record_left_ends(self.store, self._state_dir, clock=self._clock)

    def trust_clock(self) -> tuple[datetime | None, datetime]:
        """Declare that the clock is right now, so that engines trust it.

        Return the trusted mark before (None if there was none) and now.
        """
        for _ in range(TRIES):
            was_ms = self.store.find_clock_marks().trusted_high_ms
            now_ms = self._clock.now_ms()
            if self.store.note_trusted(now_ms, was_ms=was_ms):
                self.ring()
                return (None if was_ms is None else from_ms(was_ms)), from_ms(now_ms)
        raise Conflict("another program is changing the trusted time", hint="try again")
