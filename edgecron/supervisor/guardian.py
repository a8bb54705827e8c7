"""The guardian: the parent of a supervisor, which ends the commands of a dead one.

It is a subreaper: a process below it that loses its parent becomes its child, also the commands of
a dead supervisor. It sleeps until a child ends, reaps orphans, and holds no descriptor open. Only
Linux has subreapers. On other systems the next recovery ends what is left, by the journal.
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
    """Make this process the parent of orphans below it; False if the system can't."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):
        return False  # Python without ctypes: as on other systems


def fork_guarded() -> int:
    """Fork the supervisor. Returns 0 in the child, in which every signal is blocked, else its pid.

    Raises OSError.
    """
    # SIGCHLD must not be ignored, and must be blocked before there is a child.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    return os.fork()


def guard(supervisor_pid: int, state_dir: Path, *, key: str) -> None:
    """Wait for the end of the supervisor. If it crashed, end and reap its runs."""
    gc.disable()  # A collection would copy the pages that are shared with the supervisor.
    while not _has_ended(supervisor_pid):
        if signal.sigwait(_WAKING) == signal.SIGTERM:
            os.kill(supervisor_pid, signal.SIGTERM)
        _reap_orphans(supervisor_pid)
    # Reap it only here: until now, TERM could be on its way to its number.
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
    """Find the sessions of runs without a recorded end, after the supervisor has died.

    A run leads its session. It was a child of the supervisor, and is now one of the guardian. The
    supervisor records starts once per turn: if a token has none, every session leader counts as
    this run, even one that an ended run left. To leave the run alive could run it twice.
    """
    unended = [trace for trace in journal.traces.values() if trace.exit is None]
    leaders = {seen.pid: seen for seen in processes if seen.pid == seen.session}
    doomed = set()
    for trace in unended:
        leader = None if trace.pid is None else leaders.get(trace.pid)
        # Without its leader, a session keeps its number while it has a process.
        is_same = leader is None or leader.start_time == trace.start_time
        if trace.pid is not None and is_same:
            doomed.add(trace.pid)
    if not journal.is_intact or any(trace.pid is None for trace in unended):
        doomed |= {leader.pid for leader in leaders.values() if leader.parent == guardian_pid}
    # A fork that has no session of its own yet.
    doomed |= {seen.pid for seen in processes if seen.session == supervisor_pid}
    return doomed | {supervisor_pid}


def end_sessions(sessions: set[int]) -> None:
    """Kill all our descendants in these sessions, and reap our children among them."""
    own_pid = os.getpid()
    signalled: set[tuple[int, int]] = set()
    refused: set[int] = set()
    for session in sessions & {seen.session for seen in _descendants(own_pid)}:
        # The whole group at once, so that no process starts another one meanwhile.
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
                pass  # it has ended
            except PermissionError:
                refused.add(seen.pid)  # it belongs to another user: do not wait for it
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
        return JournalState(is_intact=False)  # End every run.


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap_orphans(supervisor_pid: int) -> None:
    """Reap orphans while the supervisor lives."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        # Check the supervisor after that. If it is dead, the ended process can be one of its runs,
        # whose number must not be in use again before its session has ended.
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
