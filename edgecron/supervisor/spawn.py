"""Starting a command: vfork by `subprocess`, its own session, nothing inherited but 0, 1 and 2.

One of another user is begun by becoming.py instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
from collections.abc import Iterator, Mapping

from edgecron.base.values import dataclass
from edgecron.supervisor.becoming import Becoming, NotBecome, start_as
from edgecron.supervisor.records import Identity, StartRequest
from edgecron.supervisor.sparing import Sparing

# More descriptors than this are of no use to us, and some systems say "no limit".
_MOST_DESCRIPTORS = 65_536
_TEMPORARY = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_SCARCE = {
    errno.EAGAIN: "the system has no process left",
    errno.EMFILE: "the supervisor has no file descriptor left",
    errno.ENFILE: "the system has no file descriptor left",
    errno.ENOMEM: "the system has no memory left",
}


class SpawnFailed(Exception):
    """A command could not be started. `is_temporary`: it may work a moment later."""

    def __init__(self, code: str, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_temporary = is_temporary


@dataclass(slots=True)
class Spawned:
    """A command that runs, and our ends of its pipes, all non-blocking.

    `process` is what `subprocess` knows of it, and None where that did not start it. `becoming` is
    not None where it is on its way to be a command: it may yet turn out that it can't be.
    """

    pid: int
    process: subprocess.Popen[bytes] | None
    stdout_fd: int
    stderr_fd: int
    stdin_fd: int | None
    becoming: Becoming | None = None


class Spawner:
    """Starts commands. Raises its own limit of descriptors, and gives the old one to them."""

    def __init__(self) -> None:
        self._null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._sparing = Sparing()
        self._command_limit: tuple[int, int] | None = None
        self._reserve: list[int] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
        wanted = min(wanted, _MOST_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):  # macOS may refuse: then as it was
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                self._command_limit = (soft, hard)
                self._own_limit = (wanted, hard)
                self._fill_reserve()

    def close(self) -> None:
        """Close our own descriptors; the raised limit stays."""
        _close_all([self._null_fd, *self._reserve])

    def spawn(self, request: StartRequest, *, env: Mapping[str, str]) -> Spawned:
        """Start the command with `env` for its environment, not that of the request.

        Raises SpawnFailed, with nothing left behind.
        """
        opened: list[int] = []
        try:
            stdin_fd, feed_fd = self._stdin(request, opened)
            stdout_fd, stdout_child = _pipe(opened)
            stderr_fd, stderr_child = _pipe(opened)
            stdio = (stdin_fd, stdout_child, stderr_child)
            with self._sparing.set_aside():
                begun = self._start(request, stdio, env=env)
        except OSError as error:
            _close_all(opened)
            raise _explain(error, request) from error
        except (ValueError, subprocess.SubprocessError) as error:
            _close_all(opened)
            raise SpawnFailed("EINVAL", f"command can't be started: {error}") from error
        ours = {stdout_fd, stderr_fd, feed_fd}
        _close_all([fd for fd in opened if fd not in ours])
        for fd in ours - {None}:
            assert fd is not None
            os.set_blocking(fd, False)
        if isinstance(begun, Becoming):
            return Spawned(begun.pid, None, stdout_fd, stderr_fd, feed_fd, begun)
        return Spawned(begun.pid, begun, stdout_fd, stderr_fd, feed_fd)

    def _stdin(self, request: StartRequest, opened: list[int]) -> tuple[int, int | None]:
        return _pipe(opened) if request.stdin else (self._null_fd, None)

    def _start(
        self, request: StartRequest, stdio: tuple[int, int, int], *, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | Becoming:
        if request.identity is None:
            return self._popen(request, stdio, env=env)
        return self._start_as(request.identity, request, stdio, env=env)

    def _popen(
        self, request: StartRequest, stdio: tuple[int, int, int], *, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._limit_of_commands():
            return subprocess.Popen(
                request.argv,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                cwd=request.cwd,
                env=env,
                # All descriptors of this process are closed by exec itself (CLOEXEC): to list
                # them anew for each command costs as much as all else when many are live.
                close_fds=False,
                start_new_session=True,
            )

    def _start_as(
        self,
        who: Identity,
        request: StartRequest,
        stdio: tuple[int, int, int],
        *,
        env: Mapping[str, str],
    ) -> Becoming:
        for fd in set(stdio) - {self._null_fd}:
            os.fchown(fd, who.uid, who.gid)  # Or it could not open /dev/stdout, as `tee` does.
        return start_as(who, request, stdio=stdio, env=env, descriptors=self._command_limit)

    @contextlib.contextmanager
    def _limit_of_commands(self) -> Iterator[None]:
        """Lower our limit for the moment of the start, so that the command inherits that."""
        if self._command_limit is None:
            yield
            return
        # `subprocess` needs two descriptors of its own: these are low enough for the old limit.
        _close_all(self._reserve)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._command_limit)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._own_limit)
            self._fill_reserve()

    def _fill_reserve(self) -> None:
        self._reserve = []
        for _ in range(3):
            with contextlib.suppress(OSError):  # none left: the next start fails, and is retried
                self._reserve.append(os.dup(self._null_fd))


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _explain(error: OSError, request: StartRequest) -> SpawnFailed:
    number = error.errno or 0
    code = errno.errorcode.get(number, "EIO")
    if number in _TEMPORARY:
        return SpawnFailed(code, f"{_SCARCE[number]} ({error.strerror})", is_temporary=True)
    command = request.argv[0]
    if error.filename == request.cwd:
        why = "is missing" if number == errno.ENOENT else f"can't be entered: {error.strerror}"
        return SpawnFailed(code, f"folder '{request.cwd}' {why}")
    if number == errno.ENOENT:
        return SpawnFailed(code, _what_is_missing(command, request))
    if number == errno.ENOEXEC:
        message = f"command '{command}' is no program; a script starts with #! and a program's path"
        return SpawnFailed(code, message)
    return SpawnFailed(code, f"command '{command}' can't be started: {error.strerror}")


def explain_refused(refused: NotBecome, request: StartRequest) -> SpawnFailed:
    """Why the command did not run as another user; the same words where the reason is the same."""
    who = "" if request.identity is None else request.identity.name
    number = refused.number
    code = errno.errorcode.get(number, "EIO")
    if refused.step == "roots_file":
        return SpawnFailed(code, refused.words)
    if refused.step == "interpreter":
        return SpawnFailed(code, _no_interpreter(refused.words))
    if refused.step == "env_file":
        return SpawnFailed(code, f"{refused.words}, as user '{who}' reads it")
    if refused.step == "user" and number == errno.ETIMEDOUT:
        return SpawnFailed(code, refused.words)
    if refused.step == "user" and number not in _TEMPORARY:
        command = request.argv[0]
        message = f"command '{command}' can't run as user '{who}': {refused.words}"
        return SpawnFailed(code, message)
    if number == errno.EAGAIN:
        message = f"user '{who}' has no process left ({refused.words})"
        return SpawnFailed(code, message, is_temporary=True)
    error = OSError(number, refused.words, request.cwd if refused.step == "folder" else None)
    failure = _explain(error, request)
    if number == errno.EACCES:
        failure.message += f", as user '{who}'"
    return failure


def _what_is_missing(command: str, request: StartRequest) -> str:
    if "/" not in command:
        path = {**request.base_env, **request.env}.get("PATH", "not set")
        return f"command '{command}' is not in PATH ({path})"
    # What is another user's is looked at by who has become that user.
    if request.identity is None and os.path.exists(os.path.join(request.cwd, command)):
        return _no_interpreter(command)
    return f"command '{command}' is missing"


def _no_interpreter(command: str) -> str:
    return f"command '{command}' names an interpreter in its first line that is missing"
