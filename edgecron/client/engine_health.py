"""Ask how the engines of a database are, from outside: by lock, process and doorbell.

A time-out does not decide: an engine that waits for a lock or for the disk is late, but not
stalled. Only an engine that certainly makes no progress is called stalled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import Conflict, SupervisorUnavailable
from edgecron.base.units import from_ms
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.engine.state_folder import (
    count_unheard,
    engine_lock_path,
    find_machine,
    owner_of,
    ring_engine,
    ring_engines,
)
from edgecron.model.choices import JobKind
from edgecron.model.engine import EngineInfo
from edgecron.store.contract import EngineLoad, RunningRow
from edgecron.supervisor.control import Control
from edgecron.supervisor.output import Part
from edgecron.supervisor.protocol import Phase
from edgecron.supervisor.runner import THREADS
from edgecron.supervisor.state_files import lock_is_held

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


ANSWER_S = 0.5  # a healthy engine reads its doorbell within milliseconds
_LOOK_S = 0.005
_STOPPED = {"T": "it is stopped (SIGSTOP or Ctrl-Z)", "t": "it is stopped by a debugger"}


class EngineHealth(StrEnum):
    """The health of an engine that is not recorded as stopped."""

    ALIVE = "alive"  # its lock is held, and there is no other sign
    SILENT = "silent"  # it did not read its doorbell: busy, frozen, or not visible from here
    STALLED = "stalled"  # its process is stopped, or sleeps and reads no doorbell
    GONE = "gone"  # its lock is free


class Diagnosis(NamedTuple):
    """An engine's health; `why` explains it if it is not plain.

    `is_stopped`: its process is stopped, and SIGCONT lets it continue.
    """

    health: EngineHealth
    why: str = ""
    is_stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Activity:
    """The threads of a process: the state letters, and the number of context switches."""

    states: frozenset[str]
    switches: int


def diagnose(
    pid: int,
    key: str,
    *,
    state_dir: Path,
    lock: Path,
    is_overdue: Callable[[], bool],
    bound_s: float = ANSWER_S,
) -> Diagnosis:
    """Diagnose the engine of a key, which the database records as process `pid`.

    Ring its doorbell if `is_overdue` says that a run of its queues should have started. Then
    wait at most `bound_s`, only if the engine has not read its doorbell.
    """
    if not lock_is_held(lock):
        return Diagnosis(EngineHealth.GONE)
    # The process id might be in use again, or be of another container.
    seen_pid = pid if holds_open(pid, lock) else None
    before = None if seen_pid is None else _look_at(seen_pid)
    if stopped := _judge_stopped(before):
        return stopped
    if count_unheard(state_dir, key) == 0:
        if not is_overdue():
            return Diagnosis(EngineHealth.ALIVE)
        ring_engine(state_dir, key)
    for _ in range(max(1, round(bound_s / _LOOK_S))):
        if not count_unheard(state_dir, key):  # it was read, or the engine has left
            break
        time.sleep(_LOOK_S)
    else:
        after = None if seen_pid is None else _look_at(seen_pid)
        return _judge_silence(before, after, is_held=lock_is_held(lock))
    return Diagnosis(EngineHealth.ALIVE if lock_is_held(lock) else EngineHealth.GONE)


def holds_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open, by /proc; False if that is not visible."""
    return next(_descriptors_of(pid, path), None) is not None


def find_holder(path: Path) -> int | None:
    """Find a process that holds the lock of a file; None if that is not visible.

    A process that only asks for the lock has the file open for a moment, too.
    """
    try:
        names = os.listdir("/proc")
    except OSError:
        return None
    pids = (int(name) for name in names if name.isdecimal())
    return next((pid for pid in pids if _holds_lock(pid, path)), None)


def _holds_lock(pid: int, path: Path) -> bool:
    return any(_shows_lock(pid, fd) for fd in _descriptors_of(pid, path))


def _shows_lock(pid: int, fd: str) -> bool:
    try:
        shown = Path(f"/proc/{pid}/fdinfo/{fd}").read_text("ascii", errors="replace")
    except OSError:
        return False
    lines = (line.split() for line in shown.splitlines() if line.startswith("lock:"))
    return any({"FLOCK", "WRITE"} <= set(words) for words in lines)


