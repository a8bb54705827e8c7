"""How an engine does, seen from outside: by its lock, its process and its doorbell.

A time-out alone decides nothing: an engine that waits for a lock or for the disk is late, and
not stalled. Only what surely makes no progress is called so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from edgecron.base.values import dataclass
from edgecron.engine.wake import count_unheard, ring_engine
from edgecron.supervisor.files import lock_is_held

PATIENCE_S = 0.5  # a healthy engine hears its doorbell within milliseconds
_LOOK_S = 0.005
_STOPPED = {"T": "it is stopped (SIGSTOP or Ctrl-Z)", "t": "it is stopped by a debugger"}


class EngineHealth(StrEnum):
    """What is known of an engine that has not said goodbye."""

    ALIVE = "alive"  # its lock is held, and nothing speaks against it
    SILENT = "silent"  # has not heard its doorbell: at work, frozen, or not seen from here
    STALLED = "stalled"  # its process is stopped, or sleeps and hears no doorbell
    GONE = "gone"  # its lock is free


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """An engine's health, and in words how it shows where that is not plain.

    `is_stopped`: its process is, and SIGCONT lets it go on.
    """

    health: EngineHealth
    why: str = ""
    is_stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Activity:
    """The threads of a process: a letter for the state of each, and how often they took turns."""

    states: frozenset[str]
    switches: int


def diagnose(
    pid: int,
    key: str,
    *,
    state_dir: Path,
    lock: Path,
    is_overdue: Callable[[], bool],
    patience_s: float = PATIENCE_S,
) -> Diagnosis:
    """How the engine of a key does, which says that it is the process of this id.

    It is rung only where `is_overdue` says that something of its queues should have begun, and
    waited for only where it has not heard its doorbell: `patience_s` at most.
    """
    if not lock_is_held(lock):
        return Diagnosis(health=EngineHealth.GONE)
    # The number may be in use again, or be of another container.
    seen_pid = pid if holds_open(pid, lock) else None
    before = None if seen_pid is None else _look_at(seen_pid)
    if stopped := _judge_stopped(before):
        return stopped
    if count_unheard(state_dir, key) == 0:
        if not is_overdue():
            return Diagnosis(health=EngineHealth.ALIVE)
        ring_engine(state_dir, key)
    for _ in range(max(1, round(patience_s / _LOOK_S))):
        if not count_unheard(state_dir, key):  # heard, or it has left and taken the bell along
            break
        time.sleep(_LOOK_S)
    else:
        after = None if seen_pid is None else _look_at(seen_pid)
        return _judge_silence(before, after, is_held=lock_is_held(lock))
    health = EngineHealth.ALIVE if lock_is_held(lock) else EngineHealth.GONE
    return Diagnosis(health=health)


def holds_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open, as /proc shows it; False where it can't be seen."""
    return next(_descriptors_of(pid, path), None) is not None


def find_holder(path: Path) -> int | None:
    """A process that holds the lock of a file; None where it can't be seen.

    Whoever only asks for the lock has the file open for that moment, too.
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
    """The descriptors by which a process has a file open; none where it can't be seen."""
    try:
        wanted = os.stat(path)
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        link = f"/proc/{pid}/fd/{name}"
        try:
            # The name first: to ask for a file on a dead network share would hang.
            if path.name in os.readlink(link) and os.path.samestat(os.stat(link), wanted):
                yield name
        except OSError:
            continue  # Closed since it was listed.


def _judge_silence(
    before: _Activity | None, after: _Activity | None, *, is_held: bool
) -> Diagnosis:
    """What to think of an engine that did not hear its doorbell between two looks."""
    if not is_held:
        return Diagnosis(health=EngineHealth.GONE)
    if before is None or after is None:
        why = "it does not hear its doorbell, and its process can't be seen from here"
        return Diagnosis(health=EngineHealth.SILENT, why=why)
    if stopped := _judge_stopped(after):
        return stopped
    if "D" in after.states:
        why = "it waits for the disk, or is frozen"
        return Diagnosis(health=EngineHealth.SILENT, why=why)
    if "R" in after.states or after.switches != before.switches:
        why = "it is at work, and has not heard its doorbell yet"
        return Diagnosis(health=EngineHealth.SILENT, why=why)
    why = "it sleeps, and does not hear its doorbell"
    return Diagnosis(health=EngineHealth.STALLED, why=why)


def _judge_stopped(activity: _Activity | None) -> Diagnosis | None:
    """What to think of a process that is stopped with all of its threads; None where it is not."""
    if activity is None or not activity.states or not activity.states <= _STOPPED.keys():
        return None
    letter = "t" if "t" in activity.states else "T"
    return Diagnosis(health=EngineHealth.STALLED, why=_STOPPED[letter], is_stopped=letter == "T")


def _look_at(pid: int) -> _Activity | None:
    """The threads of a process; None where it can't be seen, or this system shows none."""
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
