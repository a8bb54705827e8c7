"""What this machine is, and where the databases lie."""

from __future__ import annotations

import compileall
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import apsw

import edgecron

_N = TypeVar("_N", int, float)

# The folder that the measured package is taken from, by this process and by those it starts.
ROOT = Path(edgecron.__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How to measure, and the folder that takes the databases."""

    folder: Path
    is_quick: bool
    say: Callable[[str], None]

    def pick(self, usual: _N, quick: _N) -> _N:
        return quick if self.is_quick else usual

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A folder of its own, cleared away afterwards."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder)


def default_folder() -> Path:
    """Where databases lie by default: a disk, where `/tmp` may be memory."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgecron-bench"
    usual.mkdir(mode=0o700, parents=True, exist_ok=True)
    return usual


def compile_package() -> None:
    """Have every module compiled, as an installation does: what compiling costs is not measured."""
    compileall.compile_dir(ROOT / "edgecron", quiet=1)


def child_environment() -> dict[str, str]:
    """The environment of what is started here: it finds this very package.

    How Python behaves otherwise is not the caller's choice: without compiled modules, or with
    unbuffered output, everything is slower.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**kept, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def describe(folder: Path) -> dict[str, object]:
    """The machine, in words and figures that go with a table."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_version()} ({os.path.realpath(sys.executable)})",
        "sqlite": apsw.sqlite_lib_version(),
        "edgecron": _revision(),
        "folder": str(folder),
        "file_system": _file_system(folder),
        "fsync_ms": round(_fsync_ms(folder), 3),
        "load": round(os.getloadavg()[0], 2),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def words(machine: dict[str, object]) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']};"
        f" Python {machine['python']}, SQLite {machine['sqlite']}, edgecron {machine['edgecron']}\n"
        f"databases in {machine['folder']} ({machine['file_system']}, fsync {machine['fsync_ms']}"
        f" ms); load {machine['load']} at {machine['at']}"
    )


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2] for line in text.splitlines() if line.startswith("model name")]
    return models[0].strip() if models else platform.machine()


def _revision() -> str:
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{edgecron.__version__} ({shown.stdout.strip() or 'no checkout'})"


def _file_system(folder: Path) -> str:
    if shutil.which("stat") is None:
        return "unknown"
    shown = subprocess.run(
        ["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or "unknown"


def _fsync_ms(folder: Path) -> float:
    """The median of syncing a KB that was appended."""
    took = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(100):
            file.write(bytes(1024))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000
