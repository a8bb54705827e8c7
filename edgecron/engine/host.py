"""Host an engine: give it a supervisor, files beside the database, a store and a loop."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseGone, DatabaseUnusable, EdgecronError, SchemaTooNew
from edgecron.base.machine import WAKE_ALARM, KernelMachine
from edgecron.base.paths import Location, ServerUrl, make_folders, state_dir, user_name
from edgecron.base.service_manager import Watchdog
from edgecron.base.values import NamedTuple, replace
from edgecron.base.zones import local_history, one_local_zone
from edgecron.engine.events import Report
from edgecron.engine.loop import Loop
from edgecron.engine.other_engines import CopyAnnouncement, LocalEngines, find_copies
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners, is_unstarted
from edgecron.engine.sleep import KernelReports, system_sleeper, watch_writes
from edgecron.engine.state_folder import (
    EngineFiles,
    name_machine,
    owner_of,
    refuse_root_risk,
    ring_engines,
)
from edgecron.engine.step import Engine, Hosting
from edgecron.model.engine import Offers
from edgecron.model.run import Claim, Outcome
from edgecron.store import open_store
from edgecron.store.contract import LEASE_MS, RENEW_MS
from edgecron.supervisor.command_runner import CommandRunner, Part
from edgecron.supervisor.runner import Runner
from edgecron.supervisor.state_files import prepare_state_dir

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


_MACHINE_WAIT_S = 0.05  # then other runs go first, and the answer wakes the engine


class ProgramFunctions(NamedTuple):
    """The functions of a program, for the engine that runs them.

    `find_offers` returns which of them exist. `part_of` turns the claim of a function that runs in
    a process of its own into a command; it returns None for other claims.
    """

    runner: Runner
    find_offers: Callable[[], Offers] | None = None
    part_of: Callable[[Claim], Part | None] | None = None


class EngineHost:
    """Make an engine ready to run, and clean up after it.

    The order matters: the supervisor is forked before the database is opened and before any
    thread exists. The engine's lock is taken after that fork, or it would stay held in the child.

    A program with `functions` can have threads and much memory: its supervisor is executed instead
    of forked, when there is a command to run. `watchdog` is fed while the engine works.
    `start_sender` starts the process that sends notices of a database, `start_reader` the one that
    reads its calendars; see `Engine`.
    """

    def __init__(
        self,
        database: Location,
        settings: EngineSettings | None = None,
        *,
        clock: Clock,
        report: Report,
        functions: ProgramFunctions | None = None,
        watchdog: Watchdog | None = None,
        start_sender: Callable[[Location, bool], int] | None = None,
        start_reader: Callable[[Location], int] | None = None,
    ) -> None:
        settings = settings or EngineSettings()
        # A command takes longer to start than an early claim gains.
        settings = replace(settings, starts_on_time=functions is not None)
        self._database = database
        self._clock = self._own_clock = clock
        self._functions = functions
        self._settings = settings
        _refuse_unusable(database, is_embedded=functions is not None)
        path = database
        if functions is None or isinstance(path, ServerUrl):
            # This loads what fires: an upgrade can replace the files on disk later. It is closed
            # before the fork, at which no connection may be open.
            store = open_store(database, now_ms=clock.now_ms())
            self._clock = clock = store.clock_for(clock)
            path = store.path
            store.close()
        make_folders(path.parent)
        self._state_dir = prepare_state_dir(state_dir(path))
        refuse_root_risk(path)  # Again: some of it exists only now.
        self._closers: list[Callable[[], None]] = []
        callables = None if functions is None else functions.runner
        runners = Runners(self._start_runner, clock=clock, callables=callables)
        try:
            machine = os.uname().nodename
            if isinstance(database, ServerUrl):
                machine = name_machine(self._state_dir)
            identity = EngineIdentity(os.urandom(8).hex(), os.getpid(), machine)
            self._files = EngineFiles(self._state_dir, identity.key)
            self._closers.append(self._files.close)
            sleeper = system_sleeper(clock)
            self._closers.append(sleeper.close)
            store = open_store(database, now_ms=clock.now_ms())
            self._closers.append(store.close)
            if store.leases is not None:
                store.leases.need_writable()
            store.clock_for(clock)  # From now on, each answer of this connection corrects it.
            if isinstance(database, Path):
                announcement = CopyAnnouncement(database, uuid=store.uuid, key=identity.key)
                self._closers.append(announcement.close)
            self.engine = Engine(
                settings,
                identity,
                store=store,
                clock=clock,
                others=LocalEngines(
                    self._state_dir,
                    boot_id=clock.boot_id(),
                    key=identity.key,
                    clock=clock,
                ),
                runners=runners,
                report=report,
                hosting=Hosting(
                    find_offers=None if functions is None else functions.find_offers,
                    start_sender=None if start_sender is None else partial(start_sender, database),
                    start_reader=None if start_reader is None else partial(start_reader, database),
                    machine=KernelMachine(clock, wait_s=_MACHINE_WAIT_S),
                    reports=KernelReports(),
                    wake_alarm=WAKE_ALARM,
                ),
            )
        except BaseException:  # Also an interrupt: a supervisor, and locks, would be left behind.
            if functions is None:
                runners.close()
            self.close()
            raise
        if settings.starts_supervisor:
            runners.own.want()
        self.loop = Loop(
            self.engine,
            settings,
            clock=clock,
            sleeper=sleeper,
            files=self._files,
            watchdog=watchdog,
            copies=find_copies(database, uuid=store.uuid) if isinstance(database, Path) else (),
            write_watch=watch_writes(database, store, hears_all=False),
        )

    def close(self) -> None:
        """Let go of everything; commands continue under their supervisor.

        If a function of the program is still running, the engine's lock is kept until the function
        ends: no other engine must take the function for dead before.
        """
        if hasattr(self, "loop"):
            self.loop.close()
        outliving = None
        if hasattr(self, "engine"):
            self.engine.close()
            outliving = self._find_outliving()
        while self._closers:
            self._closers.pop()()
        if outliving is not None:
            outliving.start()
        elif self._functions is not None:
            # Another version of the program might run some of our functions from now on.
            ring_engines(self._state_dir)

    def _find_outliving(self) -> OutlivingCalls | None:
        """The functions that are still running; None if there is none."""
        engine_id = self.engine.engine_id
        if self._functions is None or engine_id is None or not self.engine.runners.call_count:
            return None
        self._closers.remove(self._files.close)
        return OutlivingCalls(
            self._functions.runner,
            database=self._database,
            state_dir=self._state_dir,
            files=self._files,
            engine_id=engine_id,
            clock=self._clock,
        )

    def _start_runner(self) -> Runner:
        # Loaded for the first supervisor: `subprocess` and `socket` are not for an idle program.
        from edgecron.supervisor.launch import StartBy, start

        by = None if self._functions is None else StartBy.EXEC
        # A supervisor asks no server: it records instants of this machine's clock.
        link = start(self._state_dir, clock=self._own_clock, by=by, places=self._settings.places)
        return CommandRunner(
            link,
            clock=self._clock,
            places=self._settings.places,
            output_cap_bytes=self._settings.output_cap_bytes,
            part_of=None if self._functions is None else self._functions.part_of,
        )


_PAUSES_S = (1, 5, 15, 60)  # between tries to record ends; after the last they are given up

_KEPT: set[OutlivingCalls] = set()


class OutlivingCalls:
    """Record the ends of functions that outlive their engine, on a thread of its own.

    The engine's lock is kept until the last function has ended: no other engine must take one for
    dead before. The thread is a daemon and is never joined, as a function might never return. If
    the process ends first, these runs are `interrupted`.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        database: Location,
        state_dir: Path,
        files: EngineFiles,
        engine_id: int,
        clock: Clock,
    ) -> None:
        self._runner = runner
        self._database = database
        self._state_dir = state_dir
        self._files = files
        self._engine_id = engine_id
        self._clock = clock

    def start(self) -> None:
        """Start the thread. If that fails, the lock is kept and no end is recorded."""
        _KEPT.add(self)
        threading.Thread(target=self._run, name="edgecron-outliving", daemon=True).start()

    def _run(self) -> None:
        try:
            self._write_ends()
        finally:
            self._files.close()
            _KEPT.discard(self)
            ring_engines(self._state_dir)

    def _write_ends(self) -> None:
        poll = select.poll()
        poll.register(self._runner.fileno(), select.POLLIN)
        while True:
            outcomes = self._runner.collect()
            is_last = not self._runner.live_count
            if (outcomes or is_last) and not self._write(outcomes, is_last=is_last):
                return
            if is_last:
                return
            poll.poll(RENEW_MS if isinstance(self._database, ServerUrl) else None)
            self._renew()

    def _renew(self) -> None:
        """Renew the lease, so that no engine of another machine takes a function for dead."""
        if not isinstance(self._database, ServerUrl):
            return
        with suppress(EdgecronError, OSError):  # The server is away: try again in time.
            store = open_store(self._database, now_ms=self._clock.now_ms(), must_exist=True)
            try:
                machine = name_machine(self._state_dir)
                if store.leases is not None:
                    store.leases.renew_lease(self._engine_id, machine=machine, lease_ms=LEASE_MS)
            finally:
                store.close()

    def _write(self, outcomes: Sequence[Outcome], *, is_last: bool) -> bool:
        """Record ends; whether that was possible."""
        for pause_s in (*_PAUSES_S, None):
            try:
                now_ms = self._clock.now_ms()
                store = open_store(self._database, now_ms=now_ms, must_exist=True)
                try:
                    self._record(store, outcomes, now_ms=now_ms)
                    if is_last:
                        store.retire_engine(self._engine_id, now_ms=now_ms)
                finally:
                    store.close()
            except (DatabaseGone, SchemaTooNew):
                return False
            except (EdgecronError, OSError):
                if pause_s is not None:
                    time.sleep(pause_s)
            else:
                ring_engines(self._state_dir)
                return True
        return False

    def _record(self, store: Store, outcomes: Sequence[Outcome], *, now_ms: int) -> None:
        store.finish_and_fill(
            [one for one in outcomes if not is_unstarted(one)],
            unstarted=[one for one in outcomes if is_unstarted(one)],
            claimant=None,
            now_ms=now_ms,
        )


def _refuse_unusable(database: Location, *, is_embedded: bool) -> None:
    """Refuse a database of another user, or an unknown local zone, before anything is started."""
    # A zone that can't be found now would make every local schedule look broken.
    with one_local_zone():
        local_history()
    if isinstance(database, ServerUrl):
        return
    owner = owner_of(database)
    # If it is not a file, such as a device, that is the true reason: opening it says so.
    if owner not in (None, os.geteuid()) and database.is_file():
        hint = "run the program as the owner of the database"
        if not is_embedded:
            from shlex import quote  # An engine at rest does not need it.

            name = user_name(owner)
            user = f"'#{owner}'" if name == str(owner) else name
            # sudo does not pass EDGECRON_DB on, and the path of this user's default is another one.
            hint = f"run: sudo -u {user} edgecron --db {quote(str(database))} daemon"
        raise DatabaseUnusable(
            f"database {database} belongs to user {owner}, this engine runs as {os.geteuid()}",
            hint=hint,
        )
    refuse_root_risk(database)
