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
    for edit in edits:
        edit.check(PACKAGE)
    with TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder).resolve()
        # What is compiled comes along, except files that somebody is writing right now.
        unfinished = shutil.ignore_patterns("*.pyc.*")
        for name in ("edgecron", "tests"):
            shutil.copytree(ROOT / name, root / name, ignore=unfinished)
        shutil.copy2(ROOT / "pyproject.toml", root)
        for edit in edits:
            edit.apply(root / "edgecron")
        _drop_compiled(root / "edgecron")
        yield root


def _drop_compiled(package: Path) -> None:
    """Remove what was compiled from modules that were edited.

    Python compares only the second and the size, which can be the same after an edit.
    """
    for module in package.rglob("*.py"):
        before = PACKAGE / module.relative_to(package)
        if module.stat().st_mtime_ns != before.stat().st_mtime_ns:
            for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
                compiled.unlink()
