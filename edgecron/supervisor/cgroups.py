"""A cgroup for each run, where one was given to us to divide: nothing that a run starts gets out.

    <delegated>/edgecron-<supervisor>/run-<token>

No controllers are enabled. A command is born in its cgroup: the supervisor goes there itself for
the moment of the start. Folders are removed once nobody is left in them; what a run left on purpose
keeps its own for as long as it lives.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections import OrderedDict
from pathlib import Path

from edgecron.base.values import dataclass
from edgecron.supervisor.delegation import is_cgroup, list_mounts
from edgecron.supervisor.groups import LeftGroup

_PROCS = "cgroup.procs"
_NAMES = re.compile(r"edgecron-[0-9a-f]{8,64}/run-[A-Za-z0-9_\-]{1,64}", re.ASCII)
_PROBE = "probe"
# A pass kills all that it sees, and what is doomed starts nothing: each sees fewer new ones.
_MOST_PASSES = 100
# Each end gives so many of the folders a try that were not empty before: they can't pile up.
_TRIES = 2


def supervisor_folder(delegated: Path, key: str) -> Path:
    """What holds the cgroups of one supervisor's runs."""
    return delegated / f"edgecron-{key}"


def run_folder(root: Path, token: str) -> Path:
    return root / f"run-{token}"


def token_of(folder: Path) -> str:
    return folder.name.removeprefix("run-")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCgroup:
    """The cgroup of one run."""

    folder: Path
    owner: RunCgroups

    def find_members(self) -> list[int]:
        return find_members(self.folder)

    def kill(self) -> None:
        kill(self.folder)

    def let_go(self) -> bool:
        return self.owner.let_go(self.folder)


class RunCgroups:
    """Makes, enters and removes the cgroups of one supervisor's runs."""

    def __init__(self, root: Path, *, home: Path) -> None:
        """Raises OSError, with nothing left behind, where it can't be done here."""
        self.root = root
        self._is_away = False
        self._occupied: OrderedDict[Path, None] = OrderedDict()
        self._home_fd = os.open(home / _PROCS, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self._try_out(root / _PROBE)
        except OSError:
            self.close()
            raise

    def enter(self, token: str) -> RunCgroup | None:
        """Go into a new cgroup, so that what is started next is born there.

        None where that can't be done: it is then born where we are at home. Raises OSError where
        we are in the cgroup of another run, and can't get out of it: nothing may be started then.
        """
        folder = run_folder(self.root, token)
        try:
            _make(folder)
            _move_to(folder)
        except OSError:
            if not self.go_home():
                raise
            remove(folder)
            return None
        self._is_away = True
        return RunCgroup(folder=folder, owner=self)

    def go_home(self) -> bool:
        """Leave the cgroups of runs, if we are in one; False where that failed."""
        if self._is_away:
            try:
                os.write(self._home_fd, b"0")
            except OSError:
                return False
            self._is_away = False
        return True

    def let_go(self, folder: Path) -> bool:
        """Remove a run's cgroup; False where somebody is left in it. It is then tried later."""
        for _ in range(min(_TRIES, len(self._occupied))):
            tried, _ = self._occupied.popitem(last=False)
            if not remove(tried):
                self._occupied[tried] = None
        if remove(folder):
            return True
        self._occupied[folder] = None
        return False

    def close(self) -> None:
        """Remove what is empty by now; what lives on keeps its cgroup."""
        self.go_home()
        for folder in self._occupied:
            remove(folder)
        remove(self.root)
        os.close(self._home_fd)

    def _try_out(self, probe: Path) -> None:
        try:
            _make(probe)
            _move_to(probe)
            self._is_away = True
            os.write(self._home_fd, b"0")
            self._is_away = False
        finally:
            remove(probe)


def find_members(folder: Path) -> list[int]:
    """The processes in a cgroup and those below it, zombies left out; none where it is gone."""
    found = []
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):  # removed a moment ago
            found += [int(word) for word in Path(path, _PROCS).read_bytes().split()]
    return [pid for pid in found if pid > 0]  # 0: in a namespace that we don't see


def kill(folder: Path) -> None:
    """KILL to all in a cgroup and below it, but ourselves."""
    if os.getpid() not in find_members(folder):
        with contextlib.suppress(OSError):  # gone, or a kernel before 5.14: one by one
            _write(folder / "cgroup.kill", b"1")
            return
    signalled = {os.getpid()}
    for _ in range(_MOST_PASSES):
        fresh = set(find_members(folder)) - signalled
        for pid in fresh:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not fresh:
            return
        signalled |= fresh


def remove(folder: Path) -> bool:
    """Remove a cgroup and those below it; False where somebody is left in it."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        below = list_folders(folder)
        removed = [remove(inner) for inner in below]
        return bool(below) and all(removed) and remove(folder)
    return True


def list_folders(folder: Path) -> list[Path]:
    """The cgroups right below one; none where it is gone."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def end_left_cgroup(folder: Path) -> LeftGroup:
    """Kill what is left in the cgroup of a run whose supervisor died.

    `folder` is what the journal leads to; what is no cgroup, or is not named for a run, is never
    touched. Nor is one that we are in ourselves: that run has started us.
    """
    if _NAMES.fullmatch("/".join(folder.parts[-2:])) is None:
        return LeftGroup.UNKNOWN
    if not is_cgroup(folder, list_mounts()):
        return LeftGroup.GONE
    members = find_members(folder)
    if os.getpid() in members:
        return LeftGroup.UNKNOWN
    kill(folder)
    remove(folder)
    return LeftGroup.ENDED if members else LeftGroup.GONE


def clear_away(root: Path, key: str) -> bool:
    """Remove the cgroups of a dead supervisor; False where what a run left lives on in one.

    `root` is what its journal says; what is no cgroup, or is not named for it, is not touched.
    """
    is_its_own = root.name == supervisor_folder(root, key).name
    if not is_its_own or not is_cgroup(root, list_mounts()) or remove(root):
        return True
    try:
        return b"populated 1" not in (root / "cgroup.events").read_bytes()
    except OSError:
        return True


def _make(folder: Path) -> None:
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        # A service manager that clears away after its unit takes folders in which nobody is.
        os.mkdir(folder.parent)
        os.mkdir(folder)


def _move_to(folder: Path) -> None:
    _write(folder / _PROCS, b"0")


def _write(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)
