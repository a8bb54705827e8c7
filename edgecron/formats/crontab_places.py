"""Whose crontab a path is: the system's, with a user column, or that of one user."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

# Debian; cronie and SUSE; the BSDs; macOS. The owner's name is the file's.
_SPOOLS = ("/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron", "/var/cron/tabs")
_MAC_SPOOLS = ("/usr/lib/cron/tabs", "/private/var/at/tabs")


def is_system_path(path: str | os.PathLike[str]) -> bool:
    """Whether a crontab lies under /etc, as given or with its links followed.

    A name alone is looked up in the current folder; `-` is never under /etc.
    """
    if os.fspath(path) == "-":
        return False
    roots = {"/etc", os.path.realpath("/etc")}
    return any(
        PurePosixPath(form).is_relative_to(root) for form in _find_forms(path) for root in roots
    )


def find_spool_owner(path: str | os.PathLike[str]) -> str | None:
    """The user whose spooled crontab a path is, such as /var/spool/cron/crontabs/NAME; or None."""
    for form in _find_forms(path):
        file = PurePosixPath(form)
        if str(file.parent) in (*_SPOOLS, *_MAC_SPOOLS) and form not in _SPOOLS:
            return file.name
    return None


def _find_forms(path: str | os.PathLike[str]) -> tuple[str, ...]:
    given = os.path.abspath(path)
    try:
        return given, os.path.realpath(given)
    except ValueError:  # a NUL character: no such file can be
        return (given,)
