"""Folders that the single binary has unpacked on this machine, one for each version."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator

from edgecron.base.bundle import SHARED, Bundle
from edgecron.base.errors import EdgecronError
from edgecron.base.values import NamedTuple

_LIBRARIES = "_internal"  # in each version's
_LOCK = ".lock"  # in a place: held by who unpacks or removes there


class Folder(NamedTuple):
    """An unpacked version. `pids` are the visible processes that run from it."""

    path: str
    version: str
    size_bytes: int
    is_current: bool
    is_used: bool
    pids: tuple[int, ...]


def find_folders(bundle: Bundle) -> list[Folder]:
    """List this user's folders in all places that the launcher uses.

    For an installed package, list only the package's folder.
    """
    if bundle.is_installed:
        return [_folder(bundle.folder, bundle=bundle)]
    found = []
    for shared in _shared_folders(bundle):
        for name in _names(shared):
            path = os.path.join(shared, name)
            if not name.startswith(".") and os.path.isdir(os.path.join(path, _LIBRARIES)):
                found.append(_folder(path, bundle=bundle))
    return found


def remove_folder(folder: Folder) -> bool:
    """Remove the folder of another version; False if a process runs from it."""
    with _held_place(os.path.dirname(folder.path)), _opened(folder.path) as fd:
        if fd is None or not _try_lock(fd):
            return False
        _remove(folder.path)
    return True


def remove_own(bundle: Bundle) -> bool:
    """Remove the folder that this process runs from; False if another process uses it.

    Nothing can be loaded from it afterwards.
    """
    from edgecron.base.bundle import let_go

    shared = os.path.dirname(bundle.folder)
    with _held_place(shared):
        if not _try_lock(bundle.lock_fd):
            fcntl.flock(bundle.lock_fd, fcntl.LOCK_SH)
            return False
        let_go()
        _remove(bundle.folder)
        place = os.path.dirname(shared)
        with contextlib.suppress(OSError):  # other versions or files are there
            if _names(shared) == [_LOCK]:
                os.unlink(os.path.join(shared, _LOCK))
            os.rmdir(shared)
            # Only a default place, not one that a person named.
            if os.path.basename(place) in ("edgecron", f"edgecron-{os.geteuid()}"):
                os.rmdir(place)
    return True


@contextlib.contextmanager
def _held_place(shared: str) -> Iterator[None]:
    """Hold the lock under which the launcher unpacks and cleans.

    A start that waits, and then finds the lock file removed, makes another one.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(os.path.join(shared, _LOCK), flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def size_of(path: str) -> int:
    """Sum the bytes of a file, or of all files in a folder."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in files)


def _shared_folders(bundle: Bundle) -> list[str]:
    """List the folders of versions, each once, this process's first.

    The launcher skips folders that another user could have made, because they get removed.
    """
    start = bundle.start(":found")
    try:
        said = subprocess.run(
            start.argv,
            executable=start.executable,
            pass_fds=start.pass_fds,
            capture_output=True,
            check=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise EdgecronError(f"the program's own file can't be run: {error}") from error
    places = [os.path.join(place, SHARED) for place in said.stdout.splitlines()]
    return list(dict.fromkeys([os.path.dirname(bundle.folder), *map(os.path.realpath, places)]))


def _names(shared: str) -> list[str]:
    try:
        return sorted(os.listdir(shared))
    except OSError:
        return []


def _folder(path: str, *, bundle: Bundle) -> Folder:
    is_current = path == bundle.folder
    pids = tuple(_pids_in(path))
    with _opened(path) as fd:
        is_used = is_current or fd is None or not _try_lock(fd)
    version, _, _ = os.path.basename(path).rpartition("-")
    return Folder(path, version, size_of(path), is_current, is_used, pids)


def _pids_in(path: str) -> Iterator[int]:
    """List other processes whose program lies in a folder; only root sees other users'."""
    for name in _names("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{name}/exe").startswith(path + os.sep):
                    yield int(name)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    """Try to lock exclusively: each process that runs from a folder holds a shared lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: str) -> None:
    """Rename, then remove, so that no start finds half a folder."""
    shared, name = os.path.split(path)
    gone = os.path.join(shared, f".old-{name}")
    os.rename(path, gone)
    shutil.rmtree(gone)
