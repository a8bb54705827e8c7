"""All TCP sockets as text: /proc/self/net/tcp and tcp6. Pure."""

from __future__ import annotations

import struct
import sys
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from edgecron.base.peer_ends import End, Row

Order = Literal["little", "big"]


def find_rows(table: str, *, of: End, to: End, byteorder: Order = sys.byteorder) -> list[Row]:
    """The sockets whose own end is `of`, and whose other end is `to`."""
    ends = zip(_forms(of.address), _forms(to.address), strict=False)
    wanted = [
        f" {_hex(own, byteorder)}:{of.port:04X} {_hex(other, byteorder)}:{to.port:04X} "
        for own, other in ends
    ]
    lines = [line for line in table.splitlines() if any(one in line for one in wanted)]
    return [row for line in lines if (row := _row(line.split())) is not None]


def _row(fields: list[str]) -> Row | None:
    """Of: number, own end, other end, state, queues, timer, retransmits, uid, timeout, inode."""
    if len(fields) < 10:
        return None
    return Row(state=int(fields[3], 16), uid=int(fields[7]), inode=int(fields[9]))


def _forms(address: IPv4Address | IPv6Address) -> list[bytes]:
    """The bytes of an address; of IPv4 also those that a socket of IPv6 has for it."""
    if isinstance(address, IPv6Address):
        return [address.packed]
    return [address.packed, bytes(10) + b"\xff\xff" + address.packed]


def _hex(packed: bytes, byteorder: Order) -> str:
    """Each four bytes as a number of this machine's, as the kernel prints them."""
    words = struct.unpack(f"{'<' if byteorder == 'little' else '>'}{len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words)
