"""Sockets of this machine: listen, connect, and find the user at the other end.

A path may be longer than a socket's address.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

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
