"""Engines of a virtual machine: the real engine and its loop, asleep by the virtual clock."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import Clock, ServerTime
from edgecron.base.errors import EdgecronError
from edgecron.engine.events import Event, EventKind
from edgecron.engine.loop import Loop
from edgecron.engine.other_engines import Adoption, LocalEngines
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.sleep import SAFETY_MS
from edgecron.engine.state_folder import EngineFiles, name_machine
from edgecron.engine.step import Engine, Hosting
from edgecron.model.choices import OnShutdown, Reason
from edgecron.model.engine import EngineInfo
from edgecron.planning.corrections import CLOCK_WAIT_MS
from edgecron.planning.retention import UNLIMITED, Retention
from edgecron.store import open_store
from edgecron.store.contract import RunningRow
from edgecron.store.sql.writes import Writes
from edgecron.supervisor.command_runner import CommandRunner
from edgecron.supervisor.journal import Interrupted
from tests.simulation.links import Link
from tests.simulation.machine import Machine

if TYPE_CHECKING:
    from tests.simulation.on_server import Notices

ENVIRONMENT = {"PATH": "/bin", "HOME": "/"}
BUSY_WAIT_S = 0.005  # five naps of a virtual process, each of which lets others move


class MachineEngines(LocalEngines):
    """The real ones over real locks and journals; commands are virtual."""

    def __init__(self, daemon: Daemon, key: str) -> None:
        self._machine = machine = daemon.machine
        boot_id = machine.clock.boot_id()
        super().__init__(machine.state_dir, boot_id=boot_id, key=key, clock=daemon.clock)
        self._note_adopted = daemon.note_adopted

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> Adoption | None:
        adoption = super().adopt(supervisor_id, rows)
        if adoption is not None and adoption.runner is not None:
            self._note_adopted(adoption.runner)
        return adoption

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        is_unrecorded = verdict.pid is None and verdict.reason is Reason.LOST
        for body in list(self._machine.live_bodies.values()):
            if body.token == token if is_unrecorded else body.pid == verdict.pid:
                self._machine.cut_short(body)


class MachineReports:
    """What the kernel of a virtual machine reports to one engine that listens."""

    NUMBER = 3_000_000  # no real descriptor has it

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._heard: int | None = None  # None: it does not listen

    @property
    def has_news(self) -> bool:
        return self._heard is not None and self._heard != self._machine.reports

    def open(self) -> int | None:
        self.clear()
        return self.NUMBER

    def clear(self) -> None:
        self._heard = self._machine.reports

    def close(self) -> None:
        self._heard = None


class Daemon:
    """One engine process, from its start to its end."""

    def __init__(
        self,
        machine: Machine,
        *,
        max_running: int = 8,
        burst: int | None = None,
        on_shutdown: OnShutdown = OnShutdown.LEAVE,
        clock_wait_ms: int | None = CLOCK_WAIT_MS,
        retention: Retention = UNLIMITED,
    ) -> None:
        self.machine = machine
        self.max_running = max_running
        self.burst = burst
        self.on_shutdown = on_shutdown
        self.clock_wait_ms = clock_wait_ms
        self.retention = retention
        self.events: list[Event] = []
        self.engine: Engine | None = None
        self.loop: Loop | None = None
        self.is_well = False  # it has stepped, and sleeps
        self.passes = 0
        self.failure: EdgecronError | None = None
        self.links: list[Link] = []
        self.reports = MachineReports(machine)
        self._key = ""
        self._bell = select.poll()
        self._place: EngineFiles | None = None
        self._store: Writes | None = None
        self.stepper = machine.add("engine", self._live)
        self.clock: Clock = machine.clock if machine.server is None else ServerTime(machine.clock)
        self.notices: Notices | None = None  # of a server
        if machine.server is not None:
            self.notices = machine.server.listen(self.stepper.name)

    @property
    def is_alive(self) -> bool:
        return not self.stepper.is_done

    def stop(self) -> None:
        """SIGTERM: by the policy that it was started with."""
        if self.loop is not None:
            self.loop.stop()
        else:
            self.machine.kill(self.stepper)

    def is_readable(self, fd: int) -> bool:
        assert self._place is not None
        if fd == self._place.doorbell.fileno():
            return bool(self._bell.poll(0))
        if fd == MachineReports.NUMBER:
            return self.reports.has_news
        if self.notices is not None and fd == self.notices.NUMBER:
            return self.notices.has_come
        for link in self.links:
            if link.fileno() == fd:
                socket = link.socket
                return bool(socket.to_engine) or not socket.is_open_at_supervisor
        return False

    def report(self, event: Event) -> None:
        self.events.append(event)
        if event.kind is EventKind.DATABASE_TROUBLE:
            self.is_well = False

    def _live(self) -> None:
        machine = self.machine
        is_graceful = False
        try:
            runner = self._start_runner()
            key = os.urandom(8).hex()
            self._place = EngineFiles(machine.state_dir, key)
            machine.engine_keys.add(key)
            self._key = key
            self._bell.register(self._place.doorbell.fileno(), select.POLLIN)
            self._store = open_store(
                machine.location, now_ms=machine.clock.now_ms(), busy_wait_s=BUSY_WAIT_S
            )
            self._store.clock_for(self.clock)
            settings = EngineSettings(
                max_running=self.max_running,
                burst=self.burst,
                clock_wait_ms=self.clock_wait_ms,
                retention=self.retention,
                on_shutdown=self.on_shutdown,
                # Of every second engine runs start exactly on time, as functions of a program do.
                starts_on_time=bool(int(key, 16) % 2),
            )
            self.engine = self._make_engine(settings, key, runner)
            sleeper = Sleeper(self)
            self.loop = Loop(
                self.engine,
                settings,
                clock=self.clock,
                sleeper=sleeper,
                files=self._place,
                write_watch=self.notices,
            )
            watch: Any = PeerWatch(self)
            self.loop.peer_watch = sleeper.watch = watch
            self.loop.run()
            self.loop.close()
            self.engine.close()
            is_graceful = True
        except EdgecronError as error:
            self.failure = error
            machine.note(f"{self.stepper.name} gives up: {error}")
            is_graceful = not self.stepper.is_killed
        finally:
            self._let_go(is_graceful=is_graceful)

    def _make_engine(self, settings: EngineSettings, key: str, first: CommandRunner) -> Engine:
        machine = self.machine
        firsts = [first]
        assert self._store is not None
        return Engine(
            settings,
            EngineIdentity(
                key, int(self.stepper.name.removeprefix("engine")), self._name_machine()
            ),
            store=self._store,
            clock=self.clock,
            others=MachineEngines(self, key),
            runners=Runners(
                lambda: firsts.pop() if firsts else self._start_runner(),
                clock=self.clock,
            ),
            report=self.report,
            hosting=Hosting(machine=machine.facts, reports=self.reports),
        )

    def _name_machine(self) -> str:
        return "" if self.machine.server is None else name_machine(self.machine.state_dir)

    def _start_runner(self) -> CommandRunner:
        link = self.machine.start_supervisor(places=self.max_running)
        self.links.append(link)
        return CommandRunner(link, clock=self.clock, places=self.max_running, environ=ENVIRONMENT)

    def note_adopted(self, runner: Any) -> None:
        self.links.append(runner.link)
        self.machine.faults["adoption"] += 1

    def _let_go(self, *, is_graceful: bool) -> None:
        """What the kernel does at the end of a process; a graceful one cleans up before."""
        self.machine.engine_keys.discard(self._key)
        if self._store is not None:
            self._store.close()
        if self._place is not None:
            if is_graceful:
                self._place.close()
            else:
                self._place.reset_in_child()
        for link in self.links:
            link.socket.is_open_at_engine = False


class Sleeper:
    """The face of the kernel's timer, which hears of a clock that is set."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.watch: PeerWatch | None = None

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        daemon, machine = self._daemon, self._daemon.machine
        clock, waited = daemon.clock, list(fds)
        set_count, safe_ms = machine.set_count, clock.monotonic_ms() + SAFETY_MS

        def ready() -> set[int]:
            watch = self.watch
            return {fd for fd in waited if daemon.is_readable(fd) or (watch and watch.has_told(fd))}

        def wake_in_ms() -> int:
            waits = [safe_ms - clock.monotonic_ms()]
            return min(waits if until_ms is None else [*waits, until_ms - clock.now_ms()])

        trouble = [
            event for event in daemon.events[-1:] if event.kind is EventKind.DATABASE_TROUBLE
        ]
        daemon.is_well = not trouble
        daemon.passes += 1
        machine.sleep(
            lambda: machine.set_count != set_count or wake_in_ms() <= 0 or bool(ready()),
            wake_in_ms,
        )
        daemon.is_well = False
        return ready()

    def close(self) -> None:
        """There is no timer."""


class PeerWatch:
    """The face of the real one: a number for each peer, ready once that has ended."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._numbers = count(2_000_000)
        self._fds: dict[str, int] = {}
        self._has_missed = False

    def take_missed(self) -> bool:
        has_missed, self._has_missed = self._has_missed, False
        return has_missed

    def watch(self, peers: Iterable[EngineInfo]) -> list[int]:
        keys = [peer.key for peer in peers]
        alive = self._daemon.machine.engine_keys
        self._has_missed |= any(key not in alive and key not in self._fds for key in keys)
        self._fds = {
            key: self._fds.get(key) or (next(self._numbers) if key in alive else -1) for key in keys
        }
        return [fd for fd in self._fds.values() if fd > 0]

    def has_told(self, fd: int) -> bool:
        alive = self._daemon.machine.engine_keys
        return any(known == fd and key not in alive for key, known in self._fds.items())

    def forget(self, fd: int) -> None:
        for key, known in self._fds.items():
            if known == fd:
                self._fds[key] = -1

    def close(self) -> None:
        self._fds = {}
