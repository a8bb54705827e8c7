"""The small JSON result that a run may leave in the file that EDGECRON_RESULT names."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from edgecron.base.checks import check_json
from edgecron.model.claim import MOST_RESULT_BYTES
from edgecron.supervisor.files import result_name
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.records import Identity, StartRequest

VARIABLE = "EDGECRON_RESULT"
MARKER = "edgecron"  # the only key of a result that holds more: see `runners.results`
WITHOUT = "EDGECRON_RUN_MARK"  # in its place where there can be no such file: who it is of
# On a disk, where the file counts as its user's own, as what that user leaves in /var/tmp. In /run,
# which lies in memory and is otherwise root's, one job could take all the room there is.
_OF_OTHERS = Path("/var/cache" if Path("/var/cache").is_dir() else "/var/run") / "edgecron"


def result_path(token: str, state_dir: Path, *, of_another_user: bool) -> Path:
    """Where a run may leave its result. Another user can't reach the state folder."""
    return (_OF_OTHERS if of_another_user else state_dir) / result_name(token)


def with_result_file(request: StartRequest, state_dir: Path) -> dict[str, str]:
    """The environment of a run, with the file where it may leave a result.

    For a run as another user the file is made, in a folder of root's. Where that can't be, as
    where /var is read-only, there is no such variable, but one by which the run is known all the
    same, should its supervisor die.
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
        # Names can't be listed or made there, but by root.
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
    """Remove what a run may have left, wherever it was."""
    for of_another_user in (False, True):
        remove_result(result_path(token, state_dir, of_another_user=of_another_user))


def take_result(path: Path, *, of_another_user: bool = False) -> tuple[str | None, Flag | None]:
    """The JSON text that a run has left, or why it can't be kept; both None where it left none.

    The file is gone then. Nothing is followed or waited for that a run may have put there. What
    another user's run has left is a result and nothing else: neither state nor progress.
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
    """Remove what stands there, unless it is a folder: that is not ours."""
    with contextlib.suppress(OSError):
        path.unlink()


def _read(fd: int) -> tuple[str | None, Flag | None]:
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        return None, Flag.RESULT_INVALID
    if seen.st_size > MOST_RESULT_BYTES:
        return None, Flag.RESULT_TOO_BIG
    if seen.st_size == 0 and seen.st_uid != os.geteuid():
        return None, None  # as it was made for another user
    content = os.read(fd, MOST_RESULT_BYTES + 1)
    if len(content) > MOST_RESULT_BYTES:
        return None, Flag.RESULT_TOO_BIG
    try:
        text = content.decode("utf-8").strip()
        check_json(text, what="the result", most_bytes=MOST_RESULT_BYTES)
    except ValueError:  # not UTF-8, or InvalidInput
        return None, Flag.RESULT_INVALID
    return text, None
