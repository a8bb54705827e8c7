"""Read a file or stdin; write a file whole or not at all; fill in the texts of this package."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from edgecron.base.errors import EdgecronError, InvalidInput, NotFound, os_words
from edgecron.base.files import write_whole
from edgecron.base.paths import hint_for_missing, list_command

STDIN = "-"  # in the place of a file
_PLACE = re.compile(r"@([a-z_]+)@")


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
        raise NotFound(f"file {file!r} does not exist", hint=hint_for_missing(file)) from None
    except IsADirectoryError:
        raise InvalidInput(
            f"{file!r} is a folder, expected a file",
            hint=f"see its files: {list_command(Path(file))}",
        ) from None
    except (OSError, ValueError) as error:
        is_refused = isinstance(error, PermissionError)
        raise InvalidInput(
            f"file {file!r} can't be read: {os_words(error, is_named=True)}",
            hint=f"see its owner and mode: ls -l {quote(file)}" if is_refused else None,
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
        words, hint = os_words(error, is_named=True), None
        folder = os.path.dirname(file)
        if isinstance(error, FileNotFoundError) and folder and not os.path.lexists(folder):
            words, hint = "its folder does not exist", f"mkdir -p {quote(folder)}"
        elif os.path.isdir(file):
            words, hint = "it is a folder", f"name a file in it, such as {quote(file)}/NAME"
        elif isinstance(error, PermissionError):
            hint = f"see its owner and mode: ls -ld {quote(folder or '.')} {quote(file)}"
        raise InvalidInput(f"file {file!r} can't be written: {words}", hint=hint) from None


def read_text(name: str) -> str:
    """Return the text of a file of this folder, such as `topics/cron.md`."""
    # As the migrations are read: `importlib.resources` takes longer to load than all the rest.
    assert __spec__ is not None
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), name))
    return content.decode("utf-8")


def fill_text(name: str, /, **values: str | None) -> str:
    """Return the text of `texts/NAME` with each `@key@` replaced by its value.

    If the value of a key is None, lines with this key are skipped.
    """
    missing = {key for key, value in values.items() if value is None}
    lines = read_text(f"texts/{name}").splitlines(keepends=True)
    kept = [line for line in lines if missing.isdisjoint(_PLACE.findall(line))]
    return _PLACE.sub(lambda place: values[place[1]] or "", "".join(kept))
