"""Where the service manager listens: a datagram socket that it names in the environment.

`man 3 sd_notify` and `man 3 sd_watchdog_enabled` are the sources of what is read here.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, MutableMapping

from edgecron.base.values import dataclass
from edgecron.engine.sd_notify import SOCKET

WATCHDOG_USEC, WATCHDOG_PID = "WATCHDOG_USEC", "WATCHDOG_PID"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceManager:
    """`address` is a path, or an abstract name after '@'. Who says nothing for `watchdog_ms` is
    taken to hang; None where nobody watches."""

    address: str
    watchdog_ms: int | None

    def send(self, text: str) -> None:
        """Tell it lines of NAME=VALUE. Raises OSError, also where it would have to be waited for.

        A socket of its own each time: none is open in what is forked meanwhile.
        """
        # A NUL takes the place of '@': so Linux tells abstract names.
        address = "\0" + self.address[1:] if self.address[0] == "@" else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), address)


def find_manager(environ: Mapping[str, str], *, pid: int) -> ServiceManager | None:
    """Who wants to be told by this process; None where nobody does, or not in a way we know."""
    address = environ.get(SOCKET, "")
    # Else it is `vsock:`, for whole virtual machines, or nonsense.
    if len(address) < 2 or address[0] not in "/@":
        return None
    return ServiceManager(address=address, watchdog_ms=_watchdog_ms(environ, pid=pid))


def take_manager(environ: MutableMapping[str, str], *, pid: int) -> ServiceManager | None:
    """The same, and whoever is started from here on does not see it: it is for us alone."""
    manager = find_manager(environ, pid=pid)
    for name in (SOCKET, WATCHDOG_USEC, WATCHDOG_PID):
        environ.pop(name, None)
    return manager


def _watchdog_ms(environ: Mapping[str, str], *, pid: int) -> int | None:
    # Another process may be meant, whose environment we have inherited.
    if environ.get(WATCHDOG_PID, str(pid)) != str(pid):
        return None
    text = environ.get(WATCHDOG_USEC, "")
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) // 1000 or None