def _descriptors_of(pid: int, path: Path) -> Iterator[str]:
    """The descriptors by which a process has a file open; none if that is not visible."""
    try:
        wanted = os.stat(path)
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        link = f"/proc/{pid}/fd/{name}"
        try:
            # The name first: `stat` of a file on a dead network share would hang.
            if path.name in os.readlink(link) and os.path.samestat(os.stat(link), wanted):
                yield name
        except OSError:
            continue  # Closed since it was listed.


def _judge_silence(
    before: _Activity | None, after: _Activity | None, *, is_held: bool
) -> Diagnosis:
    """Judge an engine that did not read its doorbell between two looks."""
    if not is_held:
        return Diagnosis(EngineHealth.GONE)
    if before is None or after is None:
        why = "it does not answer, and its process can't be seen from here"
        return Diagnosis(EngineHealth.SILENT, why)
    if stopped := _judge_stopped(after):
        return stopped
    if "D" in after.states:
        return Diagnosis(EngineHealth.SILENT, "it waits for the disk, or is frozen")
    if "R" in after.states or after.switches != before.switches:
        return Diagnosis(EngineHealth.SILENT, "it is busy, and has not answered yet")
    return Diagnosis(EngineHealth.STALLED, "it sleeps, and does not answer")


def _judge_stopped(activity: _Activity | None) -> Diagnosis | None:
    """Judge a process that is stopped with all its threads; None if it is not stopped."""
    if activity is None or not activity.states or not activity.states <= _STOPPED.keys():
        return None
    letter = "t" if "t" in activity.states else "T"
    return Diagnosis(EngineHealth.STALLED, _STOPPED[letter], is_stopped=letter == "T")


