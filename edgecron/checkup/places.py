"""Files and folders of a database: their modes, the space around them, what crashed there.

The database's files are only asked for, never opened: to close one would drop SQLite's locks.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from shlex import quote

from edgecron.checkup.finding import Finding, problem, warning, well

LEAST_FREE_BYTES = 16 * 1024 * 1024
_LEAST_FREE_SHARE = 0.01
_MIB = 1024 * 1024


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
            found = stat.S_IMODE(path.lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            wide.append(problem("files", f"{path} can't be looked at: {error.strerror}"))
            continue
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
        found[device] = judge_space(
            folder,
            free_bytes=seen.f_bavail * seen.f_frsize,
            total_bytes=seen.f_blocks * seen.f_frsize,
        )
    return list(found.values())


def judge_space(folder: Path, *, free_bytes: int, total_bytes: int) -> Finding:
    """What to say of the room on the file system of a folder; one of no size is no disk."""
    share = free_bytes / total_bytes if total_bytes else 1.0
    words = f"{free_bytes / _MIB:,.0f} MiB free"
    if free_bytes >= 10 * 1024 * _MIB:
        words = f"{free_bytes / (1024 * _MIB):,.0f} GiB free"
    if total_bytes and (free_bytes < LEAST_FREE_BYTES or share < _LEAST_FREE_SHARE):
        return problem(
            "space",
            f"{words} ({share:.1%}) on the file system of {folder}",
            hint="free some: nothing is started where it can't be put on record",
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
