"""Back up a database in use: copy it, check the copy, and only then give it its name.

The other functions decide where a backup can lie and rename files in one step; `restore` uses them
too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from shlex import quote

from edgecron.base.errors import AlreadyExists, EdgecronError, InvalidInput, NotFound
from edgecron.base.files import check_folder, find_weakness, has_other_users
from edgecron.base.paths import resolve_path, state_dir
from edgecron.base.values import NamedTuple, dataclass
from edgecron.store.sqlite.copies import Contents, Progress, copy_database

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2
_UNKNOWN = frozenset((errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP))


def exchange(path: Path, other: Path) -> bool:
    """Exchange the names of two files; False if that is impossible in one step."""
    return _rename(path, other, _EXCHANGE)


def rename_new(path: Path, target: Path) -> bool:
    """Rename a file to a free name; False if that is impossible in one step.

    Raises FileExistsError.
    """
    return _rename(path, target, _NOREPLACE)


def _rename(path: Path, target: Path, flag: int) -> bool:
    try:
        import ctypes

        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if function(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(path), None, str(target))


_PARTIAL = ".edgecron-{}.partial"
_OURS = re.compile(r"\.edgecron-[0-9a-f]+\.partial", re.ASCII)
_BESIDE = ("-wal", "-shm", "-journal")


def date_words(now: datetime) -> str:
    """Write an instant as part of a file's name, in UTC: `20261120T080000Z`."""
    return now.strftime("%Y%m%dT%H%M%SZ")


class Target(NamedTuple):
    """The file of a backup. `is_found`: edgecron chose its name within a folder."""

    path: Path
    is_found: bool


def resolve_target(database: Path, given: str, *, now: datetime, replace: bool) -> Target:
    """Return the file for a backup.

    In a folder, its name has the database, the time, and a number if that second has a backup
    already. `{date}` in a path is the time. Raises AlreadyExists if the file exists and `replace`
    is not set, NotFound if its folder is missing, InvalidInput if no backup can be there.
    """
    if not given or "\0" in given:
        raise InvalidInput(f"the backup file is {given!r}, expected a path")
    dated = given.replace("{date}", date_words(now))
    target = Path(os.path.normpath(resolve_path(dated, what="backup")))
    is_found = target.is_dir() or given.endswith("/")
    if is_found:
        target = _free_name(target, database, now)
    if not target.parent.is_dir():
        folder = target.parent
        raise NotFound(f"folder {folder} does not exist", hint=f"mkdir -p {quote(str(folder))}")
    refuse_own(database, target)
    try:
        found = target.lstat()
    except FileNotFoundError:
        return Target(target, is_found)
    if stat.S_ISLNK(found.st_mode):
        raise InvalidInput(f"{target} is a symbolic link", hint="name the file it points to")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput(f"{target} is not a regular file")
    if not replace:
        raise AlreadyExists(
            f"{target} exists already",
            hint="name a folder, or {date} in the file's name; or replace it with --force",
        )
    return Target(target, is_found)


def _free_name(folder: Path, database: Path, now: datetime) -> Path:
    name, suffix = f"{database.stem}-{date_words(now)}", database.suffix or ".db"
    target, number = folder / f"{name}{suffix}", 1
    while os.path.lexists(target):
        number += 1
        target = folder / f"{name}-{number}{suffix}"
    return target


def refuse_in_use(path: Path, *, is_folder_in_use: bool = True) -> None:
    """Raise InvalidInput if the files beside a database show that it is in use.

    `is_folder_in_use`: a state folder beside it counts too.
    """
    for name in _BESIDE:
        beside = path.with_name(path.name + name)
        if os.path.lexists(beside):
            raise InvalidInput(
                f"{path} is a database in use, or was copied without its log: {beside} exists",
                hint=f"to make a complete copy: edgecron --db {path} backup FILE",
            )
    if is_folder_in_use and os.path.lexists(state_dir(path)):
        raise InvalidInput(
            f"{path} is the database of an engine: its folder {state_dir(path)} exists",
            hint="name another file",
        )


@contextmanager
def partial_file(folder: Path) -> Iterator[Path]:
    """Make an empty file 0600 to write to; remove it at the end, unless it was renamed.

    Removes files that killed processes left. Raises InvalidInput if another user could redirect
    root in that folder.
    """
    check_folder(folder)
    _clear_partials(folder)
    path, descriptor = _make_partial(folder)
    try:
        yield path
    finally:
        with suppress(OSError):  # Report the first error; the next copy removes the file.
            _remove(path)
        os.close(descriptor)


