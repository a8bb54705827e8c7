"""A small machine out of a large one: a cgroup with little memory, one core, a small disk.

What it is not: the memory of the kernel's own and of the rest of a system is outside of it, its
core is as fast as the large machine's, and so is its disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """`folder` of its cgroup, None where the system lets us make none."""

    folder: Path | None
    core: int

    @property
    def limit_words(self) -> str:
        return "no cgroup could be made: memory is not limited" if self.folder is None else ""

    def enter(self) -> None:
        """Have this process, and all that it starts from now on, live in the box."""
        os.sched_setaffinity(0, {self.core})
        if self.folder is not None:
            (self.folder / "cgroup.procs").write_text("0")

    def leave(self) -> None:
        """Let it be empty but for what was left behind in it, which is ended."""
        if self.folder is None:
            return
        (self.folder.parent / "cgroup.procs").write_text("0")
        for word in (self.folder / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(word), signal.SIGKILL)

    def held_bytes(self) -> int:
        """Memory that is nobody's cache: what can't be given back while all of it runs."""
        if self.folder is None:
            return 0
        stat = _numbers(self.folder / "memory.stat")
        if "anon" in stat:
            return stat["anon"] + stat.get("shmem", 0)
        return stat.get("total_rss", 0) + stat.get("total_shmem", 0)

    def oom_kills(self) -> int:
        """How many processes the kernel has ended in it for want of memory."""
        if self.folder is None:
            return 0
        v1 = self.folder / "memory.oom_control"
        return _numbers(v1 if v1.exists() else self.folder / "memory.events").get("oom_kill", 0)


@contextlib.contextmanager
def small_box(memory_bytes: int) -> Iterator[Box]:
    """A box with so much memory and no swap, and one core; it must be empty again at the end."""
    core = max(os.sched_getaffinity(0))
    folder = _make_cgroup(memory_bytes)
    try:
        yield Box(folder=folder, core=core)
    finally:
        if folder is not None:
            _remove(folder)


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[bool]:
    """A file system of its own at the folder, on a file; False where there can be none."""
    image = folder.with_suffix(".img")
    folder.mkdir(mode=0o700)
    is_mounted = False
    if os.geteuid() == 0 and shutil.which("mkfs.ext4"):
        with image.open("wb") as file:
            file.truncate(size_bytes)
        made = subprocess.run(["mkfs.ext4", "-q", "-m0", str(image)], check=False)
        mount = ["mount", "-o", "loop", str(image), str(folder)]
        is_mounted = made.returncode == 0 and _is_done(mount)
    if is_mounted:
        folder.chmod(0o700)
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        image.unlink(missing_ok=True)


def _make_cgroup(memory_bytes: int) -> Path | None:
    name = f"edgecron-small-{os.getpid()}"
    is_v1 = (_V1 / "memory.limit_in_bytes").exists()
    folder = (_V1 if is_v1 else _V2) / name
    limits = (
        {"memory.limit_in_bytes": memory_bytes, "memory.swappiness": 0}
        if is_v1
        else {"memory.max": memory_bytes, "memory.swap.max": 0}
    )
    try:
        folder.mkdir()
    except OSError:
        return None
    try:
        for file, value in limits.items():
            if (folder / file).exists():
                (folder / file).write_text(str(value))
        if not (folder / ("memory.limit_in_bytes" if is_v1 else "memory.max")).exists():
            raise OSError("the memory controller is not enabled")
    except OSError:
        folder.rmdir()
        return None
    return folder


def _remove(folder: Path) -> None:
    """Wait a moment for the last of those in it to be gone."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)


def _numbers(path: Path) -> dict[str, int]:
    words = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2}


def _is_done(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
