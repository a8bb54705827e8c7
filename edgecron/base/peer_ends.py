"""The ends of a connection, and what the kernel says of a socket that has them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from edgecron.base.values import NamedTuple

# ESTABLISHED; FIN_WAIT_1 and _2: it has said all, and listens still (include/net/tcp_states.h).
_CONNECTED = (1, 4, 5)


class End(NamedTuple):
    """One end of a connection."""

    address: IPv4Address | IPv6Address
    port: int


class Row(NamedTuple):
    """A socket, as the kernel shows it: `inode` 0 is of one that nobody has open."""

    state: int
    uid: int
    inode: int


def end_of(name: Any) -> End:
    """An end by what its socket says. Raises ValueError for what is no address of IP."""
    if not isinstance(name, tuple):
        raise ValueError(f"{name!r} is no address of IP")
    return End(plain(ip_address(name[0])), name[1])


def plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An address of IPv4 as such, also where a socket of IPv6 speaks it."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def user_of(rows: Sequence[Row]) -> int | None:
    """Whose the socket is of which these rows are, None where they don't tell."""
    if not all(row.state in _CONNECTED and row.inode != 0 for row in rows):
        return None
    users = {row.uid for row in rows}
    return users.pop() if len(users) == 1 else None
