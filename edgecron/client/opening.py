"""Open a database: its store, its clock, and the bell of its engines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from edgecron.base.clock import Clock, SystemClock
from edgecron.base.errors import Conflict, NotFound, NotSupported
from edgecron.base.forks import loading
from edgecron.base.paths import (
    Location,
    ServerUrl,
    is_there,
    location_text,
    person_name,
    read_location,
    refuse_missing_folder,
    state_dir,
)
from edgecron.base.units import from_ms
from edgecron.model.schedule import HTTP, PYTHON, Author
from edgecron.planning.corrections import ClockState, is_plausible, is_trusted, resolve_mark_ms

if TYPE_CHECKING:
    from edgecron.client.engine_health import EngineState
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.engine.state_folder import Doorbells
    from edgecron.model.run import Execution
    from edgecron.planning.retention import Retention
    from edgecron.store.sql.connection import Opening
    from edgecron.store.sql.reads import Reads
    from edgecron.store.sql.writes import Writes
    from edgecron.store.sqlite.store import SqliteStore


BUSY_WAIT_S = 30.0  # for another's lock, before DatabaseBusy is raised
TRIES = 20  # of a change that others keep making first


class OpenDatabase:
    """The database, clock and store of a `Client`. The database is opened on first use.

    `database` is a path, or the URL of a server's database: `postgresql://USER@HOST/NAME`.
    It waits up to `busy_wait_s` for another process's lock, then raises DatabaseBusy. `origin` says
    in the record of changes from where this client's changes came. With `reads_if_full`, a file on
    a full disk can be read, if needed by keeping other processes out until the client is closed.
    """

    def __init__(
        self,
        database: str | Location | None = None,
        *,
        clock: Clock | None = None,
        must_exist: bool = False,
        retention: Retention | None = None,
        busy_wait_s: float = BUSY_WAIT_S,
        reads_if_full: bool = False,
        origin: str = PYTHON,
    ) -> None:
        given = (
            database if database is None or isinstance(database, str) else location_text(database)
        )
        if given is None:
            from edgecron.formats.config import load  # Most programs name their database.

            found = load().find("database")
            given = None if found is None else str(found.text)
        self.location = read_location(given)
        self._clock: Clock = clock or SystemClock()
        self._retention = retention
        self._opening: Opening = {
            "must_exist": must_exist,
            "busy_wait_s": busy_wait_s,
            "reads_if_full": reads_if_full,
        }
        self._open_store: Reads | None = None
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
    def path(self) -> Path:
        """The database file.

        For a server, the path beside which this machine keeps its files of the database.
        """
        return self.store.path if isinstance(self.location, ServerUrl) else self.location

    @cached_property
    def state_dir(self) -> Path:
        """The folder of journals, FIFOs and locks of this machine's engines."""
        return state_dir(self.path)

    def is_there(self) -> bool:
        """Whether the database file exists; a server's database is looked at when it is opened.

        Raises DatabaseUnusable if this user can't find out.
        """
        return isinstance(self.location, ServerUrl) or is_there(self.location)

    @property
    def is_new(self) -> bool:
        """Whether this client has created the database."""
        return self._open_store is not None and self._open_store.is_new

    @property
    def store(self) -> Reads:
        """The open store. It reads; that of `Engines` also writes."""
        if self._open_store is None:
            if not self._opening["must_exist"] and isinstance(self.location, Path):
                refuse_missing_folder(self.location)
            self._open_store = self._open()
            self._clock = self._open_store.clock_for(self._clock)
        return self._open_store

    def _open(self) -> Reads:
        with loading:  # A fork while this thread imports leaves the child waiting forever.
            from edgecron.store import open_reads
        return open_reads(self.location, now_ms=self._clock.now_ms(), **self._opening)

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Bound the wait for another process's lock within this context."""
        before = self._opening["busy_wait_s"]
        self._opening["busy_wait_s"] = least = min(seconds, before)
        opened = self._open_store
        try:
            if opened is None:
                yield
            else:
                with opened.waiting_at_most(least):
                    yield
        finally:
            self._opening["busy_wait_s"] = before
            if opened is None and self._open_store is not None:
                self._open_store.wait_at_most(before)

    @property
    def place(self) -> str:
        """Where the database is, for people."""
        return str(self.location)

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

    def known_zone(self) -> str | None:
        """Return the zone of `local_zone`; None if the database does not exist. Creates nothing."""
        before, self._opening["must_exist"] = self._opening["must_exist"], True
        try:
            return self.local_zone() if self.is_there() else None
        except NotFound:
            return None
        finally:
            self._opening["must_exist"] = before

    def local_zone(self) -> str | None:
        """Return the zone that engines last took as local; None before the first engine."""
        return self.store.find_clock_marks().local_timezone

    @cached_property
    def _doorbells(self) -> Doorbells:
        from edgecron.engine.state_folder import Doorbells  # Who only reads does not need it.

        return Doorbells(self.state_dir)

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
        """Return the sizes of the database and of its log; 0 for a missing file.

        A server keeps one log for all its databases: 0.
        """
        if isinstance(self.location, ServerUrl):
            return self.store.find_size()[0], 0
        return _size_of(str(self.path)), _size_of(f"{self.path}-wal")


