"""Files that vanish under a running program: they are unpacked again before anybody misses them.

A cleaner of caches may remove the folder of a bundle while its engine runs. Modules and data are
read when they are first needed, so each such reading looks whether what it wants is there; where
it is not, the file that the program came in, which is held open, puts everything back.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from edgecron.base.bundle import Bundle

LIST = "files.txt"  # within the folder: the files that belong there, a line each
_READS = frozenset({"open", "os.listdir", "os.scandir"})


def watch(bundle: Bundle) -> None:
    """From now on, and in every fork of this process, what is missing is put back."""
    keeper = _Keeper(bundle)
    sys.addaudithook(keeper.see)
    # After all the others: it is asked for what nobody has found.
    sys.meta_path.append(keeper)


def let_go() -> None:
    """Put nothing back any more: the folder is to be removed."""
    for each in sys.meta_path:
        if isinstance(each, _Keeper):
            each.is_idle = True


class _Keeper:
    """Sees what is read of a folder, and looks for modules that nobody finds."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._inside = bundle.folder + os.sep
        self.is_idle = False

    def see(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook: put the files back where one of them is about to be read in vain."""
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
        """The last finder of modules: what nobody found may be one of the files that are gone."""
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
        """Whether a file or folder is one that was unpacked: others are looked for in vain."""
        names = self._names()
        within = path.removeprefix(self._inside)
        return names is None or any(f"{name}/".startswith(f"{within}/") for name in names)

    def _is_damaged(self) -> bool:
        names = self._names()
        return names is None or not all(os.path.lexists(self._inside + name) for name in names)

    def _names(self) -> list[str] | None:
        """What belongs in the folder; None where even that has gone."""
        self.is_idle = True  # Not to see ourselves.
        try:
            with open(self._inside + LIST, encoding="utf-8") as files:
                return files.read().splitlines()
        except OSError:
            return None
        finally:
            self.is_idle = False

    def _restore(self) -> None:
        """Have the launcher look, which puts back what is missing, where it was."""
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
            # Whoever reads on finds what is missing, and says so: there is nobody else to tell.
            return
        finally:
            self.is_idle = False

    def _lock_again(self) -> None:
        """The folder may be another one now, and the lock be that of one that is gone."""
        fd = os.open(self._bundle.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.dup2(fd, self._bundle.lock_fd, inheritable=False)
        finally:
            os.close(fd)
