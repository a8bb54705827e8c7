"""Looks at all processes of the system, for those that got out of the group of a run.

The kernel lists the processes of a session nowhere: all are asked. That takes a millisecond for
each hundred, so that a look is shared by all who need one in the same turn of the loop, and those
that only serve to tell may take a small part of the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from edgecron.base.clock import Clock
from edgecron.base.values import dataclass
from edgecron.supervisor.files import result_name
from edgecron.supervisor.groups import LeftGroup, Process, end_left_group, list_processes
from edgecron.supervisor.results import VARIABLE, WITHOUT

# A look rests for so many times as long as it took.
RESTS = 50
_TELLING = (f"{VARIABLE}=".encode(), f"{WITHOUT}=".encode(), b"EDGECRON_RUN_ID=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A process whose parent has ended, and those of its variables that tell whose it is."""

    session: int
    variables: frozenset[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look has found: all processes, and those that came to our parent, the guardian."""

    processes: tuple[Process, ...]
    orphans: tuple[Orphan, ...]

    def session(self, leader: int) -> list[int]:
        """The processes of a run's session, without its main one and without zombies."""
        others = (seen for seen in self.processes if seen.pid != leader)
        return [seen.pid for seen in others if seen.session == leader]

    def has_escaped(self, leader: int, mark: bytes) -> bool:
        """Whether an orphan with the run's mark lives in a session of its own.

        Of one that has cleared its environment nobody knows.
        """
        return any(seen.session != leader and mark in seen.variables for seen in self.orphans)


class Looks:
    """`turn` tells the turn of the loop: what was seen in it is true until it ends."""

    def __init__(self, clock: Clock, *, turn: Callable[[], int]) -> None:
        self._clock = clock
        self.turn = turn
        self._looked_in: int | None = None
        self._look = Look(processes=(), orphans=())
        self._rests_until_ms: int | None = None

    def look(self) -> Look:
        """What is there in this turn."""
        if self._looked_in == self.turn():
            return self._look
        began_ms = self._clock.monotonic_ms()
        self._look = _look()
        ended_ms = self._clock.monotonic_ms()
        self._looked_in = self.turn()
        self._rests_until_ms = ended_ms + RESTS * max(1, ended_ms - began_ms)
        return self._look

    def look_if_rested(self) -> Look | None:
        """The same, or None where the last one was too short a while ago for what it cost."""
        is_resting = (
            self._rests_until_ms is not None and self._clock.monotonic_ms() < self._rests_until_ms
        )
        return None if is_resting and self._looked_in != self.turn() else self.look()


def end_unrecorded(token: str) -> LeftGroup:
    """Kill the process group of a command whose supervisor died before its start was on record.

    It is the leader of a session that has the run's result file among its variables, or its mark
    where there is no such file. When the supervisor's lock is free, it is no copy of the supervisor
    any more.
    """
    mark = f"/{result_name(token)}".encode()
    for seen in list_processes():
        is_leader = seen.pid == seen.session and not seen.is_zombie
        if is_leader and any(entry.endswith(mark) for entry in _read_variables(seen.pid)):
            return end_left_group(seen.pid, seen.start_time)
    return LeftGroup.GONE


def _look() -> Look:
    processes = tuple(seen for seen in list_processes() if not seen.is_zombie)
    # The guardian is our parent. Where it is gone, orphans go where we went.
    parent, own = os.getppid(), os.getpid()
    orphans = (seen for seen in processes if seen.parent == parent and seen.pid != own)
    return Look(
        processes=processes,
        orphans=tuple(
            Orphan(session=seen.session, variables=_read_variables(seen.pid)) for seen in orphans
        ),
    )


def _read_variables(pid: int) -> frozenset[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            entries = environ.read().split(b"\0")
    except OSError:
        return frozenset()  # gone, or another user's by now
    return frozenset(entry for entry in entries if entry.startswith(_TELLING))
