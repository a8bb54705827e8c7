"""What makes a release, as tests use it: the tools of packaging/, and archives of a commit."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tests.support.tools import need_packages

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
SOME_DAY = "1767225600"  # 2026-01-01, as SOURCE_DATE_EPOCH has it


def tool(name: str) -> ModuleType:
    """A module of packaging/, which is no package: its files are programs."""
    path = PACKAGING / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"packaging_tool_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Or its dataclasses do not find their own annotations.
    spec.loader.exec_module(module)
    return module


def tracked(folder: str) -> set[str]:
    """The files of a folder that a commit of everything here would have."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def build(target: str, *, source: Path, into: Path, umask: int = 0o022) -> Path:
    """The `wheel` or `sdist` of a source tree, by the build backend itself and off line."""
    need_packages("hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)],
        cwd=source,
        env=os.environ | {"SOURCE_DATE_EPOCH": SOME_DAY},
        umask=umask,
        capture_output=True,
        check=True,
    )
    [made] = into.iterdir()
    return made
