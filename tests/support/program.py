"""The program that is tested, and edited copies of the package.

It is the package of this tree, or what TESTS_BINARY names, such as the built single binary.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import edgecron
from tests.support.edits import AnyEdit

PACKAGE = (sys.executable, "-m", "edgecron")
PROGRAM = (os.environ["TESTS_BINARY"],) if "TESTS_BINARY" in os.environ else PACKAGE


def copied_program(folder: Path, *edits: AnyEdit) -> Path:
    """Copy the package, edit the copy, and return its folder, to start a `Daemon` from."""
    package = folder / "program" / "edgecron"
    # Without compiled files: one may have the second and size of an edited file.
    shutil.copytree(
        Path(edgecron.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for edit in edits:
        edit.apply(package)
    return package.parent
