"""Supervisors of a virtual machine: the real loop, recorder and journal over virtual commands.

What is virtual is the system around it: sockets are queues, commands are values that end by the
clock, a guardian is a decision. What a command did is kept in `Machine.bodies`, as its own log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgecron.supervisor.forked_start import SpawnFailed
from edgecron.supervisor.live_run import Recorder
from edgecron.supervisor.loop import Supervisor
from edgecron.supervisor.protocol import PROTOCOL_VERSION, EndCause, ExitRecord, Flag, StartRequest
from edgecron.supervisor.reactor import Deadlines
from edgecron.supervisor.run_session import Snapshots
from edgecron.supervisor.start import StartQueue
from tests.simulation.links import End, Socket
from tests.simulation.points import Point

if TYPE_CHECKING:
    from tests.simulation.machine import Machine


@dataclass(eq=False)
class Body:
    """A command that really ran: the effect, by which everything is judged."""

    token: str
    execution_id: int
    schedule: str
    pid: int
    supervisor: str
    attempt: int
    fire: str  # its idempotency key
    started_ms: int  # by the wall clock
    highest_ms: int  # that the wall clock had ever shown as it started
    ends_at_ms: int  # by the clock that truly counts
    exit_code: int
    began_at_ms: int = 0  # likewise
    beside: tuple[str, ...] = ()  # other runs of its schedule and scope that lived as it began
    scope: tuple[str, str] = ("global", "")
    end_cause: EndCause | None = None  # why it was ended, where it was
    is_cut_short: bool = False  # by the death of its supervisor
    is_on_record: bool = False  # its end is in the journal of its supervisor
    is_deaf: bool = False  # to TERM


@dataclass(eq=False)
class Run:
    """What the supervisor knows of a body: the face of its `LiveRun`."""

    body: Body
    machine: Machine
    timeout_ms: int | None
    kill_grace_ms: int
    end_cause: EndCause | None = None
    flags: list[str] = field(default_factory=list)

    @property
    def token(self) -> str:
        return self.body.token

    @property
    def pid(self) -> int:
        return self.body.pid

    @property
    def started_ms(self) -> int:
        return self.body.started_ms

    def has_ended(self) -> bool:
        return self.body.ends_at_ms <= self.machine.true_ms

    def record(self) -> ExitRecord:
        body, machine = self.body, self.machine
        is_ended = body.end_cause is not None
        return ExitRecord(
            token=body.token,
            cause=body.end_cause or EndCause.EXIT,
            exit_code=143 if is_ended else body.exit_code,
            signal=15 if is_ended else None,
            started_ms=body.started_ms,
            finished_ms=machine.clock.now_ms(),
            duration_ms=body.ends_at_ms - body.began_at_ms,
            pid=body.pid,
            flags=tuple(self.flags),
        )


class LiveRuns:
    """The live runs of a supervisor: the face of the real one."""

    def __init__(self, machine: Machine, deadlines: Deadlines, recorder: Recorder) -> None:
        self._machine = machine
        self._deadlines = deadlines
        self._recorder = recorder
        self._reaped: list[Body] = []  # whose ends were not seen on record yet
        self.by_token: dict[str, Run] = {}

    def add(self, run: Run) -> None:
        self.by_token[run.token] = run
        if run.timeout_ms is not None:
            self._set_deadline(run, run.timeout_ms)

    suspended: tuple[str, ...] = ()  # no run of these worlds has conditions

    def end(self, run: Run, cause: EndCause, *, message: str | None = None) -> None:
        if run.end_cause is not None:
            return
        if run.has_ended():
            self._reap(run)
            return
        run.end_cause = cause
        if not run.body.is_deaf:
            self._machine.end_body(run.body, cause)
        self._set_deadline(run, run.kill_grace_ms)

    def on_deadline(self, key: str) -> None:
        run = self.by_token.get(key.removeprefix("run "))
        if run is None:
            return
        if run.end_cause is None:
            self.end(run, EndCause.TIMEOUT)
        elif not run.has_ended():
            run.flags.append(Flag.KILLED)
            self._machine.end_body(run.body, run.end_cause)

    def reap_ended(self) -> None:
        for run in list(self.by_token.values()):
            if run.has_ended():
                self._reap(run)

    def next_end_ms(self) -> int | None:
        """When the next one ends by itself, by the clock that truly counts."""
        return min([run.body.ends_at_ms for run in self.by_token.values()], default=None)

    def note_records(self) -> None:
        """Before it sleeps: what it has put down of ends is in its journal, unless that is full."""
        if not self._recorder.has_backlog:
            for body in self._reaped:
                body.is_on_record = True
            self._reaped.clear()

    def reap_without_pidfd(self) -> None:
        raise AssertionError("there is a descriptor for each process")

    def _reap(self, run: Run) -> None:
        del self.by_token[run.token]
        self._deadlines.clear(f"run {run.token}")
        self._recorder.record_exit(run.record())
        self._reaped.append(run.body)

    def _set_deadline(self, run: Run, after_ms: int) -> None:
        self._deadlines.set(f"run {run.token}", self._machine.clock.monotonic_ms() + after_ms)


class VirtualQueue(StartQueue):
    """The real queue of starts, over virtual commands."""

    def __init__(self, machine: Machine, key: str, **parts: Any) -> None:
        super().__init__(
            machine.state_dir,
            snapshots=None,  # type: ignore[arg-type]
            spawner=object(),  # type: ignore[arg-type]
            **parts,
        )
        self._machine = machine
        self._key = key

    def _spawn(self, request: StartRequest) -> Any:
        fault = self._machine.reach(Point.SPAWN, f"before {request.env['EDGECRON_RUN_ID']}")
        if fault is not None:
            raise SpawnFailed("EAGAIN", "the system has no process left", is_temporary=True)
        body = self._machine.start_body(request, self._key)
        self._machine.reach(Point.SPAWN, f"after {body.execution_id}", may_fail=False)
        return Run(
            body=body,
            machine=self._machine,
            timeout_ms=request.timeout_ms,
            kill_grace_ms=request.kill_grace_ms,
        )


class Reactor:
    """Sleeps until a supervisor has something to do, and tells it."""

    def __init__(self, supervisor: VirtualSupervisor) -> None:
        self._supervisor = supervisor

    def turn(self, timeout_s: float | None) -> None:
        self._supervisor.sleep(None if timeout_s is None else max(0, round(timeout_s * 1000)))
        self._supervisor.take()


class ControlServer:
    """Questions of others, answered in the turn in which they are taken."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable[[], Any], list[Any]]] = []
        self._answers: list[tuple[list[Any], Any]] = []

    def take(self) -> None:
        asked, self.asked = self.asked, []
        for question, box in asked:
            self._answers.append((box, question()))

    def flush(self) -> None:
        """After the journal: what is answered is on record."""
        for box, answer in self._answers:
            box.append(answer)
        self._answers = []

    def close(self) -> None:
        self.flush()


