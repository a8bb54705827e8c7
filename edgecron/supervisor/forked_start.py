"""Start a command as another user, with another niceness or with limits, in a fork.

The fork gives up root as cron does: groups, group, user. Only then it enters the folder, reads the
file of variables and runs the command, so it reaches no more than that user may. It checks that
there is no way back to root.

The user can stop or kill the fork as soon as it is theirs, and their folder can lie on a file
system that does not answer. So the supervisor does not wait for the fork. It treats the fork as a
live run and reads from a pipe, the report, what became of the start.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from edgecron.base.files import find_weakness
from edgecron.supervisor.environment import NotRunnable, read_env_file
from edgecron.supervisor.protocol import Identity, StartRequest

if TYPE_CHECKING:
    from edgecron.supervisor.limits import RunLimits


_SHORTAGES = {
    errno.EAGAIN: "the system has no process left",
    errno.EMFILE: "the supervisor has no file descriptor left",
    errno.ENFILE: "the system has no file descriptor left",
    errno.ENOMEM: "the system has no memory left",
}


class SpawnFailed(Exception):
    """A command could not be started. If `is_temporary`, a later try can succeed."""

    def __init__(self, code: str, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_temporary = is_temporary


def explain_error(error: OSError, request: StartRequest) -> SpawnFailed:
    """Explain an error of `subprocess`, or of a fork. `filename` is the folder if that failed."""
    number = error.errno or 0
    code = errno.errorcode.get(number, "EIO")
    if number in _SHORTAGES:
        message = f"{_SHORTAGES[number]} ({error.strerror})"
        return SpawnFailed(code, message, is_temporary=True)
    command = request.argv[0]
    if error.filename == request.cwd:
        why = "is missing" if number == errno.ENOENT else f"can't be entered: {error.strerror}"
        return SpawnFailed(code, f"folder '{request.cwd}' {why}")
    if number == errno.ENOENT:
        return SpawnFailed(code, _what_is_missing(command, request))
    if number == errno.EACCES and _is_nowhere_in_path(command, request):
        return SpawnFailed("ENOENT", _what_is_missing(command, request))
    if number == errno.ENOEXEC:
        message = (
            f"command '{command}' is not a program; a script starts with #! and a program's path"
        )
        return SpawnFailed(code, message)
    if number == errno.EACCES and os.path.isdir(os.path.join(request.cwd or "/", command)):
        return SpawnFailed(code, f"command '{command}' is a folder")
    return SpawnFailed(code, f"command '{command}' can't be started: {error.strerror}")


def explain_interpreter(command: str) -> str:
    return f"command '{command}' names an interpreter in its first line that is missing"


def _path_of(request: StartRequest) -> str | None:
    return {**request.base_env, **request.env}.get("PATH")


def _is_nowhere_in_path(command: str, request: StartRequest) -> bool:
    """Find out whether EACCES came from a folder of PATH that can't be entered (exec(3))."""
    if "/" in command:
        return False
    folders = (_path_of(request) or "").split(":")
    return not any(os.path.exists(os.path.join(request.cwd, folder, command)) for folder in folders)


def _what_is_missing(command: str, request: StartRequest) -> str:
    if "/" not in command:
        return f"command '{command}' is not in PATH ({_path_of(request) or 'not set'})"
    # Only the fork that has become another user looks at that user's files.
    if request.identity is None and os.path.exists(os.path.join(request.cwd, command)):
        return explain_interpreter(command)
    return f"command '{command}' is missing"


START_LIMIT_MS = 10_000  # a fork that is not its command by then is killed
UMASK = 0o022
_MOST_REPORT_BYTES = 64 * 1024
_AT_COMMAND = b"\n"  # reported just before exec: without it the command was never started


