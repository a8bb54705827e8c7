"""Processes and their groups: read /proc, send signals, end what a dead supervisor left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from edgecron.base.values import dataclass


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
