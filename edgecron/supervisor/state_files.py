"""The files of a supervisor in the state folder: their names, and its lock.

Every file has mode 0600 in a folder of mode 0700. None is followed through a symbolic link, and no
command inherits one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from edgecron.base.errors import SupervisorUnavailable, os_words
from edgecron.base.files import open_private
from edgecron.base.paths import make_folders

SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # a later try can succeed
_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)
_DELETED = " (deleted)"  # the kernel adds it to the path of an open file that was deleted


def prepare_state_dir(state_dir: Path) -> Path:
    """Make the folder with mode 0700, or close it to others, and return its absolute path.

    Raises SupervisorUnavailable if it can't be made, belongs to another user, or is not a folder: a
    symbolic link would lead private files elsewhere.
    """
    folder = Path(os.path.abspath(state_dir))
    try:
        make_folders(folder)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no folder"
            raise SupervisorUnavailable(f"state folder '{folder}' is {what}")
        if found.st_uid != os.geteuid():
            raise SupervisorUnavailable(
                f"state folder '{folder}' belongs to user {found.st_uid}, expected {os.geteuid()}"
            )
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise SupervisorUnavailable(
            f"state folder '{folder}' is not usable: {os_words(error, is_named=True)}"
        ) from error
    return folder


def is_key(text: str) -> bool:
    """Return whether a text can be the id of a supervisor."""
    return _KEY.fullmatch(text) is not None


def lock_path(state_dir: Path, key: str) -> Path:
    return _path(state_dir, key, "lock")


def journal_path(state_dir: Path, key: str) -> Path:
    return _path(state_dir, key, "journal")


def socket_path(state_dir: Path, key: str) -> Path:
    return _path(state_dir, key, "sock")


def crash_path(state_dir: Path, key: str) -> Path:
    """Return the path of the traceback of a supervisor that failed by a defect."""
    return _path(state_dir, key, "crash")


def spool_name(token: str) -> str:
    """Return the name of the file that holds the longer output of a run."""
    return f"run-{token}.out"


def result_name(token: str) -> str:
    """Return the name of the file in which a run can leave its result."""
    return f"run-{token}.result"


def take_lock(path: Path) -> int:
    """Make a lock file and lock it until every copy of the returned descriptor is closed.

    Raises SupervisorUnavailable if the file exists or can't be made.
    """
    # Lock it before it has its name: nobody must find the file without its lock.
    unnamed = path.with_name(f"{path.name}.new")
    lock_fd = -1
    try:
        lock_fd = open_private(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.link(unnamed, path)
        finally:
            unnamed.unlink()
    except OSError as error:
        if lock_fd >= 0:
            os.close(lock_fd)
        raise SupervisorUnavailable(
            f"lock '{path}' can't be taken: {os_words(error, is_named=True)}"
        ) from error
    return lock_fd


def lock_is_held(path: Path) -> bool:
    """Return whether a living process holds the lock, also if the file was deleted meanwhile.

    A lock that can't be opened, such as a link in its place, counts as held. Raises OSError if the
    system is short of something. Asks for a shared lock, so that two processes that ask at the same
    time do not take each other for the holder.
    """
    try:
        lock_fd = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return _deleted_lock_is_held(path)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        return True
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        return True
    finally:
        os.close(lock_fd)
    return False


def find_holders(state_dir: Path) -> dict[str, set[int]]:
    """Find, by kind, processes that hold a deleted lock `KIND-*.lock` of a state folder (Linux).

    This also finds holders after the whole folder was deleted.
    """
    prefix, suffix = f"{os.path.realpath(state_dir)}/", f".lock.new{_DELETED}"
    found: dict[str, set[int]] = {}
    for pid, paths in _open_files():
        for path in paths:
            if path.startswith(prefix) and path.endswith(suffix):
                kind, _, _ = path.removeprefix(prefix).partition("-")
                found.setdefault(kind, set()).add(pid)
    return found


def _deleted_lock_is_held(path: Path) -> bool:
    """Return whether a process has the deleted file open. Takes a few milliseconds (Linux)."""
    # The kernel still calls it by its first name, in the real folder.
    place = f"{os.path.realpath(path.parent)}/{path.name}"
    names = {f"{place}{_DELETED}", f"{place}.new{_DELETED}"}
    return any(not names.isdisjoint(paths) for _, paths in _open_files())


def _open_files() -> Iterator[tuple[int, list[str]]]:
    """Yield each process that we can look into, with the paths of its open files."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            yield pid, [_target(f"{folder}/{fd}") for fd in os.listdir(folder)]
        except OSError:
            continue  # it has ended, or belongs to another user


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _path(state_dir: Path, key: str, kind: str) -> Path:
    if not is_key(key):
        raise ValueError(f"supervisor id {key!r} is not 8 to 64 hexadecimal digits")
    return state_dir / f"supervisor-{key}.{kind}"
