"""A migration killed at each of its writes: as before or done, and the next opener migrates."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.store.sqlite.store import open_store
from tests.support.olddatabases import everything, make_version_1, version_of

pytestmark = [pytest.mark.failure(68), pytest.mark.failure(15)]

NOW_MS = 1_795_200_000_000
FEW = 12  # of all writes, evenly spread
migrate = import_module("edgecron.store.sqlite.migrate")


class WatchedFile(apsw.VFSFile):
    """A file whose writes, syncs and truncations are told of before they are done."""

    def __init__(self, name: Any, flags: list[int], tell: Callable[[], None]) -> None:
        super().__init__("unix", name, flags)
        self._tell = tell

    def xWrite(self, data: bytes, offset: int) -> None:
        self._tell()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._tell()
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:
        self._tell()
        super().xTruncate(newsize)


class WatchedDisk(apsw.VFS):
    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__("watched", "unix", makedefault=True)
        self._tell = tell

    def xOpen(self, name: Any, flags: list[int]) -> WatchedFile:
        return WatchedFile(name, flags, self._tell)


@contextmanager
def watched(tell: Callable[[], None]) -> Iterator[None]:
    before = apsw.vfs_names()[0]
    disk = WatchedDisk(tell)
    try:
        yield
    finally:
        disk.unregister()
        apsw.set_default_vfs(before)


def count_writes(path: Path) -> int:
    count = 0

    def tell() -> None:
        nonlocal count
        count += 1

    with watched(tell):
        open_store(path, now_ms=NOW_MS).close()
    return count


def kill_at(path: Path, number: int) -> int:
    """Migrate in a child that dies by KILL before its write of this number; its exit status."""
    left = number

    def tell() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            with watched(tell):
                open_store(path, now_ms=NOW_MS).close()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("most", [FEW, pytest.param(100_000, marks=pytest.mark.slow)])
def test_kill_9_at_any_write_leaves_all_as_it_was_or_done(tmp_path: Path, most: int) -> None:
    old = tmp_path / "old.db"
    make_version_1(old)
    before = everything(old)
    done = tmp_path / "done.db"
    shutil.copy(old, done)
    writes = count_writes(done)
    after = everything(done)
    numbers = range(1, writes + 1, max(1, writes // most))

    for number in numbers:
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        path = folder / "edgecron.db"
        shutil.copy(old, path)
        path.chmod(0o600)
        status = kill_at(path, number)
        found = version_of(path), everything(path)
        open_store(path, now_ms=NOW_MS).close()

        assert os.WTERMSIG(status) == signal.SIGKILL, number
        assert found in ((1, before), (migrate.SCHEMA_VERSION, after)), number
        assert everything(path) == after, number
        assert {file.name for file in folder.iterdir()} == {path.name, f"{path.name}.v1-backup"}
        assert everything(path.with_name(f"{path.name}.v1-backup")) == before, number
        shutil.rmtree(folder)
    assert len(numbers) >= min(FEW, writes)
