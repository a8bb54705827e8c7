"""Waking engines: a FIFO for each, beside the database, into which any writer puts a byte.

A FIFO's path has no length limit as a socket's has, a byte costs 0.05 ms, and watching the
write-ahead log instead is racy (all measured).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

_PATTERN = "engine-*.fifo"
# Gone; read by nobody (its engine is dead, and recovery clears it away); a symbolic link;
# somebody else's. The safety net of each engine sees the change all the same.
_NO_BELL = (errno.ENOENT, errno.ENXIO, errno.ELOOP, errno.EACCES)


class Doorbell:
    """The reading end of an engine's FIFO: readable when somebody rang."""

    def __init__(self, state_dir: Path, key: str) -> None:
        self._path = state_dir / f"engine-{key}.fifo"
        os.mkfifo(self._path, 0o600)
        # O_RDWR: with only a reader the descriptor hangs up, and spins, after each writer left.
        self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def ring(self) -> None:
        """Wake our own engine, from a signal handler or another thread."""
        with contextlib.suppress(BlockingIOError):  # Full: it will wake anyway.
            os.write(self._fd, b"\0")

    def clear(self) -> bool:
        """Take all the bytes that are there; whether somebody had rung."""
        had_rung = False
        while True:
            try:
                had_rung = bool(os.read(self._fd, 4096)) or had_rung
            except BlockingIOError:
                return had_rung

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def ring_engines(state_dir: Path) -> int:
    """Wake every engine of a database, after a commit; how many were there to hear it."""
    heard = 0
    for path in state_dir.glob(_PATTERN):
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _NO_BELL:
                continue
            raise
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                with contextlib.suppress(BlockingIOError):  # Full: it will wake anyway.
                    os.write(fd, b"\0")
                heard += 1
        except BrokenPipeError:
            continue  # It died between our open and our write.
        finally:
            os.close(fd)
    return heard
