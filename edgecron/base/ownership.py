"""Whether a file is its owner's alone: nobody else may change it, or put another in its place.

What root runs is read from files, and who may change one of them is root. So the file must be
root's, as crond wants its tables (cronie's src/database.c: a regular file of root's, one link,
not writable by group or others), and so must be every folder above it, as sshd wants them
(OpenSSH's safe_path). Other than for sshd a folder further up may be everybody's where it is
sticky, as /tmp: there nobody renames or removes what is another's. Not the file's own folder:
anybody could lay something beside it there, such as a log that SQLite takes for the database's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from edgecron.base.values import NamedTuple

ROOT_UID = 0
ROOT_ALONE = frozenset({ROOT_UID})
_MOST_LINKS = 40  # as the kernel has it
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Weakness(NamedTuple):
    """What lets somebody else change a file: `path` is what `why` is said of, `mend` a command."""

    path: Path
    why: str
    mend: str

    @property
    def words(self) -> str:
        return f"{self.path} {self.why}"


def find_weakness(
    path: Path,
    *,
    owners: Collection[int] = ROOT_ALONE,
    must_exist: bool = False,
    may_be_shared: bool = False,
    may_have_links: bool = False,
) -> Weakness | None:
    """What lets others than `owners` change a file or folder, or what its name leads to.

    The first from the root of the file system on; None where nothing does. What is missing, or
    can't be looked at, is one with `must_exist` alone: else the folders that are there count.
    With `may_be_shared` its own folder, or it, may be a sticky one, in which others have files,
    too. With `may_have_links` it may have several names, which is no harm to who only reads it.
    """
    left = 0
    for found, status, left in _steps(path):
        is_deep = may_be_shared or left > 1
        weakness = _judge_rights(found, status, owners=owners, may_be_shared=is_deep)
        if weakness is None and not may_have_links:
            weakness = _judge_links(found, status)
        if weakness is not None:
            return weakness
    if left and must_exist:
        return Weakness(path=path, why="is not there", mend=f"ls -l {_quoted(path)}")
    return None


def judge(
    path: Path, status: os.stat_result, *, owners: Collection[int], may_be_shared: bool
) -> Weakness | None:
    """What lets others change one file or folder, or a link to another.

    `may_be_shared`: it may be everybody's where it is sticky.
    """
    rights = _judge_rights(path, status, owners=owners, may_be_shared=may_be_shared)
    return rights or _judge_links(path, status)


def _judge_rights(
    path: Path, status: os.stat_result, *, owners: Collection[int], may_be_shared: bool
) -> Weakness | None:
    mode = status.st_mode
    if status.st_uid not in owners:
        whose = "root" if set(owners) == {ROOT_UID} else "you or root"
        return Weakness(
            path=path,
            why=f"belongs to user {status.st_uid}, expected {whose}",
            # Without -h, chown changes what a link leads to.
            mend=f"chown {'-h ' if stat.S_ISLNK(mode) else ''}root {_quoted(path)}",
        )
    if stat.S_ISLNK(mode):
        return None  # Its own mode means nothing, and where it leads to is looked at.
    is_shared = may_be_shared and stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if mode & _OTHERS_WRITE and not is_shared:
        return Weakness(
            path=path,
            why=f"has mode {stat.S_IMODE(mode):04o}, so that others may change it",
            mend=f"chmod go-w {_quoted(path)}",
        )
    return None


def _judge_links(path: Path, status: os.stat_result) -> Weakness | None:
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return Weakness(
            path=path,
            why=f"has {status.st_nlink} names (hard links)",
            mend=f"find / -xdev -samefile {_quoted(path)}",
        )
    return None


def _quoted(path: Path) -> str:
    from shlex import quote  # Nearly always all is well, and an engine looks at it, too.

    return quote(str(path))


def has_other_users(uid_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Whether there is anybody but us: a root of its own user namespace may be alone in it.

    Whatever is not that root's seems to be nobody's there, the root folder included.
    """
    try:
        words = uid_map.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return True
    return words[2:] != ["1"]


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result, int]]:
    """All that a name leads through, links included, and how many parts of it are still to come."""
    left = list(Path(os.path.abspath(path)).parts[1:])
    here = Path("/")
    links = 0
    yield here, os.lstat(here), len(left)
    while left:
        name = left.pop(0)
        if name == "..":
            here = here.parent  # As it was looked at on the way down.
            continue
        there = here / name
        try:
            status = os.lstat(there)
        except OSError:
            return
        if stat.S_ISLNK(status.st_mode) and links < _MOST_LINKS:
            links += 1
            yield there, status, len(left) + 1
            target = Path(os.readlink(there))
            parts = target.parts
            if target.is_absolute():
                here, parts = Path("/"), parts[1:]
            left = [*parts, *left]
            continue
        here = there
        yield there, status, len(left)
