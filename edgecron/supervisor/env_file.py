"""A file of variables for a command: KEY=VALUE lines, where nothing is expanded."""

from __future__ import annotations

import errno
import os
import re
import stat

MOST_BYTES = 1024 * 1024

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)


class EnvFileRefused(Exception):
    """A file of variables that can't be read, or is none."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_env_file(path: str) -> dict[str, str]:
    """The variables of a file of KEY=VALUE lines; `#` starts a comment line.

    A value may stand in single or double quotes, which are taken off; nothing in it is expanded.
    It is read with the rights of the process that asks.
    Raises EnvFileRefused with the line that can't be read.
    """
    variables = {}
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _ASSIGNMENT.fullmatch(text)
        if found is None or "\0" in text:
            # The line itself may hold a secret: it is not shown.
            message = f"environment file '{path}' line {number} is not KEY=VALUE"
            raise EnvFileRefused("EINVAL", message)
        name, value = found.groups()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        variables[name] = value
    return variables


def _read_text(path: str) -> str:
    try:
        # By an opener: `open` of a descriptor leaves that open if it is a folder's.
        with open(path, "rb", opener=_open_at_once) as env_file:
            seen = os.fstat(env_file.fileno())
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
                message = f"environment file '{path}' is no file of at most 1 MiB"
                raise EnvFileRefused("EINVAL", message)
            return env_file.read(MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        why = "is missing" if error.errno == errno.ENOENT else f"can't be read: {error.strerror}"
        raise EnvFileRefused(code, f"environment file '{path}' {why}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a FIFO without a writer holds nobody."""
    return os.open(path, flags | os.O_NONBLOCK)
