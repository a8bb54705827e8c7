"""Writing what a run printed to a file: the very bytes, as far as they are kept."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgecron.base.errors import AlreadyExists, EdgecronError, InvalidInput, os_words
from edgecron.base.paths import resolve_path
from edgecron.client import Client
from edgecron.client.copy_places import partial_file, put_in_place, refuse_own
from edgecron.client.face import Face
from edgecron.client.follow import Piece


def save_output(
    client: Face, execution_id: int, given: str, *, name: str, may_replace: bool = False
) -> tuple[Path, int]:
    """Write what a run has printed so far; into which file, and how many bytes that were.

    In a folder the file is called `name`. A line says where some bytes were not kept. Raises
    AlreadyExists where the file is there and may not be replaced, EdgecronError where there can't
    be one.
    """
    try:
        path = _target(client, given, name=name, may_replace=may_replace)
        with client.follower(execution_id) as follower:
            content = b"".join(_contents(follower.read_kept(client.execution(execution_id))))
        with partial_file(path.parent) as partial:
            partial.write_bytes(content)
            put_in_place(partial, path, replace=may_replace)
    except OSError as error:
        raise EdgecronError(f"{given} can't be written: {os_words(error)}") from error
    return path, len(content)


def _target(client: Face, given: str, *, name: str, may_replace: bool) -> Path:
    path = resolve_path(given, what="file")
    if path.is_dir():
        path /= name
    if not path.parent.is_dir():
        raise InvalidInput(f"folder {path.parent} does not exist")
    if isinstance(client, Client):  # else its files are those of another machine
        refuse_own(client.path, path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return path
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path} is not a regular file")
    if not may_replace:
        raise AlreadyExists(f"{path} exists already")
    return path


def _contents(pieces: Iterable[Piece]) -> Iterator[bytes]:
    for skipped, chunk in pieces:
        if skipped:
            yield f"\n[... {skipped:,} bytes were not kept ...]\n".encode()
        yield chunk.content
