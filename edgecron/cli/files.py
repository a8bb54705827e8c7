"""Files that verbs read, or stdin for them; and those that they write: whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from edgecron.base.errors import EdgecronError, InvalidInput, NotFound

STDIN = "-"  # in the place of a file


def read_file(file: str, *, most_bytes: int) -> bytes:
    """What a file or stdin holds, up to one byte more than that.

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
        from edgecron.base.errors import os_words

        raise InvalidInput(
            f"file {file!r} can't be read: {os_words(error, is_named=True)}"
        ) from None


def write_file(file: str, parts: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write a file at once, so that no half of it is ever there.

    With no mode it keeps the one it had; a new one is nobody else's. Raises InvalidInput, also if
    another user could lead root elsewhere. What is no regular file, such as /dev/stdout, is
    written into.
    """
    from pathlib import Path

    from edgecron.base.errors import os_words
    from edgecron.base.files import write_whole

    try:
        write_whole(Path(file).absolute(), parts, mode=mode)
    except EdgecronError:
        raise  # The parts could not be had: some of these are ValueErrors.
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"file {file!r} can't be written: {os_words(error, is_named=True)}"
        ) from None
