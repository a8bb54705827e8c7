"""The processes of a run: read /proc, signal them, end and flag those beside its main one.

These are the processes of the run's session. The kernel has no list of a session, so edgecron reads
all processes from /proc: about a millisecond for 100 processes. One snapshot serves all runs of a
turn of the loop, and snapshots that only serve to flag a run take a small part of the time.

A process that has left the session, such as a daemon, lives on. The run is flagged `escaped` if
such a process still has the run's mark in its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from edgecron.base.clock import Clock
from edgecron.base.values import dataclass
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.results import VARIABLE, WITHOUT
from edgecron.supervisor.state_files import result_name

SUPERVISOR_NAME = "edgecron-super"  # as `ps` shows its process: at most 15 characters


class LeftGroup(StrEnum):
    ENDED = "ended"  # its main process was alive: the whole group got KILL
    GONE = "gone"  # its main process has ended
    RECYCLED = "recycled"  # another process has that id now: left alone
    UNKNOWN = "unknown"  # the system does not say which process it is: left alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process as the kernel shows it. `start_time` is in ticks since boot."""

    pid: int
    parent: int
    session: int
    start_time: int
    is_zombie: bool


def list_processes() -> list[Process]:
    """List all visible processes; none if the system has no /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    return [seen for name in names if name.isdecimal() and (seen := _read_process(int(name)))]


def read_start_time(pid: int) -> int | None:
    """Read when a process started, in ticks since boot; None if that is unknown."""
    fields = _read_stat(pid)
    return int(fields[19]) if fields else None


def _read_process(pid: int) -> Process | None:
    fields = _read_stat(pid)
    if not fields:
        return None
    return Process(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        is_zombie=fields[0] in (b"Z", b"X"),
    )


def _read_stat(pid: int) -> list[bytes] | None:
    """Read the fields of /proc/PID/stat from the third on: state, parent, group, session, ..."""
    try:
        stat_fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        shown = os.read(stat_fd, 4096)
    except OSError:
        return None
    finally:
        os.close(stat_fd)
    # Field 2 is the name in parentheses, and can hold parentheses.
    fields = shown[shown.rfind(b")") + 2 :].split()
    return fields if len(fields) > 19 else None


def end_left_group(pid: int, start_time: int | None) -> LeftGroup:
    """Kill the process group of a command whose supervisor died.

    The process must have the journal's `start_time`: an id that is in use again is left alone.
    """
    if not Path("/proc/self/stat").exists():
        return LeftGroup.UNKNOWN
    found = read_start_time(pid)
    if found is None:
        return LeftGroup.GONE
    if start_time is None:
        return LeftGroup.UNKNOWN
    if found != start_time:
        return LeftGroup.RECYCLED
    try:
        if os.getpgid(pid) != pid:
            return LeftGroup.RECYCLED
        others = [seen.pid for seen in list_processes() if seen.session == pid]
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return LeftGroup.GONE
    signal_session(others, signal.SIGKILL, leader=pid)
    return LeftGroup.ENDED


def signal_group(pgid: int, number: int) -> bool:
    """Send a signal to a process group; False if it has no process."""
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # macOS: only a zombie, or processes of other users
    return True


def signal_session(pids: Iterable[int], number: int, *, leader: int) -> None:
    """Send a signal to processes of a run's session that are in another group.

    A shell has such groups after `set -m`. A process can have ended since the snapshot, and its
    number can be in use again: check that it is still in the session.
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader and os.getpgid(pid) != leader:
                os.kill(pid, number)


def sessions_of(pids: Iterable[int]) -> set[int]:
    """Return the sessions of processes that are still there."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(os.getsid(pid))
    return found


def group_has_members(pgid: int) -> bool:
    """Return whether a group has a process. Reap the main one first."""
    return signal_group(pgid, 0)


REST_FACTOR = 50  # after a snapshot, wait this many times its duration before one that only flags
_RUN_ID = "EDGECRON_RUN_ID"
_MARKS = tuple(f"{name}=".encode() for name in (VARIABLE, WITHOUT, _RUN_ID))


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A process whose parent has ended. `variables` are those that name its run."""

    session: int
    variables: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All processes without zombies, and the orphans: the children of the guardian."""

    processes: tuple[Process, ...]
    orphans: tuple[Orphan, ...]

    def session(self, leader: int) -> list[int]:
        """List the processes of a run's session without its main process."""
        others = (one for one in self.processes if one.pid != leader)
        return [one.pid for one in others if one.session == leader]

    def has_escaped(self, leader: int, mark: bytes) -> bool:
        """Report whether an orphan with the run's mark lives in another session."""
        return any(one.session != leader and mark in one.variables for one in self.orphans)