def _look_at(pid: int) -> _Activity | None:
    """Read the threads of a process; None if they are not visible."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return None
    states, switches = set(), 0
    for thread in threads:
        try:
            shown = Path(f"/proc/{pid}/task/{thread}/status").read_text(errors="replace")
        except OSError:
            continue  # It ended since it was listed.
        fields = dict(line.split(":\t", 1) for line in shown.splitlines() if ":\t" in line)
        states.add(fields["State"][0])
        switches += int(fields["voluntary_ctxt_switches"])
        switches += int(fields["nonvoluntary_ctxt_switches"])
    return _Activity(states=frozenset(states), switches=switches)


_TRIES = 40
_PAUSE_S = 0.05
_OVERDUE_MS = 2_000  # an engine that is awake has started due runs long before


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """An engine and its health; see `Diagnosis`.

    `running`: how many runs it has. `seen_at`: when it last renewed its lease; None without leases.
    `polls_s`: how often it looks for changes, if the notices of the server do not reach it.
    """

    info: EngineInfo
    health: EngineHealth
    why: str = ""
    is_stopped: bool = False
    running: int | None = None
    seen_at: datetime | None = None
    polls_s: float | None = None

    @property
    def word(self) -> str:
        """How the engine is doing, in one word or a few."""
        if self.info.is_stale:
            return "out of reach"
        if not self.is_alive:
            return "dead"
        if self.is_stalled:
            return "stalled"
        if self.info.drained_at is not None:
            return "drained"
        return "running" if self.info.queues else "stopping"

    @property
    def load(self) -> str:
        """Its runs and places, in words: `2 of 8`."""
        most, running = self.info.max_running, self.running or 0
        return str(running) if most is None else f"{running} of {most}"

    @property
    def has_place(self) -> bool:
        """Whether it can start one more run, as far as is known."""
        most, running = self.info.max_running, self.running
        return most is not None and running is not None and running < most

    @property
    def is_alive(self) -> bool:
        """Whether its lock is held: then no other engine touches its runs."""
        return self.health is not EngineHealth.GONE

    @property
    def is_stalled(self) -> bool:
        """Whether the engine still runs and certainly makes no progress."""
        return self.health is EngineHealth.STALLED

    @property
    def is_working(self) -> bool:
        """Whether it can be counted on to start due runs."""
        return self.is_alive and not self.is_stalled


def count_places(engines: Iterable[EngineState]) -> int | None:
    """Return how many runs all working engines start at most; None if that is unknown."""
    places = [one.info.max_running for one in engines if one.is_working]
    known = [most for most in places if most is not None]
    return sum(known) if places and len(known) == len(places) else None


def find_states(store: Store, state_dir: Path, *, clock: Clock) -> list[EngineState]:
    """The engines that are not recorded as stopped, oldest first."""
    loads = store.find_loads()
    states = []
    for info in store.find_engines():
        state = find_state(info, store, state_dir=state_dir, clock=clock, bound_s=ANSWER_S)
        load = loads.get(info.id, EngineLoad())
        states.append(
            replace(
                state,
                running=load.running,
                seen_at=None if load.renewed_ms is None else from_ms(load.renewed_ms),
                polls_s=None if load.polls_ms is None else load.polls_ms / 1000,
            )
        )
    return states


def find_state(
    info: EngineInfo, store: Store, *, state_dir: Path, clock: Clock, bound_s: float
) -> EngineState:
    """The health of one engine; it has `bound_s` to read its doorbell."""

    if info.machine not in (None, find_machine(state_dir)):
        # Its process can't be seen from here: its lease shows whether it is alive.
        health = EngineHealth.GONE if info.is_stale else EngineHealth.ALIVE
        return EngineState(info=info, health=health)

    def is_overdue() -> bool:
        now_ms = clock.now_ms()
        offers = None if info.offers is None else frozenset(info.offers)
        due_ms = store.next_due_ms(info.queues, now_ms=now_ms, offers=offers)
        return due_ms is not None and due_ms < now_ms - _OVERDUE_MS

    diagnosis = diagnose(
        info.pid,
        info.key,
        state_dir=state_dir,
        lock=engine_lock_path(state_dir, info.key),
        is_overdue=is_overdue,
        bound_s=bound_s,
    )
    return EngineState(info=info, **diagnosis._asdict())


def end_run(row: RunningRow, state_dir: Path) -> None:
    """Ask the supervisor of a run to end it: TERM, the kill grace, KILL.

    A function of a program is asked by its engine, which is woken. The run's engine, or the next
    one, records the end. On another machine, its engine has seen the request. Raises
    SupervisorUnavailable if the supervisor, or that engine, has gone, and Conflict if the
    supervisor does not know the run yet.
    """
    if row.machine not in (None, find_machine(state_dir)):
        if row.is_stale:
            raise SupervisorUnavailable(f"the machine that runs {row.execution_id} is out of reach")
        return
    if row.kind == JobKind.CALLABLE or row.supervisor_id == THREADS:
        key = row.engine_key
        if key is None or not lock_is_held(engine_lock_path(state_dir, key)):
            raise SupervisorUnavailable(f"the program that runs {row.execution_id} has gone")
        ring_engines(state_dir)
        return
    with Control(state_dir, row.supervisor_id) as control:
        for _ in range(_TRIES):
            phase = control.cancel([row.lease_token])[row.lease_token]
            if phase is not Phase.UNKNOWN:
                return
            # The run was claimed an instant ago, and is on its way to the supervisor.
            time.sleep(_PAUSE_S)
    raise Conflict(f"run {row.execution_id} is starting", hint="try again")


def printed_so_far(row: RunningRow, state_dir: Path, *, position: int = 0) -> Iterator[Part]:
    """Read the output of a run so far, from a position on; a function has none.

    Raises SupervisorUnavailable.
    """
    if row.supervisor_id == THREADS:
        return
    with Control(state_dir, row.supervisor_id) as control:
        while True:
            _, part = control.output(row.lease_token, position)
            if not part.chunks:
                return
            yield part
            position = part.next_position


def record_left_ends(store: Store, state_dir: Path, *, clock: Clock) -> None:
    """Record the ends that dead engines left, unless the state folder is another user's."""
    if owner_of(state_dir) not in (None, os.geteuid()):
        return
    # Few commands find ended engines: without them, load no code that claims and starts runs.
    from edgecron.engine.other_engines import LocalEngines
    from edgecron.engine.recovery import RecoveryPass

    others = LocalEngines(state_dir, boot_id=clock.boot_id())
    RecoveryPass(store, others, now_ms=clock.now_ms).run()
