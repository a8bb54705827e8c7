"""Sockets of this machine: listen, connect, and find the user at the other end.

A path may be longer than the address of a Unix socket.

For TCP, Linux shows each socket of a network namespace with its two ends and the user who made it.
The peer's socket is the one whose ends are ours, swapped. edgecron asks the kernel for that one
socket by netlink, as `ss` does: about 0.01 ms, however many sockets exist. If the kernel can't
answer, edgecron searches /proc/self/net/tcp and tcp6. This takes milliseconds even with few
sockets.

The answer is None rather than a wrong user if

- the socket has no inode: it was closed, and most kernels then show user 0;
- no such socket exists: the peer is in another network namespace or on another machine;
- several sockets of different users match, or the socket is not connected;
- the connection ended during the search: another socket could have its ends by now.

A socket keeps the user who made it, even if another process uses it. A proxy, an ssh tunnel and a
published container port therefore count as the user that they run as.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from edgecron.base.values import NamedTuple

# The longest address with its final NUL is 108 bytes on Linux, 104 elsewhere.
_MOST_PATH_BYTES = 103
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("@IIh16I")  # version, uid, number of groups, groups
_TIMEVAL = struct.Struct("@ll")
_LOCAL_PEERCRED = 1
FD_FOLDER = "/proc/self/fd"

# Without it, a closed connection kills a process that does not ignore SIGPIPE.
SEND_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0)


def listen(path: Path) -> socket.socket:
    """Return a listening socket of mode 0600 that does not block. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as address:
            before = os.umask(0o177)
            try:
                listener.bind(address)
            finally:
                os.umask(before)
        listener.listen(64)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path: Path, *, timeout_s: float) -> socket.socket:
    """Connect to a listening socket. Raises OSError."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A time-out of Python makes the socket non-blocking, and connect fails if the queue is full.
    whole_s = int(timeout_s)
    timeout = _TIMEVAL.pack(whole_s, int((timeout_s - whole_s) * 1_000_000))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
    try:
        with _short(path) as address:
            link.connect(address)
        link.settimeout(timeout_s)
    except OSError:
        link.close()
        raise
    return link


def peer_uid(link: socket.socket) -> int | None:
    """Return the user at the other end; None if the system does not report it."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            content = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
            return int(_UCRED.unpack(content)[1])
        # macOS and the BSDs, where the level of local sockets is 0.
        return int(_XUCRED.unpack(link.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size))[1])
    except (OSError, struct.error):
        return None


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """Give a short enough address of the same file, while the context lasts."""
    if len(os.fsencode(path)) <= _MOST_PATH_BYTES:
        yield os.fspath(path)
        return
    folder_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.path.isdir(f"{FD_FOLDER}/{folder_fd}"):
            yield f"{FD_FOLDER}/{folder_fd}/{path.name}"
            return
    finally:
        os.close(folder_fd)
    import tempfile  # seldom needed, and heavy

    with tempfile.TemporaryDirectory(prefix="ec-") as private:
        short = os.path.join(private, "s")
        os.symlink(path.parent, short)
        yield os.path.join(short, path.name)


# Users of TCP connections.

_FAMILY = 16  # AF_NETLINK, which is Linux's alone
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_ANY_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ASKED = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct(">HH")
_SCOPE = struct.Struct("=III")  # interface, cookie
# The layout of struct inet_diag_req_v2 and inet_diag_msg (include/uapi/linux/inet_diag.h).
_SHOWN = struct.Struct("=BBBB4s16s16s12sIIIII")  # the last: expires, queues, uid, inode
_MOST_BYTES = 8192
# ESTABLISHED; FIN_WAIT_1 and _2: it sends no more, and still listens (include/net/tcp_states.h).
_CONNECTED = (1, 4, 5)
ROOT_UID = 0
PROC = Path("/proc")
_TABLES = ("self/net/tcp", "self/net/tcp6")
# Begins the address of a socket of IPv6 that speaks IPv4.
_MAPPED = bytes(10) + b"\xff\xff"
_ALL_USERS = ["0", "0", "4294967295"]  # in uid_map: each user is the same as on the machine
_OVERFLOW_UID = 65534


def ask_rows(*, of: End, to: End) -> list[Row]:
    """Ask the kernel for the socket from end `of` to end `to`.

    Return no row if there is no such socket, or if the kernel can't be asked.
    """
    try:
        with socket.socket(_FAMILY, socket.SOCK_RAW, _SOCK_DIAG) as link:
            link.sendto(request(of=of, to=to), (0, 0))
            # The kernel has answered before `sendto` returns.
            answer, sender = link.recvfrom(_MOST_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        return []
    return read_answer(answer, of=of, to=to) if sender[0] == 0 else []


def request(*, of: End, to: End) -> bytes:
    """Write the request for one socket."""
    family = socket.AF_INET if len(of.address) == 4 else socket.AF_INET6
    asked = (
        _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE)
        + _PORTS.pack(of.port, to.port)
        + of.address.ljust(16, b"\0")
        + to.address.ljust(16, b"\0")
        + _SCOPE.pack(0, *_ANY_COOKIE)
    )
    return _HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _REQUEST, 0, 0) + asked


