"""A safe copy of a database that is in use: whole and looked through before it has its name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from edgecron.base.errors import AlreadyExists
from edgecron.base.values import dataclass
from edgecron.client.copy_places import partial_file, put_in_place, resolve_target
from edgecron.store.copies import Contents, Progress, copy_database

_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was made; `path` None where it was written elsewhere than to a file."""

    database: Path
    path: Path | None
    taken_at: datetime
    size_bytes: int
    contents: Contents


def make_backup(
    database: Path, given: str, *, now: datetime, replace: bool, on_progress: Progress
) -> Backup:
    """Back a database up to a file, or into a folder under a dated name.

    Raises what `places.resolve_target` and `copy_database` raise. Only a copy in which nothing
    is damaged gets its name; one that may be replaced stays until then.
    """
    target = resolve_target(database, given, now=now, replace=replace)
    with partial_file(target.path.parent) as partial:
        contents = copy_database(database, partial, on_progress=on_progress)
        size_bytes = partial.stat().st_size
        while True:
            try:
                put_in_place(partial, target.path, replace=replace and not target.is_found)
            except AlreadyExists:
                if not target.is_found:
                    raise
                # Another backup of this second was whole sooner, be it of another database.
                target = resolve_target(database, given, now=now, replace=False)
            else:
                break
    return Backup(
        database=database, path=target.path, taken_at=now, size_bytes=size_bytes, contents=contents
    )


def write_backup(
    database: Path, write: Callable[[bytes], object], *, now: datetime, on_progress: Progress
) -> Backup:
    """Back a database up to where `write` takes it, once nothing in the copy is damaged.

    The copy lies beside the database meanwhile.
    """
    with partial_file(database.parent) as partial:
        contents = copy_database(database, partial, on_progress=on_progress)
        size_bytes = partial.stat().st_size
        with partial.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                write(chunk)
    return Backup(
        database=database, path=None, taken_at=now, size_bytes=size_bytes, contents=contents
    )
