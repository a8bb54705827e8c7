"""The single binary: its file, its unpacked folder, and how to start it again.

The launcher (`packaging/binary/launcher`) unpacks the binary once and leaves this process two
descriptors: the folder, whose shared lock shows that a process uses it, and the binary's file. A
child inherits them only if it is edgecron too. An ordinary installation has no bundle.

A cache cleaner can remove the folder while an engine runs. Python reads modules and data when it
first needs them, so `watch` checks each such read and has the launcher unpack missing files again.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import MutableMapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from edgecron.base.values import NamedTuple

_VARIABLE = "_EDGECRON_BUNDLE"  # from the launcher: LOCK_FD:FILE_FD:PATH
_LOADER = "_PYI_"  # begins the variables of PyInstaller's loader
_EXEC = (
    # Import this very package, also if another one is installed. Its folder comes last in the path,
    # so that nothing beside the package hides a module of the standard library.
    "import sys; from importlib import util; home = sys.argv[1];"
    "spec = util.spec_from_file_location("
    "'edgecron', home + '/edgecron/__init__.py',"
    " submodule_search_locations=[home + '/edgecron']);"
    "sys.modules['edgecron'] = package = util.module_from_spec(spec);"
    "spec.loader.exec_module(package); sys.path.append(home);"
    "from importlib import import_module; import_module(sys.argv[2]).main(sys.argv[3:])"
)
# Files that pipx and uv leave in a program's environment, and their commands to install it again.
_TOOLS = {"pipx_metadata.json": "pipx install --force", "uv-receipt.toml": "uv tool install"}
SHARED = "program"  # the folder of all versions, in each place that the launcher unpacks to


class Start(NamedTuple):
    """How to start another process of this program: its words and the descriptors it inherits.

    `executable` is the file to execute; None if `argv[0]` is that file.
    """

    argv: list[str]
    pass_fds: tuple[int, ...]
    executable: str | None = None


class Bundle(NamedTuple):
    """The single binary that this process runs from.

    `file` is its path, '' if the file was removed or replaced. `folder` is where it was unpacked.
    """

    file: str
    folder: str
    lock_fd: int
    file_fd: int

    @property
    def is_installed(self) -> bool:
        """Whether a system package has installed the folder; else the launcher unpacked it."""
        return os.path.basename(os.path.dirname(self.folder)) != SHARED

    @property
    def has_file(self) -> bool:
        """Whether the binary's file is still at its path."""
        try:
            return os.path.samestat(os.stat(self.file), os.fstat(self.file_fd))
        except OSError:
            return False

    def start(self, *words: str) -> Start:
        """How to start the same version again, even if the file at its path changes."""
        # Not by its path, which can name another file a moment later.
        held = f"/proc/self/fd/{self.file_fd}"
        argv = [self.file or "edgecron", *words]
        return Start(argv, (self.file_fd,), held) if os.path.exists(held) else Start(argv, ())


_bundle: Bundle | None = None


def own_start(module: str, *words: str, bundle_word: str) -> Start:
    """How to call `main` of a module of this very package with words, in a process of its own.

    The single binary does so if `bundle_word` comes before the words.
    """
    if _bundle is not None:
        return _bundle.start(bundle_word, *words)
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    # -P: the current folder must not hide a module.
    return Start([sys.executable, "-P", "-c", _EXEC, package_parent, module, *words], ())


def find_bundle() -> Bundle | None:
    """Return the bundle that this process runs from; None if edgecron is a package."""
    return _bundle


def held_fds() -> frozenset[int]:
    """Return the descriptors that every process of this program keeps open."""
    return frozenset() if _bundle is None else frozenset((_bundle.lock_fd, _bundle.file_fd))


