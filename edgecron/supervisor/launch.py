"""Start a supervisor: fork or exec it, below a guardian, with its lock held."""

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
from collections.abc import Set
from enum import StrEnum
from pathlib import Path

from edgecron.base.bundle import held_fds, own_start
from edgecron.base.clock import Clock
from edgecron.base.errors import EdgecronError, SupervisorUnavailable
from edgecron.base.files import open_private
from edgecron.supervisor import cleanup, guardian, protocol, state_files
from edgecron.supervisor.link import SupervisorLink

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
        raise SupervisorUnavailable(f"supervisor can't be started: {error}") from error
    with contextlib.closing(theirs):
        try:
            if by is StartBy.FORK:
                _fork(theirs, folder, key=key, clock=clock, places=places)
            else:
                _exec(theirs, folder, key=key, places=places)
        except OSError as error:
            ours.close()
            raise SupervisorUnavailable(f"supervisor can't be started: {error}") from error
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
            cleanup.forget(folder, key)
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
        guarded_pid = _fork_guarded() if guardian.become_subreaper() else None
        if guarded_pid:
            # The connection must close with the supervisor.
            link.close()
            _show_name("edgecron-guard")
            guardian.guard(guarded_pid, folder, key=key)
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


def _fork_guarded() -> int:
    try:
        return guardian.fork_guarded()
    except OSError as error:
        raise SupervisorUnavailable(f"supervisor can't be started: {error}") from error


def _serve(
    link: socket.socket, folder: Path, *, key: str, clock: Clock, places: int | None
) -> None:
    # Few objects here are cycles, and collections cost a tenth of a batch of starts.
    gc.set_threshold(50_000)
    _show_name("edgecron-super")
    lock_fd = _hold_lock(state_files.lock_path(folder, key), above=link.fileno())
    from edgecron.supervisor.loop import Supervisor

    try:
        supervisor = Supervisor(link, folder, key=key, clock=clock, places=places)
    except OSError as error:
        raise SupervisorUnavailable(f"supervisor can't be set up: {error}") from error
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
