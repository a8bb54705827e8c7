"""End and flag the processes that a run has started beside its main one.

These are the processes of the run's session. The kernel has no list of a session, so edgecron reads
all processes from /proc: about a millisecond for 100 processes. One snapshot serves all runs of a
turn of the loop, and snapshots that only serve to flag a run take a small part of the time.

A process that has left the session, such as a daemon, lives on. The run is flagged `escaped` if
such a process still has the run's mark in its environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from edgecron.base.clock import Clock
from edgecron.base.values import dataclass
from edgecron.supervisor.groups import (
    LeftGroup,
    Process,
    end_left_group,
    group_has_members,
    list_processes,
    sessions_of,
    signal_group,
    signal_session,
)
from edgecron.supervisor.protocol import Flag
from edgecron.supervisor.results import VARIABLE, WITHOUT
from edgecron.supervisor.state_files import result_name

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
    fork.
    """
    mark = f"/{result_name(token)}".encode()
    for one in list_processes():
        is_leader = one.pid == one.session and not one.is_zombie
        if is_leader and any(entry.endswith(mark) for entry in _read_marks(one.pid)):
            return end_left_group(one.pid, one.start_time)
    return LeftGroup.GONE


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
