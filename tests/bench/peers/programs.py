"""Where the peers come from: what is there, or, where it is asked for, a folder of their own.

Nothing is installed into the system: Python's packages go to a virtual environment, Debian's are
downloaded by apt-get and unpacked.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.bench.machine import Setting

# What pip is asked for, and the module that says whether it is there.
PACKAGES = {
    "apscheduler": ("apscheduler<4", "sqlalchemy"),
    "huey": ("huey",),
    "celery": ("celery<6",),
    "cronstable": ("cronstable",),
}
DEBIAN = {"busybox": ("busybox-static", "bin/busybox"), "cron": ("cron", "usr/sbin/cron")}


@dataclass(frozen=True, slots=True)
class Programs:
    """A Python that has a package, or a program; what is missing is in `missing`, and why."""

    pythons: dict[str, Path]
    paths: dict[str, Path]
    missing: dict[str, str]


def find_programs(setting: Setting, *, may_install: bool) -> Programs:
    found = Programs({}, {}, {})
    folder = setting.folder / "peers"
    for name, wanted in PACKAGES.items():
        if importlib.util.find_spec(name) is not None:
            found.pythons[name] = Path(sys.executable)
            continue
        python = folder / "venv" / "bin" / "python"
        why = _pip(python, name, wanted) if may_install else "not here; --install gets it"
        if why is None:
            found.pythons[name] = python
        else:
            found.missing[name] = why
    for name, (package, inside) in DEBIAN.items():
        here = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
        if here is not None and _is_right(name, Path(here)):
            found.paths[name] = Path(here)
            continue
        path = folder / package / inside
        why = _unpack(folder, package) if may_install else "not here; --install gets it"
        if why is None and not _is_right(name, path):
            why = f"package {package} has no such program"
        if why is None:
            found.paths[name] = path
        else:
            found.missing[name] = why
    return found


def _is_right(name: str, path: Path) -> bool:
    """Whether it can do what is asked of it: not every busybox has a crond."""
    if name != "busybox" or not path.exists():
        return path.exists()
    return "crond" in _run([str(path), "--list"]).stdout.split()


def _pip(python: Path, name: str, wanted: tuple[str, ...]) -> str | None:
    """Get packages into the virtual environment; why that was not possible."""
    if not python.exists():
        made = _run([sys.executable, "-m", "venv", str(python.parents[1])])
        if made.returncode != 0:
            return f"no virtual environment could be made: {_last(made)}"
    if _run([str(python), "-c", f"import {name}"]).returncode == 0:
        return None
    got = _run([str(python), "-m", "pip", "install", "--quiet", *wanted])
    return None if got.returncode == 0 else f"pip could not install it: {_last(got)}"


def _unpack(folder: Path, package: str) -> str | None:
    """Download a package of Debian's and unpack it; why that was not possible."""
    target = folder / package
    if target.exists():
        return None
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return "this system has no apt-get"
    folder.mkdir(parents=True, exist_ok=True)
    got = _run(["apt-get", "download", "-q", package], cwd=folder)
    if got.returncode != 0:
        return f"apt-get could not download {package}: {_last(got)}"
    [archive] = folder.glob(f"{package}_*.deb")
    unpacked = _run(["dpkg", "-x", str(archive), str(target)])
    archive.unlink()
    return None if unpacked.returncode == 0 else f"dpkg could not unpack it: {_last(unpacked)}"


def _run(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def _last(ended: subprocess.CompletedProcess[str]) -> str:
    return (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
