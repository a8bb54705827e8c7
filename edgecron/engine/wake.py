"""Waking engines: a FIFO for each, beside the database, into which any writer puts a byte.

A FIFO's path has no length limit as a socket's has, a byte costs 0.05 ms, and watching the
write-ahead log instead is racy (all measured).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from pathlib import Path

from edgecron.base.paths import list_names

# Gone; read by nobody (its engine is dead, and recovery clears it away); a symbolic link;
# somebody else's. The safety net of each engine sees the change all the same.
_NO_BELL = (errno.ENOENT, errno.ENXIO, errno.ELOOP, errno.EACCES)

_RING = b"\0"
NEWCOMER = b"+"  # rung by an engine that has come: what it runs is to be watched by others


class Doorbell:
    """The reading end of an engine's FIFO: readable when somebody rang."""

    def __init__(self, state_dir: Path, key: str) -> None:
        self._path = _bell_path(state_dir, key)
        os.mkfifo(self._path, 0o600)
        self._fd = self._open()

    def _open(self) -> int:
        # O_RDWR: with only a reader the descriptor hangs up, and spins, after each writer left.
        return os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def renew(self) -> None:
        """Make the FIFO again where its folder was deleted."""
        os.mkfifo(self._path, 0o600)
        deaf_fd, self._fd = self._fd, self._open()
        os.close(deaf_fd)

    def ring(self) -> None:
        """Wake our own engine, from a signal handler or another thread."""
        with contextlib.suppress(BlockingIOError):  # Full: it will wake anyway.
            os.write(self._fd, _RING)

    def clear(self) -> bytes:
        """Take all that was rung; empty where nobody had."""
        rung = b""
        while True:
            try:
                rung += os.read(self._fd, 4096)
            except BlockingIOError:
                return rung

    def close(self) -> None:
        with contextlib.suppress(OSError):  # Read by nobody, it wakes nobody.
            self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Close it as if we had been killed."""
        os.close(self._fd)


def ring_engines(state_dir: Path, *, but: str | None = None, is_new: bool = False) -> int:
    """Wake every engine of a database, after a commit; how many were there to hear it.

    `but` is the key of one that is awake: our own, and `is_new` says that it has just come.
    """
    own = None if but is None else _bell_path(state_dir, but).name
    folder = str(state_dir)  # Paths take longer to put together than a bell to ring.
    return sum(
        _ring(f"{folder}/{name}", NEWCOMER if is_new else _RING)
        for name in list_names(folder)
        if name.startswith("engine-") and name.endswith(".fifo") and name != own
    )


def ring_engine(state_dir: Path, key: str) -> bool:
    """Wake one engine; whether it was there to hear it."""
    return _ring(_bell_path(state_dir, key), _RING)


def count_unheard(state_dir: Path, key: str) -> int | None:
    """How many rings lie in an engine's FIFO; None where it has none.

    One that is awake takes them out within milliseconds.
    """
    import termios  # No engine asks this of another one: it is for people.

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
    """A FIFO for reading or writing; None where there is none of ours, or nobody reads it."""
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
