"""An engine with everything it needs around it: lock, doorbell, supervisor, database."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseUnusable
from edgecron.base.paths import make_folders, state_dir
from edgecron.engine.adopted import Adoption
from edgecron.engine.ahead import Ahead
from edgecron.engine.core import Engine
from edgecron.engine.events import Report
from edgecron.engine.leftover import Leftover
from edgecron.engine.liveness import KernelLiveness
from edgecron.engine.loop import CALL_GRACE_MS, Loop
from edgecron.engine.owner import owner_of, refuse_open
from edgecron.engine.place import EnginePlace
from edgecron.engine.pulse import Pulse
from edgecron.engine.sleep import system_sleeper
from edgecron.engine.twins import Announcement, find_twins
from edgecron.engine.wake import ring_engines
from edgecron.engine.walwatch import WalWatch
from edgecron.model.choices import COMMAND_QUEUE, OnShutdown
from edgecron.model.claim import OUTPUT_CAP_BYTES, Claim
from edgecron.model.engine import Offers
from edgecron.planning.retention import Retention
from edgecron.planning.trust import CLOCK_WAIT_MS
from edgecron.store.contract import RunningRow
from edgecron.store.sqlite import open_store
from edgecron.supervisor.files import prepare_state_dir
from edgecron.supervisor.runner import Runner
from edgecron.triggers.zones import local_history, one_local_zone

if TYPE_CHECKING:
    from edgecron.supervisor.command_runner import Part


def default_max_running() -> int:
    """How many runs an engine has at once: 4 per core, at least 8."""
    return max(8, 4 * (os.cpu_count() or 1))


class EngineHost:
    """Makes an engine ready to run commands, and clears up behind it.

    The order matters: the supervisor is forked before the database is opened and before any
    thread exists, and the engine's lock is taken after that fork, or it would live on in it.
    `callables` runs the functions of this program, of which it has what `offers` says, and is
    closed with the rest. Such a program may have threads, and much in its memory: its supervisor
    is no fork of it, and there is none before there is a command to run. `part_of` says which
    claims are of parts of the program that run as commands, and how: None for all others; with
    `runs_commands` there are such, and the first of them does not wait for a supervisor to be
    started. `pulse` is told that the engine is at work.
    `finds_subjects`: events have their subjects.
    """

    def __init__(
        self,
        database: Path,
        *,
        clock: Clock,
        report: Report,
        max_running: int | None = None,
        burst: int | None = None,
        queues: tuple[str, ...] = (COMMAND_QUEUE,),
        on_shutdown: OnShutdown = OnShutdown.LEAVE,
        shutdown_timeout_ms: int | None = None,
        clock_wait_ms: int | None = CLOCK_WAIT_MS,
        retention: Retention | None = None,
        only: int | None = None,
        output_cap_bytes: int | None = None,
        cgroup: str | None = None,
        callables: Runner | None = None,
        offers: Callable[[], Offers] | None = None,
        call_wait_ms: int = 0,
        call_grace_ms: int = CALL_GRACE_MS,
        part_of: Callable[[Claim], Part | None] = lambda claim: None,
        runs_commands: bool = False,
        pulse: Pulse | None = None,
        finds_subjects: bool = False,
    ) -> None:
        self._database = database
        self._clock = clock
        self._callables = callables
        self._part_of = part_of
        self._output_cap_bytes = output_cap_bytes or OUTPUT_CAP_BYTES
        self._cgroup = cgroup
        self._is_lone = callables is None  # the program is nothing else
        _refuse_unusable(database)
        if callables is None:
            # All that fires is loaded at the start: an upgrade may take its place on disk later.

            # Closed again before the fork: no connection may be open then.
            open_store(database, now_ms=clock.now_ms()).close()
        make_folders(database.parent)
        self._state_dir = prepare_state_dir(state_dir(database))
        refuse_open(database)  # Again: some of it is there only now.
        self._closers: list[Callable[[], None]] = []
        first_runner = [self._start_runner(clock)] if callables is None else []
        try:
            key = os.urandom(8).hex()
            self._liveness = KernelLiveness(self._state_dir, boot_id=clock.boot_id())
            self._place = EnginePlace(self._state_dir, key)
            self._closers.append(self._place.close)
            sleeper = system_sleeper(clock)
            self._closers.append(sleeper.close)
            store = open_store(database, now_ms=clock.now_ms())
            self._closers.append(store.close)
            announcement = Announcement(database, uuid=store.uuid, key=key)
            self._closers.append(announcement.close)
            self.engine = Engine(
                store=store,
                clock=clock,
                start_runner=lambda: (
                    first_runner.pop() if first_runner else self._start_runner(clock)
                ),
                liveness=self._liveness,
                key=key,
                pid=os.getpid(),
                queues=queues,
                max_running=max_running or default_max_running(),
                burst=burst,
                clock_wait_ms=clock_wait_ms,
                retention=retention or Retention(),
                report=report,
                ring_peers=lambda: ring_engines(self._state_dir, but=key),
                announce=lambda: ring_engines(self._state_dir, but=key, is_new=True),
                adopt=lambda supervisor_id, rows: _adopt(
                    self._state_dir, supervisor_id, rows, clock=clock
                ),
                only=only,
                callables=callables,
                offers=offers,
                finds_subjects=finds_subjects,
            )
        except BaseException:  # an interrupt, too: a supervisor, and locks, would be left behind
            for runner in first_runner:
                runner.close()
            self.close()
            raise
        if runs_commands:
            self.engine.live.want_supervisor()
        self.loop = Loop(
            self.engine,
            clock=clock,
            sleeper=sleeper,
            doorbell=self._place.doorbell,
            report=report,
            on_shutdown=on_shutdown,
            shutdown_timeout_ms=shutdown_timeout_ms,
            call_wait_ms=call_wait_ms,
            call_grace_ms=call_grace_ms,
            keep_state=self._place.keep,
            mend_store=store.mend,
            find_twins=lambda: find_twins(database, uuid=store.uuid),
            pulse=pulse,
            find_next=lambda: store.find_next(queues),
            # A command takes longer to begin than that saves.
            ahead=None if callables is None else Ahead(self.engine, clock),
            wal_watch=WalWatch(database),
        )

    def close(self) -> None:
        """Let go of everything; running commands go on under their supervisor.

        But where a function of the program runs on, whatever it was asked, the engine's lock is
        kept until it has ended: until then nobody takes the function for dead.
        """
        if hasattr(self, "loop"):
            self.loop.close()
        leftover = None
        if hasattr(self, "engine"):
            self.engine.close()
            leftover = self._leftover()
        while self._closers:
            self._closers.pop()()
        if leftover is not None:
            leftover.start()
        elif self._callables is not None:
            # Of what this version of the program ran, another one may run some from now on.
            ring_engines(self._state_dir)

    def _leftover(self) -> Leftover | None:
        """Who writes the ends of functions that run on; None where none does."""
        engine_id = self.engine.engine_id
        if self._callables is None or engine_id is None or not self.engine.live.call_count:
            return None
        self._closers.remove(self._place.close)
        return Leftover(
            self._callables,
            database=self._database,
            state_dir=self._state_dir,
            place=self._place,
            engine_id=engine_id,
            clock=self._clock,
        )

    def _start_runner(self, clock: Clock) -> Runner:
        # Loaded with the first supervisor, and all of it then: what an upgrade puts in its place
        # later is of another version.
        from edgecron.supervisor.command_runner import CommandRunner
        from edgecron.supervisor.process import StartBy, start

        by = None if self._is_lone else StartBy.EXEC
        link = start(self._state_dir, clock=clock, by=by, cgroup=self._cgroup)
        return CommandRunner(
            link,
            clock=clock,
            output_cap_bytes=self._output_cap_bytes,
            part_of=self._part_of,
        )


def _adopt(
    folder: Path, supervisor_id: str, rows: Sequence[RunningRow], *, clock: Clock
) -> Adoption | None:
    from edgecron.engine.adoption import adopt_supervisor

    return adopt_supervisor(folder, supervisor_id, rows, clock=clock)


def _refuse_unusable(database: Path) -> None:
    """Refuse a foreign database, or a local zone, before anything is made or started beside it."""
    # A zone that can't be found now would make every local schedule look broken.
    with one_local_zone():
        local_history()
    owner = owner_of(database)
    # If it is not a file, such as a device, that is the true reason: opening it says so.
    if owner not in (None, os.geteuid()) and database.is_file():
        raise DatabaseUnusable(
            f"database {database} belongs to user {owner}, this engine runs as {os.geteuid()}",
            hint="run the engine as the owner of the database",
        )
    refuse_open(database)
