"""Files and folders of a database: their modes, the space around them, what crashed there.

The database's files are only asked for, never opened: to close one would drop SQLite's locks.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from shlex import quote

from edgecron.base.values import dataclass
from edgecron.client.finding import Finding, problem, warning, well
from edgecron.engine.owner import find_opening

LEAST_FREE_BYTES = 16 * 1024 * 1024
_LEAST_FREE_SHARE = 0.01
_LEAST_FREE_FILES = 64
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a file system has and has left, in bytes and in files; a total of 0 is no limit."""

    free_bytes: int
    total_bytes: int
    free_files: int
    total_files: int


def check_files(database: Path, state_dir: Path) -> list[Finding]:
    """Whether what is private may be read or written by others, and is what it must be."""
    wide = []
    wanted = {
        database: 0o600,
        database.with_name(f"{database.name}-wal"): 0o600,
        database.with_name(f"{database.name}-shm"): 0o600,
        state_dir: 0o700,
    }
    if os.path.lexists(state_dir) and (state_dir.is_symlink() or not state_dir.is_dir()):
        del wanted[state_dir]
        what = "a symbolic link" if state_dir.is_symlink() else "no folder"
        wide.append(
            problem(
                "files",
                f"{state_dir} is {what}, and no engine can start",
                hint=f"move it away: mv {quote(str(state_dir))} {quote(f'{state_dir}.old')}",
            )
        )
    for path, mode in wanted.items():
        try:
            mode_now = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            wide.append(problem("files", f"{path} can't be looked at: {error.strerror}"))
            continue
        if path != state_dir and not stat.S_ISREG(mode_now):
            continue  # A device or a link is not ours to change; `database` reports it.
        found = stat.S_IMODE(mode_now)
        if found & 0o077:
            wide.append(
                problem(
                    "files",
                    f"{path} has mode {found:04o}, expected {mode:04o}: others may get at it",
                    hint=f"chmod {mode:o} {quote(str(path))}",
                )
            )
        elif mode & ~found:
            wide.append(
                problem(
                    "files",
                    f"{path} has mode {found:04o}, expected {mode:04o}: its owner can't use it",
                    hint=f"chmod {mode:o} {quote(str(path))}",
                )
            )
    opening = find_opening(database)
    if opening is not None:
        wide.append(
            problem(
                "files",
                f"{opening.words}: others decide what runs as root, and no engine of root's starts",
                hint=opening.mend,
            )
        )
    return wide or [well("files", "private: nobody else can read them")]


def check_space(database: Path, state_dir: Path) -> list[Finding]:
    """Whether there is room to write where the database and its journals lie."""
    found: dict[int, Finding] = {}
    for folder in (database.parent, state_dir):
        try:
            device, seen = folder.stat().st_dev, os.statvfs(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return [problem("space", f"{folder} can't be looked at: {error.strerror}")]
        room = Room(
            free_bytes=seen.f_bavail * seen.f_frsize,
            total_bytes=seen.f_blocks * seen.f_frsize,
            free_files=seen.f_favail,
            total_files=seen.f_files,
        )
        found[device] = judge_space(folder, room)
    return list(found.values())


def judge_space(folder: Path, room: Room) -> Finding:
    """What to say of the room on the file system of a folder; one of no size is no disk."""
    share = room.free_bytes / room.total_bytes if room.total_bytes else 1.0
    words = f"{room.free_bytes / _MIB:,.0f} MiB free"
    if room.free_bytes >= 10 * 1024 * _MIB:
        words = f"{room.free_bytes / (1024 * _MIB):,.0f} GiB free"
    if room.total_bytes and (room.free_bytes < LEAST_FREE_BYTES or share < _LEAST_FREE_SHARE):
        return problem(
            "space",
            f"{words} ({share:.1%}) on the file system of {folder}",
            hint="free some: nothing is started where it can't be put on record",
        )
    if room.total_files and room.free_files < _LEAST_FREE_FILES:
        return problem(
            "space",
            f"room for {room.free_files} more files on the file system of {folder}",
            hint="remove some: an engine and its runs need a few",
        )
    return well("space", words)


def check_crashes(state_dir: Path) -> list[Finding]:
    """The tracebacks of supervisors that failed by a defect of their own."""
    return [
        warning(
            "supervisors",
            f"one failed by a defect of edgecron: {path}",
            hint=f"read and report it, then: rm {quote(str(path))}",
        )
        for path in sorted(state_dir.glob("supervisor-*.crash"))
    ]