class Snapshots:
    """Takes at most one snapshot per turn of the loop, which calls `begin_turn`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.turn = 0
        self._current: Snapshot | None = None
        self._rests_until_ms: int | None = None

    def begin_turn(self) -> None:
        self.turn += 1
        self._current = None

    def take(self) -> Snapshot:
        """Return the snapshot of this turn."""
        if self._current is None:
            began_ms = self._clock.monotonic_ms()
            self._current = _take_snapshot()
            ended_ms = self._clock.monotonic_ms()
            self._rests_until_ms = ended_ms + REST_FACTOR * max(1, ended_ms - began_ms)
        return self._current

    def take_if_rested(self) -> Snapshot | None:
        """Return the snapshot of this turn; None if the last one is too recent for its cost."""
        rests_until_ms = self._rests_until_ms
        is_resting = rests_until_ms is not None and self._clock.monotonic_ms() < rests_until_ms
        return None if is_resting and self._current is None else self.take()


class RunSession:
    """The session of a run, whose leader is the run's main process."""

    def __init__(self, leader: int, *, mark: bytes | None, snapshots: Snapshots) -> None:
        self._leader = leader
        self._mark = mark
        self._snapshots = snapshots
        self._killed: set[int] = set()
        self._found_in: int | None = None  # the last turn that found a new process

    def terminate(self) -> None:
        """Ask all processes to end, also stopped ones."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            self._signal_all(number)

    def stop(self) -> None:
        """Stop all processes, until `resume`."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Let all processes continue."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        self._signal_group(number)
        signal_session(self._others(), number, leader=self._leader)

    def kill(self) -> bool:
        """Kill all processes. True if this turn found new ones: call again in the next turn.

        The main process must not be reaped yet, or its number could be in use again.
        """
        self._signal_group(signal.SIGKILL)
        others = set(self._others())
        signal_session(others, signal.SIGKILL, leader=self._leader)
        if not others <= self._killed:
            self._killed |= others
            self._found_in = self._snapshots.turn
        return self._found_in == self._snapshots.turn

    def has_others(self) -> bool:
        """Report whether other processes than the main one are left; True if that is unknown."""
        snapshot = self._snapshots.take()
        return not snapshot.processes or bool(snapshot.session(self._leader))

    def flag_left(self) -> list[Flag]:
        """Return the flags for processes that outlive the main one, which was just reaped."""
        flags = {Flag.LEFT_BEHIND} if group_has_members(self._leader) else set()
        snapshot = self._snapshots.take_if_rested()
        if snapshot is not None:
            # Ask the kernel again: the snapshot may be older than the end of the main process.
            if sessions_of(snapshot.session(self._leader)) == {self._leader}:
                flags.add(Flag.LEFT_BEHIND)
            if self._mark and snapshot.has_escaped(self._leader, self._mark):
                flags.add(Flag.ESCAPED)
        return sorted(flags)

    def flag_escaped(self) -> list[Flag]:
        """Return the flag for processes that have left the session of a run that was killed."""
        if self._mark and self._snapshots.take().has_escaped(self._leader, self._mark):
            return [Flag.ESCAPED]
        return []

    def _signal_group(self, number: int) -> None:
        if not signal_group(self._leader, number):
            with suppress(ProcessLookupError):  # a fork that has no group of its own yet
                os.kill(self._leader, number)

    def _others(self) -> list[int]:
        return self._snapshots.take().session(self._leader)


def find_mark(environment: Mapping[str, str]) -> bytes | None:
    """Find the variable that identifies the processes of a run; None if it has none.

    Prefer the name of its result file, which no run of another database has.
    """
    for name in (VARIABLE, WITHOUT, _RUN_ID):
        if name in environment:
            return os.fsencode(f"{name}={environment[name]}")
    return None


def end_unrecorded(token: str) -> LeftGroup:
    """Kill the process group of a run whose supervisor died before it recorded the start.

    The group's main process leads a session and has the name of the run's result file in its
    environment. Call only when the supervisor's lock is free, or this could be the supervisor's own
    fork. If it has a supervisor, this database is a copy, and the run belongs to the original.
    """
    mark = f"/{result_name(token)}".encode()
    for one in list_processes():
        if one.pid != one.session or one.is_zombie:
            continue
        if any(entry.endswith(mark) for entry in _read_marks(one.pid)):
            is_ours = not has_supervisor(one.pid)
            return end_left_group(one.pid, one.start_time) if is_ours else LeftGroup.GONE
    return LeftGroup.GONE


def has_supervisor(pid: int) -> bool:
    """Whether a command is a child of a supervisor that is alive.

    Call it for a run whose supervisor has died. A living one belongs to another database, of which
    ours is a copy, whatever the command has in its environment.
    """
    seen = _read_process(pid)
    if seen is None or seen.parent <= 1:
        return False
    folder = f"/proc/{seen.parent}/fd"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return False  # Its parent has just ended.
    except OSError:  # It has another user, or more rights, as the systemd of a user.
        return _read_name(seen.parent) == SUPERVISOR_NAME
    for name in names:
        with suppress(OSError):
            held = os.path.basename(os.readlink(f"{folder}/{name}"))
            if held.startswith("supervisor-") and ".lock" in held:
                return True
    return False


def _read_name(pid: int) -> str:
    """Read the name that a process shows to all users; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _take_snapshot() -> Snapshot:
    processes = tuple(one for one in list_processes() if not one.is_zombie)
    # Orphans become children of our parent, the guardian. Without one they go where we went.
    parent, own = os.getppid(), os.getpid()
    orphans = (one for one in processes if one.parent == parent and one.pid != own)
    return Snapshot(
        processes=processes,
        orphans=tuple(
            Orphan(session=one.session, variables=_read_marks(one.pid)) for one in orphans
        ),
    )


def _read_marks(pid: int) -> frozenset[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            entries = environ.read().split(b"\0")
    except OSError:
        return frozenset()  # it has ended, or belongs to another user
    return frozenset(entry for entry in entries if entry.startswith(_MARKS))
