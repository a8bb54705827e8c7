"""Start a command in its own session, with only the descriptors 0, 1 and 2.

`subprocess` starts commands by vfork. Other starts take a fork: see `forked_start`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from edgecron.base.values import dataclass
from edgecron.supervisor.forked_start import SpawnFailed, StartReport, explain_error, start_forked
from edgecron.supervisor.protocol import StartRequest

if TYPE_CHECKING:
    from edgecron.supervisor.limits import RunLimits

OOM_SCORE = "/proc/self/oom_score_adj"
_MOST_DESCRIPTORS = 65_536  # more are of no use, and some systems report no limit


@dataclass(slots=True)
class Spawned:
    """A started command and our ends of its pipes, which do not block.

    `report` is not None for a fork that has yet to become its command.
    """

    pid: int
    stdout_fd: int
    stderr_fd: int
    stdin_fd: int | None
    report: StartReport | None = None


class Spawner:
    """Starts commands. Raises the supervisor's limit of descriptors, but not that of commands."""

    def __init__(self) -> None:
        self._null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        # Read once: the file costs as many system calls as the rest of a start.
        self._oom_score = read_oom_score()
        self._command_limit: tuple[int, int] | None = None
        self._reserve: list[int] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
        wanted = min(wanted, _MOST_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):  # macOS can refuse
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                self._command_limit = (soft, hard)
                self._own_limit = (wanted, hard)
                self._fill_reserve()

    def close(self) -> None:
        """Close our own descriptors; the raised limit stays."""
        _close_all([self._null_fd, *self._reserve])

    def spawn(
        self,
        request: StartRequest,
        *,
        env: Mapping[str, str],
        limits: RunLimits | None = None,
    ) -> Spawned:
        """Start the command with the environment `env`, which replaces that of the request.

        Raises SpawnFailed, with nothing left behind.
        """
        opened: list[int] = []
        feed_fd: int | None = None
        report = None
        try:
            stdin_fd = self._null_fd
            if request.stdin:
                stdin_fd, feed_fd = _pipe(opened)
            stdout_fd, stdout_child = _pipe(opened)
            stderr_fd, stderr_child = _pipe(opened)
            stdio = (stdin_fd, stdout_child, stderr_child)
            with unprotected_from_oom(self._oom_score):
                if request.needs_fork:
                    pid, report = self._fork(request, stdio, env=env, limits=limits)
                else:
                    pid = self._popen(request, stdio, env=env)
        except OSError as error:
            _close_all(opened)
            raise explain_error(error, request) from error
        except (ValueError, subprocess.SubprocessError) as error:
            _close_all(opened)
            raise SpawnFailed("EINVAL", f"command can't be started: {error}") from error
        ours = {stdout_fd, stderr_fd, feed_fd}
        _close_all([fd for fd in opened if fd not in ours])
        for fd in ours - {None}:
            assert fd is not None
            os.set_blocking(fd, False)
        return Spawned(pid, stdout_fd, stderr_fd, feed_fd, report)

    def _popen(
        self, request: StartRequest, stdio: tuple[int, int, int], *, env: Mapping[str, str]
    ) -> int:
        with self._limit_of_commands():
            process = subprocess.Popen(
                request.argv,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                cwd=request.cwd,
                env=env,
                # exec closes all our descriptors (CLOEXEC). To list them for each command takes
                # as long as the rest of a start if many runs are live.
                close_fds=False,
                start_new_session=True,
            )
        process.returncode = 0  # `subprocess` must not wait for it: we do.
        return process.pid

    def _fork(
        self,
        request: StartRequest,
        stdio: tuple[int, int, int],
        *,
        env: Mapping[str, str],
        limits: RunLimits | None,
    ) -> tuple[int, StartReport]:
        identity = request.identity
        if identity is not None:
            # Or the command could not open /dev/stdout, as `tee` does.
            for fd in set(stdio) - {self._null_fd}:
                os.fchown(fd, identity.uid, identity.gid)
        return start_forked(
            request, stdio=stdio, env=env, descriptors=self._command_limit, limits=limits
        )

    @contextlib.contextmanager
    def _limit_of_commands(self) -> Iterator[None]:
        """Lower our limit while a command starts, so that the command inherits the lower one."""
        if self._command_limit is None:
            yield
            return
        # `subprocess` opens two descriptors, whose numbers must be below the lower limit.
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


@contextlib.contextmanager
def unprotected_from_oom(own: int, path: str = OOM_SCORE) -> Iterator[None]:
    """Give up a protection from the kernel's OOM killer while a command starts.

    A service manager can protect engine and supervisor (systemd: `OOMScoreAdjust=-500`). A command
    must not inherit that, or one that eats all memory would survive its supervisor. `own` is our
    score.
    """
    is_lowered = own < 0 and _write_oom_score(path, 0)
    try:
        yield
    finally:
        if is_lowered:
            _write_oom_score(path, own)


def read_oom_score(path: str = OOM_SCORE) -> int:
    """Read our score for the OOM killer; 0 if the system has none."""
    try:
        with open(path, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0  # only Linux has it


def _write_oom_score(path: str, score: int) -> bool:
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(str(score).encode())
    except OSError:
        return False
    return True


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
