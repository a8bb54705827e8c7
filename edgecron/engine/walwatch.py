"""Hear of writes by programs that ring no engine, such as a SQL shell (Linux).

A write to the write-ahead log is only a hint. It comes before the commit can be seen, and our own
writes raise it too. So the engine looks at the change mark a moment after a hint, and its regular
look stays the safety net: for other systems, and if inotify is used up.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# How long after a hint the engine looks. Longer than any commit takes, and so rare that engines
# whose peers write all the time hardly notice.
LOOK_AFTER_MS = 2_000
_IN_MODIFY = 0x2


class WalWatch:
    """A descriptor that is readable once somebody wrote to a database's write-ahead log."""

    def __init__(self, database: Path) -> None:
        self._wal = os.fsencode(f"{database}-wal")
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def arm(self) -> list[int]:
        """Watch the log that the name means now; the descriptors to wait for, if any."""
        if self._fd < 0 or self._libc.inotify_add_watch(self._fd, self._wal, _IN_MODIFY) < 0:
            return []
        return [self._fd]

    def clear(self) -> None:
        """Take the hints that came."""
        try:
            while os.read(self._fd, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
