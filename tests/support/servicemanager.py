"""The socket of a service manager, as systemd has it, and what it is told there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

Lines = dict[str, str]


class NotifySocket:
    """A datagram socket that a process is to tell how it does; `address` is its NOTIFY_SOCKET."""

    def __init__(self, place: Path | str) -> None:
        self.address = str(place)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + self.address[1:] if self.address[0] == "@" else self.address)

    def wait(self, *, bound_s: float = 30.0) -> Lines:
        """What is told next. Raises TimeoutError where nothing is within the bound."""
        self._socket.settimeout(bound_s)
        text = self._socket.recv(65536).decode()
        return dict(line.split("=", 1) for line in text.split("\n"))

    def wait_until(self, matches: Callable[[Lines], object], *, bound_s: float = 30.0) -> Lines:
        """The first of what is told next that is as wanted; each within the bound."""
        while not matches(told := self.wait(bound_s=bound_s)):
            pass
        return told

    def is_silent(self, *, bound_s: float) -> bool:
        """Whether nothing is told so long."""
        with suppress(TimeoutError):
            self.wait(bound_s=bound_s)
            return False
        return True

    def take_all(self) -> list[Lines]:
        """What was told until now."""
        return list(self._told())

    def _told(self) -> Iterator[Lines]:
        with suppress(BlockingIOError):
            while True:
                yield self.wait(bound_s=0)

    def close(self) -> None:
        self._socket.close()
