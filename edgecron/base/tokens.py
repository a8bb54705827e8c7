"""Read the token of HTTP requests: a word in a file that only its owner can read."""

from __future__ import annotations

import os
import stat

from edgecron.base.errors import InvalidInput
from edgecron.base.files import open_private
from edgecron.base.paths import resolve_path

_LEAST = 16  # letters: fewer could be tried out
_MOST_BYTES = 4096
MAKE = "(umask 077; head -c 32 /dev/urandom | base64 > FILE)"


def read_token(given: str) -> str:
    """Read the token in a file. Raises InvalidInput if others can read it, or if it is none."""
    path = resolve_path(given, what="--token-file")
    try:
        fd = open_private(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            seen = os.fstat(fd)
            content = os.read(fd, _MOST_BYTES + 1) if stat.S_ISREG(seen.st_mode) else b""
        finally:
            os.close(fd)
    except OSError as error:
        raise InvalidInput(
            f"token file '{path}' can't be read: {error.strerror}", hint=f"make it: {MAKE}"
        ) from error
    if not stat.S_ISREG(seen.st_mode):
        raise InvalidInput(f"token file '{path}' is no file")
    if seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o077:
        raise InvalidInput(
            f"token file '{path}' is open to others (mode {stat.S_IMODE(seen.st_mode):o})",
            hint="let its owner alone read it, chmod 600, and make a new token",
        )
    return check_token(content, what=f"token file '{path}'")


def check_token(content: bytes, *, what: str) -> str:
    """Return a token without the space around it. Raises InvalidInput if it is none."""
    token = content.decode("ascii", "replace").strip()
    is_word = token.isascii() and token.isprintable() and " " not in token
    if len(content) > _MOST_BYTES or len(token) < _LEAST or not is_word:
        raise InvalidInput(
            f"{what} holds no token, expected {_LEAST} letters or more in one word",
            hint=f"make one: {MAKE}",
        )
    return token
