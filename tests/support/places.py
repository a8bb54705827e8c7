"""Places that are hard to write to."""

from __future__ import annotations

import os
from pathlib import Path


def unwritable_folder(base: Path) -> Path:
    """A folder in which nobody can make a file: root may write everywhere, but not to /proc."""
    if os.geteuid() == 0:
        return Path("/proc")
    folder = base / "closed"
    folder.mkdir(mode=0o500)
    return folder
