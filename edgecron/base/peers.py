"""Which user of this machine is at the other end of a TCP connection, as the kernel knows it.

Linux shows each TCP socket of a network namespace with its two ends and the user who made it. The
peer's is the one whose ends are ours changed over.

    ends          the two ends, and whose a socket is by what is shown of it
    diagnosing    asked for one socket, as `ss` asks
    tables        looked for among all of them, as PuTTY knows who asks for a forwarded port

Nobody is told rather than the wrong one:

- No inode: the socket has been closed, and most kernels show it as user 0, root's. Whoever sends
  and closes at once is nobody.
- No socket: the peer is in another network namespace, or on another machine.
- Several, of two users, and one that is not connected (any more, or yet).
- A connection that has ended while it was looked for: another's could have its ends by now.

A socket that is handed on stays that of who made it. So does one made for others: a proxy, a
tunnel of ssh, a container's port that its runtime passes on are the user that they run as.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from edgecron.base.peer_diagnosis import ask_rows
from edgecron.base.peer_ends import End, Row, end_of, user_of
from edgecron.base.peer_tables import find_rows

ROOT_UID = 0
PROC = Path("/proc")
_TABLES = ("self/net/tcp", "self/net/tcp6")
_ALL_USERS = ["0", "0", "4294967295"]  # in uid_map: each is here what it is on the machine
_OVERFLOW_UID = 65534


class Link(Protocol):
    """A socket as far as it is looked at here."""

    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...


class Ask(Protocol):
    """Asks for the socket with two ends; nothing where it is not there, or nobody can be asked."""

    def __call__(self, *, of: End, to: End) -> list[Row]: ...


class Peer:
    """The other end of a connection, whose user stays the same: it is found when asked for."""

    def __init__(self, link: Link | None) -> None:
        self._link = link
        self._uid: int | None = None

    def find_user(self) -> int | None:
        """Its user's number, None where that can't be told."""
        if self._uid is None and self._link is not None:
            self._uid = find_user_of(self._link)
        return self._uid


def find_user_of(link: Link, *, ask: Ask = ask_rows) -> int | None:
    """Whose the other end of a connection is, None where it can't be told."""
    try:
        peer, own = end_of(link.getpeername()), end_of(link.getsockname())
        rows = ask(of=peer, to=own)
        # Our own end is there: where that is not shown, the kernel can't be asked for one.
        if not rows and not ask(of=own, to=peer):
            rows = find_rows(read_tables(), of=peer, to=own)
        link.getpeername()  # It raises where the connection has ended meanwhile.
    except (OSError, ValueError):
        return None
    return user_of(rows)


def read_tables(proc: Path = PROC) -> str:
    """The text of all TCP sockets. Raises OSError."""
    return "".join(_read(proc / name) for name in _TABLES)


def tells_users(proc: Path = PROC) -> bool:
    """Whether this machine tells whose a connection is: on Linux, where /proc can be read."""
    try:
        return read_tables(proc).lstrip().startswith("sl ")
    except (PermissionError, NotADirectoryError):
        return False
    except OSError:
        return True  # It passes, and until then nobody is told, rather than everybody let in.


def own_users(proc: Path = PROC) -> frozenset[int]:
    """The users who can do all that this process can: its own, and root.

    Not a number that in our user namespace stands for all users that it does not know.
    """
    return frozenset({os.geteuid(), ROOT_UID}) - _unknown_users(proc)


def _unknown_users(proc: Path) -> frozenset[int]:
    try:
        if _read(proc / "self/uid_map").split() == _ALL_USERS:
            return frozenset()
        return frozenset({int(_read(proc / "sys/kernel/overflowuid"))})
    except (OSError, ValueError):
        return frozenset({_OVERFLOW_UID})


def _read(path: Path) -> str:
    """The text of a file, '' where the kernel has no such: it may have been built without IPv6."""
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
