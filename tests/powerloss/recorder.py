"""The log of what was done to a folder, in one order over all files: by SQLite and by ourselves.

While `recording`, a VFS that passes everything through to the real files is SQLite's default in
this process, so that the store itself opens its databases through it: `-wal`, `-journal` and the
main file; `-shm` is memory, which nobody finds again. What Python code does to files is taken in
by `calls`. What is logged besides is put there by `mark`. `faults` may make any of it fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from edgecron.base.clock import Clock
from tests.powerloss.faults import NO_FAULTS, Faults, Op, Trouble

ROOT = 0  # the number of the folder that is watched
_BASE = "unix"
# Without locks, for files that nobody else uses: ours stands before SQLite's own of that name.
_LOCKLESS = "unix-none"
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL

Name = tuple[int, str]  # a folder's number, and a name in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A new file under this name. `file` is its number for good, like an inode's."""

    name: str
    file: int
    folder: int = ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeFolder:
    """A new folder under this name, with a number as files have one."""

    name: str
    number: int
    folder: int = ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Files that were there, whole and synced, before the recording began, by path."""

    files: Mapping[str, tuple[int, bytes]]  # its number, and its content
    folders: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    file: int
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    file: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """The file's content and size reach the disk; not its name."""

    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFailed:
    """The disk refused: what was written until now may get lost whatever is synced later, for the
    system takes it for written (https://wiki.postgresql.org/wiki/Fsync_Errors)."""

    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    name: str
    folder: int = ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Names change all in one step: what each stands for from then on, None for nothing."""

    changes: tuple[tuple[Name, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFolder:
    """All names in a folder reach the disk."""

    folder: int = ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that the world saw: what was done before it must not be lost any more."""

    what: object


Entry = (
    Create | MakeFolder | Found | Write | Truncate | Sync | SyncFailed | Delete | Rename
    | SyncFolder | Mark
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """An entry, with the clocks at that time."""

    entry: Entry
    at_ms: int
    boot_id: str


class Recorder:
    """The log of one folder and those below it, with the times of the clock that it follows.

    What is there already is taken in as found. A file is known by its inode, whoever opened it.
    """

    def __init__(self, clock: Clock, root: Path, *, faults: Faults) -> None:
        self.log: list[Logged] = []
        self.root = root.resolve()
        self.before_each: Callable[[Op, str], object] | None = None
        self._faults = faults
        self._clock = clock
        self._made = 0
        self._numbers: dict[tuple[int, int], int] = {_identity(os.stat(self.root)): ROOT}
        self._find_all()
        self._vfs = (
            RecordingVFS(self, "powerloss", _BASE, is_default=True),
            RecordingVFS(self, _LOCKLESS, _LOCKLESS, is_default=False),
        )

    def close(self) -> None:
        for vfs in reversed(self._vfs):
            vfs.unregister()

    def note(self, entry: Entry) -> None:
        at_ms, boot_id = self._clock.now_ms(), self._clock.boot_id()
        self.log.append(Logged(entry=entry, at_ms=at_ms, boot_id=boot_id))

    def mark(self, what: object) -> None:
        self.note(Mark(what=what))

    def place(self, path: str | os.PathLike[str]) -> Name | None:
        """The folder and the name of a path, which need not exist; None outside of ours."""
        folder, name = os.path.split(os.path.abspath(os.fspath(path)))
        try:
            number = self._numbers.get(_identity(os.stat(folder)))
        except OSError:
            return None
        return None if number is None else (number, name)

    def number_of(self, found: os.stat_result) -> int | None:
        """The number of a file or folder of ours."""
        return self._numbers.get(_identity(found))

    def make(self, found: os.stat_result) -> int:
        """A number for what is new."""
        self._made += 1
        self._numbers[_identity(found)] = self._made
        return self._made

    def forget(self, path: str | os.PathLike[str]) -> None:
        """A name is about to go: what had no other is gone, and another file may get its inode."""
        with suppress(FileNotFoundError):
            found = os.lstat(path)
            if found.st_nlink == 1:
                self._numbers.pop(_identity(found), None)

    @property
    def is_short(self) -> bool:
        """Whether a write of our own that is refused is taken in part."""
        return self._faults.trouble is Trouble.SHORT

    def meet(self, op: Op, path: str) -> None:
        """SQLite is about to do this. Raises its error where that is to fail."""
        if self.before_each is not None:
            self.before_each(op, path)
        self._faults.meet(op, path)

    def meet_call(self, op: Op, path: str) -> None:
        """Python code is about to do this. Raises OSError likewise."""
        self._faults.meet_call(op, path)

    def _find_all(self) -> None:
        files: dict[str, tuple[int, bytes]] = {}
        folders: dict[str, int] = {}
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root).as_posix()
            if path.is_dir():
                folders[name] = self.make(path.stat())
            elif path.is_file() and not name.endswith("-shm"):
                files[name] = (self.make(path.stat()), path.read_bytes())
        if files or folders:
            self.note(Found(files=files, folders=folders))


