"""What was taken as it is, but may not be what was meant, seen from here and now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.formats.document_plan import may_be_secret

if TYPE_CHECKING:
    from edgecron.formats.document_plan import FieldChange
    from edgecron.model.options import Job


def secret_words(name: str) -> str:
    """Of a variable that is called as if it held a secret."""
    return f"{name} is kept readable in the database; put secrets into a file for --env-file"


def kept_words(changes: Iterable[FieldChange], *, forget: str) -> str | None:
    """Of former values that may be secret and stay in the database; None if there are none.

    `forget` is the command line that removes them.
    """
    keys = [one.key for one in changes if one.old is not None and may_be_secret(one)]
    if not keys:
        return None
    named = clean(" and ".join(keys))
    return (
        f"the database keeps the former {named} for the runs that began so; to remove that:"
        f" {forget}"
    )


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
