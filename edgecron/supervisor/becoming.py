"""A command as another user: what is given up between fork and exec, in which order.

As cron does (cronie's cron_change_user and do_command, Debian's do_command.c): limits while that is
permitted, then groups, gid and uid, and only then the folder, with that user's rights. So the
folder, the file of variables and the command are what this user may reach. There is no way back,
which is tried.

All of it happens in a fork, which the user may hold up or end as soon as it is theirs, and a home
on a file system of their own may never answer: it is waited for no longer than PATIENCE_MS.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
from collections.abc import Mapping
from typing import NoReturn

from edgecron.supervisor.envfile import EnvFileRefused, read_env_file
from edgecron.supervisor.records import Identity, StartRequest

PATIENCE_MS = 10_000
UMASK = 0o022
_PR_SET_NO_NEW_PRIVS = 38
_MOST_ANSWER_BYTES = 64 * 1024
_ALARM_S = 2 * PATIENCE_MS // 1000
_END_MS = 1_000  # so long one that was killed may take to be gone


class NotBecome(Exception):
    """Why the command did not come to run: `errno` of what was done at `step`, or words."""

    def __init__(self, step: str, number: int, words: str) -> None:
        super().__init__(words)
        self.step = step
        self.number = number
        self.words = words


def start_as(
    who: Identity,
    request: StartRequest,
    *,
    stdio: tuple[int, int, int],
    env: Mapping[str, str],
    descriptors: tuple[int, int] | None,
) -> int:
    """Start the command of a request as another user; its process id.

    `descriptors` is the limit of them that it has, None as we have it. Its session is its own.
    Raises NotBecome, with nothing left behind, and OSError where there can be no fork.
    """
    heard_fd, told_fd = os.pipe()
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
    try:
        _listen(heard_fd, pid, who)
    finally:
        os.close(heard_fd)
    return pid


def _listen(heard_fd: int, pid: int, who: Identity) -> None:
    """Return when the child has become its command. Raises NotBecome once it has ended instead."""
    answer = b""
    poller = select.poll()
    poller.register(heard_fd, select.POLLIN)
    while len(answer) < _MOST_ANSWER_BYTES:
        if not poller.poll(PATIENCE_MS):
            os.kill(pid, signal.SIGKILL)
            # Once that pipe has closed it is as good as gone; else a disk may hold it for ever.
            os.waitpid(pid, 0 if poller.poll(_END_MS) else os.WNOHANG)
            words = f"user '{who.name}' or a folder of theirs held its start up"
            limit = f"for more than {PATIENCE_MS // 1000} s"
            raise NotBecome("user", errno.ETIMEDOUT, f"{words} {limit}")
        part = os.read(heard_fd, _MOST_ANSWER_BYTES)
        if not part:
            break
        answer += part
    if answer:
        os.waitpid(pid, 0)
        step, number, words = json.loads(answer)
        raise NotBecome(step, number, words)


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
        # Should the supervisor die now: this copy of it holds its lock, but not for ever.
        signal.alarm(_ALARM_S)
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        _leave_surroundings(who)
        _limit(who, descriptors=descriptors)
        _change_user(who)
        step = "folder"
        _enter(request)
        step = "env_file"
        variables = dict(env)
        if request.env_file is not None:
            variables = {**request.base_env, **read_env_file(request.env_file), **env}
        step = "command"
        signal.alarm(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(request.argv[0], request.argv, variables)
    except EnvFileRefused as refused:
        _tell(told_fd, step, _NUMBERS.get(refused.code, errno.EIO), refused.message)
    except OSError as error:
        _tell(told_fd, step, error.errno or errno.EIO, error.strerror or str(error))
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


def _leave_surroundings(who: Identity) -> None:
    """Take off what our own process has been given, and no command of others' is meant to have."""
    os.umask(UMASK)
    # The kernel's record of who began it all, as pam_loginuid sets it for cron. Without audit
    # there is none, and a container may not let us.
    with contextlib.suppress(OSError), open("/proc/self/loginuid", "w", encoding="ascii") as file:
        file.write(str(who.uid))


def _limit(who: Identity, *, descriptors: tuple[int, int] | None) -> None:
    if descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
    for number, soft, hard in who.limits:
        now_soft, now_hard = resource.getrlimit(number)
        wanted_hard = now_hard if hard is None else hard
        wanted_soft = _lower(now_soft if soft is None else soft, wanted_hard)
        try:
            resource.setrlimit(number, (wanted_soft, wanted_hard))
        except (OSError, ValueError):
            # A container may not let us raise it: the most that there is, never more than told.
            most = _lower(wanted_hard, now_hard)
            resource.setrlimit(number, (_lower(wanted_soft, most), most))
    if who.nice is not None:
        with contextlib.suppress(PermissionError):  # likewise: we may not go before all others
            os.setpriority(os.PRIO_PROCESS, 0, who.nice)
    if who.no_new_privs:
        _give_up_new_privileges()


def _lower(one: int, other: int) -> int:
    if resource.RLIM_INFINITY in (one, other):
        return other if one == resource.RLIM_INFINITY else one
    return min(one, other)


def _give_up_new_privileges() -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs can't be set")


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
