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

import os
import stat
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

import edgecron
from edgecron import __version__
from edgecron.base.bundle import Bundle, find_bundle
from edgecron.base.bundle_folders import Folder, find_folders, remove_folder, remove_own
from edgecron.base.errors import Conflict, NotSupported, UsageError
from edgecron.base.safetext import clean
from edgecron.cli.session import Session
from edgecron.views.phrases import size_words

_PACKAGE_LIST = "/var/lib/dpkg/info/edgecron.list"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="show",
        metavar="show|clean|remove",
        help="choose an action (default: show)",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="remove without asking")


def run(cli: Session, args: Namespace) -> int:
    actions = {"show": _show, "clean": _clean, "remove": _remove}
    if args.action not in actions:
        from edgecron.cli.suggestions import hint_for_action  # Only for errors.

        raise UsageError(
            f"{args.action!r} is unknown, expected show, clean or remove",
            hint=hint_for_action("self", args.action, actions),
        )
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


def _remove(cli: Session, bundle: Bundle, args: Namespace) -> int:
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
            f"{place} belongs to the package edgecron", hint="apt-get remove edgecron"
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
