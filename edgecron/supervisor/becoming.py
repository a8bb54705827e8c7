"""A command as another user: what is given up between fork and exec, in which order.

As cron does (cronie's cron_change_user and do_command, Debian's do_command.c): groups, gid and uid,
and only then the folder, with that user's rights. So the folder, the file of variables and the
command are what this user may reach. There is no way back, which is tried.

All of it happens in a fork, which the user may hold up or end as soon as it is theirs, and a folder
may be on a file system that never answers. So nobody waits for it: becomers.py hears how it goes.
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
from typing import NoReturn

from edgecron.base.files import find_weakness
from edgecron.supervisor.envfile import EnvFileRefused, read_env_file
from edgecron.supervisor.groups import is_still_a_fork, signal_group
from edgecron.supervisor.records import Identity, StartRequest

PATIENCE_MS = 10_000
UMASK = 0o022
_MOST_ANSWER_BYTES = 64 * 1024
_ALARM_S = 2 * PATIENCE_MS // 1000
_AT_COMMAND = b"\n"  # told just before exec: who ends without it was never the command


class NotBecome(Exception):
    """Why the command did not come to run: `errno` of what was done at `step`, or words."""

    def __init__(self, step: str, number: int, words: str) -> None:
        super().__init__(words)
        self.step = step
        self.number = number
        self.words = words


class Becoming:
    """A process on its way to be a command as another user.

    `heard_fd` does not block, and is readable whenever there is something to `hear`.
    """

    def __init__(self, pid: int, heard_fd: int, who: Identity) -> None:
        self.pid = pid
        self.heard_fd = heard_fd
        self.is_ended = False  # by us
        self._who = who
        self._answer = b""

    def hear(self) -> bool:
        """Whether it has become its command. Raises NotBecome once it has ended instead.

        Where the system does not tell who was killed within exec, which may wait for a disk, from
        a command that has ended fast, it counts as one: what has run must never be said not to
        have.
        """
        try:
            # All there is: who looks late, and only once, must not take a part for the whole.
            while part := os.read(self.heard_fd, _MOST_ANSWER_BYTES):
                self._answer = (self._answer + part)[:_MOST_ANSWER_BYTES]
        except BlockingIOError:
            return False
        is_silent = not self._answer.strip()
        if self._answer == _AT_COMMAND and not is_still_a_fork(self.pid):
            return True
        _, status = os.waitpid(self.pid, 0)
        if not is_silent:
            raise self._refusal()
        raise self.held_up() if self.is_ended else _ended_early(status)

    def end(self) -> None:
        """Have it end, with all that it may have started. To be heard once more after that.

        It may have become its command just before. If not by then, it never will: the signal came
        before its pipe was closed, and so before the first step of its command. It has gone when
        `has_gone` says so, which may be never.
        """
        self.is_ended = True
        os.kill(self.pid, signal.SIGKILL)
        # None has this number before it has made it its own, and nobody else's can have it.
        signal_group(self.pid, signal.SIGKILL)

    def held_up(self) -> NotBecome:
        """Why one that was ended is."""
        words = f"user '{self._who.name}' or a folder of theirs held its start up"
        limit = f"for more than {PATIENCE_MS // 1000} s"
        return NotBecome("user", errno.ETIMEDOUT, f"{words} {limit}")

    def has_gone(self) -> bool:
        """Whether one that was ended is no more; to be asked when `heard_fd` is readable."""
        try:
            while os.read(self.heard_fd, _MOST_ANSWER_BYTES):
                pass
        except BlockingIOError:
            return False
        os.waitpid(self.pid, 0)
        return True

    def _refusal(self) -> NotBecome:
        try:
            step, number, words = json.loads(self._answer)
            return NotBecome(str(step), int(number), str(words))
        except (ValueError, TypeError):
            return NotBecome("user", errno.EIO, "its start ended with words that nobody knows")


def _ended_early(status: int) -> NotBecome:
    code = os.waitstatus_to_exitcode(status)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return NotBecome("user", errno.EINTR, f"its process {how} before it was the command")


def start_as(
    who: Identity,
    request: StartRequest,
    *,
    stdio: tuple[int, int, int],
    env: Mapping[str, str],
    descriptors: tuple[int, int] | None,
) -> Becoming:
    """Begin to start the command of a request as another user, in a session of its own.

    `descriptors` is the limit of them that it has, None as we have it. Raises OSError where there
    can be no fork, with nothing left behind.
    """
    heard_fd, told_fd = os.pipe()
    os.set_blocking(heard_fd, False)
    # A handler of ours must not run in the child, which shares its descriptors with us.
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become_and_run(who, request, stdio, env, descriptors=descriptors, told_fd=told_fd)
    except OSError:
        os.close(heard_fd)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(told_fd)
    return Becoming(pid, heard_fd, who)


def _become_and_run(
    who: Identity,
    request: StartRequest,
    stdio: tuple[int, int, int],
    env: Mapping[str, str],
    *,
    descriptors: tuple[int, int] | None,
    told_fd: int,
) -> NoReturn:
    step = "user"
    try:
        os.setsid()
        _leave_signals()
        # Should supervisor and guardian both die now, nobody else ends what is held up: one of
        # them does, by its deadline or with all that has no end on record.
        signal.alarm(_ALARM_S)
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        _close_inherited(keep=told_fd)
        _leave_surroundings(who)
        step = "roots_file"
        found = _read_roots_file(request.env_file)
        step = "user"
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
        _change_user(who)
        step = "folder"
        _enter(request)
        step = "env_file"
        if found is None and request.env_file is not None:
            found = read_env_file(request.env_file)
        step = "command"
        signal.alarm(0)
        # Before the word: what was sent until now ends a start, and no command.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Ends it where the supervisor has died: nobody would watch over the command.
        os.write(told_fd, _AT_COMMAND)
        _run(request, {**request.base_env, **(found or {}), **env})
    except EnvFileRefused as refused:
        _tell(told_fd, step, _NUMBERS.get(refused.code, errno.EIO), refused.message)
    except OSError as error:
        _tell(told_fd, step, error.errno or errno.EIO, error.strerror or str(error))
    except _NoInterpreter as error:
        _tell(told_fd, "interpreter", errno.ENOENT, str(error))
    except BaseException as error:  # noqa: BLE001 - nothing may unwind into the supervisor's stack
        _tell(told_fd, step, errno.EINVAL, str(error))
    finally:
        os._exit(127)


def _tell(told_fd: int, step: str, number: int, words: str) -> None:
    with contextlib.suppress(OSError):
        os.write(told_fd, json.dumps([step, number, words[:1000]]).encode())


def _leave_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Some numbers belong to the C library.
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) != signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})


def _close_inherited(*, keep: int) -> None:
    """Let go of all that is the supervisor's: exec alone would close it, and that may never come.

    Others' commands would wait for the pipes, epoll would report for ever what the supervisor has
    closed, and its lock would outlive it.
    """
    gc.disable()  # What is collected from now on would close numbers that are ours by then.
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(folder):
        fd = int(name)
        if fd > 2 and fd != keep:
            with contextlib.suppress(OSError):  # the one that listed the folder
                os.close(fd)


def _read_roots_file(path: str | None) -> dict[str, str] | None:
    """The variables of a file that is root's alone, all the way down to it, while we are root.

    A secret may be in it that only this job is to have. None where it is for the user to read.
    """
    if path is None or find_weakness(Path(path), must_exist=True) is not None:
        return None
    return read_env_file(path)


class _NoInterpreter(Exception):
    """The command is there, and what its first line names is not."""


def _run(request: StartRequest, variables: Mapping[str, str]) -> NoReturn:
    command = request.argv[0]
    try:
        os.execvpe(command, request.argv, variables)
    except FileNotFoundError:
        # With the user's rights, and where it may take its time.
        if "/" in command and os.path.exists(command):
            raise _NoInterpreter(command) from None
        raise


def _leave_surroundings(who: Identity) -> None:
    """Take off what our own process has been given, and no command of others' is meant to have."""
    os.umask(UMASK)
    # The kernel's record of who began it all, as pam_loginuid sets it for cron. Without audit
    # there is none, and a container may not let us.
    with contextlib.suppress(OSError), open("/proc/self/loginuid", "w", encoding="ascii") as file:
        file.write(str(who.uid))


def _change_user(who: Identity) -> None:
    """Groups first, uid last: without root's rights none of the others could be changed."""
    os.setgroups(who.groups)
    os.setgid(who.gid)
    os.setuid(who.uid)
    are = (os.getuid(), os.geteuid(), os.getgid(), os.getegid())
    if are != (who.uid, who.uid, who.gid, who.gid) or set(os.getgroups()) != set(who.groups):
        raise OSError(errno.EPERM, "the user was not changed whole")
    if _has_way_back():
        raise OSError(errno.EPERM, "root's rights could be had back")


def _has_way_back() -> bool:
    """Whether root's rights can be taken again, as where capabilities outlive a change of user."""
    try:
        os.setuid(0)
    except PermissionError:
        return False
    return True


def _enter(request: StartRequest) -> None:
    try:
        os.chdir(request.cwd)
    except (FileNotFoundError, NotADirectoryError):
        if not request.is_home:
            raise
        os.chdir("/")


_NUMBERS: Mapping[str, int] = {name: number for number, name in errno.errorcode.items()}
