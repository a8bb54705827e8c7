"""What Python code does to files, as system calls: logged with what SQLite does.

Journals, spools, locks, and the copies that become databases are made by these.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import backup, restore
from tests.powerloss.faults import Op
from tests.powerloss.recorder import (
    Create,
    Delete,
    MakeFolder,
    Name,
    Recorder,
    Rename,
    Sync,
    SyncFailed,
    SyncFolder,
    Truncate,
    Write,
)


@contextmanager
def watching_calls(recorder: Recorder) -> Iterator[None]:
    """Log what is done by `os`, by an open file, and by renameat2."""
    calls = _Calls(recorder)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("open", "write", "pwrite", "ftruncate", "fsync", "fdatasync", "rename",
                     "replace", "link", "unlink", "remove", "mkdir", "rmdir"):  # fmt: skip
            patch.setattr(os, name, calls.around(name))
        patch.setattr(io, "open", calls.open_file)
        patch.setattr(backup, "rename_new", calls.in_one_step(backup.rename_new))
        patch.setattr(restore, "exchange", calls.in_one_step(backup.exchange, is_exchange=True))
        yield


class _Calls:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open_file = io.open

    def around(self, name: str) -> Callable[..., Any]:
        """A call that does what it always did, and is logged."""
        original: Callable[..., Any] = getattr(os, name)
        watched: Callable[..., Any] = getattr(self, f"_{name}")

        def call(*args: Any, **kwargs: Any) -> Any:
            return watched(original, *args, **kwargs)

        return call

    def open_file(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode).isdisjoint("wax+") or isinstance(file, int):
            return self._open_file(file, mode, *args, **kwargs)
        if self._recorder.place(file) is None:
            return self._open_file(file, mode, *args, **kwargs)
        assert mode == "r+b", f"{file} is opened by {mode!r}, which is not logged"
        return io.BufferedRandom(_RawFile(os.open(file, os.O_RDWR | os.O_CLOEXEC)))

    def in_one_step(
        self, original: Callable[[Path, Path], bool], *, is_exchange: bool = False
    ) -> Callable[[Path, Path], bool]:
        """A renaming that is logged; `is_exchange`: the other file gets the first one's name."""

        def call(path: Path, target: Path) -> bool:
            first, second = self._recorder.place(path), self._recorder.place(target)
            if first is not None:
                self._recorder.meet_call(Op.WRITE, str(target))
            before = [self._number(each) for each in (path, target)]
            is_done = original(path, target)
            if is_done and first is not None and second is not None:
                left = before[1] if is_exchange else None
                self._recorder.note(Rename(changes=((first, left), (second, before[0]))))
            return is_done

        return call

    # By the names of `os`.

    def _open(self, original: Any, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        place = self._place(path) if flags & os.O_CREAT else None
        is_new = place is not None and not os.path.lexists(path)
        if is_new:
            self._recorder.meet_call(Op.OPEN, os.fspath(path))
        fd: int = original(path, flags, *args, **kwargs)
        if place is not None and is_new:
            number = self._recorder.make(os.fstat(fd))
            self._recorder.note(Create(name=place[1], file=number, folder=place[0]))
        return fd

    def _write(self, original: Any, fd: int, content: Any) -> int:
        number = self._of(fd)
        if number is None:
            return int(original(fd, content))
        try:
            self._recorder.meet_call(Op.WRITE, _path_of(fd))
        except OSError:
            if not self._recorder.is_short or len(content) < 2:
                raise
            content = bytes(content)[: len(content) // 2]
        written = int(original(fd, content))
        self._note_write(number, os.lseek(fd, 0, os.SEEK_CUR) - written, content, written)
        return written

    def _pwrite(self, original: Any, fd: int, content: Any, offset: int) -> int:
        number = self._of(fd)
        if number is None:
            return int(original(fd, content, offset))
        self._recorder.meet_call(Op.WRITE, _path_of(fd))
        written = int(original(fd, content, offset))
        self._note_write(number, offset, content, written)
        return written

    def _ftruncate(self, original: Any, fd: int, size: int) -> None:
        number = self._of(fd)
        if number is not None:
            self._recorder.meet_call(Op.TRUNCATE, _path_of(fd))
        original(fd, size)
        if number is not None:
            self._recorder.note(Truncate(file=number, size=size))

    def _fsync(self, original: Any, fd: int) -> None:
        number = self._of(fd)
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        if number is not None:
            try:
                self._recorder.meet_call(Op.SYNC, _path_of(fd))
            except OSError:
                if not is_folder:
                    self._recorder.note(SyncFailed(file=number))
                raise
        original(fd)
        if number is not None:
            self._recorder.note(SyncFolder(folder=number) if is_folder else Sync(file=number))

    _fdatasync = _fsync

    def _rename(self, original: Any, path: Any, target: Any) -> None:
        first, second = self._place(path), self._place(target)
        if first is not None:
            self._recorder.meet_call(Op.WRITE, os.fspath(target))
        number = self._number(path)
        if second is not None:
            self._recorder.forget(target)
        original(path, target)
        if first is not None and second is not None:
            self._recorder.note(Rename(changes=((first, None), (second, number))))

    _replace = _rename

    def _link(self, original: Any, path: Any, target: Any, **kwargs: Any) -> None:
        place = self._place(target)
        if place is not None:
            self._recorder.meet_call(Op.WRITE, os.fspath(target))
        original(path, target, **kwargs)
        if place is not None:
            self._recorder.note(Rename(changes=((place, self._number(path)),)))

    def _unlink(self, original: Any, path: Any, **kwargs: Any) -> None:
        place = self._place(path)
        if place is not None and os.path.lexists(path):
            self._recorder.meet_call(Op.DELETE, os.fspath(path))
        if place is not None:
            self._recorder.forget(path)
        original(path, **kwargs)
        if place is not None:
            self._recorder.note(Delete(name=place[1], folder=place[0]))

    _remove = _unlink
    _rmdir = _unlink

    def _mkdir(self, original: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        original(path, *args, **kwargs)
        place = self._place(path)
        if place is not None:
            number = self._recorder.make(os.stat(path))
            self._recorder.note(MakeFolder(name=place[1], number=number, folder=place[0]))

    def _note_write(self, number: int, offset: int, content: Any, written: int) -> None:
        piece = bytes(memoryview(content)[:written])
        self._recorder.note(Write(file=number, offset=offset, content=piece))

    def _place(self, path: Any) -> Name | None:
        return None if isinstance(path, int) else self._recorder.place(path)

    def _number(self, path: Any) -> int | None:
        try:
            return self._recorder.number_of(os.lstat(path))
        except OSError:
            return None

    def _of(self, fd: int) -> int | None:
        return self._recorder.number_of(os.fstat(fd))


class _RawFile(io.RawIOBase):
    """A descriptor, written by calls that are logged."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = os.read(self._fd, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def write(self, content: Any) -> int:
        return os.write(self._fd, content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._fd, offset, whence)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)


def _path_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")
