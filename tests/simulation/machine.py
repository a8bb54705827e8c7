"""A virtual machine: a clock, a disk, a kernel's locks, and processes that move one at a time.

All chance comes from one seed, so that a seed tells everything that happens. What runs on it is
the real code down to the system: engine and loop, store, supervisor, journal, command line.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.paths import Location, state_dir
from edgecron.model.machine_conditions import Machine as Facts
from edgecron.supervisor.journal import read_journal
from edgecron.supervisor.protocol import EndCause, StartRequest
from edgecron.supervisor.state_files import lock_path, prepare_state_dir, take_lock
from tests.simulation.links import Link, Socket
from tests.simulation.points import CALM, STEPS_MS, Fault, Hit, Point, faults_at
from tests.simulation.steppers import Killed, Stepper
from tests.simulation.virtual import Body, VirtualSupervisor
from tests.support.clock import FakeClock

if TYPE_CHECKING:
    from tests.simulation.on_server import ServerSide

FIRST_PID = 10_000_000  # no real process has it
_MOST_POINTS = 200_000  # of one process without a sleep: it would spin for ever
_MOST_PASSED_MS = 60_000
START_TIMEOUT_S = 10.0
_REMOVALS = (
    "DELETE FROM executions", "DELETE FROM schedule_revisions", "DELETE FROM schedules",
)  # fmt: skip
STALL_MS = 40_000
MOST_LEAD_MS = 20  # how long before its due time an engine claims a fire


class Machine:
    """Everything there is. To be used within `points.watching`."""

    def __init__(
        self, folder: Path, *, seed: object, start_ms: int, server: ServerSide | None = None
    ) -> None:
        """`server` is the one that has the database; by default, a file does."""
        self.folder = folder
        self.server = server
        self.path = folder / "sim.db" if server is None else server.path
        self.location: Location = self.path if server is None else server.location
        self.state_dir = prepare_state_dir(state_dir(self.path))
        self.random = Random(f"{seed}")
        self.ids = Random(f"{seed} ids")
        self.clock = FakeClock(start_ms) if server is None else server.clock
        self.facts: Facts | None = None  # of conditions
        self.reports = 0  # how often its kernel has reported a change of these
        self.true_ms = 0  # never set, never stopped
        self.highest_ms = start_ms  # that the wall clock has shown
        self.set_count = 0  # how often the clock was set
        self.set_back_from_ms: list[int] = []  # what the clock showed each time it was set back
        self.steppers: list[Stepper] = []
        self.current: Stepper | None = None
        self.supervisors: dict[str, VirtualSupervisor] = {}  # that live
        self.engine_keys: set[str] = set()  # of those that live
        self.bodies: dict[str, Body] = {}  # by token
        self.live_bodies: dict[str, Body] = {}
        self.chances = CALM
        # The number of a point, and what happens there.
        self.hit: tuple[int, Hit | Fault] | None = None
        self.passed: list[tuple[Fault, ...]] | None = None  # what may fail at each, where listed
        self.reached = 0
        self.told = 0  # of these, until the end began
        self.points: Counter[Point] = Counter()
        self.kills: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.trail: list[str] = []
        self.points_of_deletes = 0  # statements that remove runs
        self.may_set_back: Callable[[], bool] = lambda: True
        self.before_delete: Callable[[], None] = lambda: None
        self.digest = 0  # of every point that was reached, by whom, in order
        self.is_disturbed = False  # since the last check
        self._since_sleep = 0
        self._made: Counter[str] = Counter()

    # Points.

    def reach(self, point: Point, label: str, *, may_fail: bool = True) -> Fault | None:
        """The process that moves is at a point; the fault that it meets there, if any."""
        stepper = self.current
        if stepper is None:
            return None
        if stepper.is_killed:
            raise Killed(stepper.name)
        self.reached += 1
        self.points[point] += 1
        self.digest = zlib.crc32(f"{stepper.name} {label}".encode(), self.digest)
        self._since_sleep += 1
        if self.passed is not None:
            self.passed.append(faults_at(point) if may_fail else ())
        assert self._since_sleep < _MOST_POINTS, f"{stepper.name} spins"
        if point is Point.BEGIN:
            self.pass_ms(1)
        if label.startswith(_REMOVALS):
            self.before_delete()
            self.points_of_deletes += 1
        if self.hit is not None and self.hit[0] == self.reached:
            return self._hit(stepper, point, label, may_fail=may_fail)
        chances = self.chances
        dice = self.random.random()
        if dice >= chances.any:
            return None
        if dice < chances.kill:
            self._kill_here(stepper, point, label)
        dice -= chances.kill
        if dice < chances.pause:
            if self.random.random() < 0.3:
                stepper.stalled_until_ms = self.true_ms + self.random.choice((5, 900, 40_000))
            self.faults["pause"] += 1
            stepper.pause()
            return None
        dice -= chances.pause
        if dice < chances.fault:
            return self._fail_here(stepper, point, label, may_fail=may_fail)
        by_ms = self.random.choice(chances.steps_ms)
        if by_ms > 0 or self.may_set_back():
            self.step_clock(by_ms)
        return None

    def _hit(self, stepper: Stepper, point: Point, label: str, *, may_fail: bool) -> Fault | None:
        """What was planned for this point."""
        assert self.hit is not None
        kind, self.hit = self.hit[1], None
        if kind is Hit.KILL:
            self._kill_here(stepper, point, label)
        if kind is Hit.FAULT:
            return self._fail_here(stepper, point, label, may_fail=may_fail)
        if isinstance(kind, Fault):
            can_be = may_fail and kind in faults_at(point)
            return self._fail_by(kind, stepper, label) if can_be else None
        if kind is Hit.STALL:
            self.faults["stopped"] += 1
            self.note(f"stall {stepper.name} at {label}")
            self.is_disturbed = True
            stepper.stalled_until_ms = self.true_ms + STALL_MS
            stepper.pause()
        elif self.may_set_back():
            self.step_clock(self.random.choice(STEPS_MS))
        return None

    def _fail_here(
        self, stepper: Stepper, point: Point, label: str, *, may_fail: bool
    ) -> Fault | None:
        kinds = faults_at(point) if may_fail else ()
        if not kinds:
            return None
        return self._fail_by(self.random.choice(kinds), stepper, label)

    def _fail_by(self, fault: Fault, stepper: Stepper, label: str) -> Fault:
        self.faults[fault] += 1
        self.note(f"{fault} for {stepper.name} at {label}")
        self.is_disturbed = True
        return fault

    def _kill_here(self, stepper: Stepper, point: Point, label: str) -> None:
        self.kills[f"{stepper.name.rstrip('0123456789')} at {point}"] += 1
        self.note(f"kill {stepper.name} at {label}")
        self.is_disturbed = True
        stepper.is_killed = True
        raise Killed(stepper.name)

    def note(self, line: str) -> None:
        self.trail.append(f"{self.true_ms} {line}")

    # Time.

    def pass_ms(self, duration_ms: int) -> None:
        self.true_ms += duration_ms
        self.clock.advance_ms(duration_ms)
        self.highest_ms = max(self.highest_ms, self.clock.now_ms())
        if self.live_bodies:
            for token, body in list(self.live_bodies.items()):
                if body.ends_at_ms <= self.true_ms:
                    del self.live_bodies[token]

    def step_clock(self, by_ms: int) -> None:
        """Set the wall clock."""
        self.faults["clock set"] += 1
        self.set_count += 1
        if by_ms < 0:
            self.set_back_from_ms.append(self.clock.now_ms())
        self.clock.step_ms(by_ms)
        self.highest_ms = max(self.highest_ms, self.clock.now_ms())
        self.is_disturbed = True
        self.note(f"clock {by_ms:+}")

    @property
    def behind_ms(self) -> int:
        """How long until a clock that was set back shows what no engine can have decided yet."""
        shown_ms = max(self.set_back_from_ms, default=0)
        return max(0, shown_ms + MOST_LEAD_MS - self.clock.now_ms())

    def suspend(self, duration_ms: int) -> None:
        """The machine sleeps, and what runs on it."""
        self.faults["suspend"] += 1
        self.true_ms += duration_ms
        self.clock.suspend_ms(duration_ms)
        self.highest_ms = max(self.highest_ms, self.clock.now_ms())
        for body in self.live_bodies.values():
            body.ends_at_ms += duration_ms
        self.is_disturbed = True
        self.note(f"suspend {duration_ms}")

    def sleep(self, is_due: Callable[[], bool], wake_in_ms: Callable[[], int | None]) -> None:
        """The process that moves waits until it is due."""
        stepper = self.current
        assert stepper is not None
        self._since_sleep = 0
        stepper.is_due, stepper.wake_in_ms = is_due, wake_in_ms
        stepper.pause()
        stepper.is_due, stepper.wake_in_ms = None, lambda: None

    def nap(self) -> None:
        """The process that moves waits for a lock that another one holds."""
        if self.current is None:
            return
        if self.current.is_killed:
            raise Killed(self.current.name)
        self.pass_ms(1)
        self.current.pause()

    # Who moves.

    def add(self, kind: str, work: Callable[[], object]) -> Stepper:
        """A new process, which does nothing before it is given the turn."""
        self._made[kind] += 1
        stepper = Stepper(f"{kind}{self._made[kind]}", work)
        self.steppers.append(stepper)
        return stepper

    def move(self, *, most_ms: int = _MOST_PASSED_MS) -> None:
        """One move of whoever may move, or time until somebody may, so long at most."""
        ready = [
            one
            for one in self.steppers
            if one.stalled_until_ms <= self.true_ms and (one.is_due is None or one.is_due())
        ]
        if ready:
            self.resume(ready[0] if len(ready) == 1 else self.random.choice(ready))
            return
        waits = [one.stalled_until_ms - self.true_ms for one in self.steppers]
        waits += [wait for one in self.steppers if (wait := one.wake_in_ms()) is not None]
        self.pass_ms(min([most_ms, *(wait for wait in waits if wait > 0)]))

    def run(self, duration_ms: int) -> None:
        """Moves until so much time has passed."""
        until_ms = self.true_ms + duration_ms
        end = self.add("end", lambda: self._wait_until(until_ms))
        while not end.is_done:
            self.move()

    def run_until(self, is_over: Callable[[], bool], *, most_ms: int = 600_000) -> None:
        """Moves until something is so. AssertionError where that takes too long."""
        until_ms = self.true_ms + most_ms
        while not is_over():
            assert self.true_ms < until_ms, f"not within {most_ms} ms"
            self.move()

    def resume(self, stepper: Stepper) -> None:
        self._since_sleep = 0
        self.current = stepper
        try:
            stepper.resume()
        finally:
            self.current = None
            if stepper.is_done:
                self.steppers.remove(stepper)

    def kill(self, stepper: Stepper) -> None:
        """SIGKILL, wherever it is."""
        self.kills[f"{stepper.name.rstrip('0123456789')} while it waits"] += 1
        self.is_disturbed = True
        self.note(f"kill {stepper.name}")
        self._end(stepper)

    def reboot(self, *, down_ms: int) -> None:
        """Power off without notice to the processes, and on again. What was written is there."""
        self.faults["reboot"] += 1
        self.is_disturbed = True
        self.note(f"reboot {down_ms}")
        for body in self.live_bodies.values():
            body.ends_at_ms, body.is_cut_short = self.true_ms, True
        self.live_bodies.clear()
        for stepper in list(self.steppers):
            self._end(stepper)
        self.true_ms += down_ms
        self.clock.reboot(down_ms=down_ms)
        self.highest_ms = max(self.highest_ms, self.clock.now_ms())

    def close(self) -> None:
        """Let go of every process."""
        for stepper in list(self.steppers):
            self._end(stepper)
        if self.server is not None:
            self.server.close()

    def _end(self, stepper: Stepper) -> None:
        self.current = stepper
        try:
            stepper.kill()
        finally:
            self.current = None
            self.steppers.remove(stepper)

    def _wait_until(self, until_ms: int) -> None:
        self.sleep(lambda: self.true_ms >= until_ms, lambda: until_ms - self.true_ms)

    # Supervisors and commands.

    def start_supervisor(self, *, places: int) -> Link:
        """As `supervisor.start`: a link to a new one. Raises SupervisorUnavailable."""
        if self.reach(Point.TALK, "start a supervisor") is not None:
            raise SupervisorUnavailable("supervisor can't be started: no process left")
        key = self.ids.randbytes(8).hex()
        socket = Socket()
        self.add("supervisor", lambda: self._supervise(key, socket, places))
        link = self.link(socket, key)
        try:
            link.wait_hello(START_TIMEOUT_S)
        except BaseException:
            link.close()
            raise
        return link

    def link(self, socket: Socket, supervisor_id: str) -> Link:
        return Link(self, socket, supervisor_id=supervisor_id, pid=0)

    def _supervise(self, key: str, socket: Socket, places: int) -> None:
        stepper = self.current
        assert stepper is not None
        lock_fd = take_lock(lock_path(self.state_dir, key))
        try:
            try:
                supervisor = VirtualSupervisor(self, key, socket, places=places)
            except OSError:
                return  # It has said why, and has gone.
            self.supervisors[key] = supervisor
            supervisor.serve()
        finally:
            if key in self.supervisors:
                gone = self.supervisors.pop(key)
                gone.hang_up()
            socket.is_open_at_supervisor = False
            os.close(lock_fd)
            self._guard(key)

    def _guard(self, key: str) -> None:
        """What the guardian does when its supervisor has gone; it may have been killed as well."""
        left = [body for body in self.live_bodies.values() if body.supervisor == key]
        if not left:
            return
        known = read_journal(self.state_dir, key).traces
        may_outlive = all(body.token in known and known[body.token].pid for body in left)
        if may_outlive and self.random.random() < 0.2:
            self.note(f"no guardian for {key}")
            self.faults["guardian killed"] += 1
            return
        for body in left:
            self.cut_short(body)

    def start_body(self, request: StartRequest, supervisor: str) -> Body:
        """A command begins to run: `job SECONDS CODE [deaf]`."""
        told = request.env
        _, lasts_s, code, *more = request.argv
        scope = (told["EDGECRON_SCOPE_KIND"], told["EDGECRON_SCOPE_ID"])
        body = Body(
            token=request.token,
            execution_id=int(told["EDGECRON_RUN_ID"]),
            schedule=told["EDGECRON_SCHEDULE"],
            scope=scope,
            pid=FIRST_PID + len(self.bodies),
            supervisor=supervisor,
            attempt=int(told["EDGECRON_ATTEMPT"]),
            started_ms=self.clock.now_ms(),
            highest_ms=self.highest_ms,
            began_at_ms=self.true_ms,
            ends_at_ms=self.true_ms + int(float(lasts_s) * 1000),
            exit_code=int(code),
            is_deaf="deaf" in more,
            fire=told["EDGECRON_IDEMPOTENCY_KEY"],
            beside=tuple(
                other.token
                for other in self.live_bodies.values()
                if (other.schedule, other.scope) == (told["EDGECRON_SCHEDULE"], scope)
            ),
        )
        assert request.token not in self.bodies, f"I3 {request.token} started twice"
        self.bodies[body.token] = body
        if body.ends_at_ms > self.true_ms:
            self.live_bodies[body.token] = body
        return body

    def end_body(self, body: Body, cause: EndCause) -> None:
        """By TERM or KILL."""
        if body.ends_at_ms > self.true_ms:
            body.ends_at_ms, body.end_cause = self.true_ms, cause
            self.live_bodies.pop(body.token, None)

    def cut_short(self, body: Body) -> None:
        """By the guardian, or by who finds what a dead supervisor left."""
        if body.ends_at_ms > self.true_ms:
            body.ends_at_ms, body.is_cut_short = self.true_ms, True
            self.live_bodies.pop(body.token, None)

    def be_calm(self) -> None:
        """No more faults; what is stalled goes on."""
        self.chances, self.hit = CALM, None
        for stepper in self.steppers:
            stepper.stalled_until_ms = 0
