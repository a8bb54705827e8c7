"""Read and write files safely, those that people name and those of this package.

`find_weakness` names what lets another user change a file that root reads. The file must belong to
root, be a regular file with one link, and not be writable by group or others, as cronie requires
(src/database.c). So must each folder above it, as OpenSSH's safe_path requires. A folder further up
can be sticky and shared, such as /tmp: a user can't rename or remove another user's file there. The
file's own folder must not be shared, because anybody could put a file beside it, such as a log that
SQLite takes for the database's.

`write_whole` and `write_new` never leave half a file. Root writes only into folders that no other
user can change. Root follows no symbolic link at the end of a path; other users follow their own.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from edgecron.base.errors import (
    EdgecronError,
    InvalidInput,
    NotFound,
    NotSupported,
    os_words,
)
from edgecron.base.paths import hint_for_missing, is_root, list_command, resolve_path
from edgecron.base.values import NamedTuple

ROOT_UID = 0
ROOT_ALONE = frozenset({ROOT_UID})
_MOST_LINKS = 40  # the limit of the kernel
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
STDIN = "-"  # in the place of a file
_PLACE = re.compile(r"@([a-z_]+)@")


class Weakness(NamedTuple):
    """The reason why another user can change a file.

    `path` is the file or folder at fault, `why` the reason, `mend` a command that mends it.
    """

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
    """Find what lets users other than `owners` change a file or folder, or a link on its path.

    Return the first weakness from the root of the file system down; None if there is none. A part
    that is missing or can't be read is a weakness only with `must_exist`; otherwise the existing
    folders count. `may_be_shared`: the last folder may be sticky and shared, such as /tmp.
    `may_have_links`: the file can have several names, which is harmless if it is only read.
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
    """Find what lets others change one file, folder or link.

    `may_be_shared`: others can write into it if it is a sticky folder.
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
        return None  # A link's own mode means nothing; its target is checked separately.
    is_shared = may_be_shared and stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if mode & _OTHERS_WRITE and not is_shared:
        return Weakness(
            path=path,
            why=f"has mode {stat.S_IMODE(mode):04o}, so that other users can change it",
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


def _quoted(path: Path | str) -> str:
    from shlex import quote  # Rarely needed, and engines import this module.

    return quote(str(path))


def has_other_users(uid_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Whether other users exist: a root of its own user namespace can be the only user in it.

    There, all files of other users seem to belong to `nobody`, also the root folder.
    """
    try:
        words = uid_map.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return True
    return words[2:] != ["1"]


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result, int]]:
    """List each folder and link on a path, and how many parts of the path follow it."""
    left = list(Path(os.path.abspath(path)).parts[1:])
    here = Path("/")
    links = 0
    yield here, os.lstat(here), len(left)
    while left:
        name = left.pop(0)
        if name == "..":
            here = here.parent  # It was checked on the way down.
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


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Names of this process's own descriptors. The kernel makes these links.
_DESCRIPTORS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def is_checked() -> bool:
    """Whether paths must be checked: this process is root, and there are other users."""
    return is_root() and has_other_users()


def check_folder(folder: Path) -> None:
    """Raise InvalidInput if another user could redirect what root writes into a folder."""
    weakness = find_weakness(folder, may_be_shared=True) if is_checked() else None
    if weakness is not None:
        raise refused(folder, weakness)


def refused(folder: Path, weakness: Weakness) -> InvalidInput:
    """Make the error for a folder into which root writes nothing."""
    return InvalidInput(
        f"root writes nothing into folder {folder}: {weakness.words}",
        hint=f"name another folder, or: {weakness.mend}",
    )


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Open a checked folder; what uses the descriptor happens in that folder."""
    check_folder(folder)
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_whole(
    path: Path, parts: Iterable[bytes], *, mode: int | None = None, owner: int | None = None
) -> None:
    """Write a whole file or nothing.

    An existing file keeps its mode and its extended attributes (ACLs, labels), unless `mode` is
    given. A new file belongs to this user only. Root replaces an existing file only if it belongs
    to root or to `owner`, who then keeps it. A special file, such as /dev/stdout, is written into.
    Raises InvalidInput if another user could lead root elsewhere, NotSupported if an attribute
    can't be kept, and OSError.
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
    """Resolve a link of this user. Refuse another user's link, and any link if root is checked."""
    if is_checked() or link.st_uid not in (os.geteuid(), 0):
        raise InvalidInput(
            f"{path} is a symbolic link, of user {link.st_uid}: nothing is written through it",
            hint="name the file that it leads to",
        )
    return Path(os.path.realpath(path))


def _check_present(
    path: Path, present: os.stat_result, folder_fd: int, *, owner: int | None
) -> None:
    """Raise InvalidInput for another user's file in a shared folder."""
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
            if mode is not None:
                os.fchmod(descriptor, mode)
            elif present is not None:
                os.fchmod(descriptor, stat.S_IMODE(present.st_mode))
                _copy_attributes(name, folder_fd, descriptor)
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:  # Ctrl-C, too, leaves no half of a file.
        os.unlink(temporary, dir_fd=folder_fd)
        raise
    with suppress(OSError):  # Not every file system lets us ask.
        os.fsync(folder_fd)


def _copy_attributes(name: str, folder_fd: int, descriptor: int) -> None:
    """Give a file the extended attributes of the file that it replaces. Raises NotSupported."""
    if sys.platform != "linux":
        return
    new = _attributes_of(descriptor)
    present_fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        for attribute in _attributes_of(present_fd):
            value = os.getxattr(present_fd, attribute)
            # Often, the folder gave the new file the same label, which this user can't set.
            if attribute in new and os.getxattr(descriptor, attribute) == value:
                continue
            try:
                os.setxattr(descriptor, attribute, value)
            except OSError as error:
                raise NotSupported(
                    f"{name} can't be replaced: it would lose its attribute {attribute}"
                    f" ({os_words(error, is_named=True)})",
                    hint=f"see its attributes: getfattr -d -m - {_quoted(Path(name))}",
                ) from error
    finally:
        os.close(present_fd)


