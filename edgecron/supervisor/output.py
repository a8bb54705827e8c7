"""Keep what a run prints, within its cap and in little memory: head, tail, and a count of the rest.

Output is kept as records (stream, time, length, content) in three regions: the head and two
segments of the tail. The segments are filled in turn, so that the last half of the cap is always
complete. The regions lie in memory while they are small, then in one spool file in the state
folder. `save` copies small regions to the file too. The file begins with an index of its regions,
so that an engine can read it after the supervisor was killed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from binascii import a2b_base64, b2a_base64  # `base64` is much more
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edgecron.base.files import open_private
from edgecron.base.values import dataclass
from edgecron.model.run import Output, OutputChunk, Stream

MEMORY_BYTES = 16 * 1024
PENDING_BYTES = 4 * 1024
COALESCE_MS = 100
PART_BYTES = 64 * 1024  # about the size of a part that a live run returns
MAX_CHUNKS = 4096  # per region: bounds two streams that alternate byte by byte

_HEADER = struct.Struct("<BqI")  # stream, milliseconds since 1970, bytes of content
# Magic, bytes of stdout, of stderr, limit of the tail; of each region its base, size, checksum.
_INDEX = struct.Struct("<8s3Q3Q3Q3I")
_INDEX_BYTES = _INDEX.size + 4  # with a checksum of its own
_MAGIC = b"ECSPOOL1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the output. Positions count the bytes that a run printed, on both streams.

    It starts after the requested position if bytes were dropped there.
    """

    position: int
    chunks: tuple[OutputChunk, ...] = ()

    @property
    def next_position(self) -> int:
        return self.position + sum(len(chunk.content) for chunk in self.chunks)


class _Region:
    """Records in sequence, in memory or in the spool file from `base` on.

    `checksum` covers all of them: a power cut can take any part of a file. `marks` are places to
    read from, as bytes of content and bytes of records before them. Nothing is missing between two
    marks.
    """

    __slots__ = (
        *("base", "checksum", "content_bytes", "count", "limit"),
        *("marks", "memory", "size"),
    )

    def __init__(self, *, base: int, limit: int) -> None:
        self.base = base
        self.limit = limit
        self.memory = bytearray()
        self.marks = [(0, 0)]
        self.size = self.content_bytes = self.count = self.checksum = 0

    @property
    def room(self) -> int:
        return self.limit - self.content_bytes if self.count < MAX_CHUNKS else 0

    def reset(self) -> None:
        self.memory.clear()
        self.marks = [(0, 0)]
        self.size = self.content_bytes = self.count = self.checksum = 0

    def mark(self) -> None:
        """Mark the place of the next record as one to read from."""
        if self.marks[-1][1] == self.size:
            self.marks.pop()
        self.marks.append((self.content_bytes, self.size))