def read_answer(answer: bytes, *, of: End, to: End) -> list[Row]:
    """Read the socket of an answer, if it has these ends.

    If there is no such socket, the kernel can answer with another one, such as the listener.
    """
    if len(answer) < _HEADER.size + _SHOWN.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return []
    shown = _SHOWN.unpack_from(answer, _HEADER.size)
    family, state, _, _, ports, own, other, _, _, _, _, uid, inode = shown
    length = 4 if family == socket.AF_INET else 16
    own_port, other_port = _PORTS.unpack(ports)
    ends = (
        End(_plain(own[:length]), own_port),
        End(_plain(other[:length]), other_port),
    )
    return [Row(state=state, uid=uid, inode=inode)] if ends == (of, to) else []


def find_rows(table: str, *, of: End, to: End) -> list[Row]:
    """Return the sockets whose own end is `of`, and whose other end is `to`."""
    wanted = [
        f" {own}:{of.port:04X} {other}:{to.port:04X} "
        for own, other in zip(_forms(of.address), _forms(to.address), strict=False)
    ]
    lines = [line for line in table.splitlines() if any(one in line for one in wanted)]
    return [row for line in lines if (row := _row(line.split())) is not None]


def _row(fields: list[str]) -> Row | None:
    """Read: number, own end, other end, state, queues, timer, retransmits, uid, timeout, inode."""
    if len(fields) < 10:
        return None
    return Row(state=int(fields[3], 16), uid=int(fields[7]), inode=int(fields[9]))


def _forms(address: bytes) -> list[str]:
    """Return an address as the tables show it; for IPv4 also as a socket of IPv6 has it."""
    return [_hex(address)] if len(address) == 16 else [_hex(address), _hex(_MAPPED + address)]


def _hex(packed: bytes) -> str:
    """Return each four bytes as a number in the byte order of this machine."""
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))


class End(NamedTuple):
    """One end of a connection: 4 or 16 bytes, and a port."""

    address: bytes
    port: int


class Row(NamedTuple):
    """A socket, as the kernel shows it. `inode` is 0 if no process has it open."""

    state: int
    uid: int
    inode: int


def end_of(name: Any) -> End:
    """Return an end by the name of its socket. Raises ValueError if this is not an IP address."""
    if not isinstance(name, tuple):
        raise ValueError(f"{name!r} is not an IP address")
    host = name[0].partition("%")[0]  # The zone of a link-local address follows.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return End(_plain(socket.inet_pton(family, host)), name[1])


def _plain(address: bytes) -> bytes:
    """Return an IPv4 address that a socket of IPv6 has as such."""
    return address.removeprefix(_MAPPED) if len(address) == 16 else address


def user_of(rows: Sequence[Row]) -> int | None:
    """Return the user of a socket by its rows; None if they do not tell."""
    if not all(row.state in _CONNECTED and row.inode != 0 for row in rows):
        return None
    users = {row.uid for row in rows}
    return users.pop() if len(users) == 1 else None


class Link(Protocol):
    """The methods of a socket that are used here."""

    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...


class Ask(Protocol):
    """Ask for the socket with two ends; no row if there is none, or the kernel can't be asked."""

    def __call__(self, *, of: End, to: End) -> list[Row]: ...


def find_user_of(link: Link, *, ask: Ask = ask_rows) -> int | None:
    """Return the user at the other end of a connection; None if it is unknown."""
    try:
        peer, own = end_of(link.getpeername()), end_of(link.getsockname())
        rows = ask(of=peer, to=own)
        # Our own end exists: if the kernel does not find it, it can't be asked.
        if not rows and not ask(of=own, to=peer):
            rows = find_rows(read_tables(), of=peer, to=own)
        link.getpeername()  # It raises if the connection has ended meanwhile.
    except (OSError, ValueError):
        return None
    return user_of(rows)


def read_tables(proc: Path = PROC) -> str:
    """Return the text of all TCP sockets. Raises OSError."""
    return "".join(_read(proc / name) for name in _TABLES)


def tells_users(proc: Path = PROC) -> bool:
    """Return whether this machine tells the users of connections: Linux, with a readable /proc."""
    try:
        return read_tables(proc).lstrip().startswith("sl ")
    except (PermissionError, NotADirectoryError):
        return False
    except OSError:
        return True  # It passes. Until then nobody is let in, rather than everybody.


def own_users(proc: Path = PROC) -> frozenset[int]:
    """Return the users who can do all that this process can: its own, and root.

    Without the number that stands for all unknown users in our user namespace.
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
    """Return the text of a file; '' if it does not exist: the kernel can lack IPv6."""
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
