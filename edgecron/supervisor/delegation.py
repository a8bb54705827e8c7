"""Whether there is a cgroup that we may divide, and which.

A cgroup belongs to the service manager, unless that has given it away (systemd: `Delegate=yes`), or
a person says which one to use. Only cgroup v2 will do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.values import dataclass

VARIABLE = "EDGECRON_CGROUP"
# What systemd puts on the cgroup of a unit with Delegate=yes; the first is seen by root alone.
_MARKS = ("trusted.delegate", "user.delegate")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where cgroups may be made (`folder`), and the one that we are in ourselves (`home`).

    `is_asked_for`: a person has named it, and is told where it can't be used.
    """

    folder: Path
    home: Path
    is_asked_for: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A cgroup v2 file system: `root` is the cgroup that is seen at `point`."""

    device: str
    root: str
    point: Path


def find_place(environ: Mapping[str, str]) -> Place | None:
    """The place for cgroups of runs; None where none was given to us.

    Raises SupervisorUnavailable where the variable EDGECRON_CGROUP names what can't be used.
    """
    mounts = list_mounts()
    own = find_own_folder(mounts, _read_text("/proc/self/cgroup"))
    wanted = environ.get(VARIABLE)
    if wanted:
        folder = Path(wanted)
        if not folder.is_absolute() or not is_cgroup(folder, mounts) or not _is_writable(folder):
            raise SupervisorUnavailable(
                f"{VARIABLE} is '{wanted}', expected a folder of cgroup v2 that we may write"
            )
        return Place(folder=folder, home=own or folder, is_asked_for=True)
    if own is not None and is_delegated(own):
        return Place(folder=own, home=own, is_asked_for=False)
    return None


def list_mounts() -> list[Mount]:
    """The cgroup v2 file systems that we see; none where the system has no cgroups."""
    return list(parse_mounts(_read_text("/proc/self/mountinfo")))


def parse_mounts(mountinfo: str) -> Iterator[Mount]:
    """The cgroup v2 file systems in the text of a `mountinfo`."""
    for line in mountinfo.splitlines():
        seen, _, kind = line.partition(" - ")
        words = seen.split()
        if kind.split()[:1] == ["cgroup2"] and len(words) > 4:
            yield Mount(device=words[2], root=_unescape(words[3]), point=Path(_unescape(words[4])))


def find_own_folder(mounts: list[Mount], own: str) -> Path | None:
    """The folder of our own cgroup, by the text of `/proc/self/cgroup`.

    None where no mount shows it, as in some containers.
    """
    paths = [line[3:] for line in own.splitlines() if line.startswith("0::/")]
    for path in paths:
        # Above the root of our namespace: no mount of ours leads there.
        if ".." in path.split("/"):
            return None
        for mount in mounts:
            root = mount.root.rstrip("/")
            if path == root or path.startswith(f"{root}/"):
                return mount.point / path[len(root) :].strip("/")
    return None


def is_cgroup(folder: Path, mounts: list[Mount]) -> bool:
    """Whether a folder is a cgroup of version 2, by the file system that it lies in."""
    try:
        device = folder.stat().st_dev
    except OSError:
        return False
    return f"{os.major(device)}:{os.minor(device)}" in {mount.device for mount in mounts}


def is_delegated(folder: Path) -> bool:
    """Whether the service manager has marked a cgroup as given away, and we may write it."""
    return _is_writable(folder) and any(_read_mark(folder, name) == b"1" for name in _MARKS)


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _read_mark(folder: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(folder, name)
    except OSError:
        return None  # not marked, or not ours to read


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""  # no Linux, or no /proc


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)
