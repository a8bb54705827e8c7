"""What a run printed, as one compressed value: history costs no inode."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from edgecron.base.units import from_ms
from edgecron.model.claim import Output, OutputChunk, Stream
from edgecron.store.connection import Database

_CHUNK = struct.Struct(">BqI")  # stream, instant in milliseconds, length; then the bytes
_LEAST_COMPRESSED = 256  # below it the page is written whole anyway


def pack_output(output: Output | None) -> dict[str, Any] | None:
    """The columns of an output; None where nothing was printed, which leaves no row.

    Compressing takes milliseconds: before the transaction, not in it.
    """
    if output is None or not (output.chunks or output.dropped_bytes):
        return None
    packed = b"".join(
        _CHUNK.pack(chunk.stream, chunk.at_ms, len(chunk.content)) + chunk.content
        for chunk in output.chunks
    )
    encoding = "raw"
    if len(packed) >= _LEAST_COMPRESSED:
        encoding, packed = "zlib", zlib.compress(packed, 6)
    return {
        "encoding": encoding,
        "chunks": packed,
        "stdout": output.stdout_bytes,
        "stderr": output.stderr_bytes,
        "dropped": output.dropped_bytes,
        "dropped_after": output.dropped_after,
    }


def insert_output(database: Database, execution_id: int, columns: dict[str, Any]) -> None:
    """Keep what `pack_output` laid out, inside the caller's transaction."""
    database.change(
        """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes, stderr_bytes,
               dropped_bytes, dropped_after)
           VALUES (:id, :encoding, :chunks, :stdout, :stderr, :dropped, :dropped_after)""",
        columns | {"id": execution_id},
    )


def find_output(database: Database, execution_id: int) -> Output | None:
    """What a run printed, or None where it printed nothing or has not ended."""
    row = database.row(
        """SELECT encoding, chunks, stdout_bytes, stderr_bytes, dropped_bytes, dropped_after,
               removed_at
           FROM outputs WHERE execution_id = :id""",
        {"id": execution_id},
    )
    if row is None:
        return None
    packed = zlib.decompress(row[1]) if row[0] == "zlib" else row[1]
    return Output(
        chunks=_unpack(packed),
        stdout_bytes=row[2],
        stderr_bytes=row[3],
        dropped_bytes=row[4],
        dropped_after=row[5],
        removed_at=None if row[6] is None else from_ms(row[6]),
    )


def _unpack(packed: bytes) -> tuple[OutputChunk, ...]:
    chunks: list[OutputChunk] = []
    at = 0
    while at < len(packed):
        stream, at_ms, length = _CHUNK.unpack_from(packed, at)
        at += _CHUNK.size
        chunks.append(
            OutputChunk(stream=Stream(stream), at_ms=at_ms, content=packed[at : at + length])
        )
        at += length
    return tuple(chunks)
