"""A copy of the database beside it: whole and on the disk under its name, or not there."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw

from edgecron.base.errors import DatabaseFull, DatabaseUnusable
from edgecron.store.connection import Database
from edgecron.store.whole import copy_to

_MIB = 1024 * 1024


def keep_copy(database: Database, *, suffix: str) -> Path:
    """Copy what is committed to a file named like the database and `suffix`, mode 0600; its path.

    For who holds the write lock: nothing is committed then, and nobody else makes this copy. What
    has the name already stays, and is taken for the copy where it is the same; else the copy gets
    a number. Raises DatabaseUnusable where it can't be made; nothing of it is left then.
    """
    path = database.path.parent.resolve() / database.path.name
    new = path.with_name(f"{path.name}{suffix}.new")
    try:
        # Of one that was killed.
        new.unlink(missing_ok=True)
        _need_space(path)
        try:
            _write(database, new)
            return _name(new, path.with_name(f"{path.name}{suffix}"))
        except BaseException:
            with suppress(OSError):  # What went wrong first is told.
                new.unlink(missing_ok=True)
            raise
    except (OSError, apsw.Error) as error:
        if isinstance(error, apsw.FullError) or getattr(error, "errno", 0) == errno.ENOSPC:
            raise _no_space(path) from error
        raise DatabaseUnusable(
            f"database {path} can't be copied before it is changed ({error})",
            hint=f"it was left as it is; see that files can be made in {path.parent}",
        ) from error


def _write(database: Database, new: Path) -> None:
    descriptor = os.open(
        new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        os.fchmod(descriptor, 0o600)
        if os.geteuid() == 0:
            # The copy is whose the database is, whoever upgrades it.
            owner = os.stat(database.path)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        # A connection in a transaction that writes is no source of a copy.
        source = Database(database.path, must_exist=True)
        try:
            copy_to(source, new)
        finally:
            source.close()
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(new: Path, wanted: Path) -> Path:
    """Give the finished copy the first name that is free, unless it is there already."""
    import filecmp

    for number in count(1):
        path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        if not os.path.lexists(path):
            new.rename(path)
            break
        if not path.is_symlink() and filecmp.cmp(new, path, shallow=False):
            new.unlink()
            break
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path


def _need_space(path: Path) -> None:
    if _free_bytes(path) < _wanted_bytes(path):
        raise _no_space(path)


def _no_space(path: Path) -> DatabaseFull:
    wanted, free = -(-_wanted_bytes(path) // _MIB), _free_bytes(path) // _MIB
    return DatabaseFull(
        f"no space left to copy database {path} before it is changed:"
        f" {wanted} MiB are needed, {free} MiB are free",
        hint=f"it was left as it is; free some space on the disk of {path.parent}",
    )


def _free_bytes(path: Path) -> int:
    seen = os.statvfs(path.parent)
    return seen.f_bavail * seen.f_frsize


def _wanted_bytes(path: Path) -> int:
    """Room for the copy, for a log that holds every table anew, and for these in the database."""
    sizes = [path.stat().st_size]
    with suppress(FileNotFoundError):
        sizes.append(path.with_name(f"{path.name}-wal").stat().st_size)
    return 3 * sum(sizes)
