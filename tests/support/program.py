"""The program that is tested, and copies of the package that differ from it in a line.

It is the package of this tree, or what TESTS_BINARY names, such as the built single binary.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import edgecron

PACKAGE = (sys.executable, "-m", "edgecron")
PROGRAM = (os.environ["TESTS_BINARY"],) if "TESTS_BINARY" in os.environ else PACKAGE


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
