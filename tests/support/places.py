"""Places that are hard to write to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def unwritable_folder(base: Path) -> Path:
    """A folder in which nobody can make a file: root may write everywhere, but not to /proc."""
    if os.geteuid() == 0:
        return Path("/proc")
    folder = base / "closed"
    folder.mkdir(mode=0o500)
    return folder


@contextmanager
def small_disk(folder: Path, *, kib: int, inodes: int | None = None) -> Iterator[Path]:
    """A file system of so much room, mounted at a folder. Only root can make one."""
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    folder.mkdir(mode=0o700, exist_ok=True)
    size = f"size={kib}k,mode=0700" + ("" if inodes is None else f",nr_inodes={inodes}")
    options = ["-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("tmpfs can't be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left; the file that holds it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler
