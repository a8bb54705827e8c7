"""What a disk may hold after a power cut, as the log of what was done to it allows.

What was synced is there. What was not may be there or not, in any order, in part: sectors, sizes
and names each for themselves. A write does not damage what lies beside it (SQLite's
"powersafe overwrite", which holds for disks that keep a sector whole).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from powerloss.recorder import (
    Create,
    Delete,
    Entry,
    Found,
    Logged,
    Mark,
    Sync,
    SyncFolder,
    Truncate,
    Write,
)

SECTOR_BYTES = 512

Image = dict[str, bytes]  # from a file's name to its content


class Loss(StrEnum):
    DROPPED = "dropped"  # nothing that was not synced is there
    KEPT = "kept"  # everything is there: so a killed process leaves it
    TORN = "torn"  # everything but the end of the last write
    REORDERED = "reordered"  # some sectors, some sizes and some names, whatever their order


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Truncate] = field(default_factory=list)


@dataclass
class Disk:
    """The files of one folder, moved on entry by entry."""

    files: dict[int, _File] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    pending_names: list[tuple[str, int | None]] = field(default_factory=list)

    def apply(self, entry: Entry) -> None:
        match entry:
            case Create():
                self.files[entry.file] = _File()
                self.pending_names.append((entry.name, entry.file))
            case Found():
                for name, (file, content) in entry.files.items():
                    self.files[file] = _File(durable=bytearray(content))
                    self.names[name] = file
            case Write() | Truncate():
                self.files[entry.file].pending.append(entry)
            case Sync():
                synced = self.files[entry.file]
                for change in synced.pending:
                    _change(synced.durable, change)
                synced.pending.clear()
            case Delete():
                self.pending_names.append((entry.name, None))
            case SyncFolder():
                self.names = self._names_after(self.pending_names)
                self.pending_names.clear()
            case Mark():
                pass

    def image(self, loss: Loss, random: Random) -> Image:
        """One of the states that the disk may be found in."""
        match loss:
            case Loss.DROPPED:
                names = self.names
            case Loss.KEPT | Loss.TORN:
                names = self._names_after(self.pending_names)
            case Loss.REORDERED:
                # For one name the order holds: what it names is what it named at some time.
                names = self._names_after(
                    [one for one in self.pending_names if random.random() < 0.5]
                )
        return {
            name: bytes(_content(self.files[file], loss, random))
            for name, file in sorted(names.items())
        }

    def _names_after(self, changes: Sequence[tuple[str, int | None]]) -> dict[str, int]:
        names: dict[str, int | None] = {**self.names}
        for name, file in changes:
            names[name] = file
        return {name: file for name, file in names.items() if file is not None}


def disks(log: Sequence[Logged]) -> Iterator[tuple[int, Disk]]:
    """The disk after each number of entries; the same object, moved on."""
    disk = Disk()
    yield 0, disk
    for number, logged in enumerate(log, start=1):
        disk.apply(logged.entry)
        yield number, disk


def _content(file: _File, loss: Loss, random: Random) -> bytearray:
    content = bytearray(file.durable)
    for change in _kept(file, loss, random):
        _change(content, change)
    return content


def _kept(file: _File, loss: Loss, random: Random) -> list[Write | Truncate]:
    match loss:
        case Loss.DROPPED:
            return []
        case Loss.KEPT:
            return file.pending
        case Loss.TORN:
            return [*file.pending[:-1], *_torn(file.pending[-1:], random)]
        case Loss.REORDERED:
            return _reordered(file, random)


def _torn(last: Sequence[Write | Truncate], random: Random) -> Iterator[Write]:
    """The beginning of the last write, up to a sector's end or to anywhere; no last truncate."""
    for change in last:
        if isinstance(change, Write) and len(change.content) > 1:
            pieces = _sectors(change)
            size = sum(len(piece.content) for piece in pieces[: random.randrange(len(pieces))])
            if not size or random.random() < 0.5:
                size = random.randrange(1, len(change.content))
            yield Write(file=change.file, offset=change.offset, content=change.content[:size])


def _reordered(file: _File, random: Random) -> list[Write | Truncate]:
    share = random.choice((0.1, 0.5, 0.9))
    is_garbage = random.random() < 0.3
    kept: list[Write | Truncate] = []
    for change in file.pending:
        pieces = [change] if isinstance(change, Truncate) else _sectors(change)
        for piece in pieces:
            if random.random() < share:
                kept.append(piece)
            elif is_garbage and isinstance(piece, Write) and piece.offset >= len(file.durable):
                # The file had grown, and what the disk held there before was never written over.
                old = random.randbytes(len(piece.content))
                kept.append(Write(file=piece.file, offset=piece.offset, content=old))
    random.shuffle(kept)
    return kept


def _sectors(write: Write) -> list[Write]:
    """The write as one write for each sector of the file that it touches."""
    pieces = []
    position = write.offset
    end = write.offset + len(write.content)
    while position < end:
        sector_end = min(end, (position // SECTOR_BYTES + 1) * SECTOR_BYTES)
        content = write.content[position - write.offset : sector_end - write.offset]
        pieces.append(Write(file=write.file, offset=position, content=content))
        position = sector_end
    return pieces


def _change(content: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        size = change.size
        del content[size:]
    else:
        size = change.offset + len(change.content)
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if isinstance(change, Write):
        content[change.offset : size] = change.content