def put_in_place(partial: Path, target: Path, *, replace: bool) -> None:
    """Give a finished file its name, and sync both to the disk.

    Raises AlreadyExists if the name was taken meanwhile and `replace` is not set.
    """
    sync_file(partial)
    if replace:
        partial.replace(target)
    else:
        rename_to_new(partial, target)
    sync_folder(target.parent)


def rename_to_new(partial: Path, target: Path) -> None:
    """Give a file a free name. Raises AlreadyExists if it was taken meanwhile."""
    try:
        is_done = rename_new(partial, target)
    except FileExistsError:
        raise AlreadyExists(
            f"{target} exists already", hint="name another file, or replace it with --force"
        ) from None
    if not is_done:
        try:
            os.link(partial, target)
        except FileExistsError:
            raise AlreadyExists(
                f"{target} exists already", hint="name another file, or replace it with --force"
            ) from None
        except OSError:
            # A file system without hard links, as on memory sticks: check, then rename.
            if os.path.lexists(target):
                raise AlreadyExists(
                    f"{target} exists already", hint="name another file, or replace it with --force"
                ) from None
            partial.rename(target)
        else:
            partial.unlink()


def sync_file(path: Path) -> None:
    """Sync a file to the disk. Not for a file that SQLite has open in this process."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk, if its file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_own(database: Path, target: Path) -> None:
    """Raise InvalidInput if a file is one of the database's own, by any path."""
    place = target.parent.resolve() / target.name
    own = [database.with_name(database.name + name) for name in ("", *_BESIDE)]
    for path in own:
        if place == path.parent.resolve() / path.name or _is_same(path, target):
            raise InvalidInput(
                f"{target} is the database itself, expected another file", hint="name another file"
            )
    if place.is_relative_to(state_dir(database).resolve()):
        raise InvalidInput(f"{target} is in the folder of the engines", hint="name another file")
    refuse_in_use(target)


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), other.stat())
    except OSError:
        return False


def _make_partial(folder: Path) -> tuple[Path, int]:
    """Make a partial file; return it with a descriptor that holds its lock."""
    while True:
        path = folder / _PARTIAL.format(os.urandom(6).hex())
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise EdgecronError(f"can't create a file in {folder} ({error.strerror})") from error
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.path.lexists(path):
            return path, descriptor
        os.close(descriptor)  # Another process removed it before it was locked.


def _clear_partials(folder: Path) -> None:
    """Remove partial files of edgecron that no process has locked."""
    for path in folder.glob(_PARTIAL.format("*")):
        if not _OURS.fullmatch(path.name):
            continue  # Not a name that edgecron gives.
        try:
            # A pipe of such a name must not block.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(path, flags)
        except OSError:
            continue  # It is another user's, or gone.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        except OSError:
            continue  # A process writes it, or locks are unknown here.
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a partial file, and what SQLite or a migration left beside it."""
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink(missing_ok=True)


def find_opening(source: Path) -> str | None:
    """Return how a user other than root and us could have written a backup; None if none could."""
    if not has_other_users():
        return None
    weakness = find_weakness(
        source, owners={0, os.geteuid()}, must_exist=True, may_be_shared=True, may_have_links=True
    )
    return None if weakness is None else weakness.words


_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A finished backup. `path` is None if it was not written to a file."""

    database: Path
    path: Path | None
    taken_at: datetime
    size_bytes: int
    contents: Contents


def make_backup(
    database: Path, given: str, *, now: datetime, replace: bool, on_progress: Progress
) -> Backup:
    """Back up a database to a file, or into a folder under a dated name.

    Only an undamaged copy gets the name; a file that it replaces stays until then. Raises what
    `resolve_target` and `copy_database` raise.
    """
    target = resolve_target(database, given, now=now, replace=replace)
    with partial_file(target.path.parent) as partial:
        contents = copy_database(database, partial, on_progress=on_progress)
        size_bytes = partial.stat().st_size
        while True:
            try:
                put_in_place(partial, target.path, replace=replace and not target.is_found)
            except AlreadyExists:
                if not target.is_found:
                    raise
                # Another backup of this second was finished first.
                target = resolve_target(database, given, now=now, replace=False)
            else:
                break
    return Backup(
        database=database, path=target.path, taken_at=now, size_bytes=size_bytes, contents=contents
    )


def write_backup(
    database: Path, write: Callable[[bytes], object], *, now: datetime, on_progress: Progress
) -> Backup:
    """Back up a database to `write`, after a check of the copy for damage.

    The copy lies beside the database meanwhile.
    """
    with partial_file(database.parent) as partial:
        contents = copy_database(database, partial, on_progress=on_progress)
        size_bytes = partial.stat().st_size
        with partial.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                write(chunk)
    return Backup(
        database=database, path=None, taken_at=now, size_bytes=size_bytes, contents=contents
    )
