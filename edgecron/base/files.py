"""Files that commands write: whole or not at all, and never where another user leads root.

Root writes only into folders that nobody else can change. A sticky folder that all users share,
such as /tmp, is one as long as the name there is free or root's own. No symbolic link is followed
at the end of a path, but for a user's own link, and the folder stays open while the file is made.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgecron.base.errors import InvalidInput
from edgecron.base.ownership import ROOT_ALONE, Weakness, find_weakness, has_other_users
from edgecron.base.paths import is_root

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# What our own descriptors are called. The links are the kernel's.
_DESCRIPTORS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def is_checked() -> bool:
    """Whether other users must be kept from leading us: we are root, and not alone."""
    return is_root() and has_other_users()


def check_folder(folder: Path) -> None:
    """Raise InvalidInput if another user could lead what root writes in a folder elsewhere."""
    weakness = find_weakness(folder, may_be_shared=True) if is_checked() else None
    if weakness is not None:
        raise refused(folder, weakness)


def refused(folder: Path, weakness: Weakness) -> InvalidInput:
    """The error for a folder that root writes nothing into."""
    return InvalidInput(
        f"root writes nothing into folder {folder}: {weakness.words}",
        hint=f"name another folder, or: {weakness.mend}",
    )


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of a folder that was checked: what is done by it is done in that folder."""
    check_folder(folder)
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_whole(
    path: Path, parts: Iterable[bytes], *, mode: int | None = None, owner: int | None = None
) -> None:
    """Write a file so that no half of it is ever there; what is there keeps its mode by default.

    A new file is nobody else's. `owner` is whose the present file may be besides root's, who
    keeps it then. What is no regular file, such as /dev/stdout, is written into. Raises
    InvalidInput if another user could lead root elsewhere, and OSError.
    """
    if os.fspath(path).startswith(_DESCRIPTORS):
        with path.open("wb") as special:
            special.writelines(parts)
        return
    with open_folder(path.parent) as folder_fd:
        present = _find(path, folder_fd)
        if present is not None and stat.S_ISLNK(present.st_mode):
            target = _followed(path, present)
        elif present is not None and not stat.S_ISREG(present.st_mode):
            _check_present(path, present, folder_fd, owner=None)
            _write_into(path, parts, folder_fd)
            return
        else:
            if present is not None:
                _check_present(path, present, folder_fd, owner=owner)
            _replace(path.name, parts, folder_fd, present, mode)
            return
    write_whole(target, parts, mode=mode, owner=owner)


def write_new(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file that was not there. Raises FileExistsError if it was, and as `write_whole`."""
    with open_folder(path.parent) as folder_fd:
        descriptor = os.open(path.name, _NEW, mode, dir_fd=folder_fd)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
        except BaseException:  # Ctrl-C, too, leaves no half of a file.
            os.unlink(path.name, dir_fd=folder_fd)
            raise


def _find(path: Path, folder_fd: int) -> os.stat_result | None:
    try:
        return os.stat(path.name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _followed(path: Path, link: os.stat_result) -> Path:
    """Where a link of our own leads to; another's, and any link of root's, is refused."""
    if is_checked() or link.st_uid not in (os.geteuid(), 0):
        raise InvalidInput(
            f"{path} is a symbolic link, of user {link.st_uid}: nothing is written through it",
            hint="name the file that it leads to",
        )
    return Path(os.path.realpath(path))


def _check_present(
    path: Path, present: os.stat_result, folder_fd: int, *, owner: int | None
) -> None:
    """Raise InvalidInput for another's file in a folder that users share: it was put there."""
    is_shared = bool(os.fstat(folder_fd).st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if is_checked() and is_shared and present.st_uid not in (*ROOT_ALONE, owner):
        raise InvalidInput(
            f"{path} belongs to user {present.st_uid} and lies in a folder that users share:"
            " root writes nothing there",
            hint="name a file in a folder of root's",
        )


def _write_into(path: Path, parts: Iterable[bytes], folder_fd: int) -> None:
    descriptor = os.open(path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    with open(descriptor, "wb") as special:
        special.writelines(parts)


def _replace(
    name: str,
    parts: Iterable[bytes],
    folder_fd: int,
    present: os.stat_result | None,
    mode: int | None,
) -> None:
    temporary = f".edgecron-{os.urandom(6).hex()}"
    descriptor = os.open(temporary, _NEW, 0o600, dir_fd=folder_fd)
    try:
        with open(descriptor, "wb") as written:
            written.writelines(parts)
            written.flush()
            if present is not None and os.geteuid() == 0:
                os.fchown(descriptor, present.st_uid, present.st_gid)
            if mode is None and present is not None:
                mode = stat.S_IMODE(present.st_mode)
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:  # Ctrl-C, too, leaves no half of a file.
        os.unlink(temporary, dir_fd=folder_fd)
        raise
    with suppress(OSError):  # Not every file system lets us ask.
        os.fsync(folder_fd)


def open_private(path: Path | str, flags: int) -> int:
    """A descriptor of a file 0600 whatever the umask, no symlink followed, closed on exec."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
