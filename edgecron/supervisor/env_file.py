"""Read a file of variables for a command: KEY=VALUE lines. Nothing is expanded."""

from __future__ import annotations

import errno
import os
import re
import stat

MOST_BYTES = 1024 * 1024

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)


class EnvFileRefused(Exception):
    """A file of variables can't be read, or has another form."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def read_env_file(path: str) -> dict[str, str]:
    """Read the variables of a file, with the rights of this process. `#` starts a comment line.

    Single or double quotes around a value are removed. Raises EnvFileRefused with the number of a
    line that is not KEY=VALUE.
    """
    variables = {}
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _ASSIGNMENT.fullmatch(text)
        if found is None or "\0" in text:
            # Do not show the line: it can hold a secret.
            message = f"environment file '{path}' line {number} is not KEY=VALUE"
            raise EnvFileRefused("EINVAL", message)
        name, value = found.groups()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        variables[name] = value
    return variables


def _read_text(path: str) -> str:
    try:
        # Use an opener: `open` of a descriptor leaves it open if it is a folder.
        with open(path, "rb", opener=_open_at_once) as env_file:
            seen = os.fstat(env_file.fileno())
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > MOST_BYTES:
                message = f"environment file '{path}' is not a file of at most 1 MiB"
                raise EnvFileRefused("EINVAL", message)
            return env_file.read(MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        why = "is missing" if error.errno == errno.ENOENT else f"can't be read: {error.strerror}"
        raise EnvFileRefused(code, f"environment file '{path}' {why}") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file, without waiting for the writer of a FIFO."""
    try:
        return os.open(path, flags | os.O_NONBLOCK)
    except BlockingIOError:
        # Another program, such as a file server, has a lease on it, which only a regular file can
        # have. The kernel asks that program to give it back, and waits for this.
        return os.open(path, flags)