class StartReport:
    """The reports of a fork about its start. `fd` does not block and ends at exec; None once
    closed.
    """

    def __init__(self, fd: int, request: StartRequest) -> None:
        self.fd: int | None = fd
        self._request = request
        self._text = b""
        self._is_late = False

    def read(self) -> bool:
        """Read what is there; False at the end: the fork is its command, or has ended."""
        if self.fd is None:
            return False
        try:
            while part := os.read(self.fd, _MOST_REPORT_BYTES):
                self._text = (self._text + part)[:_MOST_REPORT_BYTES]
        except BlockingIOError:
            return True
        return False

    def note_late(self) -> str:
        """Note that the fork was killed because its start took too long; the error message."""
        self._is_late = True
        limit = f"for more than {START_LIMIT_MS // 1000} s"
        return f"{self._who()} or a folder of theirs held its start up {limit}"

    def find_failure(self, exit_code: int) -> SpawnFailed | None:
        """Explain why the command was not started; None if it might have been.

        Call it once the fork has ended, with its exit code or the negative number of its signal.
        """
        self.read()
        if self._text == _AT_COMMAND:
            return None
        if self._text:
            try:
                step, number, words = json.loads(self._text)
            except ValueError:  # The supervisor must survive a fork that was killed at this.
                return self._refuse("EIO", "its report can't be read")
            return self._explain(step, number, words)
        if self._is_late:
            return SpawnFailed("ETIMEDOUT", self.note_late())
        how = f"ended by signal {-exit_code}" if exit_code < 0 else f"ended with code {exit_code}"
        return self._refuse("EINTR", f"its process was {how} before it was the command")

    def _explain(self, step: str, number: int, words: str) -> SpawnFailed:
        code = errno.errorcode.get(number, "EIO")
        if step == "interpreter":
            return SpawnFailed(code, explain_interpreter(self._request.argv[0]))
        if step in ("roots_file", "env_file"):
            reader = f", as {self._who()} reads it" if step == "env_file" else ""
            return SpawnFailed(code, words + reader)
        if step == "user":
            return self._refuse(code, words)
        if step == "nice":
            command = f"command '{self._request.argv[0]}' can't be started with nice"
            why = f"{words}; only root can go below the engine's own"
            return SpawnFailed(code, f"{command} {self._request.nice}: {why}")
        if step == "limits":
            command = f"command '{self._request.argv[0]}' can't be started within its limits"
            return SpawnFailed(code, f"{command}: {words}")
        folder = self._request.cwd if step == "folder" else None
        failure = explain_error(OSError(number, words, folder), self._request)
        if number == errno.EAGAIN:
            failure.message = f"{self._who()} has no process left ({words})"
        elif number == errno.EACCES:
            failure.message += f", as {self._who()}"
        return failure

    def _refuse(self, code: str, why: str) -> SpawnFailed:
        command = self._request.argv[0]
        return SpawnFailed(code, f"command '{command}' can't run as {self._who()}: {why}")

    def _who(self) -> str:
        identity = self._request.identity
        return "the supervisor's user" if identity is None else f"user '{identity.name}'"


def start_forked(
    request: StartRequest,
    *,
    stdio: tuple[int, int, int],
    env: Mapping[str, str],
    descriptors: tuple[int, int] | None,
    limits: RunLimits | None,
) -> tuple[int, StartReport]:
    """Fork, and start the command in the fork, in a session of its own. Returns the process id.

    `descriptors` is the limit of them that the command gets, None for the supervisor's own. Raises
    OSError if there can be no fork.
    """
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    # No signal handler of ours must run in the fork, which shares our wake-up descriptor.
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become_command(
                request, stdio, env, descriptors=descriptors, limits=limits, report_fd=write_fd
            )
    except OSError:
        os.close(read_fd)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(write_fd)
    return pid, StartReport(read_fd, request)


