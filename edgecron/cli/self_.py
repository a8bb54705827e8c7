"""Show or remove this program.

    edgecron self                  show its path, version, size and licences
    edgecron self clean            remove the files of old versions
    edgecron self remove           remove the program and its unpacked files

The single binary unpacks itself once, to the first of these folders that works:
$XDG_CACHE_HOME/edgecron or ~/.cache/edgecron, for root /var/cache/edgecron or /var/lib/edgecron,
then /var/tmp, /tmp, /dev/shm. EDGECRON_UNPACK_DIR names another one. Each version has its own
folder. A newer version removes it, unless a process still runs from it or its binary still exists.

The first start after a boot, and each `edgecron self`, compares all files with the binary and
replaces those that differ. The .deb installs the program to /usr/lib/edgecron and unpacks nothing.

Databases, configuration and logs always stay. If you installed edgecron with pip, pipx or uv,
remove it with the same tool.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import edgecron
from edgecron import __version__
from edgecron.base.bundle import SHARED, Bundle, find_bundle
from edgecron.base.errors import Conflict, EdgecronError, NotSupported, UsageError
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.views.phrases import size_words

_PACKAGE_LIST = "/var/lib/dpkg/info/edgecron.list"


def add_arguments(parser: Parser) -> None:
    parser.add(
        "[show|clean|remove]", "choose an action (default: show)", dest="action", default="show"
    )
    parser.add("-y --yes", "remove without asking")


def run(cli: Session, args: Namespace) -> int:
    actions = {"show": _show, "clean": _clean, "remove": _remove_program}
    if args.action not in actions:
        from edgecron.cli.suggestions import refuse_action  # Only for errors.

        refuse_action("self", args.action, actions)
    if args.yes and args.action != "remove":
        raise UsageError("--yes only works with remove", hint="edgecron self remove --yes")
    bundle = find_bundle()
    if bundle is not None:
        return actions[args.action](cli, bundle, args)
    if args.action != "show":
        raise NotSupported(
            f"this edgecron is a Python package of {sys.executable} and has no unpacked files",
            hint="remove it with the tool that installed it, such as: pip uninstall edgecron",
        )
    _show_package(cli)
    return 0


def _show_package(cli: Session) -> None:
    home = os.path.dirname(os.path.abspath(edgecron.__file__))
    if cli.is_json:
        row = {"kind": "package", "path": home, "version": edgecron.__version__}
        cli.put_json([{**row, "bytes": None, "python": sys.executable}])
        return
    cli.put_data(clean(f"program   {home}, version {edgecron.__version__}"))
    cli.put_data(clean(f"python    {sys.executable} {sys.version.split()[0]}"))
    cli.put_data("To remove it, use the tool that installed it, such as: pip uninstall edgecron")


def _show(cli: Session, bundle: Bundle, args: Namespace) -> int:
    program, folders = _program(bundle), find_folders(bundle)
    licences = os.path.join(bundle.folder, "_internal", "licences")
    if cli.is_json:
        cli.put_json([{**program, "licences": licences}, *map(_object, folders)])
        return 0
    if program["path"] is None:
        cli.put_data(
            f"program   its file was removed or replaced; version {program['version']} still runs"
        )
    else:
        size = size_words(program["bytes"])
        cli.put_data(clean(f"program   {program['path']}, {size}, version {program['version']}"))
    how = "installed" if bundle.is_installed else "unpacked "
    for folder in folders:
        cli.put_data(clean(f"{how} {folder.path}, {size_words(folder.size_bytes)}, {_use(folder)}"))
    cli.put_data(clean(f"licences  {licences}, of all its parts"))
    return 0


def _program(bundle: Bundle) -> dict[str, Any]:
    return {
        "kind": "binary",
        "path": bundle.file if bundle.has_file else None,
        "version": __version__,
        "bytes": os.fstat(bundle.file_fd).st_size,
    }


def _object(folder: Folder) -> dict[str, Any]:
    return {
        "kind": "folder",
        "path": folder.path,
        "version": folder.version,
        "bytes": folder.size_bytes,
        "is_current": folder.is_current,
        "is_used": folder.is_used,
        "pids": folder.pids,
    }


def _use(folder: Folder) -> str:
    """Describe who runs from it."""
    of = "this version" if folder.is_current else f"version {folder.version}"
    if folder.pids:
        return f"{of}, used by {_pids(folder)}"
    if folder.is_used and not folder.is_current:
        return f"{of}, used by a process"
    return of if folder.is_current else f"{of}, not used: edgecron self clean"


def _pids(folder: Folder) -> str:
    return f"pid {', '.join(map(str, folder.pids))}"


def _clean(cli: Session, bundle: Bundle, args: Namespace) -> int:
    """Remove unused versions; used ones are named, which is not a failure."""
    others = [folder for folder in find_folders(bundle) if not folder.is_current]
    removed = [folder for folder in others if remove_folder(folder)]
    _tell(cli, removed, kept=[folder for folder in others if folder not in removed])
    return 0


def _tell(cli: Session, removed: list[Folder], *, kept: list[Folder]) -> None:
    if cli.is_json:
        cli.put_json(
            [{**_object(folder), "is_removed": folder in removed} for folder in (*removed, *kept)]
        )
        return
    for folder in removed:
        cli.put(clean(f"removed {folder.path}, {size_words(folder.size_bytes)}"))
    for folder in kept:
        cli.put(clean(f"kept {folder.path}: {_use(folder)}"))
    if not removed and not kept:
        cli.put("old versions have left no files")


def _remove_program(cli: Session, bundle: Bundle, args: Namespace) -> int:
    if bundle.is_installed or bundle.has_file:
        _refuse_packaged(bundle)
        _refuse_of_others(bundle)
    folders = find_folders(bundle)
    used = [folder for folder in folders if folder.pids]
    if used:
        raise Conflict(
            f"edgecron is running: {_pids(used[0])} runs from {used[0].path}",
            hint="stop its engines and wait until their runs have ended; see: edgecron status",
        )
    if not args.yes and not _agrees(cli, bundle, folders):
        cli.say("nothing was removed")
        return 1
    others = [folder for folder in folders if not folder.is_current]
    removed = [folder for folder in others if remove_folder(folder)]
    # Before the files are removed: nothing can be loaded afterwards.
    gone = [*removed, *(folder for folder in folders if folder.is_current)]
    lines = [clean(f"removed {each.path}, {size_words(each.size_bytes)}") for each in gone]
    program = _program(bundle)
    lines += [clean(f"removed {program['path']}")] if program["path"] else []
    lines += ["Databases and configuration stay."]
    if not remove_own(bundle):
        raise Conflict(f"another process has begun to use {bundle.folder}", hint="try again")
    if bundle.has_file:
        os.unlink(bundle.file)
    if cli.is_json:
        rows = [{**_object(folder), "is_removed": folder in gone} for folder in folders]
        cli.put_json([{**program, "is_removed": True}, *rows])
    else:
        for line in lines:
            cli.put(line)
    return 0


def _refuse_packaged(bundle: Bundle) -> None:
    """Raise NotSupported if the file belongs to a system package."""
    is_packaged = bundle.is_installed
    if not is_packaged:
        try:
            with open(_PACKAGE_LIST, encoding="utf-8") as files:
                is_packaged = f"{bundle.file}\n" in files
        except OSError:
            return
    if is_packaged:
        place = bundle.file or bundle.folder
        raise NotSupported(
            f"{place} belongs to the package edgecron",
            hint="on Debian: apt-get remove edgecron; on Arch: pacman -R edgecron-bin",
        )


def _refuse_of_others(bundle: Bundle) -> None:
    """Raise Conflict if this user can't remove the file: only half would be removed."""
    folder = os.path.dirname(bundle.file)
    owners = (os.lstat(folder).st_uid, os.lstat(bundle.file).st_uid)
    is_sticky = bool(os.lstat(folder).st_mode & stat.S_ISVTX) and os.geteuid() not in (0, *owners)
    if not os.access(folder, os.W_OK) or is_sticky:
        raise Conflict(
            f"{bundle.file} can't be removed: {folder} belongs to another user",
            hint="ask its owner; to remove the files of old versions: edgecron self clean",
        )


def _agrees(cli: Session, bundle: Bundle, folders: list[Folder]) -> bool:
    if not cli.can_ask():
        raise UsageError(
            "the program would be removed, and there is no terminal to ask on",
            hint="repeat with --yes; databases stay",
        )
    for path in (bundle.file, *(folder.path for folder in folders)):
        if path:
            cli.say(path)
    return cli.ask("remove these? Databases and configuration stay.")


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
