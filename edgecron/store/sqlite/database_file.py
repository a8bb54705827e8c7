"""The database file: check, create and open it, and notice if it is lost while it is open.

Only this module opens the file. Never use a plain `open()`: its `close()` drops the POSIX locks
that SQLite holds in the same process (https://www.sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from edgecron.base.errors import (
    DatabaseDamaged,
    DatabaseGone,
    DatabaseUnusable,
    LogLost,
    NotFound,
)
from edgecron.base.paths import is_empty_file, list_names, make_folders, state_dir, unreachable

_OCTAL = re.compile(r"\\([0-7]{3})")  # a blank or a backslash in the table of mounts
_NETWORK_FS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("ocfs2", "gfs2", "davfs", "fuse.davfs2", "fuse.sshfs", "fuse.glusterfs"),
        *("fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.ceph-fuse"),
        *("fuse.gvfsd-fuse", "beegfs", "gpfs", "orangefs", "coda", "ncpfs"),
        # Folders that a virtual machine shares with its host: without shared memory.
        *("vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "prl_fs"),
    )
)

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)

MOUNTS = Path("/proc/self/mountinfo")
SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")


def prepare_file(path: Path, *, must_exist: bool, mounts: Path) -> bool:
    """Check the file and its folder; create them if they are missing. True if the file is new."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if must_exist:
            raise NotFound(
                f"database {path} does not exist", hint="to create it, add a schedule: edgecron add"
            ) from None
        _check_file_system(path, mounts)
        _create_file(path)
        return True
    except OSError as error:
        raise unreachable(path, error) from error
    if stat.S_ISLNK(found.st_mode):
        raise DatabaseUnusable(
            f"database {path} is a symbolic link",
            hint=f"name the file it points to: {os.path.realpath(path)}",
        )
    if not stat.S_ISREG(found.st_mode):
        raise DatabaseUnusable(
            f"database {path} is not a regular file, but {_kind_of(found)}",
            hint="name another file with --db or EDGECRON_DB",
        )
    if found.st_nlink > 1:
        raise DatabaseUnusable(
            f"database {path} has {found.st_nlink} hard links",
            hint="a second name breaks SQLite's locks; remove one",
        )
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise DatabaseUnusable(
            f"database {path} lies on a read-only file system",
            hint="mount it for writing, or use a copy",
        )
    if not os.access(path, os.R_OK | os.W_OK):
        from shlex import quote  # Rarely needed, and engines import this module.

        raise DatabaseUnusable(
            f"database {path} can't be read and written by this user",
            hint=f"see its owner and mode: ls -l {quote(str(path))}",
        )
    _check_beside(path)
    if found.st_size == 0:
        _refuse_emptied(path)
        if must_exist and is_empty_file(path):
            raise NotFound(
                f"database {path} is an empty file",
                hint="edgecron add makes it a database",
            )
    _check_file_system(path, mounts)
    return False


def _check_beside(path: Path) -> None:
    """Refuse anything but a plain file in the place of SQLite's log, index or journal."""
    for suffix in SQLITE_SUFFIXES:
        beside = f"{path}{suffix}"
        try:
            found = os.lstat(beside)
        except OSError:
            continue  # It does not exist, or SQLite will report that it can't be read.
        if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
            continue
        raise DatabaseUnusable(
            f"database {path} can't be used: {beside} is {_kind_of(found)}",
            hint="SQLite needs a file with this name; check what it is, and move it away",
        )


def _refuse_emptied(path: Path) -> None:
    """Refuse an empty file with a log: SQLite would take it for new and delete the log."""
    try:
        log_bytes = os.lstat(f"{path}-wal").st_size
        # Read after the log: a database that is being created is written before its log.
        is_empty = os.lstat(path).st_size == 0
    except OSError:
        return
    if log_bytes and is_empty:
        raise DatabaseDamaged(
            f"database {path} was truncated: it is empty, but its log is not",
            hint="it was left as it is; move it away with its -wal, and restore a backup",
        )


def _kind_of(found: os.stat_result) -> str:
    for is_it, words in _KINDS:
        if is_it(found.st_mode):
            return words
    return f"a file with {found.st_nlink} hard links"


