"""What was taken as it is, but may not be what was meant, seen from here and now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.model.options import Job


def secret_words(name: str) -> str:
    """Of a variable that is called as if it held a secret."""
    return f"{name} is kept readable in the database; put secrets into a file for --env-file"


def find_missing_command(job: Job) -> str | None:
    """A sentence about a command that would not be found; None where it would be."""
    import os
    from shutil import which

    command = job.argv[0]
    if os.path.isabs(command) or command.startswith("~"):
        return None if os.path.exists(command) else f"there is no {command!r} yet"
    if "/" in command:
        folder = job.cwd or "HOME"
        return f"command {command!r} is looked for from {folder}; an absolute path is safer"
    return None if which(command) else f"command {command!r} is not found on this PATH"


def find_missing_folder(job: Job) -> str | None:
    """A sentence about a folder that is not there yet; None where it is, or can't be told."""
    import os

    # A relative path counts from HOME, which need not be ours.
    if job.cwd is None or not job.cwd.startswith("/") or os.path.isdir(job.cwd):
        return None
    return f"there is no folder {job.cwd!r} yet"
