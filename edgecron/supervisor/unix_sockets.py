"""Sockets in the state folder, however long its path is, and who is at their other end."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

# What a socket's address can hold, its final NUL included: 108 bytes on Linux, 104 elsewhere.
_MOST_PATH_BYTES = 103
_UCRED = struct.Struct("3i")  # pid, uid, gid
_XUCRED = struct.Struct("@IIh16I")  # version, uid, number of groups, groups
_TIMEVAL = struct.Struct("@ll")
_LOCAL_PEERCRED = 1
_FDS = "/proc/self/fd"


def listen(path: Path) -> socket.socket:
    """A listening socket, 0600, that blocks nobody. Raises OSError."""
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
    """A connection to what listens there. Raises OSError."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # A time-out of Python's makes it non-blocking: it would fail at once where many queue up.
    whole_s = int(timeout_s)
    patience = _TIMEVAL.pack(whole_s, int((timeout_s - whole_s) * 1_000_000))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    try:
        with _short(path) as address:
            link.connect(address)
        link.settimeout(timeout_s)
    except OSError:
        link.close()
        raise
    return link


def peer_uid(link: socket.socket) -> int | None:
    """The user at the other end; None where the system does not tell."""
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
    """An address of the same file that is short enough, for as long as the context lasts."""
    if len(os.fsencode(path)) <= _MOST_PATH_BYTES:
        yield os.fspath(path)
        return
    folder_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.path.isdir(f"{_FDS}/{folder_fd}"):
            yield f"{_FDS}/{folder_fd}/{path.name}"
            return
    finally:
        os.close(folder_fd)
    import tempfile  # seldom needed, and heavy

    with tempfile.TemporaryDirectory(prefix="ec-") as private:
        short = os.path.join(private, "s")
        os.symlink(path.parent, short)
        yield os.path.join(short, path.name)
