"""Copies of a database that engines run beside it, known by the uuid that `cp` copies as well.

An engine holds an abstract socket whose name tells which database file it has open. Nothing is
ever sent: the kernel shows the names to everybody, and forgets one with its process. Of another
network namespace, as a container has, none is seen; other systems than Linux have no such names.
"""

from __future__ import annotations

import _socket  # `socket` adds nothing that is needed here, and 300 KB
import os
import re
from contextlib import suppress
from pathlib import Path

from edgecron.base.values import dataclass

_NAMES = Path("/proc/net/unix")
_NAME = re.compile(
    r"@edgecron/([0-9a-f-]{36})/([0-9a-f]{1,16}):([0-9a-f]{1,16})/([0-9]{1,10})/[0-9a-f]{1,16}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A process that runs a copy of a database; `path` None where that can't be seen."""

    pid: int
    path: Path | None


class Announcement:
    """Which database file this process runs, for others to see until `close`."""

    def __init__(self, database: Path, *, uuid: str, key: str) -> None:
        self._socket: _socket.socket | None = None
        found = database.stat()
        name = f"\0edgecron/{uuid}/{found.st_dev:x}:{found.st_ino:x}/{os.getpid()}/{key}"
        if _NAMES.exists():
            self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
            # Where it can't be had, a copy is not noticed, and all else goes on.
            with suppress(OSError):
                self._socket.bind(name)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def find_twins(database: Path, *, uuid: str) -> list[Twin]:
    """The processes that run another file with the uuid of this database, by their ids."""
    try:
        lines = _NAMES.read_text(encoding="utf-8", errors="replace").splitlines()
        own = database.stat()
    except OSError:
        return []
    found: dict[int, tuple[int, int]] = {}
    for line in lines:
        name = _NAME.fullmatch(line.rpartition(" ")[2])
        if name is None or name[1] != uuid:
            continue
        identity = (int(name[2], 16), int(name[3], 16))
        if identity != (own.st_dev, own.st_ino):
            found[int(name[4])] = identity
    return [Twin(pid=pid, path=_path_of(pid, identity)) for pid, identity in sorted(found.items())]


def _path_of(pid: int, identity: tuple[int, int]) -> Path | None:
    """What a process calls a file that it has open; None where it can't be looked into."""
    folder = f"/proc/{pid}/fd"
    try:
        for fd in os.listdir(folder):
            with suppress(OSError):
                seen = os.stat(f"{folder}/{fd}")
                if (seen.st_dev, seen.st_ino) == identity:
                    return Path(os.readlink(f"{folder}/{fd}"))
    except OSError:
        return None
    return None
