"""Notice that an open database, or its log (`-wal`, `-shm`), was deleted, replaced or emptied.

SQLite does not notice. A process that has the files open keeps using them without their names. The
next process to open the database creates new ones and does not see the contents of the old log. The
database then has two histories, and each checkpoint of one damages the other.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from edgecron.base.errors import DatabaseGone, LogLost
from edgecron.base.paths import list_names, state_dir, unreachable

if TYPE_CHECKING:
    from apsw import Connection

LOCKS = Path("/proc/locks")
# Each process that has a database open with a log holds a read lock from this byte on.
_LOCK = re.compile(
    r"\d+: POSIX +\S+ +READ +(-?\d+) +([0-9a-f]+):([0-9a-f]+):(\d+) +1073741826 ", re.ASCII
)
_NAP_S = 0.005
_MOST_WAIT_S = 5.0

_Identity = tuple[int, int]  # device and inode


class Logs:
    """The log (-wal) and its index (-shm) that a connection has open."""

    def __init__(self, path: Path, connection: Connection) -> None:
        # SQLite creates them with the first read.
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        self._path = path
        self._connection = connection
        self._ours = _identify_both(path)
        self._are_closed = False

    @property
    def are_lost(self) -> bool:
        """Whether one of them was deleted or replaced."""
        return self._are_closed or _identify_both(self._path) != self._ours

    def check(self) -> None:
        """Raise LogLost if they are lost."""
        if self.are_lost:
            raise lost_log(self._path)

    def save(self) -> None:
        """Move a lost log into the database, and close the connection. Can be called again.

        Raises DatabaseGone if another process has begun another log: ours would overwrite it.
        """
        if self._are_closed:
            return
        if self._is_replaced():
            raise DatabaseGone(
                f"the log of database {self._path} was replaced while it was open",
                hint="another program wrote to it; check what is missing, and start again",
            )
        # A process with another index of our log might have continued it: leave that to it.
        if _identify_both(self._path)[1] in (None, self._ours[1]):
            in_log, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
            if moved < in_log:
                raise lost_log(self._path)
        # Closing would otherwise delete the new files that have these names.
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._are_closed = True

    def prepare_close(self) -> None:
        """Before closing, keep SQLite from moving the log into a replaced or emptied file."""
        if not self._are_closed and (self._is_replaced() or is_emptied(self._path)):
            with suppress(apsw.ConnectionClosedError):
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _is_replaced(self) -> bool:
        """Whether another process has begun another log.

        Also if one continued our log by another index and the log has been deleted since.
        """
        log, index = _identify_both(self._path)
        if log is None:
            return index not in (None, self._ours[1])
        return log != self._ours[0]


def may_be_lost(path: Path) -> bool:
    """Whether the log of a database might have been deleted while a process has it open.

    False if log, index and all locks of engines are missing. The last process to close a database
    deletes log and index, and only engines have it open for long. `refuse_lost_log` asks the
    kernel, which takes 5 to 25 ms. During this time no process of the machine gets a lock
    (measured).
    """
    found = _identify_both(path)
    if found == (None, None):
        try:
            names = list_names(state_dir(path))
        except OSError:  # The folder can't be read.
            return True
        return any(name.startswith("engine-") and name.endswith(".lock") for name in names)
    return None in found


def refuse_lost_log(path: Path, *, wait_s: float) -> None:
    """Raise LogLost if a process has the database open although its log was deleted.

    Works only on Linux, because its kernel lists the locks of other processes. Waits up to `wait_s`
    for a process that is opening or closing the database.
    """
    naps = round(min(wait_s, _MOST_WAIT_S) / _NAP_S)
    for nap in range(naps + 1):
        if None not in _identify_both(path):
            return
        pids = _users_of(path)
        if not pids:
            return
        if nap < naps:
            time.sleep(_NAP_S)
    raise LogLost(
        f"the log of database {path} was deleted while pid {pids[0]} has it open",
        hint="an engine repairs this within a minute; end any other program first",
    )


def lost_log(path: Path) -> LogLost:
    """The error in a process that has the database open."""
    return LogLost(
        f"the log of database {path} was deleted while it was open",
        hint="nothing is lost yet; start again",
    )


def _identify_both(path: Path) -> tuple[_Identity | None, _Identity | None]:
    return _identify(f"{path}-wal"), _identify(f"{path}-shm")


def _identify(name: str) -> _Identity | None:
    try:
        found = os.stat(name, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _users_of(path: Path) -> list[int]:
    """The ids of the processes that have a database open, including our own."""
    try:
        found = os.stat(path)
        lines = LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    device = os.major(found.st_dev), os.minor(found.st_dev)
    locks = (_LOCK.match(line) for line in lines)
    return [
        int(lock[1])
        for lock in locks
        if lock is not None
        and int(lock[4]) == found.st_ino
        # On btrfs, the kernel's device number is not the one that `stat` returns.
        and ((int(lock[2], 16), int(lock[3], 16)) == device or _has_open(lock[1], found))
    ]


def _has_open(pid: str, wanted: os.stat_result) -> bool:
    """Whether a process has a file open; False if we are not allowed to know."""
    folder = f"/proc/{pid}/fd"
    try:
        fds = os.listdir(folder)
    except OSError:
        return False
    for fd in fds:
        with suppress(OSError):
            if os.path.samestat(os.stat(f"{folder}/{fd}"), wanted):
                return True
    return False


def identity_of(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file with this name; None if there is none."""
    return look_at(path)[0]


def look_at(path: Path) -> tuple[tuple[int, int] | None, bool]:
    """Device and inode of the file with this name (None if there is none), and whether it is empty.

    A database with a log is never empty. SQLite does not notice that it was emptied: it continues
    with the log and the pages in memory.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None, False
    except OSError as error:
        raise unreachable(path, error) from error
    return (found.st_dev, found.st_ino), found.st_size == 0


def is_emptied(path: Path) -> bool:
    """Whether a file is empty; False if it can't be reached."""
    try:
        return os.stat(path).st_size == 0
    except OSError:
        return False
