"""A control group of the test's own, where this machine lets one be made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")
_V1 = {"memory.max": "memory.limit_in_bytes"}  # other names than in the unified hierarchy


class Cgroup:
    """A group below that of this process, with a limit; what is left in it moves back at the end.

    `name` is the file of the limit as the unified hierarchy calls it: memory.max, pids.max.
    """

    def __init__(self, name: str, limit: int) -> None:
        controller = name.partition(".")[0]
        is_v1 = (ROOT / controller).is_dir()
        self._parent = ROOT / controller if is_v1 else ROOT
        self._folder = self._parent / f"edgecron-test-{os.getpid()}"
        self._limit = self._folder / (_V1.get(name, name) if is_v1 else name)
        try:
            self._folder.mkdir()
        except OSError as error:
            pytest.skip(f"no control group can be made here: {error}")
        if not self._limit.exists():
            self._folder.rmdir()
            pytest.skip(f"the control group has no {name} here")
        self.set(limit)

    def set(self, limit: int | str) -> None:
        self._limit.write_text(str(limit), "ascii")

    def add(self, *pids: int) -> None:
        """What they start from here on is in it too."""
        for pid in pids:
            (self._folder / "cgroup.procs").write_text(str(pid), "ascii")

    def close(self) -> None:
        while pids := (self._folder / "cgroup.procs").read_text("ascii").split():
            for pid in pids:
                try:
                    (self._parent / "cgroup.procs").write_text(pid, "ascii")
                except ProcessLookupError:
                    continue  # it was faster
        self._folder.rmdir()