class OutputKeeper:
    """Takes what a run prints, and returns at its end what was kept, and where."""

    def __init__(self, *, cap_bytes: int, spool: Path) -> None:
        head_limit = cap_bytes // 2
        tail_limit = cap_bytes - head_limit
        overhead = MAX_CHUNKS * _HEADER.size
        tail_base = _INDEX_BYTES + head_limit + overhead
        self._spool = spool
        self._spool_fd: int | None = None
        self._is_spilled = False  # the regions lie in the file; else the file has at most a copy
        self._is_saved = True  # nothing was printed since the last `save`
        self._spill_failed = False
        self._tail_limit = tail_limit
        self._head = _Region(base=_INDEX_BYTES, limit=head_limit)
        self._older = _Region(base=tail_base, limit=tail_limit)
        self._newer = _Region(base=tail_base + tail_limit + overhead, limit=tail_limit)
        self._printed = {Stream.STDOUT: 0, Stream.STDERR: 0}
        self._passed_bytes = 0  # printed, without the pending bytes
        self._pending = bytearray()
        self._pending_stream = Stream.STDOUT
        self._pending_ms = 0
        self.is_lost = False  # something within the cap could not be kept

    def add(self, stream: Stream, at_ms: int, content: bytes) -> None:
        """Add bytes that were read from a stream at a time (milliseconds since 1970)."""
        self._printed[stream] += len(content)
        self._is_saved = False
        if (
            self._pending
            and stream is self._pending_stream
            and 0 <= at_ms - self._pending_ms < COALESCE_MS
            and len(self._pending) + len(content) <= PENDING_BYTES
        ):
            self._pending += content
            return
        self._flush()
        if len(content) < PENDING_BYTES:
            self._pending += content
            self._pending_stream = stream
            self._pending_ms = at_ms
        else:
            self._keep(stream, at_ms, memoryview(content))

    @property
    def is_saved(self) -> bool:
        """Whether the file has everything that was printed, as far as it could be written."""
        return self._is_saved

    def save(self) -> None:
        """Write everything to the file, for the case that the supervisor is killed.

        Small output stays in memory too, so that a full disk loses none.
        """
        self._flush()
        self._is_saved = True
        if not self._is_spilled and any(region.size for region in self._regions):
            self._copy_memory()  # If it fails: with more output, `save` tries again.

    def read(self, position: int) -> Part:
        """Return a part of what is kept, from a position on; empty at the end."""
        end = self._passed_bytes
        head, older, newer = self._head, self._older, self._newer
        newer_at = end - newer.content_bytes
        tail_at = max(newer_at - older.content_bytes, end - self._tail_limit)
        # Region, the position of its content, and the range of positions that counts as kept.
        spans = (
            (head, 0, 0, head.content_bytes),
            (older, newer_at - older.content_bytes, tail_at, newer_at),
            (newer, newer_at, max(tail_at, newer_at), end),
        )
        for region, base, first, last in spans:
            position = max(position, first)
            while position < last:
                offset, chunks = self._load(region, position - base)
                position = base + offset
                if chunks:
                    return Part(position=position, chunks=chunks)
        content = bytes(self._pending[position - end :])
        if not content:
            return Part(position=position)
        chunk = OutputChunk(stream=self._pending_stream, at_ms=self._pending_ms, content=content)
        return Part(position=position, chunks=(chunk,))

    def _load(self, region: _Region, offset: int) -> tuple[int, tuple[OutputChunk, ...]]:
        """Load a region up to its next mark. If it can't be read, return the place of the mark."""
        index = bisect_right(region.marks, offset, key=lambda mark: mark[0])
        content_at, first = region.marks[index - 1]
        is_last = index == len(region.marks)
        next_at, last = (region.content_bytes, region.size) if is_last else region.marks[index]
        records = self._records(region, first, last)
        chunks = tuple(_without_first(_chunks(records)[0], offset - content_at))
        return (offset if chunks else next_at), chunks

    def _records(self, region: _Region, first: int, last: int) -> bytes:
        if self._spool_fd is None or not self._is_spilled:
            return bytes(region.memory[first:last])
        try:
            return os.pread(self._spool_fd, last - first, region.base + first)
        except OSError:
            return b""  # people see a gap

    def finish(self) -> dict[str, Any]:
        """Return what was kept as JSON: inline if it is small, else the name of the spool."""
        self._flush()
        regions = self._regions
        stored: dict[str, Any] = {
            "stdout_bytes": self._printed[Stream.STDOUT],
            "stderr_bytes": self._printed[Stream.STDERR],
            "tail_limit": self._tail_limit,
        }
        if self._spool_fd is not None:
            os.close(self._spool_fd)
            self._spool_fd = None
            stored["spool"] = self._spool.name  # also of a copy: the acknowledgement removes it
        if self._is_spilled:
            stored["regions"] = [[region.base, region.size] for region in regions]
            stored["checksums"] = [region.checksum for region in regions]
        elif any(region.size for region in regions):
            stored["inline"] = [
                b2a_base64(region.memory, newline=False).decode("ascii") for region in regions
            ]
        return stored

    @property
    def _regions(self) -> tuple[_Region, _Region, _Region]:
        return self._head, self._older, self._newer

    def _flush(self) -> None:
        if self._pending:
            content = memoryview(bytes(self._pending))
            self._pending.clear()
            self._keep(self._pending_stream, self._pending_ms, content)

    def _keep(self, stream: Stream, at_ms: int, content: memoryview) -> None:
        self._passed_bytes += len(content)
        if room := self._head.room:
            self._append(self._head, stream, at_ms, content[:room])
            content = content[room:]
        if self._tail_limit:
            self._keep_in_tail(stream, at_ms, content)
        if self._is_spilled:
            self._write_index()

    def _keep_in_tail(self, stream: Stream, at_ms: int, content: memoryview) -> None:
        # Only the end of what is longer than the whole tail stays.
        content = content[-self._tail_limit :]
        while content:
            room = self._newer.room
            if not room:
                self._older, self._newer = self._newer, self._older
                self._newer.reset()
                if self._is_spilled:
                    self._write_index()  # before anything of the region is overwritten
                continue
            self._append(self._newer, stream, at_ms, content[:room])
            content = content[room:]

    def _append(self, region: _Region, stream: Stream, at_ms: int, content: memoryview) -> None:
        if region.content_bytes - region.marks[-1][0] >= PART_BYTES:
            region.mark()
        record = _HEADER.pack(stream, at_ms, len(content)) + content
        if not self._is_spilled and not self._fits_in_memory(len(record)):
            self._spill()
        if not self._is_spilled:
            if not self._fits_in_memory(len(record)):
                self._lose(region, content)
                return
            region.memory += record
        elif not self._write(record, region.base + region.size):
            self._lose(region, content)
            return
        region.size += len(record)
        region.checksum = zlib.crc32(record, region.checksum)
        region.content_bytes += len(content)
        region.count += 1

    def _lose(self, region: _Region, content: memoryview) -> None:
        # Count it: a head that can't be written must still end, so that the tail begins.
        region.content_bytes += len(content)
        region.mark()
        self.is_lost = True

    def _fits_in_memory(self, more: int) -> bool:
        kept = len(self._head.memory) + len(self._older.memory) + len(self._newer.memory)
        return kept + more <= MEMORY_BYTES

    def _spill(self) -> None:
        """Move the memory to the spool. Without space, continue with what memory holds."""
        if self._spill_failed:
            return
        if self._copy_memory():
            self._is_spilled = True
            for region in self._regions:
                region.memory = bytearray()
            return
        self._spill_failed = True  # people see it by `is_lost`
        if self._spool_fd is not None:
            os.close(self._spool_fd)
            self._spool_fd = None
            with contextlib.suppress(OSError):  # the disk can refuse this too
                self._spool.unlink()

    def _copy_memory(self) -> bool:
        """Write the memory to the file; False if that failed."""
        if self._spool_fd is None:
            try:
                self._spool_fd = open_private(self._spool, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            except OSError:
                return False
        return (
            all(self._write(bytes(region.memory), region.base) for region in self._regions)
            and self._write_index()
        )

    def _write_index(self) -> bool:
        # Pending bytes are not in the file, and do not count as printed there.
        printed = {**self._printed}
        printed[self._pending_stream] -= len(self._pending)
        regions = self._regions
        index = _INDEX.pack(
            _MAGIC,
            printed[Stream.STDOUT],
            printed[Stream.STDERR],
            self._tail_limit,
            *(region.base for region in regions),
            *(region.size for region in regions),
            *(region.checksum for region in regions),
        )
        return self._write(index + zlib.crc32(index).to_bytes(4, "little"), 0)

    def _write(self, record: bytes, offset: int) -> bool:
        assert self._spool_fd is not None
        try:
            return os.pwrite(self._spool_fd, record, offset) == len(record)
        except OSError:
            return False


def load_output(stored: Mapping[str, Any], state_dir: Path) -> tuple[Output, bool]:
    """Load the output of an exit record; False with it if the spool can't be read completely."""
    regions, is_whole = _load_regions(stored, state_dir)
    parsed = [_chunks(region) for region in regions]
    is_whole = is_whole and all(is_parsed for _, is_parsed in parsed)
    head, older, newer = (chunks for chunks, _ in parsed)
    tail = _last_bytes([*older, *newer], int(stored.get("tail_limit", 0)))
    stdout_bytes = int(stored.get("stdout_bytes", 0))
    stderr_bytes = int(stored.get("stderr_bytes", 0))
    dropped_bytes = stdout_bytes + stderr_bytes - _content_bytes(head) - _content_bytes(tail)
    if dropped_bytes < 0:
        # More than was printed: after a power cut, the file has bytes that were never written.
        head, tail, is_whole = [], [], False
        dropped_bytes = stdout_bytes + stderr_bytes
    return (
        Output(
            chunks=(*head, *tail),
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
            dropped_bytes=dropped_bytes,
            dropped_after=len(head) if dropped_bytes else 0,
        ),
        is_whole,
    )


def load_saved_output(spool: Path) -> tuple[Output, bool] | None:
    """Load the output file of a run whose supervisor was killed, and whether it is complete.

    None if there is no such file, or an earlier version wrote it, without an index.
    """
    try:
        spool_fd = open_private(spool, os.O_RDONLY)
    except OSError:
        return None
    try:
        head = os.pread(spool_fd, _INDEX_BYTES, 0)
    except OSError:
        return None
    finally:
        os.close(spool_fd)
    index, checksum = head[: _INDEX.size], head[_INDEX.size :]
    if not index.startswith(_MAGIC) or checksum != zlib.crc32(index).to_bytes(4, "little"):
        return None
    _, stdout_bytes, stderr_bytes, tail_limit, *numbers = _INDEX.unpack(index)
    stored = {
        "stdout_bytes": stdout_bytes,
        "stderr_bytes": stderr_bytes,
        "tail_limit": tail_limit,
        "spool": spool.name,
        "regions": list(zip(numbers[:3], numbers[3:6], strict=True)),
        "checksums": numbers[6:],
    }
    return load_output(stored, spool.parent)


def _load_regions(stored: Mapping[str, Any], state_dir: Path) -> tuple[list[bytes], bool]:
    if "inline" in stored:
        return [a2b_base64(text) for text in stored["inline"]], True
    if "spool" not in stored:
        return [b"", b"", b""], True
    try:
        spool_fd = open_private(state_dir / Path(stored["spool"]).name, os.O_RDONLY)
    except OSError:
        return [b"", b"", b""], False
    try:
        regions = [os.pread(spool_fd, size, base) for base, size in stored["regions"]]
    except OSError:
        return [b"", b"", b""], False
    finally:
        os.close(spool_fd)
    sizes = [size for _, size in stored["regions"]]
    is_whole = [len(region) for region in regions] == sizes
    if "checksums" in stored:  # earlier supervisors wrote none
        is_whole = is_whole and [zlib.crc32(region) for region in regions] == stored["checksums"]
    return regions, is_whole


def _chunks(region: bytes) -> tuple[list[OutputChunk], bool]:
    """Decode the chunks of a region; False with them if it has anything else."""
    chunks = []
    position = 0
    while position + _HEADER.size <= len(region):
        stream, at_ms, length = _HEADER.unpack_from(region, position)
        start = position + _HEADER.size
        if stream not in (Stream.STDOUT, Stream.STDERR) or length > len(region) - start:
            break
        content = region[start : start + length]
        chunks.append(OutputChunk(stream=Stream(stream), at_ms=at_ms, content=content))
        position = start + length
    return chunks, position == len(region)


def _content_bytes(chunks: Iterable[OutputChunk]) -> int:
    return sum(len(chunk.content) for chunk in chunks)


def _last_bytes(chunks: list[OutputChunk], limit: int) -> list[OutputChunk]:
    return _without_first(chunks, _content_bytes(chunks) - limit)


def _without_first(chunks: list[OutputChunk], excess: int) -> list[OutputChunk]:
    kept = []
    for chunk in chunks:
        if excess >= len(chunk.content):
            excess -= len(chunk.content)
            continue
        if excess > 0:
            chunk = OutputChunk(
                stream=chunk.stream, at_ms=chunk.at_ms, content=chunk.content[excess:]
            )
            excess = 0
        kept.append(chunk)
    return kept
