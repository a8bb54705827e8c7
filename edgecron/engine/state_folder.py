"""The files beside a database: who owns them, each engine's lock, and its doorbell.

A doorbell is a FIFO into which any process that commits writes a byte. A FIFO's path has no length
limit as a socket's has, a byte costs 0.05 ms, and watching the write-ahead log instead is racy (all
measured).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from edgecron.base.clock import SystemClock
from edgecron.base.errors import DatabaseUnusable, EdgecronError
from edgecron.base.files import Weakness, find_weakness, has_other_users
from edgecron.base.forks import reset_in_children
from edgecron.base.paths import is_root, list_names, state_dir
from edgecron.supervisor.state_files import lock_is_held, prepare_state_dir, take_lock

# Gone; without a reader (its engine is dead, recovery will remove it); a symbolic link; of another
# user. An engine that no doorbell wakes sees the change at its next regular look.
_NO_BELL = (errno.ENOENT, errno.ENXIO, errno.ELOOP, errno.EACCES)

_RING = b"\0"
_TICK_MS = 2_000  # of the coarsest file system
NEWCOMER = b"+"  # rung by an engine that has started: the others are to watch it


class Doorbell:
    """The reading end of an engine's FIFO: readable when a process rang."""

    def __init__(self, state_dir: Path, key: str) -> None:
        self._path = _bell_path(state_dir, key)
        os.mkfifo(self._path, 0o600)
        self._fd = self._open()

    def _open(self) -> int:
        # O_RDWR: a descriptor that only reads hangs up, and spins, after each writer left.
        return os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def renew(self) -> None:
        """Make the FIFO again after its folder was deleted."""
        os.mkfifo(self._path, 0o600)
        deaf_fd, self._fd = self._fd, self._open()
        os.close(deaf_fd)

    def ring(self) -> None:
        """Wake our own engine, from a signal handler or another thread."""
        with contextlib.suppress(BlockingIOError):  # Full: it will wake anyway.
            os.write(self._fd, _RING)

    def clear(self) -> bytes:
        """Read everything that was rung; empty if there was no ring."""
        rung = b""
        while True:
            try:
                rung += os.read(self._fd, 4096)
            except BlockingIOError:
                return rung

    def close(self) -> None:
        with contextlib.suppress(OSError):  # Without a reader it wakes nobody.
            self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Close it without removing it, as if we had been killed."""
        os.close(self._fd)


class Doorbells:
    """The doorbells of a database's engines, for a process that rings them often.

    It lists the folder again only if the folder has changed.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = str(state_dir)  # Joining paths takes longer than ringing.
        self._names: list[str] = []
        self._listed_ns: int | None = None  # the folder's time of change; None: list again

    def ring(self, *, but: str | None = None, is_new: bool = False) -> int:
        """Wake every engine of a database after a commit; how many there were.

        `but` is the key of our own engine, and `is_new` says that it has just started.
        """
        own = None if but is None else _bell_path(Path(self._folder), but).name
        return sum(
            _ring(f"{self._folder}/{name}", NEWCOMER if is_new else _RING)
            for name in self._list()
            if name != own
        )

    def _list(self) -> list[str]:
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns
        except FileNotFoundError:
            return []
        if changed_ns != self._listed_ns:
            now_ms = SystemClock().now_ms()  # Never a test's clock: the folder's time is real.
            names = list_names(self._folder)
            self._names = [one for one in names if _is_bell(one)]
            # Within one tick of the file system, a later change would have the same time.
            is_settled = changed_ns < (now_ms - _TICK_MS) * 1_000_000
            self._listed_ns = changed_ns if is_settled else None
        return self._names


def _is_bell(name: str) -> bool:
    return name.startswith("engine-") and name.endswith(".fifo")


def ring_engines(state_dir: Path, *, but: str | None = None, is_new: bool = False) -> int:
    """Wake every engine of a database once; see `Doorbells.ring`."""
    return Doorbells(state_dir).ring(but=but, is_new=is_new)


