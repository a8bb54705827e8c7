"""The program that is tested, and edited copies of the package.

It is the package of this tree, or what TESTS_BINARY names, such as the built single binary.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def blow_storm(module: str, *options: str, told: Path) -> Any:
    """Run a storm as a command, which writes its figures to `told`; these figures."""
    shown = subprocess.run(
        [sys.executable, "-m", module, *options, "--json", str(told)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return json.loads(told.read_text())