def _attributes_of(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:  # The file system has none.
            return []
        raise


def open_private(path: Path | str, flags: int) -> int:
    """Open a file with mode 0600, without following a symbolic link, closed on exec."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


_LEAST_TOKEN = 16  # letters: fewer could be tried out
_MOST_TOKEN_BYTES = 4096
MAKE = "(umask 077; head -c 32 /dev/urandom | base64 > FILE)"
_COPY = "copy the server's: the file that --token-file of its daemon names"


def read_token(given: str, *, is_for_client: bool = False) -> str:
    """Read the token in a file. Raises InvalidInput if others can read it, or if it is none.

    A client needs the server's token: hints then don't say how to make one.
    """
    path = resolve_path(given, what="--token-file")
    try:
        fd = open_private(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            seen = os.fstat(fd)
            content = os.read(fd, _MOST_TOKEN_BYTES + 1) if stat.S_ISREG(seen.st_mode) else b""
        finally:
            os.close(fd)
    except OSError as error:
        hint = f"see who can read it: ls -l {_quoted(path)}"
        if isinstance(error, FileNotFoundError):
            hint = _COPY if is_for_client else f"make it: {MAKE.replace('FILE', _quoted(path))}"
        words = os_words(error, is_named=True)
        raise InvalidInput(f"token file '{path}' can't be read: {words}", hint=hint) from error
    if not stat.S_ISREG(seen.st_mode):
        raise InvalidInput(
            f"token file '{path}' is not a file", hint=f"see what it is: ls -ld {_quoted(path)}"
        )
    if seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o077:
        raise InvalidInput(
            f"token file '{path}' is open to others (mode {stat.S_IMODE(seen.st_mode):o})",
            hint=f"chmod 600 {_quoted(path)}; and if others could read it, make a new token",
        )
    try:
        return check_token(content, what=f"token file '{path}'")
    except InvalidInput as error:
        if is_for_client:
            raise InvalidInput(error.message, hint=_COPY) from None
        raise


def check_token(content: bytes, *, what: str) -> str:
    """Return a token without the space around it. Raises InvalidInput if it is none."""
    token = content.decode("ascii", "replace").strip()
    is_word = token.isascii() and token.isprintable() and " " not in token
    if len(content) > _MOST_TOKEN_BYTES or len(token) < _LEAST_TOKEN or not is_word:
        raise InvalidInput(
            f"{what} holds no token, expected {_LEAST_TOKEN} letters or more in one word",
            hint=f"make one: {MAKE}",
        )
    return token


# Files that people name.


def read_file(file: str, *, most_bytes: int) -> bytes:
    """Read a file or stdin, up to `most_bytes` and one byte more.

    Raises NotFound or InvalidInput.
    """
    if file == STDIN:
        return sys.stdin.buffer.read(most_bytes + 1)
    try:
        with open(file, "rb") as content:
            return content.read(most_bytes + 1)
    except FileNotFoundError:
        raise NotFound(f"file {file!r} does not exist", hint=hint_for_missing(file)) from None
    except IsADirectoryError:
        raise InvalidInput(
            f"{file!r} is a folder, expected a file",
            hint=f"see its files: {list_command(Path(file))}",
        ) from None
    except (OSError, ValueError) as error:
        is_refused = isinstance(error, PermissionError)
        raise InvalidInput(
            f"file {file!r} can't be read: {os_words(error, is_named=True)}",
            hint=f"see its owner and mode: ls -l {_quoted(file)}" if is_refused else None,
        ) from None


def write_file(file: str, parts: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write a file atomically. Raises InvalidInput.

    Without a mode, an existing file keeps its mode and a new file is private. Something other than
    a regular file, such as /dev/stdout, is written into. Root is refused a path that another user
    could redirect.
    """
    try:
        write_whole(Path(file).absolute(), parts, mode=mode)
    except EdgecronError:
        raise  # From the parts; some of these errors are ValueErrors, too.
    except (OSError, ValueError) as error:
        words, hint = os_words(error, is_named=True), None
        folder = os.path.dirname(file)
        if isinstance(error, FileNotFoundError) and folder and not os.path.lexists(folder):
            words, hint = "its folder does not exist", f"mkdir -p {_quoted(folder)}"
        elif os.path.isdir(file):
            words, hint = "it is a folder", f"name a file in it, such as {_quoted(file)}/NAME"
        elif isinstance(error, PermissionError):
            hint = f"see its owner and mode: ls -ld {_quoted(folder or '.')} {_quoted(file)}"
        raise InvalidInput(f"file {file!r} can't be written: {words}", hint=hint) from None


# Texts of this package.


def package_text(name: str) -> str:
    """Return the text of a file of this package, such as `cli/topics/cron.md`."""
    # `importlib.resources` takes four megabytes, and longer to load than all the rest.
    assert __spec__ is not None
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(os.path.join(os.path.dirname(os.path.dirname(__file__)), name))
    return content.decode("utf-8")


def fill_text(name: str, /, **values: str | None) -> str:
    """Return a `package_text` with each `@key@` replaced by its value.

    If the value of a key is None, lines with this key are skipped.
    """
    missing = {key for key, value in values.items() if value is None}
    lines = package_text(name).splitlines(keepends=True)
    kept = [line for line in lines if missing.isdisjoint(_PLACE.findall(line))]
    return _PLACE.sub(lambda place: values[place[1]] or "", "".join(kept))