def _size_of(path: str) -> int:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return 0


def find_state_dir(location: Location) -> Path:
    """Return the state folder of a database. It is called before a fork: nothing stays open."""
    with OpenDatabase(location) as opened:
        return opened.state_dir


class Engines(OpenDatabase):
    """Write, read engines, and take over runs that dead engines left."""

    if TYPE_CHECKING:

        @property
        def store(self) -> Writes:
            """The open store, which reads and writes."""

    def _open(self) -> Writes:
        with loading:
            from edgecron.store import open_store
        return open_store(self.location, now_ms=self._clock.now_ms(), **self._opening)

    def file_store(self, what: str, *, instead: str) -> SqliteStore:
        """Return the store of a database file. Raises NotSupported for a server.

        `what` names the act, `instead` is the hint: how a server does it.
        """
        from edgecron.store.sqlite.store import SqliteStore

        self.file(what, instead=instead)
        assert isinstance(self.store, SqliteStore)
        return self.store

    def file(self, what: str, *, instead: str) -> Path:
        """Return the database file. Raises NotSupported for a server, as `file_store` does."""
        if isinstance(self.location, ServerUrl):
            raise NotSupported(
                f"{what} works on a database file, not on the server of {self.location}",
                hint=instead,
            )
        return self.location

    def engines(self) -> list[EngineState]:
        """Return the engines that have not retired, and the health of each."""
        # Most commands ask this only for a hint: without engines, load nothing heavy.
        if not self.store.find_engines():
            return []
        from edgecron.client.engine_health import find_states

        return find_states(self.store, self.state_dir, clock=self._clock)

    def drain_engine(self, engine_id: int) -> bool:
        """Let an engine take nothing new; False if it has stopped or is drained."""
        is_done = self.store.drain_engine(engine_id, now_ms=self._clock.now_ms())
        self.ring()
        return is_done

    def resume_engine(self, engine_id: int) -> bool:
        """Let a drained engine take runs again; False if it has stopped or is not drained."""
        is_done = self.store.resume_engine(engine_id, now_ms=self._clock.now_ms())
        self.ring()
        return is_done

    def forget_machine(self, name: str) -> int:
        """Remove a machine from schedules with `on = each`, and cancel its queued runs of them.

        Returns the number of these schedules.
        """
        count = self.store.forget_machine(name, now_ms=self._clock.now_ms())
        self.ring()
        return count

    def other_databases(self) -> list[DatabaseCopy]:
        """Return the processes that run a copy of this database: each schedule fires in both."""
        from edgecron.engine.other_engines import find_copies

        if isinstance(self.location, ServerUrl):
            return []  # A copy on a server is another database, whose files we can't see.
        return find_copies(self.location, uuid=self.store.uuid)

    def disk_problem(self) -> str | None:
        """Return why the disk is too full to record a start; None if it is not."""
        from edgecron.client.doctor_machine import CheckStatus, check_space

        found = check_space(self.path, self.state_dir)
        return next((one.message for one in found if one.status is CheckStatus.PROBLEM), None)

    def has_engine(self, queue: str, *, offer: str | None = None) -> bool:
        """Return whether a working engine takes runs of a queue, and of an offer if given."""
        return bool(self.find_takers(queue, offer=offer))

    def find_takers(self, queue: str, *, offer: str | None = None) -> list[EngineState]:
        """Return the working engines that take runs of a queue, and of an offer if given."""
        return [one for one in self.engines() if one.is_working and one.info.takes(queue, offer)]

    def is_supervised(self, execution: Execution) -> bool:
        """Return whether the supervisor of a running run still runs.

        On another machine it does until the lease of its engine has ended.
        """
        from edgecron.supervisor.state_files import is_key, lock_is_held, lock_path

        if isinstance(self.location, ServerUrl):
            from edgecron.engine.state_folder import find_machine

            row = self.store.find_running_row(execution.id)
            if row is not None and row.machine != find_machine(self.state_dir):
                return not row.is_stale
        key = execution.supervisor_id
        if key is None or not is_key(key):
            return False
        return lock_is_held(lock_path(self.state_dir, key))

    def take_over(self) -> None:
        """Record the ends of runs that dead engines left, if no engine is working.

        Otherwise ended runs would still look active. Does nothing in another user's database, or if
        the server lets this role only read.
        """
        if self.store.find_running() and not any(state.is_working for state in self.engines()):
            from edgecron.client.engine_health import record_left_ends
            from edgecron.engine.state_folder import find_foreign_owner

            leases = self.store.leases
            may_write = leases is None or leases.is_writable
            if may_write and find_foreign_owner(self.path) is None:
                record_left_ends(self.store, self.state_dir, clock=self._clock)

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
