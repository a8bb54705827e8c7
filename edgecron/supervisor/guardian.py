"""The parent of a supervisor: when that dies, what it had started does not live on unwatched.

It is a subreaper: whatever loses its parent below it becomes its child, the commands of a dead
supervisor included. It sleeps until a child ends, reaps what runs left behind, and holds nothing
open. Systems without subreapers (all but Linux) have no guardian: there the next recovery ends
what is left, by the journal alone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from edgecron.supervisor.groups import Process, list_processes, signal_group
from edgecron.supervisor.journal import JournalState, read_journal

_PR_SET_CHILD_SUBREAPER = 36
_WAKING = frozenset({signal.SIGCHLD, signal.SIGTERM})


def become_subreaper() -> bool:
    """Have orphans below this process become its children; False where the system can't."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):
        return False  # Python without ctypes: as on other systems


def fork_guarded() -> int:
    """Fork. 0 in the child, which is to be guarded, with every signal blocked; its pid in us.

    Raises OSError.
    """
    # SIGCHLD needs a disposition that is not "ignore", and to be blocked before there is a child.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    return os.fork()


def guard(supervisor_pid: int, state_dir: Path, *, key: str) -> None:
    """Wait for the end of the supervisor. If it crashed, end and reap its runs."""
    gc.disable()  # To collect would copy the pages that are shared with the supervisor.
    while not _has_ended(supervisor_pid):
        if signal.sigwait(_WAKING) == signal.SIGTERM:
            os.kill(supervisor_pid, signal.SIGTERM)
        _reap_orphans(supervisor_pid)
    # Its number must stay its own until here: TERM may have been on its way to it.
    _, status = os.waitpid(supervisor_pid, 0)
    if status != 0:
        journal = _read_journal(state_dir, key)
        doomed = find_doomed(
            journal,
            list_processes(),
            guardian_pid=os.getpid(),
            supervisor_pid=supervisor_pid,
        )
        end_sessions(doomed)


def find_doomed(
    journal: JournalState,
    processes: Sequence[Process],
    *,
    guardian_pid: int,
    supervisor_pid: int,
) -> set[int]:
    """The sessions of runs that have no end on record, after the supervisor has died.

    A run is the leader of its session, and was the supervisor's child, so it is now the
    guardian's. Starts go on record once per turn of the loop: while a token has none, every leader
    counts as that run, even what an ended one left behind. To leave it alive could run it twice.
    """
    unended = [trace for trace in journal.traces.values() if trace.exit is None]
    leaders = {seen.pid: seen for seen in processes if seen.pid == seen.session}
    doomed = set()
    for trace in unended:
        leader = None if trace.pid is None else leaders.get(trace.pid)
        # Without its leader a session keeps its number as long as anybody is left in it.
        is_same = leader is None or leader.start_time == trace.start_time
        if trace.pid is not None and is_same:
            doomed.add(trace.pid)
    if not journal.is_intact or any(trace.pid is None for trace in unended):
        doomed |= {leader.pid for leader in leaders.values() if leader.parent == guardian_pid}
    # Caught on its way from the fork to a session of its own, which has its number.
    doomed |= {seen.pid for seen in processes if seen.session == supervisor_pid}
    return doomed | {supervisor_pid}


def end_sessions(sessions: set[int]) -> None:
    """Kill all that descends from us and is in one of the sessions, and reap what is ours of it."""
    own_pid = os.getpid()
    signalled: set[tuple[int, int]] = set()
    refused: set[int] = set()
    for session in sessions & {seen.session for seen in _descendants(own_pid)}:
        # All at once, so that none of them starts another one meanwhile.
        signal_group(session, signal.SIGKILL)
    while True:
        members = [seen for seen in _descendants(own_pid) if seen.session in sessions]
        fresh = [
            seen
            for seen in members
            if not seen.is_zombie and (seen.pid, seen.start_time) not in signalled
        ]
        for seen in fresh:
            signalled.add((seen.pid, seen.start_time))
            try:
                os.kill(seen.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was faster
            except PermissionError:
                refused.add(seen.pid)  # another user's by now, and not ours to wait for
        ours = [seen for seen in members if seen.parent == own_pid and seen.pid not in refused]
        if not fresh and not ours:
            return
        for seen in ours:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(seen.pid, 0)


def _read_journal(state_dir: Path, key: str) -> JournalState:
    try:
        return read_journal(state_dir, key)
    except OSError:
        return JournalState(is_intact=False)  # Its runs are ended all the same, by whose they are.


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap_orphans(supervisor_pid: int) -> None:
    """Reap what runs left behind, as long as the supervisor lives."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        # Asked after that: once it is dead, what has ended may be one of its runs, whose number
        # must not become anybody else's before its session was ended.
        if ended is None or _has_ended(supervisor_pid):
            return
        os.waitpid(ended.si_pid, 0)


def _descendants(pid: int) -> list[Process]:
    seen = list_processes()
    children: dict[int, list[Process]] = {}
    for process in seen:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    unvisited = [pid]
    while unvisited:
        below = children.pop(unvisited.pop(), [])
        found += below
        unvisited += [process.pid for process in below]
    return found
