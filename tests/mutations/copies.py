"""Copies of the package and its tests in a temporary folder, with edits and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.edits import AnyEdit

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "edgecron"


@contextmanager
def a_copy(edits: Sequence[AnyEdit] = ()) -> Iterator[Path]:
    """A folder with the package, edited, and with the tests as they are. Raises StaleEdit."""
    with TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder).resolve()
        # Nothing compiled comes along: it may be of the same second and size as what is edited.
        without = shutil.ignore_patterns("__pycache__")
        for name in ("edgecron", "tests"):
            shutil.copytree(ROOT / name, root / name, ignore=without)
        shutil.copy2(ROOT / "pyproject.toml", root)
        for edit in edits:
            edit.apply(root / "edgecron")
        yield root