def _become_command(
    request: StartRequest,
    stdio: tuple[int, int, int],
    env: Mapping[str, str],
    *,
    descriptors: tuple[int, int] | None,
    limits: RunLimits | None,
    report_fd: int,
) -> NoReturn:
    step = "user"
    try:
        os.setsid()
        _reset_signals()
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        _close_inherited(keep=report_fd)
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
        step = "roots_file"
        found = _read_roots_file(request.env_file)
        step = "nice"
        if request.nice is not None:
            os.setpriority(os.PRIO_PROCESS, 0, request.nice)
        step = "limits"
        if limits is not None:
            limits.join()
        step = "user"
        if request.identity is not None:
            _become_user(request.identity)
        step = "folder"
        _enter_folder(request)
        step = "env_file"
        if found is None and request.env_file is not None:
            found = read_env_file(request.env_file)
        step = "command"
        variables = {**request.base_env, **(found or {}), **env}
        if limits is not None:
            limits.limit_process()  # From here on, little memory can be had.
        # Signals that came until now end the start, before the report says that it is done.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Without a reader this ends the fork: the supervisor has died.
        os.write(report_fd, _AT_COMMAND)
        _run(request, variables)
    except NotRunnable as refused:
        _report(report_fd, step, _ERROR_NUMBERS.get(refused.code, errno.EIO), refused.message)
    except OSError as error:
        _report(report_fd, step, error.errno or errno.EIO, error.strerror or str(error))
    except _InterpreterMissing as error:
        _report(report_fd, "interpreter", errno.ENOENT, str(error))
    except BaseException as error:  # noqa: BLE001 - nothing may return to the supervisor's code
        _report(report_fd, step, errno.EINVAL, str(error))
    finally:
        os._exit(127)


def _report(report_fd: int, step: str, number: int, words: str) -> None:
    with contextlib.suppress(OSError):
        os.write(report_fd, json.dumps([step, number, words[:1000]]).encode())


def _reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Some numbers belong to the C library.
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) != signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)


def _close_inherited(*, keep: int) -> None:
    """Close what belongs to the supervisor. Do not leave that to exec, which might never come.

    Otherwise pipes of other commands stay open, and the supervisor's lock outlives it.
    """
    gc.disable()  # A collected object could close a descriptor that is ours by then.
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(folder):
        fd = int(name)
        if fd > 2 and fd != keep:
            with contextlib.suppress(OSError):  # the one that listed the folder
                os.close(fd)


def _read_roots_file(path: str | None) -> dict[str, str] | None:
    """Read a file of variables that only root can have written, while this process is root.

    It can hold a secret that only this job gets. None if the user is to read the file.
    """
    if path is None or find_weakness(Path(path), must_exist=True) is not None:
        return None
    return read_env_file(path)


class _InterpreterMissing(Exception):
    """The command exists, but not the interpreter in its first line."""


def _run(request: StartRequest, variables: Mapping[str, str]) -> NoReturn:
    command = request.argv[0]
    try:
        os.execvpe(command, request.argv, variables)
    except FileNotFoundError:
        # Look here, with the user's rights: this may take its time.
        if "/" in command and os.path.exists(command):
            raise _InterpreterMissing(command) from None
        raise


def _become_user(identity: Identity) -> None:
    """Give up root. The order matters: only root can change groups and group."""
    os.umask(UMASK)
    # The audit id, as cron sets it by pam_loginuid. A kernel without audit has none, and a
    # container may not allow it.
    with contextlib.suppress(OSError), open("/proc/self/loginuid", "w", encoding="ascii") as file:
        file.write(str(identity.uid))
    os.setgroups(identity.groups)
    os.setgid(identity.gid)
    os.setuid(identity.uid)
    ids = (os.getuid(), os.geteuid(), os.getgid(), os.getegid())
    expected = (identity.uid, identity.uid, identity.gid, identity.gid)
    if ids != expected or set(os.getgroups()) != set(identity.groups):
        raise OSError(errno.EPERM, "the user was not changed whole")
    if _can_become_root():
        raise OSError(errno.EPERM, "root's rights could be had back")


def _can_become_root() -> bool:
    """Try to become root again: capabilities can outlive a change of user."""
    try:
        os.setuid(0)
    except PermissionError:
        return False
    return True


def _enter_folder(request: StartRequest) -> None:
    try:
        os.chdir(request.cwd)
    except (FileNotFoundError, NotADirectoryError):
        if not request.is_home:
            raise
        os.chdir("/")


_ERROR_NUMBERS: Mapping[str, int] = {name: number for number, name in errno.errorcode.items()}
