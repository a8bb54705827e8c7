"""Copies of the package that differ in a line from the one that is tested."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import edgecron


def copied_program(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """A folder to start a `Daemon` from, with a copy of the package.

    A change is a file of the package, a pattern of a whole line of it, and what that line is then.
    """
    package = folder / "program" / "edgecron"
    shutil.copytree(Path(edgecron.__file__).parent, package)
    for name, pattern, text in changes:
        path = package / name
        changed, count = re.subn(f"^{pattern}$", text, path.read_text("utf-8"), flags=re.MULTILINE)
        assert count == 1, f"{pattern} is {count} times in {path}"
        path.write_text(changed, "utf-8")
    return package.parent
