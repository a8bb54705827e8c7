"""Listen to the kernel for changes of networks, power supplies and mounts (Linux)."""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress

_NETLINK_ROUTE, _NETLINK_UEVENT = 0, 15
# Of linux/rtnetlink.h: links, and the addresses and routes of IPv4 and IPv6.
_ROUTE_GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
_UEVENT_GROUP = 1
_MOUNTS = "/proc/self/mountinfo"
_MOST_AT_ONCE = 1_000  # messages that one call takes


class KernelReports:
    """One descriptor that is readable after a change. Which change it was, is not told."""

    def __init__(self) -> None:
        self._poll: select.epoll | None = None
        self._sockets: list[socket.socket] = []
        self._mounts = -1

    def open(self) -> int | None:
        """Begin to listen; the descriptor, or None if this system reports nothing."""
        if sys.platform != "linux":
            return None
        try:
            self._poll = select.epoll()
            for protocol, groups in (
                (_NETLINK_ROUTE, _ROUTE_GROUPS),
                (_NETLINK_UEVENT, _UEVENT_GROUP),
            ):
                self._listen(protocol, groups)
            with suppress(OSError):
                self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
                # Not EPOLLIN: the table can always be read.
                self._poll.register(self._mounts, select.EPOLLPRI)
        except OSError:  # No descriptor is left. Conditions are still checked after pauses.
            self.close()
            return None
        return self._poll.fileno()

    def _listen(self, protocol: int, groups: int) -> None:
        assert self._poll is not None
        with suppress(OSError):  # A sandbox can forbid these sockets.
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
            listener = socket.socket(socket.AF_NETLINK, kind, protocol)
            self._sockets.append(listener)
            listener.bind((0, groups))
            self._poll.register(listener, select.EPOLLIN)

    def clear(self) -> None:
        """Forget the changes that were reported."""
        if self._poll is not None:
            self._poll.poll(0)  # The change of a mount is forgotten as soon as it was told.
        for listener in self._sockets:
            for _ in range(_MOST_AT_ONCE):
                try:
                    listener.recv(65_536)
                except BlockingIOError:
                    break
                except OSError:  # ENOBUFS: messages were lost. One change is enough to know.
                    continue

    def close(self) -> None:
        """Stop listening."""
        for listener in self._sockets:
            listener.close()
        self._sockets.clear()
        if self._mounts >= 0:
            os.close(self._mounts)
            self._mounts = -1
        if self._poll is not None:
            self._poll.close()
            self._poll = None