def ring_engine(state_dir: Path, key: str) -> bool:
    """Wake one engine; whether it was there."""
    return _ring(_bell_path(state_dir, key), _RING)


def count_unheard(state_dir: Path, key: str) -> int | None:
    """How many rings an engine has not read yet; None if it has no doorbell.

    An engine that is awake reads them within milliseconds.
    """
    import termios  # For commands that people use; no engine needs it.

    fd = _open_bell(_bell_path(state_dir, key), os.O_RDONLY)
    if fd is None:
        return None
    try:
        waiting = fcntl.ioctl(fd, termios.FIONREAD, bytes(4))
    finally:
        os.close(fd)
    return int.from_bytes(waiting, sys.byteorder)


def _bell_path(state_dir: Path, key: str) -> Path:
    return state_dir / f"engine-{key}.fifo"


def _ring(path: Path | str, word: bytes) -> bool:
    fd = _open_bell(path, os.O_WRONLY)
    if fd is None:
        return False
    try:
        with contextlib.suppress(BlockingIOError):  # Full: it will wake anyway.
            os.write(fd, word)
    except BrokenPipeError:
        return False  # It died between our open and our write.
    finally:
        os.close(fd)
    return True


def _open_bell(path: Path | str, direction: int) -> int | None:
    """Open a FIFO; None if it is missing, not ours, or without a reader."""
    try:
        fd = os.open(path, direction | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_BELL:
            return None
        raise
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def engine_lock_path(state_dir: Path, key: str) -> Path:
    return state_dir / f"engine-{key}.lock"


def take_engine_lock(state_dir: Path, key: str) -> int:
    """Hold an engine's lock until the descriptor that is returned is closed."""
    return take_lock(engine_lock_path(state_dir, key))


def name_machine(state_dir: Path) -> str:
    """Name this machine for engines that share a database of a server.

    The name is that of the host and a random part, which lies in the state folder: only processes
    that share the folder can see each other's locks. A cloned disk gets another random part with
    its host's own name.
    """
    found = find_machine(state_dir)
    if found is not None:
        return found
    path, host = state_dir / "machine", os.uname().nodename
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8").partition("/")[0] != host:
            path.unlink()
    new = state_dir / f"machine-{os.getpid()}.new"
    new.touch(mode=0o600)
    new.write_text(f"{host}/{os.urandom(8).hex()}", encoding="utf-8")
    with suppress(FileExistsError):  # Another process was faster.
        os.link(new, path)
    new.unlink()
    return path.read_text(encoding="utf-8")


def find_machine(state_dir: Path) -> str | None:
    """The name of this machine; None if no engine has run here, or the database is a file."""
    try:
        found = (state_dir / "machine").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None  # No engine of ours has run here.
    return found if found.partition("/")[0] == os.uname().nodename else None


class EngineFiles:
    """An engine's lock and doorbell: taken at birth, kept until `close`, even if the folder goes.

    They belong to the process that made them: a child that is forked later has no part in them.
    """

    def __init__(self, state_dir: Path, key: str) -> None:
        self._state_dir = state_dir
        self._key = key
        self._lock_path = engine_lock_path(state_dir, key)
        self._pid = os.getpid()
        self._lock_fds = [take_engine_lock(state_dir, key)]
        try:
            self.doorbell = Doorbell(state_dir, key)
        except BaseException:
            self._let_go()
            raise
        reset_in_children(self)

    def reset_in_child(self) -> None:
        """Close the descriptors in a forked child, and leave the files to the parent."""
        # If it was closed before, the numbers mean other files by now.
        if self._lock_fds:
            self.doorbell.leave()
            self._close_locks()

    def keep(self) -> bool:
        """Make the files again if they were deleted; whether they were.

        The old lock stays open, for those that opened it before. Raises OSError, or
        SupervisorUnavailable, if that fails.
        """
        if self._is_there():
            return False
        prepare_state_dir(self._state_dir)
        self._lock_fds.append(take_engine_lock(self._state_dir, self._key))
        self.doorbell.renew()
        return True

    def close(self) -> None:
        """Remove the files and release the lock. In a forked child, do nothing.

        Files that can't be removed are left to recovery, as if we had been killed.
        """
        if os.getpid() != self._pid or not self._lock_fds:
            return
        self.doorbell.close()
        self._let_go()

    def _is_there(self) -> bool:
        try:
            found = os.lstat(self._lock_path)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._lock_fds[-1]))

    def _let_go(self) -> None:
        with suppress(OSError):
            self._lock_path.unlink(missing_ok=True)
        self._close_locks()

    def _close_locks(self) -> None:
        while self._lock_fds:
            os.close(self._lock_fds.pop())


