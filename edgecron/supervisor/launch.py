"""Start a supervisor: fork or exec it, below a guardian, with its lock held.

The guardian is the parent of a supervisor, and ends the commands of a dead one. It is a subreaper:
a process below it that loses its parent becomes its child, also the commands of a dead supervisor.
It sleeps until a child ends, reaps orphans, and holds no descriptor open. Only Linux has
subreapers. On other systems the next recovery ends what is left, by the journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence, Set
from enum import StrEnum
from pathlib import Path

from edgecron.base.bundle import held_fds, own_start
from edgecron.base.clock import Clock
from edgecron.base.errors import EdgecronError, SupervisorUnavailable, os_words
from edgecron.base.files import open_private
from edgecron.supervisor import protocol, state_files
from edgecron.supervisor.journal import JournalState, forget, read_journal
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.run_session import (
    SUPERVISOR_NAME,
    Process,
    list_processes,
    signal_group,
)

START_TIMEOUT_S = 20.0
FAREWELL_S = 2.0  # the time for a supervisor that failed to release its lock


class StartBy(StrEnum):
    FORK = "fork"  # cheap, and shares memory; only if this process has no other thread
    EXEC = "exec"  # a fresh interpreter


def start(
    state_dir: Path, *, clock: Clock, by: StartBy | None = None, places: int | None = None
) -> SupervisorLink:
    """Start a supervisor and connect to it, once it holds its lock.

    It is not our child: it outlives us and leaves no zombie. `by` None chooses. It runs at
    most `places` commands at the same time; None is no limit.

    Raises SupervisorUnavailable if it can't be started or the state folder is not usable.
    """
    folder = state_files.prepare_state_dir(state_dir)
    key = os.urandom(8).hex()
    if by is None:
        by = StartBy.EXEC if _has_other_threads() else StartBy.FORK
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise SupervisorUnavailable(f"supervisor can't be started: {os_words(error)}") from error
    with contextlib.closing(theirs):
        try:
            if by is StartBy.FORK:
                _fork(theirs, folder, key=key, clock=clock, places=places)
            else:
                _exec(theirs, folder, key=key, places=places)
        except OSError as error:
            ours.close()
            raise SupervisorUnavailable(
                f"supervisor can't be started: {os_words(error)}"
            ) from error
        except SupervisorUnavailable:
            ours.close()
            raise
    link = SupervisorLink(ours, folder, supervisor_id=key)
    try:
        link.wait_hello(START_TIMEOUT_S)
    except EdgecronError:
        link.wait_closed(FAREWELL_S)
        link.close()
        with contextlib.suppress(OSError):  # an empty journal and a lock do no harm
            forget(folder, key)
        raise
    return link


def _has_other_threads() -> bool:
    """Return whether another thread is running, also one that Python did not start (Linux)."""
    if threading.active_count() > 1:
        return True
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:
        return False


def _fork(
    theirs: socket.socket, folder: Path, *, key: str, clock: Clock, places: int | None
) -> None:
    pid = os.fork()
    if pid == 0:
        # Never return to the caller's code.
        try:
            serve_detached(theirs, folder, key=key, clock=clock, places=places)
        finally:
            os._exit(70)
    with contextlib.suppress(ChildProcessError):  # the host ignores SIGCHLD
        os.waitpid(pid, 0)


def _exec(theirs: socket.socket, folder: Path, *, key: str, places: int | None) -> None:
    fd = theirs.fileno()
    given = (str(fd), key, os.fspath(folder), str(places or 0))
    start = own_start("edgecron.supervisor.__main__", *given, bundle_word=":supervisor")
    # Its stderr ends when the supervisor has closed what it inherited.
    ended = subprocess.run(
        start.argv,
        executable=start.executable,
        pass_fds=[fd, *start.pass_fds],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        check=False,
    )
    if ended.returncode != 0:
        words = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing"]
        raise SupervisorUnavailable(
            f"supervisor ended with code {ended.returncode}, and said: {words[-1]}"
        )


def serve_detached(
    link: socket.socket, folder: Path, *, key: str, clock: Clock, places: int | None
) -> None:
    """Become the guardian and the supervisor below it, and end this process. Does not return."""
    if os.fork() != 0:
        os._exit(0)
    # Do not collect objects of the host: their destructors would close descriptors whose numbers
    # are ours by then.
    gc.freeze()
    code = 70
    try:
        _detach(link)
        guarded_pid = _fork_guarded() if become_subreaper() else None
        if guarded_pid:
            # The connection must close with the supervisor.
            link.close()
            _show_name("edgecron-guard")
            guard(guarded_pid, folder, key=key)
        else:
            if guarded_pid is not None:
                os.setsid()
                _reset_signals()
            _serve(link, folder, key=key, clock=clock, places=places)
        code = 0
    except EdgecronError as error:
        _refuse(link, error.message)
    except BaseException:  # noqa: BLE001 - nothing may return to the host's code
        _refuse(link, f"supervisor failed: {sys.exc_info()[1]!r}")
        _keep_traceback(folder, key)
    finally:
        os._exit(code)


def _detach(link: socket.socket) -> None:
    """Give up the session, signals, descriptors and folder of the host."""
    os.setsid()
    _reset_signals()
    _close_inherited(keep={link.fileno(), *held_fds()})
    os.set_inheritable(link.fileno(), False)
    os.chdir("/")


def _serve(
    link: socket.socket, folder: Path, *, key: str, clock: Clock, places: int | None
) -> None:
    # Few objects here are cycles, and collections cost a tenth of a batch of starts.
    gc.set_threshold(50_000)
    _show_name(SUPERVISOR_NAME)
    lock_fd = _hold_lock(state_files.lock_path(folder, key), above=link.fileno())
    from edgecron.supervisor.loop import Supervisor

    try:
        supervisor = Supervisor(link, folder, key=key, clock=clock, places=places)
    except OSError as error:
        raise SupervisorUnavailable(f"supervisor can't be set up: {os_words(error)}") from error
    supervisor.serve()
    os.close(lock_fd)


def _reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Some numbers belong to the C library, and macOS keeps others.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    # A write to an engine or a command that has gone must be an error, not our end. `subprocess`
    # restores these two signals for commands.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a limit of file sizes (ulimit -f)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close_inherited(*, keep: Set[int]) -> None:
    null_fd = os.open(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2} - keep:
        os.dup2(null_fd, fd)
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(folder):
        fd = int(name)
        if fd > 2 and fd not in keep:
            with contextlib.suppress(OSError):  # the one that listed the folder
                os.close(fd)


def _hold_lock(path: Path, *, above: int) -> int:
    """Take the lock, with a descriptor above that of the connection.

    Linux closes the descriptors of a killed process from the highest down. An engine that sees the
    connection close then finds the lock free.
    """
    taken_fd = state_files.take_lock(path)
    lock_fd = fcntl.fcntl(taken_fd, fcntl.F_DUPFD_CLOEXEC, above + 1)
    os.close(taken_fd)
    return lock_fd


def _show_name(name: str) -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(name)


def _refuse(link: socket.socket, message: str) -> None:
    with contextlib.suppress(OSError):
        link.send(protocol.encode(protocol.Kind.REFUSED, message))


def _keep_traceback(folder: Path, key: str) -> None:
    import traceback  # only after a defect

    with contextlib.suppress(OSError):
        crash_fd = open_private(
            state_files.crash_path(folder, key), os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        os.write(crash_fd, traceback.format_exc().encode("utf-8", "replace"))
        os.close(crash_fd)


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


def _fork_guarded() -> int:
    """Fork the supervisor. Returns 0 in the child, in which every signal is blocked, else its pid.

    Raises SupervisorUnavailable.
    """
    # SIGCHLD must not be ignored, and must be blocked before there is a child.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        return os.fork()
    except OSError as error:
        raise SupervisorUnavailable(f"supervisor can't be started: {os_words(error)}") from error


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
