"""Seeing at once that a peer's process ends, where the system tells (Linux).

Elsewhere it is noticed when the engine looks at its peers the next time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from edgecron.model.engine import EngineInfo


class PeerWatch:
    """A descriptor for each peer that is watched: readable once its process has ended."""

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}  # by the engine's key; -1 where it can't be watched
        self._has_missed = False

    def watch(self, peers: Iterable[EngineInfo]) -> list[int]:
        """Watch these and no others; their descriptors."""
        wanted = {peer.key: peer.pid for peer in peers}
        for key in self._fds.keys() - wanted.keys():
            self._close(key)
        for key in wanted.keys() - self._fds.keys():
            # Its process id may be that of another namespace, or in use again: then this tells
            # of a stranger, and whoever is woken by it looks at the lock.
            try:
                self._fds[key] = _open(wanted[key])
            except ProcessLookupError:
                self._fds[key] = -1
                self._has_missed = True
        return [fd for fd in self._fds.values() if fd >= 0]

    def take_missed(self) -> bool:
        """Whether one of those that came anew had ended before it could be watched; told once."""
        has_missed, self._has_missed = self._has_missed, False
        return has_missed

    def forget(self, fd: int) -> None:
        """It has told: its process has ended, whoever that was."""
        for key, known in self._fds.items():
            if known == fd:
                os.close(fd)
                self._fds[key] = -1

    def close(self) -> None:
        for key in list(self._fds):
            self._close(key)

    def _close(self, key: str) -> None:
        fd = self._fds.pop(key)
        if fd >= 0:
            os.close(fd)


def _open(pid: int) -> int:
    """A descriptor, or -1 where the system has none. Raises ProcessLookupError."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # another system, an old kernel
        return -1