def hint_for_extra(extra: str) -> str:
    """Write the command that adds a missing extra to this installation."""
    if _bundle is not None:
        return "the single binary does not have it; see: edgecron help install"
    # Only errors need these.
    from importlib.metadata import PackageNotFoundError, distribution
    from json import loads
    from shlex import quote
    from shutil import which
    from urllib.parse import unquote

    try:
        origin = loads(distribution("edgecron").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = origin.get("url", "")
    # A clone or a wheel of this machine: the index might not have this version.
    source = unquote(url.removeprefix("file://")) if url.startswith("file:") else "edgecron"
    is_editable = origin.get("dir_info", {}).get("editable", False)
    pip = os.path.join(sys.prefix, "bin", "pip")
    install = f"{'pip' if which('pip') == pip else quote(pip)} install"
    for note, tool in _TOOLS.items():
        if os.path.exists(os.path.join(sys.prefix, note)):
            install = tool
    return f"{install} {'-e ' * is_editable}{quote(f'{source}[{extra}]')}"


def settle(environ: MutableMapping[str, str], *, folder: str) -> Bundle | None:
    """Take the launcher's variables out of the environment, so that no child sees them.

    Return the bundle; None if no launcher started this process.
    """
    global _bundle
    told = environ.pop(_VARIABLE, None)
    for name in [name for name in environ if name.startswith(_LOADER)]:
        del environ[name]
    if told is None:
        return None
    lock_fd, file_fd, file = told.split(":", 2)
    _bundle = Bundle(file, folder, int(lock_fd), int(file_fd))
    for fd in held_fds():
        os.set_inheritable(fd, False)
    return _bundle


LIST = "files.txt"  # within the folder: the files that belong there, a line each
_READS = frozenset({"open", "os.listdir", "os.scandir"})


def watch(bundle: Bundle) -> None:
    """Restore missing files from now on, in this process and its forks."""
    keeper = _Keeper(bundle)
    sys.addaudithook(keeper.see)
    # Last: it is asked for modules that no other finder has found.
    sys.meta_path.append(keeper)


def let_go() -> None:
    """Stop restoring files, because the folder will be removed."""
    for each in sys.meta_path:
        if isinstance(each, _Keeper):
            each.is_idle = True


class _Keeper:
    """Restores files of the folder before they are read, as an audit hook and a module finder."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._inside = bundle.folder + os.sep
        self.is_idle = False

    def see(self, event: str, args: tuple[Any, ...]) -> None:
        """Audit hook: restore the files if a missing one is about to be read."""
        if event not in _READS or self.is_idle or not args:
            return
        path = args[0]
        if (
            isinstance(path, str)
            and path.startswith(self._inside)
            and not os.path.lexists(path)
            and self._belongs(path)
        ):
            self._restore()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Last module finder: restore the files if some are missing, then search again."""
        if self.is_idle or not self._is_damaged():
            return None
        self._restore()
        for finder in sys.meta_path:
            if finder is not self:
                getattr(finder, "invalidate_caches", int)()
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _belongs(self, path: str) -> bool:
        """Whether a file or folder was unpacked."""
        names = self._names()
        within = path.removeprefix(self._inside)
        return names is None or any(f"{name}/".startswith(f"{within}/") for name in names)

    def _is_damaged(self) -> bool:
        names = self._names()
        return names is None or not all(os.path.lexists(self._inside + name) for name in names)

    def _names(self) -> list[str] | None:
        """List what belongs in the folder; None if the list itself is missing."""
        self.is_idle = True  # This read must not trigger the hook.
        try:
            with open(self._inside + LIST, encoding="utf-8") as files:
                return files.read().splitlines()
        except OSError:
            return None
        finally:
            self.is_idle = False

    def _restore(self) -> None:
        """Run the launcher, which unpacks missing files again."""
        self.is_idle = True
        try:
            place = os.path.dirname(os.path.dirname(self._bundle.folder))
            pid = os.posix_spawn(
                # Its descriptor is closed by the exec that it leads to.
                f"/proc/self/fd/{self._bundle.file_fd}",
                ["edgecron", ":try"],
                {**os.environ, "EDGECRON_UNPACK_DIR": place},
            )
            os.waitpid(pid, 0)
            self._lock_again()
        except OSError:
            # The read that follows fails and reports the missing file.
            return
        finally:
            self.is_idle = False

    def _lock_again(self) -> None:
        """Lock the folder again: it can be a new one, with the lock on the removed one."""
        fd = os.open(self._bundle.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.dup2(fd, self._bundle.lock_fd, inheritable=False)
        finally:
            os.close(fd)
