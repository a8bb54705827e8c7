"""Read a file or stdin; write a file whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from edgecron.base.errors import EdgecronError, InvalidInput, NotFound, os_words
from edgecron.base.files import write_whole

STDIN = "-"  # in the place of a file


def read_file(file: str, *, most_bytes: int) -> bytes:
    """Read a file or stdin, up to `most_bytes` and one byte more.

    Raises NotFound or InvalidInput.
    """
    if file == STDIN:
        return sys.stdin.buffer.read(most_bytes + 1)
    try:
        with open(file, "rb") as content:
            return content.read(most_bytes + 1)
    except FileNotFoundError:
        raise NotFound(f"file {file!r} does not exist") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"file {file!r} can't be read: {os_words(error, is_named=True)}"
        ) from None


def write_file(file: str, parts: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write a file atomically. Raises InvalidInput.

    Without a mode, an existing file keeps its mode and a new file is private. Something other than
    a regular file, such as /dev/stdout, is written into. Root is refused a path that another user
    could redirect.
    """
    try:
        write_whole(Path(file).absolute(), parts, mode=mode)
    except EdgecronError:
        raise  # From the parts; some of these errors are ValueErrors, too.
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"file {file!r} can't be written: {os_words(error, is_named=True)}"
        ) from None