class RecordingVFS(apsw.VFS):
    """Passes through to one of SQLite's own, whose name it may have."""

    def __init__(self, recorder: Recorder, name: str, base: str, *, is_default: bool) -> None:
        self._recorder = recorder
        super().__init__(name, base, makedefault=is_default)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None:  # What is sorted, or written anew: it has no name from the beginning.
            return apsw.VFSFile(_BASE, None, flags)
        path = name if isinstance(name, str) else name.filename()
        self._recorder.meet(Op.OPEN, path)
        is_new = not os.path.lexists(path)
        opened = RecordedFile(self._recorder, name, flags)
        place = self._recorder.place(path)
        if place is not None:
            found = os.stat(path)
            if is_new:
                number = self._recorder.make(found)
                self._recorder.note(Create(name=place[1], file=number, folder=place[0]))
            opened.folder, opened.number = place[0], self._recorder.number_of(found)
        return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:
        place = self._recorder.place(filename)
        self._recorder.meet(Op.DELETE, filename)
        self._recorder.forget(filename)
        super().xDelete(filename, syncdir)
        if place is not None:
            self._recorder.note(Delete(name=place[1], folder=place[0]))
            if syncdir:
                self._recorder.note(SyncFolder(folder=place[0]))

    def excepthook(self, etype: object, evalue: Any, traceback: object) -> bool:
        """SQLite has no use for this error: it is about to give another one."""
        if not Faults.is_ours(evalue):
            raise evalue
        return True


class RecordedFile(apsw.VFSFile):
    """One opening of a file, whose number in the log is `number`; None outside of our folder."""

    number: int | None = None
    folder: int = ROOT

    def __init__(self, recorder: Recorder, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__(_BASE, name, flags)
        self._recorder = recorder
        self._path = name if isinstance(name, str) else name.filename()
        # So does SQLite (os_unix.c, UNIXFILE_DIRSYNC): the first sync of a journal that it may
        # have made syncs the folder too.
        is_made = flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS
        self._owes_folder_sync = bool(is_made)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._recorder.meet(Op.WRITE, self._path)
        super().xWrite(data, offset)
        if self.number is not None:
            self._recorder.note(Write(file=self.number, offset=offset, content=bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._recorder.meet(Op.TRUNCATE, self._path)
        super().xTruncate(newsize)
        if self.number is not None:
            self._recorder.note(Truncate(file=self.number, size=newsize))

    def xSync(self, flags: int) -> None:
        try:
            self._recorder.meet(Op.SYNC, self._path)
        except apsw.Error:
            if self.number is not None:
                self._recorder.note(SyncFailed(file=self.number))
            raise
        super().xSync(flags)
        if self.number is None:
            return
        self._recorder.note(Sync(file=self.number))
        if self._owes_folder_sync:
            self._owes_folder_sync = False
            self._recorder.note(SyncFolder(folder=self.folder))

    def excepthook(self, etype: object, evalue: Any, traceback: object) -> bool:
        """SQLite has no use for this error: it is about to give another one."""
        if not Faults.is_ours(evalue):
            raise evalue
        return True


@contextmanager
def recording(clock: Clock, root: Path, *, faults: Faults = NO_FAULTS) -> Iterator[Recorder]:
    """Log all that this process does below a folder. Its databases must be closed before the end,
    and before the beginning."""
    from tests.powerloss.calls import watching_calls

    recorder = Recorder(clock, root, faults=faults)
    try:
        with watching_calls(recorder):
            yield recorder
    finally:
        recorder.close()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
