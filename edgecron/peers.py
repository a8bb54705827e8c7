"""Which user of this machine is at the other end of a TCP connection, as the kernel knows it.

Linux lists the TCP sockets of a network namespace, each with its two ends and the user who made
it, in /proc/self/net/tcp and tcp6 (net/ipv4/tcp_ipv4.c, get_tcp4_sock). The peer's is the row whose
ends are ours changed over. PuTTY knows who asks for a forwarded port in the same way.

Nobody is told rather than the wrong one:

- A row without an inode: its socket has been closed, and most kernels show it as user 0, root's.
  Whoever sends and closes at once is nobody.
- No row: the peer is in another network namespace, or on another machine.
- Rows of two users, and one that is not connected (any more, or yet).
- A connection that has ended while the rows were read: another's could have its ends by now.

A socket that is handed on stays that of who made it. So does one made for others: a proxy, a
tunnel of ssh, a container's port that its runtime passes on are the user that they run as.
"""

from __future__ import annotations

import os
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

ROOT_UID = 0
PROC = Path("/proc")
PEER = "edgecron.peer"  # in the state of an ASGI scope: the Peer whose connection it is
_TABLES = ("self/net/tcp", "self/net/tcp6")
_ALL_USERS = ["0", "0", "4294967295"]  # in uid_map: each is here what it is on the machine
_OVERFLOW_UID = 65534
# 01 ESTABLISHED; 04 and 05 FIN_WAIT: it has said all, and listens still.
_CONNECTED = ("01", "04", "05")


class End(NamedTuple):
    """One end of a connection."""

    address: IPv4Address | IPv6Address
    port: int


class Link(Protocol):
    """A socket as far as it is looked at here."""

    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...


class Peer:
    """The other end of a connection, whose user stays the same: it is found when asked for."""

    def __init__(self, link: Link | None, proc: Path = PROC) -> None:
        self._link = link
        self._proc = proc
        self._uid: int | None = None

    def find_user(self) -> int | None:
        """Its user's number, None where that can't be told."""
        if self._uid is None and self._link is not None:
            self._uid = find_user_of(self._link, self._proc)
        return self._uid


def find_user_of(link: Link, proc: Path = PROC) -> int | None:
    """Whose the other end of a connection is, None where it can't be told."""
    try:
        peer, own = _end(link.getpeername()), _end(link.getsockname())
        table = "".join(_read(proc / name) for name in _TABLES)
        link.getpeername()  # It raises where the connection has ended meanwhile.
    except (OSError, ValueError):
        return None
    return find_user(table, peer=peer, own=own)


def find_user(
    table: str,
    *,
    peer: End,
    own: End,
    byteorder: Literal["little", "big"] = sys.byteorder,
) -> int | None:
    """Whose the peer is by the text of the kernel's tables, None where they don't tell."""
    ends = zip(_forms(peer.address), _forms(own.address), strict=False)
    wanted = [
        f" {_hex(theirs, byteorder)}:{peer.port:04X} {_hex(ours, byteorder)}:{own.port:04X} "
        for theirs, ours in ends
    ]
    # Fields: number, local, remote, state, queues, timer, retransmits, uid, timeout, inode.
    rows = [line.split() for line in table.splitlines() if any(one in line for one in wanted)]
    if not all(len(row) >= 10 and row[3] in _CONNECTED and row[9] != "0" for row in rows):
        return None
    users = {row[7] for row in rows}
    return int(users.pop()) if len(users) == 1 else None


def tells_users(proc: Path = PROC) -> bool:
    """Whether this machine tells whose a connection is: on Linux, where /proc can be read."""
    try:
        return _read(proc / _TABLES[0]).lstrip().startswith("sl ")
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


def _end(name: Any) -> End:
    """An end by what its socket says. Raises ValueError for what is no address of IP."""
    if not isinstance(name, tuple):
        raise ValueError(f"{name!r} is no address of IP")
    address = ip_address(name[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return End(mapped or address, name[1])


def _forms(address: IPv4Address | IPv6Address) -> list[bytes]:
    """The bytes of an address; of IPv4 also those that a socket of IPv6 has for it."""
    if isinstance(address, IPv6Address):
        return [address.packed]
    return [address.packed, bytes(10) + b"\xff\xff" + address.packed]


def _hex(packed: bytes, byteorder: Literal["little", "big"]) -> str:
    """Each four bytes as a number of this machine's, as the kernel prints them."""
    words = struct.unpack(f"{'<' if byteorder == 'little' else '>'}{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words)
