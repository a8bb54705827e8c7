"""Store what runs print, their progress, and their schedules' state.

The output of a run is one compressed value, so history takes no files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from edgecron.base.units import from_ms
from edgecron.model.claim import Output, OutputChunk, Stream
from edgecron.model.reports import Reported, fits_state
from edgecron.store.sqlite.connection import Database

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


def note_progress(database: Database, reported: Sequence[Reported]) -> None:
    """Put progress on record, of what still runs by these tokens."""
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


def report_progress(database: Database, execution_id: int, progress: str) -> bool:
    """Put a progress on record; whether that is of a run that goes on."""
    with database.transaction():
        changed = database.change(
            """UPDATE executions SET progress = :progress
               WHERE id = :id AND status = 'running' AND progress IS NOT :progress""",
            {"id": execution_id, "progress": progress},
        )
        return changed == 1 or _runs(database, execution_id)


def _runs(database: Database, execution_id: int) -> bool:
    found = database.row(
        "SELECT 1 FROM executions WHERE id = :id AND status = 'running'", {"id": execution_id}
    )
    return found is not None


def write_state(database: Database, schedule_id: int, changes: Mapping[str, str | None]) -> None:
    """Change what a schedule remembers, inside the caller's transaction."""
    gone = [key for key, value in changes.items() if value is None]
    kept = [(key, value) for key, value in changes.items() if value is not None]
    if gone:
        database.change_many(
            "DELETE FROM state WHERE schedule_id = :schedule AND key = :key",
            [{"schedule": schedule_id, "key": key} for key in gone],
        )
    if kept:
        # What no edgecron would have let through must not hold up the end that it comes with.
        database.change_many(
            """INSERT INTO state (schedule_id, key, value)
               SELECT :schedule, :key, :value WHERE json_valid(:value)
               ON CONFLICT (schedule_id, key) DO UPDATE SET value = excluded.value
                   WHERE state.value IS NOT excluded.value""",
            [{"schedule": schedule_id, "key": key, "value": value} for key, value in kept],
        )


def find_fitting_states(
    database: Database, changes: Sequence[tuple[int, str, Mapping[str, str | None]]]
) -> list[bool]:
    """Whether the schedules of running executions stay within the limits of a state, with changes
    by execution and lease token; those that fit count for the ones after them."""
    states: dict[int, Mapping[str, str]] = {}
    fitting = []
    for execution_id, token, change in changes:
        found = database.row(
            """SELECT schedule_id FROM executions
               WHERE id = :id AND lease_token = :token AND status = 'running'""",
            {"id": execution_id, "token": token},
        )
        if found is None:
            fitting.append(True)  # It ends nothing, and so changes nothing.
            continue
        before = states.get(found[0])
        if before is None:
            before = find_state(database, found[0])
        after = {k: value for k, value in {**before, **change}.items() if value is not None}
        fits = fits_state(before, after)
        states[found[0]] = after if fits else before
        fitting.append(fits)
    return fitting


def find_state(database: Database, schedule_id: int) -> dict[str, str]:
    """What a schedule remembers: texts of JSON by key, in the order of keys."""
    rows = database.rows(
        "SELECT key, value FROM state WHERE schedule_id = :schedule ORDER BY key",
        {"schedule": schedule_id},
    )
    return dict(rows)


def count_state(database: Database, schedule_id: int) -> int:
    """How many keys that has."""
    [(count,)] = database.rows(
        "SELECT count(*) FROM state WHERE schedule_id = :schedule", {"schedule": schedule_id}
    )
    return int(count)