# A lock has its name an instant after it is made.
_UNNAMED_MS = 3_600_000


def remove_dead_files(state_dir: Path, *, known: Collection[str], now_ms: int) -> None:
    """Remove files of dead engines that the database does not know.

    They were killed before it knew them, or after it had forgotten them. `known`: the keys of the
    engines that it knows now.
    """
    for name in list_names(state_dir):
        path = state_dir / name
        stem, _, kind = name.partition(".")
        if kind == "lock.new":
            if _age_ms(path, now_ms) > _UNNAMED_MS and not lock_is_held(path):
                path.unlink(missing_ok=True)
        elif stem.startswith("engine-") and kind in ("lock", "fifo"):
            # An engine takes its lock before it makes its other files.
            is_known = stem.removeprefix("engine-") in known
            if not is_known and not lock_is_held(path.with_suffix(".lock")):
                path.unlink(missing_ok=True)


def _age_ms(path: Path, now_ms: int) -> int:
    try:
        return now_ms - int(path.lstat().st_mtime * 1000)
    except FileNotFoundError:
        return 0


def find_foreign_owner(database: Path) -> int | None:
    """The other user that owns a database or its state folder; None if both are ours.

    A missing file has no owner. The owner of a symbolic link is the user that made it.
    """
    return next(
        (
            owner
            for path in (database, state_dir(database))
            if (owner := owner_of(path)) not in (None, os.geteuid())
        ),
        None,
    )


def owner_of(path: Path) -> int | None:
    """The owner of a file or folder; None if it is missing."""
    try:
        return path.lstat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return None


def refuse_foreign(database: Path) -> None:
    """Raise EdgecronError if a database or its state folder belongs to another user."""
    stranger = find_foreign_owner(database)
    if stranger is not None:
        raise EdgecronError(
            f"database {database} belongs to user {stranger}, and you are user {os.geteuid()}:"
            " you can't take over or end its runs",
            hint="repeat as that user",
        )


def find_root_risk(database: Path) -> Weakness | None:
    """Find what lets other users decide what root's engine runs; None if nothing does.

    Always None for other users: their engines have only their own rights.
    """
    if not is_root() or not has_other_users():
        return None
    if os.path.exists(database) and not os.path.isfile(database):
        return None  # A device or a folder is refused for being one, and its mode is left as it is.
    for path in (database, state_dir(database)):
        weakness = find_weakness(path)
        if weakness is not None:
            owner = owner_of(weakness.path)
            if owner and weakness.path in Path(os.path.abspath(database)).parents:
                # It can be a home: do not take it from its user.
                words = f"move the database to a folder of root, or give it to user {owner}"
                return weakness._replace(mend=words)
            return weakness
    return None


def root_risk_error(database: Path) -> DatabaseUnusable | None:
    """Make the error for a database of root that other users can change; None if they can't."""
    risk = find_root_risk(database)
    if risk is None:
        return None
    return DatabaseUnusable(
        f"database {database} can be changed by other users: {risk.words}",
        hint=f"these users could run any command as root: {risk.mend}",
    )


def refuse_root_risk(database: Path) -> None:
    """Raise DatabaseUnusable if other users can decide what root's engine runs."""
    refusal = root_risk_error(database)
    if refusal is not None:
        raise refusal
