"""Files that verbs read, or stdin for them; and those that they write: whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from edgecron.errors import EdgecronError, InvalidInput, NotFound

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
        from edgecron.words.phrases import os_words

        raise InvalidInput(
            f"file {file!r} can't be read: {os_words(error, is_named=True)}"
        ) from None


def write_file(file: str, parts: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write a file at once, so that no half of it is ever there.

    With no mode it keeps the one it had; a new one is nobody else's. Raises InvalidInput. What is
    no regular file, such as /dev/stdout, is written into.
    """
    import os

    from edgecron.words.phrases import os_words

    try:
        if os.path.exists(file) and not os.path.isfile(file):
            with open(file, "wb") as special:
                special.writelines(parts)
            return
        _replace(os.path.realpath(file), parts, mode)
    except EdgecronError:
        raise  # The parts could not be had: some of these are ValueErrors.
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"file {file!r} can't be written: {os_words(error, is_named=True)}"
        ) from None


def _replace(path: str, parts: Iterable[bytes], mode: int | None) -> None:
    import os
    import tempfile

    fd, temporary = tempfile.mkstemp(prefix=".edgecron-", dir=os.path.dirname(path))
    try:
        with open(fd, "wb") as written:
            written.writelines(parts)
            written.flush()
            if mode is None and os.path.exists(path):
                mode = os.stat(path).st_mode & 0o7777
            if mode is not None:
                os.fchmod(fd, mode)
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C, too, leaves no half of a file
        os.unlink(temporary)
        raise
