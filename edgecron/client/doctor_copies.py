"""What others do to a database: a copy of it that is run as well, a host that drops its locks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client.finding import Finding, problem, warning, well
from edgecron.engine.health import holds_open
from edgecron.engine.liveness import engine_lock_path
from edgecron.engine.peers import EngineState

_LOCKS = Path("/proc/locks")
_LOCK = re.compile(r"\d+: POSIX +\S+ +\S+ +(\d+) +[0-9a-f]+:[0-9a-f]+:(\d+) ", re.ASCII)
_STANDARD = re.compile(rb"/_sqlite3\.[^/\n]*so", re.ASCII)
_APSW = re.compile(rb"/apsw/[^\n]*so", re.ASCII)


def check_others(client: Client, states: Sequence[EngineState]) -> list[Finding]:
    """Whether a copy of the database is run as well, and whether the engines have their locks."""
    found = [
        problem(
            "others",
            f"pid {twin.pid} runs a copy of this database, {twin.path or 'which is not seen here'}:"
            " each schedule fires in both",
            hint="stop one; a copy that is to live on is made by: edgecron backup FILE, and"
            " edgecron --db NEW restore FILE",
        )
        for twin in client.twins()
    ]
    folder = state_dir(client.path)
    for state in states:
        pid = state.info.pid
        if state.is_alive and holds_open(pid, engine_lock_path(folder, state.info.key)):
            found += check_host(client.path, pid)
    return found or [well("others", "no copy of it is run, and no program gets in its way")]


def check_host(database: Path, pid: int) -> list[Finding]:
    """What the program that an engine lives in does to its locks, as far as it shows (Linux).

    For a caller that has the database open itself: where the kernel does not show the locks of
    that, it is not asked for those of others.
    """
    holders = _holders(database)
    advice = "open it through edgecron alone, or in a process of its own; restart that program"
    if os.getpid() in holders and pid not in holders:
        return [
            problem(
                "others",
                f"the engine of pid {pid} has lost its locks on the database: its program has"
                " opened and closed the file beside it, as Python's sqlite3 does",
                hint=advice,
            )
        ]
    if _has_both(pid):
        return [
            warning(
                "others",
                f"the program of pid {pid} has Python's sqlite3 loaded beside its engine: where"
                " it opens this database with that, the engine loses its locks",
                hint=advice,
            )
        ]
    return []


def _holders(database: Path) -> set[int]:
    """The processes that hold a lock on the database, as SQLite does as long as it is open."""
    try:
        inode = database.stat().st_ino
        lines = _LOCKS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    found = (_LOCK.match(line) for line in lines)
    return {int(lock[1]) for lock in found if lock is not None and int(lock[2]) == inode}


def _has_both(pid: int) -> bool:
    """Whether a process has loaded both ways to SQLite, where they are files of their own."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False  # Another user's, or gone.
    return _STANDARD.search(maps) is not None and _APSW.search(maps) is not None
