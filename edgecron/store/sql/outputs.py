"""Write and read what a run prints and reports: its output and its progress.

An output is one compressed value, so history takes no files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

from edgecron.base.units import from_ms
from edgecron.model.run import (
    Output,
    OutputChunk,
    Reported,
    Stream,
)
from edgecron.store.sql.connection import Connection

_CHUNK = struct.Struct(">BqI")  # stream, instant in milliseconds, length; then the bytes
_LEAST_COMPRESSED = 256  # below it the page is written whole anyway


def pack_output(output: Output | None) -> dict[str, Any] | None:
    """Return the columns of an output; None if the run printed nothing.

    Call it before the transaction: to compress an output takes milliseconds.
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


def insert_output(database: Connection, execution_id: int, columns: dict[str, Any]) -> None:
    """Insert the columns that `pack_output` made, inside the caller's transaction."""
    database.change(
        """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes, stderr_bytes,
               dropped_bytes, dropped_after)
           VALUES (:id, :encoding, :chunks, :stdout, :stderr, :dropped, :dropped_after)""",
        columns | {"id": execution_id},
    )


def find_output(database: Connection, execution_id: int) -> Output | None:
    """Return the output of a run; None if it printed nothing or has not ended."""
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


def note_progress(database: Connection, reported: Sequence[Reported]) -> None:
    """Record the progress of runs that are still running with these tokens."""
    with database.transaction():
        database.change_many(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND lease_token = :token AND status = 'running'
                   AND progress IS NOT :progress""",
            [
                {"id": one.execution_id, "token": one.lease_token, "progress": one.progress}
                for one in reported
            ],
        )


def report_progress(database: Connection, execution_id: int, progress: str) -> bool:
    """Record the progress of a run; whether the run is still running."""
    with database.transaction():
        changed = database.change(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND status = 'running' AND progress IS NOT :progress""",
            {"id": execution_id, "progress": progress},
        )
        return changed == 1 or _runs(database, execution_id)


def _runs(database: Connection, execution_id: int) -> bool:
    found = database.row(
        "SELECT 1 FROM executions WHERE id = :id AND status = 'running'", {"id": execution_id}
    )
    return found is not None
