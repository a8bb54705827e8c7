"""Who holds a lock whose file was deleted: its process has it open still, as the kernel shows."""

from __future__ import annotations

import os
from pathlib import Path

_DELETED = " (deleted)"


def has_holder(path: Path) -> bool:
    """Whether a process has a lock file open that is not there any more (Linux).

    A few milliseconds, for all processes that can be seen.
    """
    # A lock is made under another name, by which the kernel goes on calling it. It calls it by the
    # folder itself, where we may have come by a link.
    place = f"{os.path.realpath(path.parent)}/{path.name}"
    names = {f"{place}{_DELETED}", f"{place}.new{_DELETED}"}
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return False
    return any(not names.isdisjoint(_open_files(pid)) for pid in pids)


def find_holders(state_dir: Path, kind: str) -> list[int]:
    """The processes that hold a lock `KIND-*.lock` of a state folder, by their ids (Linux).

    Also where the folder was deleted, and nothing but the processes knows of it any more.
    """
    prefix, suffix = f"{os.path.realpath(state_dir)}/{kind}-", f".lock.new{_DELETED}"
    try:
        pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    return [
        int(pid)
        for pid in pids
        if any(name.startswith(prefix) and name.endswith(suffix) for name in _open_files(pid))
    ]


def _open_files(pid: str) -> list[str]:
    folder = f"/proc/{pid}/fd"
    try:
        return [_target(f"{folder}/{fd}") for fd in os.listdir(folder)]
    except OSError:
        return []  # Gone, or another user's.


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
