"""Explain why a command could not be started."""

from __future__ import annotations

import errno
import os

from edgecron.supervisor.records import StartRequest

_SHORTAGES = {
    errno.EAGAIN: "the system has no process left",
    errno.EMFILE: "the supervisor has no file descriptor left",
    errno.ENFILE: "the system has no file descriptor left",
    errno.ENOMEM: "the system has no memory left",
}


class SpawnFailed(Exception):
    """A command could not be started. If `is_temporary`, a later try can succeed."""

    def __init__(self, code: str, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_temporary = is_temporary


def explain_error(error: OSError, request: StartRequest) -> SpawnFailed:
    """Explain an error of `subprocess`, or of a fork. `filename` is the folder if that failed."""
    number = error.errno or 0
    code = errno.errorcode.get(number, "EIO")
    if number in _SHORTAGES:
        message = f"{_SHORTAGES[number]} ({error.strerror})"
        return SpawnFailed(code, message, is_temporary=True)
    command = request.argv[0]
    if error.filename == request.cwd:
        why = "is missing" if number == errno.ENOENT else f"can't be entered: {error.strerror}"
        return SpawnFailed(code, f"folder '{request.cwd}' {why}")
    if number == errno.ENOENT:
        return SpawnFailed(code, _what_is_missing(command, request))
    if number == errno.ENOEXEC:
        message = (
            f"command '{command}' is not a program; a script starts with #! and a program's path"
        )
        return SpawnFailed(code, message)
    if number == errno.EACCES and os.path.isdir(os.path.join(request.cwd or "/", command)):
        return SpawnFailed(code, f"command '{command}' is a folder")
    return SpawnFailed(code, f"command '{command}' can't be started: {error.strerror}")


def explain_interpreter(command: str) -> str:
    return f"command '{command}' names an interpreter in its first line that is missing"


def _what_is_missing(command: str, request: StartRequest) -> str:
    if "/" not in command:
        path = {**request.base_env, **request.env}.get("PATH", "not set")
        return f"command '{command}' is not in PATH ({path})"
    # Only the fork that has become another user looks at that user's files.
    if request.identity is None and os.path.exists(os.path.join(request.cwd, command)):
        return explain_interpreter(command)
    return f"command '{command}' is missing"
