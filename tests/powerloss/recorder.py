"""A VFS that passes everything through to the real files, and logs what was done to them.

While `recording`, it is SQLite's default in this process, so that the store itself opens its
databases through it: `-wal`, `-journal` and the main file; `-shm` is memory, which nobody finds
again. What is logged besides is put there by `mark`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from edgecron.clock import Clock

_BASE = "unix"
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A new file under this name. `file` is its number for good, like an inode's."""

    name: str
    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Files that were there, whole and synced, before the recording began, by name."""

    files: Mapping[str, tuple[int, bytes]]  # its number, and its content


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
class Delete:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFolder:
    """All names reach the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that the world saw: what was done before it must not be lost any more."""

    what: object


Entry = Create | Found | Write | Truncate | Sync | Delete | SyncFolder | Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """An entry, with the clocks at that time."""

    entry: Entry
    at_ms: int
    boot_id: str


class Recorder(apsw.VFS):
    """The log of one folder, with the times of the clock that it follows."""

    def __init__(self, clock: Clock) -> None:
        self.log: list[Logged] = []
        self._clock = clock
        self._files: dict[str, int] = {}
        self._made = 0
        super().__init__("powerloss", _BASE, makedefault=True)

    def note(self, entry: Entry) -> None:
        at_ms, boot_id = self._clock.now_ms(), self._clock.boot_id()
        self.log.append(Logged(entry=entry, at_ms=at_ms, boot_id=boot_id))

    def mark(self, what: object) -> None:
        self.note(Mark(what=what))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None, "a temporary file on the disk: the store keeps them in memory"
        path = Path(name if isinstance(name, str) else name.filename())
        self._meet(path)
        opened = RecordedFile(self, name, flags)
        if path.name not in self._files:
            self._create(path.name)
        opened.number = self._files[path.name]
        return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:
        path = Path(filename)
        self._meet(path)
        super().xDelete(filename, syncdir)
        del self._files[path.name]
        self.note(Delete(name=path.name))
        if syncdir:
            self.note(SyncFolder())

    def _meet(self, path: Path) -> None:
        """Take into the log what was there before us: the file, and those beside it."""
        if path.name in self._files or not path.exists():
            return
        # No connection has any of them open: to read them here drops nobody's locks.
        beside = sorted(path.parent.glob(f"{path.name}*"))
        files = [one for one in beside if not one.name.endswith("-shm")]
        there = {one.name: content for one in files if (content := one.read_bytes())}
        if path.name in there:
            found = {name: (self._number(name), content) for name, content in there.items()}
            self.note(Found(files=found))
        else:
            # The store makes an empty main file itself, and does not sync the folder.
            self._create(path.name)

    def _create(self, name: str) -> None:
        self.note(Create(name=name, file=self._number(name)))

    def _number(self, name: str) -> int:
        self._made += 1
        self._files[name] = self._made
        return self._made


class RecordedFile(apsw.VFSFile):
    """One opening of a file, whose number in the log is `number`."""

    number: int

    def __init__(self, recorder: Recorder, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__(_BASE, name, flags)
        self._recorder = recorder
        # So does SQLite (os_unix.c, UNIXFILE_DIRSYNC): the first sync of a journal that it may
        # have made syncs the folder too.
        is_made = flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS
        self._owes_folder_sync = bool(is_made)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._recorder.note(Write(file=self.number, offset=offset, content=bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._recorder.note(Truncate(file=self.number, size=newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._recorder.note(Sync(file=self.number))
        if self._owes_folder_sync:
            self._owes_folder_sync = False
            self._recorder.note(SyncFolder())


@contextmanager
def recording(clock: Clock) -> Iterator[Recorder]:
    """Log all that this process does to databases. They must be closed before the end."""
    recorder = Recorder(clock)
    try:
        yield recorder
    finally:
        recorder.unregister()