class _Recorder(Recorder):
    """A recorder that is also closed when its supervisor is killed, and then only once."""

    _is_open = True

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            super().close()


class VirtualSupervisor(Supervisor):
    """The real supervisor, on the virtual machine."""

    def __init__(self, machine: Machine, key: str, socket: Socket, *, places: int) -> None:
        clock = machine.clock
        self._machine = machine
        self._state_dir, self._key = machine.state_dir, key
        self._clock = clock
        self._reactor = Reactor(self)  # type: ignore[assignment]
        self._deadlines = Deadlines()
        self._snapshots = Snapshots(clock)
        end: Any = End(socket, self._on_message)
        self._ends = [end]
        self._engine = end
        self._recorder = _Recorder(
            machine.state_dir,
            key=key,
            clock=clock,
            deadlines=self._deadlines,
            engine=end,
        )
        runs: Any = LiveRuns(machine, self._deadlines, self._recorder)
        self._runs = runs
        self._queue = VirtualQueue(
            machine,
            key,
            clock=clock,
            deadlines=self._deadlines,
            recorder=self._recorder,
            places=places,
        )
        self._hello = {"version": PROTOCOL_VERSION, "pid": 1, "boot_id": clock.boot_id()}
        controls: Any = ControlServer()
        self._controls = controls
        self._revoked = set()
        self._is_stopping = False
        self._leave_at_ms = None

    @property
    def controls(self) -> ControlServer:
        found: Any = self._controls
        return found

    def hang_up(self) -> None:
        """The kernel closes what a process had open, also what it was about to answer."""
        self._recorder.close()
        end: Any = self._engine
        end.socket.is_open_at_supervisor = False

    def sleep(self, timeout_ms: int | None) -> None:
        """Until a message, a question, the end of a command, or so long."""
        machine, clock = self._machine, self._clock
        until_ms = None if timeout_ms is None else clock.monotonic_ms() + timeout_ms
        runs: Any = self._runs
        runs.note_records()

        def waits_ms() -> list[int]:
            end_ms = runs.next_end_ms()
            waits = [] if end_ms is None else [end_ms - machine.true_ms]
            return waits if until_ms is None else [*waits, until_ms - clock.monotonic_ms()]

        def is_due() -> bool:
            end: Any = self._engine
            socket = end.socket
            has_news = bool(socket.to_supervisor or self.controls.asked) or (
                end.is_connected and not socket.is_open_at_engine
            )
            if has_news or (until_ms is not None and until_ms <= clock.monotonic_ms()):
                return True
            end_ms = runs.next_end_ms()
            return end_ms is not None and end_ms <= machine.true_ms

        machine.sleep(is_due, lambda: min(waits_ms(), default=None))

    def take(self) -> None:
        end: Any = self._engine
        heard = [end.take, self.controls.take]
        if end.socket.to_supervisor and self.controls.asked:
            self._machine.random.shuffle(heard)  # The kernel tells of both at once.
        for take in heard:
            take()
        runs: Any = self._runs
        runs.reap_ended()

    def adopt_socket(self, socket: Socket) -> str | None:
        """What the control socket is asked for by who wants to be its engine."""
        end: Any = End(socket, self._on_message)
        return self.adopt(end)

    def _watch_signals(self) -> None:
        """A virtual supervisor is killed, or goes."""
