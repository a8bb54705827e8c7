"""End a stalled engine on request, so that another engine takes over its runs.

Nothing else is safe: the lock of a living process can't be taken, and the engine could still write
when it wakes. A pidfd names the process, and never a later one with the same number.
"""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from edgecron.base.errors import Conflict, EdgecronError, NotFound, NotSupported
from edgecron.base.values import dataclass
from edgecron.client import Client
from edgecron.client.engine_health import (
    EngineState,
    find_holder,
    find_state,
    holds_open,
    record_left_ends,
)
from edgecron.engine.other_engines import LocalEngines
from edgecron.engine.state_folder import engine_lock_path, refuse_foreign, ring_engines
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.engine import EngineInfo
from edgecron.supervisor.state_files import lock_is_held

_LAST_CHECK_S = 2.0  # whether the engine is really stalled, before it is killed
_END_MS = 10_000  # a process that waits for a dead disk can't even be killed
_LOOK_S = 0.01
_LOOKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """The outcome for the runs of an ended engine, and the process ids of the other engines.

    A run continues, is queued again because it never started, or has its end recorded.
    """

    going_on: tuple[int, ...]
    queued_again: tuple[int, ...]
    settled: tuple[int, ...]
    engine_pids: tuple[int, ...]


def get_stalled(client: Client, pid: int) -> EngineState:
    """Return the stalled engine with a process id.

    Raises NotFound if no engine of this database has this id, Conflict if the engine is not
    stalled, and NotSupported if this system can't end it. Raises EdgecronError if this user can't
    end it, or if the database is another user's.
    """
    _refuse_unable(pid)
    refuse_foreign(client.path)
    states = client.engines()
    found = [state for state in states if state.info.pid == pid and state.is_alive]
    if not found:
        raise NotFound(
            f"pid {pid} is not an engine of database {client.path}", hint=_listed(states)
        )
    _refuse_foreign(pid)
    for state in found:
        if not state.is_stalled:
            more = f"; {state.why}" if state.why else ""
            raise Conflict(
                f"engine pid {pid} is running and not stalled{more}",
                hint=f"to stop it: kill -TERM {pid}; running jobs continue",
            )
    return found[0]


def running_of(client: Client, engine: EngineInfo) -> tuple[int, ...]:
    """Return the runs that an engine has claimed and that have no recorded end."""
    rows = client.store.find_running()
    return tuple(row.execution_id for row in rows if row.engine_id == engine.id)


def end_engine(client: Client, engine: EngineInfo) -> None:
    """Kill the process of a stalled engine, and wait until its lock is free.

    Raises Conflict if it is no longer stalled, EdgecronError if it does not end.
    """
    lock = engine_lock_path(client.state_dir, engine.key)
    try:
        process = os.pidfd_open(engine.pid)
    except ProcessLookupError:
        process = None  # It has ended already.
    if process is not None:
        try:
            _kill(process, engine, client=client, lock=lock)
        finally:
            os.close(process)
    for _ in range(_LOOKS):
        if not lock_is_held(lock):
            return
        time.sleep(_LOOK_S)
    holder = find_holder(lock)
    who = "another process" if holder is None else f"its child, process {holder},"
    raise EdgecronError(
        f"engine pid {engine.pid} was ended, and {who} still holds its lock {lock}",
        hint="end that process, too; the next engine then takes over",
    )


def take_over_runs(client: Client, engine: EngineInfo, *, runs: tuple[int, ...]) -> TakenOver:
    """Record the ends of an ended engine's runs, and wake the other engines."""
    folder = client.state_dir
    record_left_ends(client.store, folder, clock=client.clock)
    # The next engine would do it too; until then the engine would be shown as dead.
    client.store.retire_engine(engine.id, now_ms=client.clock.now_ms())
    LocalEngines(folder, boot_id=engine.boot_id).forget_engine(engine.key)
    ring_engines(folder)
    now = {run: client.execution(run).status for run in runs}
    return TakenOver(
        going_on=tuple(run for run in runs if now[run] is Status.RUNNING),
        queued_again=tuple(run for run in runs if now[run] is Status.QUEUED),
        settled=tuple(run for run in runs if now[run] not in ACTIVE),
        engine_pids=tuple(
            other.info.pid for other in client.engines() if other.is_working and other.info.queues
        ),
    )


def _refuse_unable(pid: int) -> None:
    has_proc = Path("/proc/self/fd").exists()
    if not (has_proc and hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")):
        raise NotSupported(
            "edgecron can't be sure on this system that it ends the right process",
            hint=f"check that pid {pid} is the engine, then end it: kill -KILL {pid}",
        )


def _refuse_foreign(pid: int) -> None:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return  # It is in another container, or gone: then it is not known to be stalled either.
    if os.geteuid() not in (0, owner):
        raise EdgecronError(
            f"engine pid {pid} belongs to user {owner}, and you are user {os.geteuid()}",
            hint="repeat as that user, or as root",
        )


def _listed(states: list[EngineState]) -> str:
    alive = [f"{state.info.pid} ({state.health})" for state in states if state.is_alive]
    return f"its engines: {', '.join(alive)}" if alive else "see its engines: edgecron status"


def _kill(process: int, engine: EngineInfo, *, client: Client, lock: Path) -> None:
    # From here on the pidfd names one process: check again that it is the engine.
    if not holds_open(engine.pid, lock):
        raise Conflict(
            f"pid {engine.pid} is no longer the engine; nothing was ended",
            hint="see the engines: edgecron status",
        )
    state = find_state(
        engine,
        client.store,
        state_dir=lock.parent,
        clock=client.clock,
        bound_s=_LAST_CHECK_S,
    )
    if not state.is_stalled:
        raise Conflict(
            f"engine pid {engine.pid} makes progress again, and was not ended",
            hint="see the engines: edgecron status",
        )
    signal.pidfd_send_signal(process, signal.SIGKILL)
    poller = select.poll()
    poller.register(process, select.POLLIN)
    if not poller.poll(_END_MS):
        raise EdgecronError(
            f"engine pid {engine.pid} was sent KILL, and has not ended",
            hint="it waits for the disk, and ends when the disk answers",
        )
