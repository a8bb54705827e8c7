"""What a disk may hold after a power cut, as the log of what was done to it allows.

What was synced is there. What was not may be there or not, in any order, in part: sectors, sizes
and names each for themselves; names that changed in one step together. A write does not damage
what lies beside it (SQLite's "powersafe overwrite", which holds for disks that keep a sector
whole).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from tests.powerloss.recorder import (
    ROOT,
    Create,
    Delete,
    Entry,
    Found,
    Logged,
    MakeFolder,
    Mark,
    Name,
    Rename,
    Sync,
    SyncFailed,
    SyncFolder,
    Truncate,
    Write,
)

SECTOR_BYTES = 512
PAGE_BYTES = 4096


class Image(dict[str, bytes]):
    """From a file's path to its content. `links`: paths of files that have another path too."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, str] = {}
        self.folders: list[str] = []


class Loss(StrEnum):
    DROPPED = "dropped"  # nothing that was not synced is there
    KEPT = "kept"  # everything is there: so a killed process leaves it
    TORN = "torn"  # everything but the end of the last write
    REORDERED = "reordered"  # some sectors, some sizes and some names, whatever their order


Changes = tuple[tuple[Name, int | None], ...]  # of names, in one step


@dataclass
class _File:
    durable: bytearray = field(default_factory=bytearray)
    refused: list[Write | Truncate] = field(default_factory=list)  # no sync will bring them
    pending: list[Write | Truncate] = field(default_factory=list)

    @property
    def unsure(self) -> list[Write | Truncate]:
        return [*self.refused, *self.pending]

    def sync(self) -> None:
        # A page of the cache that was written to again takes along what was refused of it.
        pages = {page for change in self.pending for page in _pages(change)}
        taken = [one for one in self.refused if isinstance(one, Truncate) or _pages(one) & pages]
        for change in [*taken, *self.pending]:
            _change(self.durable, change)
        self.refused = [one for one in self.refused if one not in taken]
        self.pending.clear()

    def refuse(self) -> None:
        for change in self.pending:
            self.refused += [change] if isinstance(change, Truncate) else _sectors(change)
        self.pending.clear()


@dataclass
class Disk:
    """The files of one folder and those below it, moved on entry by entry."""

    files: dict[int, _File] = field(default_factory=dict)
    folders: set[int] = field(default_factory=lambda: {ROOT})
    names: dict[Name, int] = field(default_factory=dict)
    pending_names: list[Changes] = field(default_factory=list)

    def apply(self, entry: Entry) -> None:
        match entry:
            case Create():
                self.files[entry.file] = _File()
                self.pending_names.append((((entry.folder, entry.name), entry.file),))
            case MakeFolder():
                self.folders.add(entry.number)
                self.pending_names.append((((entry.folder, entry.name), entry.number),))
            case Found():
                self._find(entry)
            case Write() | Truncate():
                self.files[entry.file].pending.append(entry)
            case Sync():
                self.files[entry.file].sync()
            case SyncFailed():
                self.files[entry.file].refuse()
            case Delete():
                self.pending_names.append((((entry.folder, entry.name), None),))
            case Rename():
                self.pending_names.append(entry.changes)
            case SyncFolder():
                self._sync_folder(entry.folder)
            case Mark():
                pass

    def image(self, loss: Loss, random: Random, *, beside: Loss | None = None) -> Image:
        """One of the states that the disk may be found in.

        `beside` is another kind of loss for what lies in folders below.
        """
        beside = beside or loss
        kept = [
            changes
            for changes in self.pending_names
            if _is_kept(loss if changes[0][0][0] == ROOT else beside, random)
        ]
        # For one name the order holds: what it names is what it named at some time.
        names = self._names_after(kept)
        image = Image()
        first_paths: dict[int, str] = {}
        for path, number in sorted(self._paths(names, ROOT, "")):
            if number in self.folders:
                image.folders.append(path)
            elif number in first_paths:
                image.links[path] = first_paths[number]
                image[path] = image[first_paths[number]]
            else:
                first_paths[number] = path
                its_loss = beside if "/" in path else loss
                image[path] = bytes(_content(self.files[number], its_loss, random))
        return image

    def _find(self, found: Found) -> None:
        numbers = {"": ROOT, **found.folders}
        self.folders.update(found.folders.values())
        for path, (file, content) in found.files.items():
            self.files[file] = _File(durable=bytearray(content))
            numbers[path] = file
        for path, number in numbers.items():
            if path:
                folder, _, name = path.rpartition("/")
                self.names[numbers[folder], name] = number

    def _sync_folder(self, folder: int) -> None:
        synced = [one for one in self.pending_names if any(n[0] == folder for n, _ in one)]
        self.names = self._names_after(synced)
        self.pending_names = [one for one in self.pending_names if one not in synced]

    def _names_after(self, steps: Sequence[Changes]) -> dict[Name, int]:
        names: dict[Name, int | None] = {**self.names}
        for changes in steps:
            names.update(changes)
        return {name: number for name, number in names.items() if number is not None}

    def _paths(self, names: dict[Name, int], folder: int, above: str) -> Iterator[tuple[str, int]]:
        for (parent, name), number in names.items():
            if parent == folder:
                yield above + name, number
                if number in self.folders:
                    yield from self._paths(names, number, f"{above}{name}/")


def disks(log: Sequence[Logged]) -> Iterator[tuple[int, Disk]]:
    """The disk after each number of entries; the same object, moved on."""
    disk = Disk()
    yield 0, disk
    for number, logged in enumerate(log, start=1):
        disk.apply(logged.entry)
        yield number, disk


def _is_kept(loss: Loss, random: Random) -> bool:
    """Whether names that changed are found so."""
    match loss:
        case Loss.DROPPED:
            return False
        case Loss.KEPT | Loss.TORN:
            return True
        case Loss.REORDERED:
            return random.random() < 0.5


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
            return file.unsure
        case Loss.TORN:
            return [*file.unsure[:-1], *_torn(file.unsure[-1:], random)]
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
    for change in file.unsure:
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


def _pages(change: Write | Truncate) -> set[int]:
    """The pages of the system's cache that a write touches."""
    if isinstance(change, Truncate):
        return set()
    last = change.offset + len(change.content) - 1
    return set(range(change.offset // PAGE_BYTES, last // PAGE_BYTES + 1))


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
