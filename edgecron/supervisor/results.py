"""Results of commands: the file that a run leaves, and what the file holds.

A command leaves a small JSON value in the file that EDGECRON_RESULT names. A function that runs in
its own process leaves `{"edgecron": {"result": ..., "state": {"key": "text of JSON" or null}}}`
instead, with nothing beside it. `"progress": {"fraction": 1, "text": ""}` can be there too. If the
function raised, it leaves `"error": {"code": "ValueError", "message": "ValueError: no"}` and no
result; `is_skip`, `gives_up` and `retry_after_ms` can be there, as in `Raised`. If its result is
not JSON, it leaves `"lost": true`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgecron.base.checks import check_json
from edgecron.base.errors import InvalidInput
from edgecron.base.units import MAX_DURATION_MS
from edgecron.base.values import NamedTuple
from edgecron.model.run import (
    MOST_RESULT_BYTES,
    MOST_STATE_KEYS,
    Progress,
    check_state_key,
    check_state_value,
    progress_text,
)
from edgecron.supervisor.protocol import Flag, Identity, StartRequest
from edgecron.supervisor.state_files import result_name

VARIABLE = "EDGECRON_RESULT"
WITHOUT = "EDGECRON_RUN_MARK"  # identifies a run that can have no result file
MARKER = "edgecron"  # the only key of what a function in its own process leaves
# Results of other users lie on a disk, where the file counts as its user's own. /run lies in memory
# and belongs to root: one job could take all its space.
OTHER_USERS_FOLDER = Path("/var/cache" if Path("/var/cache").is_dir() else "/var/run") / "edgecron"
_PARTS = {"result", "state", "progress", "error", "lost"}
_MOST_LETTERS = 2_000  # of what a row says about an exception


def result_path(token: str, state_dir: Path, *, of_another_user: bool) -> Path:
    """Return the path of a run's result file. Another user can't reach the state folder."""
    return (OTHER_USERS_FOLDER if of_another_user else state_dir) / result_name(token)


def with_result_file(request: StartRequest, state_dir: Path) -> dict[str, str]:
    """Return the environment of a run with the name of its result file.

    For another user, make the file, in a folder of root's. If that fails, for example because /var
    is read-only, set a variable that only identifies the run, in case its supervisor dies.
    """
    environment = dict(request.env)
    who = request.identity
    path = result_path(request.token, state_dir, of_another_user=who is not None)
    if who is None or _make_for(who, path):
        environment[VARIABLE] = os.fspath(path)
    else:
        environment.pop(VARIABLE, None)
        environment[WITHOUT] = f"/{result_name(request.token)}"
    return environment


def _make_for(who: Identity, path: Path) -> bool:
    try:
        path.parent.mkdir(mode=0o711, exist_ok=True)
        folder = path.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.geteuid():
            return False
        # Only root can list or make names there.
        path.parent.chmod(0o711)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchown(fd, who.uid, who.gid)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def forget_results(token: str, state_dir: Path) -> None:
    """Remove the result file of a run, as own or as another user."""
    for of_another_user in (False, True):
        remove_result(result_path(token, state_dir, of_another_user=of_another_user))


def take_result(path: Path, *, of_another_user: bool = False) -> tuple[str | None, Flag | None]:
    """Read and remove the result file: the JSON text, or why it can't be kept.

    Both are None if the run left none. A link is not followed, and a FIFO is not waited for. A run
    of another user can only leave a result: neither state nor progress.
    """
    text, flag = _take(path)
    if of_another_user and text is not None and f'"{MARKER}"' in text:
        text = f'{{"{MARKER}": {{"result": {text}}}}}'
    return text, flag


def _take(path: Path) -> tuple[str | None, Flag | None]:
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
    """Remove a file. A folder is not ours, and stays."""
    with contextlib.suppress(OSError):
        path.unlink()


def _read(fd: int) -> tuple[str | None, Flag | None]:
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        return None, Flag.RESULT_INVALID
    if seen.st_size > MOST_RESULT_BYTES:
        return None, Flag.RESULT_TOO_BIG
    if seen.st_size == 0 and seen.st_uid != os.geteuid():
        return None, None  # as it was made for the other user
    content = os.read(fd, MOST_RESULT_BYTES + 1)
    if len(content) > MOST_RESULT_BYTES:
        return None, Flag.RESULT_TOO_BIG
    try:
        text = content.decode("utf-8").strip()
        check_json(text, what="the result", most_bytes=MOST_RESULT_BYTES)
    except ValueError:  # not UTF-8, or InvalidInput
        return None, Flag.RESULT_INVALID
    return text, None


class Raised(NamedTuple):
    """The exception of a function, and what follows from it.

    `is_skip`: the function had nothing to do. `gives_up`: no other attempt follows.
    `asks_again`: the function asked for another attempt, and it follows, after `retry_after_ms` if
    that is not None.
    """

    code: str | None
    message: str
    is_skip: bool = False
    gives_up: bool = False
    asks_again: bool = False
    retry_after_ms: int | None = None


class Left(NamedTuple):
    """The contents of a result file: result as JSON text, changes of state, last progress."""

    result: str | None = None
    state: Mapping[str, str | None] | None = None
    progress: str | None = None
    error: Raised | None = None
    is_lost: bool = False  # the result is not JSON


def split_result(text: str | None) -> Left | None:
    """Take apart the text of a result file; None if it is marked and malformed."""
    if text is None or f'"{MARKER}"' not in text:
        return Left(result=text)
    try:
        body = json.loads(text)
        if not isinstance(body, dict) or set(body) != {MARKER}:
            return Left(result=text)
        return _left(body[MARKER])
    except (InvalidInput, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _left(parts: dict[str, Any]) -> Left:
    if not set(parts) <= _PARTS:
        raise ValueError("expected result, state, progress, error and lost")
    result, state, progress = (parts.get(part) for part in ("result", "state", "progress"))
    return Left(
        result=None if result is None else _storable(result),
        state=None if state is None else _changes(state),
        progress=None if progress is None else progress_text(Progress(**progress)),
        error=_error(parts.get("error")),
        is_lost=parts.get("lost") is True,
    )


def _error(error: Any) -> Raised | None:
    if error is None:
        return None
    after_ms = error.get("retry_after_ms")
    if after_ms is not None and not 0 <= int(after_ms) <= MAX_DURATION_MS:
        raise ValueError("expected a delay of at most 100 years")
    return Raised(
        code=None if error["code"] is None else _cut(error["code"]),
        message=_cut(error["message"]),
        is_skip=error.get("is_skip") is True,
        gives_up=error.get("gives_up") is True,
        asks_again=error.get("asks_again") is True,
        retry_after_ms=None if after_ms is None else int(after_ms),
    )


def _cut(text: object) -> str:
    found = str(text)
    found.encode()  # Raises if a row can't hold it.
    return found[:_MOST_LETTERS]


def _storable(result: Any) -> str:
    text = json.dumps(result, ensure_ascii=False)
    text.encode()  # JSON allows half a surrogate pair, a row does not.
    return text


def _changes(state: Any) -> dict[str, str | None] | None:
    if not isinstance(state, dict) or len(state) > MOST_STATE_KEYS:
        raise ValueError("expected an object of as many keys as a state may have")
    for key, value in state.items():
        check_state_key(key)
        if value is not None:
            check_state_value(key, value)
    return state or None
