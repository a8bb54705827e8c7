"""Notice that an open database, or its log (`-wal`, `-shm`), was deleted, replaced or emptied.

SQLite does not notice. A process that has the files open keeps using them without their names; the
next process to open the database creates new ones and does not see what the old log holds. The
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
# Whoever has a database open with a log shares its lock, from there on for 510 bytes.
_LOCK = re.compile(
    r"\d+: POSIX +\S+ +READ +(-?\d+) +([0-9a-f]+):([0-9a-f]+):(\d+) +1073741826 ", re.ASCII
)
_NAP_S = 0.005
_MOST_PATIENCE_S = 5.0

_Identity = tuple[int, int]  # device and inode


class Logs:
    """The log and the index that a connection has open."""

    def __init__(self, path: Path, connection: Connection) -> None:
        # An empty database has them from the first look into it on.
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        self._path = path
        self._connection = connection
        self._ours = _identify_both(path)
        self._are_let_go = False

    @property
    def are_lost(self) -> bool:
        """Whether one of them has no name any more, or another file has it."""
        return self._are_let_go or _identify_both(self._path) != self._ours

    def check(self) -> None:
        """Raise LogLost where they are lost."""
        if self.are_lost:
            raise lost_log(self._path)

    def save(self) -> None:
        """Write into the database what lies in a log that is lost, and close the connection.

        May be called again. Raises DatabaseGone where somebody has begun another log: what he
        wrote, ours would write over.
        """
        if self._are_let_go:
            return
        if self._is_replaced():
            raise DatabaseGone(
                f"the log of database {self._path} was replaced while it was open",
                hint="another program has written it since; see what is missing, and start anew",
            )
        # Who has another index of the same log sees all that lies in it, and may have gone on.
        if _identify_both(self._path)[1] in (None, self._ours[1]):
            in_log, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
            if moved < in_log:
                raise lost_log(self._path)
        # SQLite would delete by their names what others have made since.
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._are_let_go = True

    def prepare_close(self) -> None:
        """See that closing the connection does not write over what lies in another log.

        Nor part of a database into one that was emptied, and the log away with it: what is refused
        as it is now would be taken for damage of another kind.
        """
        if not self._are_let_go and (self._is_replaced() or is_emptied(self._path)):
            with suppress(apsw.ConnectionClosedError):
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _is_replaced(self) -> bool:
        """Whether somebody has, or had, another log; or went on with ours by another index of it,
        and that log has no name any more either."""
        log, index = _identify_both(self._path)
        if log is None:
            return index not in (None, self._ours[1])
        return log != self._ours[0]


def may_be_lost(path: Path) -> bool:
    """Whether the log of a database may have been deleted under somebody, for little.

    Who closes a database as the last takes log and index away together, and who has it open for
    long is an engine: where all three are missing, nobody is asked. The kernel takes 5 to 25 ms to
    answer, in which nobody on the machine gets a lock.
    """
    found = _identify_both(path)
    if found == (None, None):
        try:
            names = list_names(state_dir(path))
        except OSError:  # A folder that can't be looked into may hold anything.
            return True
        return any(name.startswith("engine-") and name.endswith(".lock") for name in names)
    return None in found


def refuse_lost_log(path: Path, *, patience_s: float) -> None:
    """Raise LogLost where somebody has the database open whose log was deleted meanwhile.

    As far as the kernel shows the locks of others (Linux). Who opens or closes it at this moment
    is waited for, up to `patience_s`.
    """
    naps = round(min(patience_s, _MOST_PATIENCE_S) / _NAP_S)
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
        hint="an engine puts that right within a minute; any other program has to be ended first",
    )


def lost_log(path: Path) -> LogLost:
    """The error for who has a database open whose log was deleted."""
    return LogLost(
        f"the log of database {path} was deleted while it was open",
        hint="nothing of it is lost yet; start anew",
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
    """The processes that have a database open, by their ids; ours too."""
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
        # On btrfs it is not the device that a look at the file tells.
        and ((int(lock[2], 16), int(lock[3], 16)) == device or _has_open(lock[1], found))
    ]


def _has_open(pid: str, wanted: os.stat_result) -> bool:
    """Whether a process has a file open; not where it can't be looked into."""
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
    """Device and inode of what has this name now; None where nothing has."""
    return look_at(path)[0]


def look_at(path: Path) -> tuple[tuple[int, int] | None, bool]:
    """Device and inode of what has this name now, None where nothing has, and whether it is empty.

    A database that has a log is not. SQLite would not notice: it goes on by its log and by what it
    remembers.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None, False
    except OSError as error:
        raise unreachable(path, error) from error
    return (found.st_dev, found.st_ino), found.st_size == 0


def is_emptied(path: Path) -> bool:
    """As `look_at` says, where that can be told."""
    try:
        return os.stat(path).st_size == 0
    except OSError:
        return False  # Gone, or not to be reached: that is another matter.
