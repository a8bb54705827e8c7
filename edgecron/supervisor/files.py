"""The files of a supervisor in the state folder: their names, how they are opened, its lock.

Everything is 0600 in a folder 0700, never followed through a symlink, and closed in every command.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from pathlib import Path

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.files import open_private
from edgecron.base.paths import make_folders
from edgecron.supervisor.holders import has_holder

SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # it may work a moment later
_KEY = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


def prepare_state_dir(state_dir: Path) -> Path:
    """The absolute folder, made with mode 0700 where it is missing, and closed to others.

    Raises SupervisorUnavailable where it can't be made or belongs to somebody else, and where
    something else has its name: a link would lead what is private elsewhere.
    """
    folder = Path(os.path.abspath(state_dir))
    try:
        make_folders(folder)
        seen = folder.lstat()
        if not stat.S_ISDIR(seen.st_mode):
            what = "a symbolic link" if stat.S_ISLNK(seen.st_mode) else "no folder"
            raise SupervisorUnavailable(f"state folder '{folder}' is {what}")
        if seen.st_uid != os.geteuid():
            raise SupervisorUnavailable(
                f"state folder '{folder}' belongs to user {seen.st_uid}, expected {os.geteuid()}"
            )
        if seen.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise SupervisorUnavailable(f"state folder '{folder}' is not usable: {error}") from error
    return folder


def lock_path(state_dir: Path, key: str) -> Path:
    return state_dir / f"supervisor-{_checked(key)}.lock"


def journal_path(state_dir: Path, key: str) -> Path:
    return state_dir / f"supervisor-{_checked(key)}.journal"


def socket_path(state_dir: Path, key: str) -> Path:
    return state_dir / f"supervisor-{_checked(key)}.sock"


def crash_path(state_dir: Path, key: str) -> Path:
    """Where a supervisor that fails by a defect of its own leaves the traceback."""
    return state_dir / f"supervisor-{_checked(key)}.crash"


def spool_name(token: str) -> str:
    """The file beside the journal that holds a run's longer output."""
    return f"run-{token}.out"


def result_name(token: str) -> str:
    """The file beside the journal where a run may leave its result."""
    return f"run-{token}.result"


def take_lock(path: Path) -> int:
    """Hold a new lock until the descriptor that is returned, and every copy of it, is closed.

    Raises SupervisorUnavailable where it is there already, or can't be made.
    """
    # Locked before it has its name: whoever finds it never takes it for a dead one's.
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
        raise SupervisorUnavailable(f"lock '{path}' can't be taken: {error}") from error
    return lock_fd


def lock_is_held(path: Path) -> bool:
    """Whether a living process holds the lock, also where its file was deleted meanwhile.

    What can't be asked, as a link in its place, counts as held: nobody is judged by it. Raises
    OSError where only the system is short of something. A shared lock is asked for, so that two
    who look at once do not take each other for the holder.
    """
    try:
        lock_fd = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return has_holder(path)
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


def is_key(text: str) -> bool:
    """Whether a text may be the id of a supervisor."""
    return _KEY.fullmatch(text) is not None


def _checked(key: str) -> str:
    if not is_key(key):
        raise ValueError(f"supervisor id {key!r} is not 8 to 64 hexadecimal digits")
    return key
