"""The single binary: the file it came in, the folder it was unpacked to, and starting it again.

Its launcher (`packaging/binary/launcher`) unpacks it once, and leaves it two descriptors: the
folder, whose shared lock says that it is in use as long as a process lives, and the file itself. A
child must not inherit them unless it is of this program too. An ordinary installation has no
bundle.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from edgecron.base.values import NamedTuple

_VARIABLE = "_EDGECRON_BUNDLE"  # from the launcher: LOCK_FD:FILE_FD:PATH
_LOADER = "_PYI_"  # what the loader of PyInstaller is told by
SHARED = "program"  # the folder of all versions, in each place that the launcher unpacks to


class Start(NamedTuple):
    """How a process of this very program is started: what is to be run, with which descriptors.

    `executable` is what is run instead of the first word, None where that is it.
    """

    argv: list[str]
    pass_fds: tuple[int, ...]
    executable: str | None = None


class Bundle(NamedTuple):
    """What the running program is of. `file` is '' where its file was removed or replaced."""

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
        """Whether the file that it came in is still where it was."""
        try:
            return os.path.samestat(os.stat(self.file), os.fstat(self.file_fd))
        except OSError:
            return False

    def start(self, *words: str) -> Start:
        """The same version again, whatever becomes of the file that it came in."""
        # Not by its path, where another may stand a moment later.
        held = f"/proc/self/fd/{self.file_fd}"
        argv = [self.file or "edgecron", *words]
        return Start(argv, (self.file_fd,), held) if os.path.exists(held) else Start(argv, ())


_bundle: Bundle | None = None


def find_bundle() -> Bundle | None:
    """The bundle that this process runs from; None where edgecron is installed as a package."""
    return _bundle


def held_fds() -> frozenset[int]:
    """The descriptors that every process of this program keeps as long as it lives."""
    return frozenset() if _bundle is None else frozenset((_bundle.lock_fd, _bundle.file_fd))


def hint_for_extra(extra: str) -> str:
    """What to do where a part is missing that comes as an extra."""
    install = f"pip install 'edgecron[{extra}]'"
    return install if _bundle is None else f"the single binary does not have it; {install} does"


def settle(environ: MutableMapping[str, str], *, folder: str) -> Bundle | None:
    """Take over what the launcher left, so that nobody after us sees any of it.

    None where no launcher started this process.
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