def _create_file(path: Path) -> None:
    try:
        make_folders(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return  # Another process has just created it.
    except OSError as error:
        raise DatabaseUnusable(
            f"database {path} can't be made ({error.strerror})",
            hint="name another place with --db or EDGECRON_DB",
        ) from error
    # A umask can clear the owner's bits too.
    os.fchmod(descriptor, 0o600)
    os.close(descriptor)


def _check_file_system(path: Path, mounts: Path) -> None:
    kind = _file_system_of(path.parent, mounts)
    if kind in _NETWORK_FS:
        raise DatabaseUnusable(
            f"database {path} lies on a network file system ({kind})",
            hint="SQLite's locks are not safe there; use a local disk",
        )


def _file_system_of(folder: Path, mounts: Path) -> str | None:
    """The type of the file system that holds a folder; None if the system does not say."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    place = str(folder.resolve())
    best, kind = -1, None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        mount = _OCTAL.sub(lambda found: chr(int(found[1], 8)), left.split(" ")[4])
        inside = mount == "/" or place == mount or place.startswith(mount + "/")
        if inside and len(mount) >= best:
            best, kind = len(mount), right.split(" ")[0]
    return kind


APPLICATION_ID = 0x65646763  # 'edgc'
_PAGE_BYTES = 1024  # measured: 0.3 times the bytes per run that 4096 writes
# The most that apsw allows (default: 100). Each row of a batch uses a place of this cache. If a
# batch uses all places, every other statement is compiled again: 3 ms for each pass.
_STATEMENTS = 512
_LEAST_SQLITE = (3, 51, 3)  # earlier ones can corrupt a WAL that two connections reset at once


def open_file(path: Path) -> apsw.Connection:
    """Open the file without changing it; `configure` comes next."""
    # A folder above the file can be a link (/home often is), which NOFOLLOW would refuse.
    return apsw.Connection(
        str(path.parent.resolve() / path.name),
        flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW,
        statementcachesize=_STATEMENTS,
    )


def configure(
    connection: apsw.Connection, path: Path, *, wait_for_lock: Callable[[int], bool]
) -> None:
    """Set up a connection, with a write-ahead log. Refuses another program's file unchanged.

    `wait_for_lock` becomes SQLite's busy handler.
    """
    connection.set_busy_handler(wait_for_lock)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
    _refuse_foreign(connection, path)
    # The page size only has an effect before the first page is written.
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    _enter_wal(connection, path, wait_for_lock)
    # FULL: with NORMAL, 18% of the claims were lost in simulated power cuts; none with FULL.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")
    # Overwrite deleted bytes: a former definition might hold a secret.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.create_scalar_function("casefold", _casefold, 1, deterministic=True)
    connection.create_scalar_function("is_offered", _is_offered, 2, deterministic=True)


def _casefold(*texts: Any) -> str:
    return str(texts[0]).casefold()


def _is_offered(*arguments: Any) -> bool:
    offers, offer = arguments
    return offer in offers


def open_alone(path: Path) -> apsw.Connection:
    """Open a file that no other process uses, without locks: its file system might have none."""
    connection = apsw.Connection(
        str(path.parent.resolve() / path.name),
        flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW,
        vfs="unix-none",
    )
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # Before the first read: then SQLite needs no shared memory to read a log.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def open_to_look(path: Path) -> apsw.Connection:
    """Open a file that others use, to read once. Does not wait, write or create files."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(str(path.parent.resolve() / path.name), flags=flags)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


def check_sqlite_version() -> None:
    """Refuse a SQLite version that can corrupt a write-ahead log."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < _LEAST_SQLITE:
        raise DatabaseUnusable(
            f"SQLite is {apsw.sqlite_lib_version()}, expected 3.51.3 or later",
            hint="upgrade the apsw package",
        )


def _refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    # Check before the change to WAL, which would write to the other program's file.
    is_foreign = connection.execute(
        """SELECT application_id != :ours AND (
               application_id != 0 OR user_version != 0
               OR EXISTS (SELECT 1 FROM sqlite_schema))
           FROM pragma_application_id, pragma_user_version""",
        {"ours": APPLICATION_ID},
    ).fetchall()[0][0]
    if is_foreign:
        raise DatabaseUnusable(
            f"database {path} belongs to another program",
            hint="name another file with --db or EDGECRON_DB",
        )


def _enter_wal(
    connection: apsw.Connection, path: Path, wait_for_lock: Callable[[int], bool]
) -> None:
    # SQLite does not always call the busy handler for the change to WAL.
    for tries in itertools.count():
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except apsw.BusyError:
            if not wait_for_lock(tries):
                raise
    if mode is None or mode[0] != "wal":
        raise DatabaseUnusable(
            f"database {path} can't use write-ahead logging",
            hint="put it on a local file system",
        )


# Lost files: the database, or its log (`-wal`, `-shm`), was deleted, replaced or emptied. SQLite
# does not notice. A process that has the files open keeps using them without their names. The next
# process to open the database creates new ones and does not see the contents of the old log. The
# database then has two histories, and each checkpoint of one damages the other.

LOCKS = Path("/proc/locks")
# Each process that has a database open with a log holds a read lock from this byte on.
_LOCK = re.compile(
    r"\d+: POSIX +\S+ +READ +(-?\d+) +([0-9a-f]+):([0-9a-f]+):(\d+) +1073741826 ", re.ASCII
)
# The kernel gives its table of locks page by page. If a lock is dropped between two pages, the next
# page lacks a line: up to 6% of the reads missed a held lock (measured, 300 changing locks).
_READS = 5
_ONE_PAGE_BYTES = 2048  # a page has 4096 or more, but a line that does not fit is on the next
_NAP_S = 0.005
_MOST_WAIT_S = 5.0

_Identity = tuple[int, int]  # device and inode


class Logs:
    """The log (-wal) and its index (-shm) that a connection has open."""

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
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
    for _ in range(_READS):
        try:
            found = os.stat(path)
            table = LOCKS.read_text(encoding="ascii", errors="replace")
        except OSError:
            return []
        users = _users_in(table, found)
        if users or len(table) < _ONE_PAGE_BYTES:
            return users
    return []


def _users_in(table: str, found: os.stat_result) -> list[int]:
    device = os.major(found.st_dev), os.minor(found.st_dev)
    return [
        int(lock[1])
        for lock in _LOCK.finditer(table)
        if int(lock[4]) == found.st_ino
        # On btrfs, the kernel's device number is not the one that `stat` returns.
        and ((int(lock[2], 16), int(lock[3], 16)) == device or _has_open(lock[1], found))
    ]


def _has_open(pid: str, wanted: os.stat_result) -> bool:
    """Whether a process has a file open; False if we are not allowed to know."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as fds:
        for fd in fds:
            with suppress(OSError):
                if os.path.samestat(fd.stat(), wanted):
                    return True
    return False


def look_at(path: Path) -> tuple[_Identity | None, bool]:
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
