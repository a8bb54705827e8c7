"""Points: the places at which a process can be killed, made to pause, or meet a fault.

Every SQL statement and every commit of every connection, by a hook of its driver; every operation
on a journal's file; every start of a command; every message, sleep and question between processes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from edgecron.client import engine_health as peers
from edgecron.engine import other_engines as adoption
from edgecron.store.sqlite import connection
from edgecron.supervisor import journal

if TYPE_CHECKING:
    from tests.simulation.machine import Machine


class Point(StrEnum):
    READ = "read"  # a statement that changes nothing
    WRITE = "write"  # a statement that does
    BEGIN = "begin"
    COMMIT = "commit"
    OTHER = "other"  # a pragma, a rollback: nothing but a kill or a pause happens there
    JOURNAL = "journal"  # an operation on a journal's file
    SPAWN = "spawn"  # before and after the start of a command
    TALK = "talk"  # a message or a question to another process


class Fault(StrEnum):
    BUSY = "busy"  # another program holds the write lock
    FULL = "full"  # no space left
    IO = "io"  # the disk fails
    UNSURE = "unsure"  # COMMIT took effect, and raised
    TORN = "torn"  # a journal's write was cut short: no space
    SCARCE = "scarce"  # no process left for a command
    DEAF = "deaf"  # no answer in time, or no supervisor can be started


STEPS_MS = (-15_000, -4_000, -300, 300, 20_000)

_FAULTS = {
    Point.READ: (Fault.IO, Fault.BUSY),
    Point.WRITE: (Fault.FULL, Fault.IO),
    Point.BEGIN: (Fault.BUSY, Fault.BUSY, Fault.IO),
    Point.COMMIT: (Fault.FULL, Fault.IO, Fault.UNSURE, Fault.UNSURE),
    Point.JOURNAL: (Fault.FULL, Fault.TORN, Fault.IO),
    Point.SPAWN: (Fault.SCARCE,),
    Point.TALK: (Fault.DEAF,),
}
_VERBS = {
    "SELECT": Point.READ,
    "INSERT": Point.WRITE,
    "UPDATE": Point.WRITE,
    "DELETE": Point.WRITE,
    "BEGIN": Point.BEGIN,
    "COMMIT": Point.COMMIT,
}
_ERRNO = {Fault.FULL: errno.ENOSPC, Fault.IO: errno.EIO, Fault.TORN: errno.ENOSPC}


def faults_at(point: Point) -> tuple[Fault, ...]:
    """What may go wrong there."""
    return _FAULTS.get(point, ())


class Hit(StrEnum):
    """What may happen at one point that is chosen, in the place of chance."""

    KILL = "kill"
    FAULT = "fault"  # one that can be there: none, where nothing can fail
    STALL = "stall"  # it moves no more for a while
    CLOCK = "clock"  # it is set


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How likely it is, at each point, that a process is killed, pauses, meets a fault; and that
    the clock is set."""

    kill: float = 0.0
    pause: float = 0.0
    fault: float = 0.0
    clock: float = 0.0
    steps_ms: tuple[int, ...] = STEPS_MS

    @property
    def any(self) -> float:
        return self.kill + self.pause + self.fault + self.clock


CALM = Chances()


@cache
def read_statement(sql: str) -> tuple[Point, str]:
    """What kind of point a statement is, and its first words."""
    words = sql.split()
    point = _VERBS.get(words[0].strip(";").upper(), Point.OTHER)
    if words[0].upper() == "WITH":
        is_write = any(word in words for word in ("INSERT", "UPDATE", "DELETE"))
        point = Point.WRITE if is_write else Point.READ
    if words == ["BEGIN"]:
        point = Point.OTHER  # of a snapshot, which locks nobody out
    if words[-1] == "COMMIT":
        point = Point.COMMIT  # of a server: the notice to others goes with it
    return point, " ".join(words)[:60]


class Statements:
    """Watches every statement of every connection that a process of the machine opens."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._is_ours = False

    def watch(self, opened: apsw.Connection) -> None:
        if self._machine.current is not None:
            opened.exec_trace = self._on_statement

    def _on_statement(self, cursor: Any, sql: str, _: object) -> bool:
        machine = self._machine
        if self._is_ours or machine.current is None:
            return True
        fault = machine.reach(*read_statement(sql))
        if fault is Fault.UNSURE:
            self._is_ours = True
            try:
                getattr(cursor, "connection", cursor).execute("COMMIT")
            finally:
                self._is_ours = False
            raise apsw.IOError("after the commit")
        if fault is Fault.BUSY:
            raise apsw.BusyError("held by another program")
        if fault is Fault.FULL:
            raise apsw.FullError("no space")
        if fault is Fault.IO:
            raise apsw.IOError("the disk fails")
        return True


class Disk:
    """What a journal finds in the place of `os`: the same, with points and faults."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, fd: int, content: bytes) -> int:
        fault = self._machine.reach(Point.JOURNAL, "write")
        if fault is Fault.TORN:
            return os.write(fd, content[: self._machine.random.randrange(len(content))])
        self._fail(fault)
        return os.write(fd, content)

    def ftruncate(self, fd: int, size: int) -> None:
        # Cutting off what was torn needs no space.
        self._machine.reach(Point.JOURNAL, "truncate", may_fail=False)
        os.ftruncate(fd, size)

    def rename(self, source: Any, target: Any) -> None:
        self._fail(self._machine.reach(Point.JOURNAL, "rename"))
        os.rename(source, target)

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        self._machine.reach(Point.JOURNAL, "read", may_fail=False)
        return os.pread(fd, count, offset)

    def _fail(self, fault: Fault | None) -> None:
        if fault is not None:
            raise OSError(_ERRNO[fault], os.strerror(_ERRNO[fault]))


@contextmanager
def watching(machine: Machine) -> Iterator[None]:
    """Put the machine in the place of what is the system's: disk, dice, naps, sockets."""
    from tests.simulation.links import Question

    statements = Statements(machine)
    naps = SimpleNamespace(sleep=lambda _: machine.nap())

    def ask(_: object, key: str, **__: object) -> Question:
        return Question(machine, key)

    apsw.connection_hooks.append(statements.watch)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "urandom", machine.ids.randbytes)
            patch.setattr(connection, "time", naps)
            patch.setattr(peers, "time", naps)
            patch.setattr(journal, "os", Disk(machine))
            patch.setattr(adoption, "Control", ask)
            patch.setattr(peers, "Control", ask)
            if machine.server is not None:
                machine.server.watch(machine, patch)
            yield
    finally:
        apsw.connection_hooks.remove(statements.watch)
