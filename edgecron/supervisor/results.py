"""The small JSON result that a run may leave in the file that EDGECRON_RESULT names."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path

from edgecron.supervisor.files import result_name
from edgecron.supervisor.records import Flag, StartRequest

VARIABLE = "EDGECRON_RESULT"
MOST_BYTES = 64 * 1024


def with_result_file(request: StartRequest, state_dir: Path) -> dict[str, str]:
    """The environment of a run, with the file where it may leave a result.

    The folder is closed to other users: a run as one of them has no such file.
    """
    environment = dict(request.env)
    if request.identity is None:
        environment[VARIABLE] = os.fspath(state_dir / result_name(request.token))
    else:
        environment.pop(VARIABLE, None)
    return environment


def take_result(path: Path) -> tuple[str | None, Flag | None]:
    """The JSON text that a run has left, or why it can't be kept; both None where it left none.

    The file is gone then. Nothing is followed or waited for that a run may have put there.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            remove_result(path)
        return None, Flag.RESULT_INVALID
    try:
        return _read(fd)
    except OSError:
        return None, Flag.RESULT_INVALID
    finally:
        os.close(fd)
        remove_result(path)


def remove_result(path: Path) -> None:
    """Remove what stands there, unless it is a folder: that is not ours."""
    with contextlib.suppress(OSError):
        path.unlink()


def _read(fd: int) -> tuple[str | None, Flag | None]:
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        return None, Flag.RESULT_INVALID
    if seen.st_size > MOST_BYTES:
        return None, Flag.RESULT_TOO_BIG
    content = os.read(fd, MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        return None, Flag.RESULT_TOO_BIG
    try:
        text = content.decode("utf-8").strip()
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None, Flag.RESULT_INVALID
    return text, None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
